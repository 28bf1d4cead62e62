//! Which bids the platform takes, and in which words it refuses (rackspace-spot 4.2, §7 rows 5 to 7).

use super::money::Price;
use super::options::BidRules;

/// Whether the text has the form the CRD demands: digits, and up to three decimals.
pub fn has_crd_form(bid: &str) -> bool {
    let (whole, fraction) = bid
        .split_once('.')
        .map_or((bid, None), |(whole, fraction)| (whole, Some(fraction)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole) && fraction.is_none_or(|fraction| digits(fraction) && fraction.len() <= 3)
}

/// What the webhook says about a bid, in its order: floor can be read, increment, floor, market.
///
/// # Errors
/// The words of the refusal.
pub fn check(rules: BidRules, bid: Price, floor: Option<Price>, market: Price) -> Result<(), String> {
    let Some(floor) = floor else {
        return Err(
            "BidPrice validation failed: failed to parse serverclass min bid price: strconv.ParseFloat: parsing \"\": invalid syntax".into(),
        );
    };
    check_increment(rules, bid)?;
    if bid < floor {
        return Err(format!(
            "BidPrice validation failed: BidPrice must be greater than or equal to the minimum bid price of {floor}, but got {bid}"
        ));
    }
    check_market(bid, market)
}

/// The last of the checks alone.
fn check_market(bid: Price, market: Price) -> Result<(), String> {
    if bid < market {
        return Err(format!(
            "BidPrice validation failed: BidPrice must be greater than or equal to the market price of {market}, but got {bid}"
        ));
    }
    Ok(())
}

fn check_increment(rules: BidRules, bid: Price) -> Result<(), String> {
    let multiple_of = |mills: i64| bid.as_micros() % Price::mills(mills).as_micros() == 0;
    let above_five_cents = bid > Price::mills(50);
    match rules {
        BidRules::Ladder if !is_rung(bid) => Err(format!("bid price {bid} is not on the bid ladder")),
        BidRules::Seed | BidRules::HalfCents if above_five_cents && !multiple_of(10) => Err(format!(
            "BidPrice validation failed: BidPrice must be a multiple of 0.01 when greater than 0.05, but got {bid}"
        )),
        BidRules::HalfCents if !above_five_cents && bid > Price::mills(1) && !multiple_of(5) => Err(format!(
            "BidPrice validation failed: BidPrice must be a multiple of 0.005 between 0.001 and 0.05, but got {bid}"
        )),
        BidRules::ThreeDecimals | BidRules::Ladder | BidRules::Seed | BidRules::HalfCents => Ok(()),
    }
}

/// Whether a price is a rung of the ladder of July 2026: from 0.01 in steps of 0.01 below 0.04, 0.02 below 0.10, 0.03 below 0.20, 0.05 from there on.
fn is_rung(bid: Price) -> bool {
    if bid.as_micros() % 10_000 != 0 {
        return false;
    }
    match bid.as_micros() / 10_000 {
        cents @ ..=0 => cents > 0,
        1..=4 => true,
        cents @ 5..=10 => cents % 2 == 0,
        cents @ 11..=22 => (cents - 10) % 3 == 0,
        cents => (cents - 22) % 5 == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bid(text: &str) -> Price {
        Price::parse(text).unwrap()
    }

    #[test]
    fn the_ladder_has_exactly_the_observed_rungs() {
        // rackspace-spot 4.2; row 6: 0.05 steps for ever
        let rungs: Vec<i64> = (0..60).filter(|cents| is_rung(Price::mills(cents * 10))).collect();
        assert_eq!(
            rungs,
            [1, 2, 3, 4, 6, 8, 10, 13, 16, 19, 22, 27, 32, 37, 42, 47, 52, 57]
        );
        assert!(!is_rung(bid("0.015")));
        assert!(is_rung(bid("10.02")));
    }

    #[test]
    fn each_rule_set_refuses_in_its_own_words() {
        let refused = |rules, text| check(rules, bid(text), Some(Price::mills(1)), Price::mills(1)).unwrap_err();
        assert_eq!(
            refused(BidRules::Ladder, "0.05"),
            "bid price 0.050000 is not on the bid ladder"
        );
        assert_eq!(
            refused(BidRules::Seed, "0.086"),
            "BidPrice validation failed: BidPrice must be a multiple of 0.01 when greater than 0.05, but got 0.086000"
        );
        assert!(
            refused(BidRules::HalfCents, "0.012")
                .contains("BidPrice must be a multiple of 0.005 between 0.001 and 0.05")
        );
        assert_eq!(
            check(
                BidRules::ThreeDecimals,
                bid("0.086"),
                Some(Price::mills(1)),
                Price::mills(1)
            ),
            Ok(())
        );
        assert_eq!(
            check(BidRules::Seed, bid("0.012"), Some(Price::mills(1)), Price::mills(1)),
            Ok(())
        );
    }

    #[test]
    fn the_increment_is_looked_at_before_the_floor_and_the_floor_before_the_market() {
        // row 7
        let (floor, market) = (Some(bid("0.01")), bid("0.02"));
        let texts: Vec<String> = ["0.005", "0.003"]
            .map(|text| check(BidRules::HalfCents, bid(text), floor, market).unwrap_err())
            .into();
        assert!(texts[1].contains("multiple of 0.005"), "{texts:?}");
        assert_eq!(
            texts[0],
            "BidPrice validation failed: BidPrice must be greater than or equal to the minimum bid price of 0.010000, but got 0.005000"
        );
        assert_eq!(
            check(BidRules::Ladder, bid("0.01"), floor, market).unwrap_err(),
            "BidPrice validation failed: BidPrice must be greater than or equal to the market price of 0.020000, but got 0.010000"
        );
        assert_eq!(
            check(BidRules::Ladder, bid("0.055"), None, market).unwrap_err(),
            "BidPrice validation failed: failed to parse serverclass min bid price: strconv.ParseFloat: parsing \"\": invalid syntax"
        );
    }

    #[test]
    fn the_crd_form_is_digits_with_up_to_three_decimals() {
        for good in ["0", "1", "0.1", "0.10", "0.040"] {
            assert!(has_crd_form(good), "{good}");
        }
        for bad in ["", "$0.04", "0.0400", ".5", "1.", "-1", "1e3", " 1", "0,1"] {
            assert!(!has_crd_form(bad), "{bad}");
        }
    }
}

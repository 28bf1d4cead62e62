//! What is bid for a server class, and what it will be billed.
//!
//! bid = max(market, percentile) × 1.05, raised to the class's floor, *then* rounded up to a legal increment (architecture §7.7; the clamp must
//! come first, rackspace-spot §4.3). Winners pay the market price, never their bid; scheduling therefore looks at [`billed_price`] only.

use crate::pricing::price::{NotAPrice, Price};
use crate::pricing::rules::BidRules;
use rust_decimal::Decimal;

/// How much of a head start a bid has over what it must beat: 5 %.
const HEADROOM: Decimal = Decimal::from_parts(105, 0, 0, false, 2);

/// What is known of a class when a bid is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BidInputs {
    /// The market price now.
    pub market: Price,
    /// The chosen percentile of the last 30 days; absent for classes that the feed does not list.
    pub percentile: Option<Price>,
    /// The lowest bid that the class takes, where published.
    pub floor: Option<Price>,
}

/// A bid, with what it was made from, for the log line and the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bid {
    /// What is sent.
    pub amount: Price,
    /// What it was made from.
    pub inputs: BidInputs,
    /// The rules that it obeys.
    pub rules: BidRules,
}

/// The bid for a class.
pub fn place_bid(inputs: BidInputs, rules: BidRules) -> Result<Bid, NotAPrice> {
    let to_beat = inputs.market.max(inputs.percentile.unwrap_or(Price::ZERO));
    let wanted = to_beat
        .amount()
        .checked_mul(HEADROOM)
        .ok_or_else(|| NotAPrice::OutOfRange(to_beat.to_string()))?;
    // Prices have six decimals and the headroom two: the product is exact with eight, and is cut up to six so as not to fall below.
    let exact = wanted.round_dp_with_strategy(6, rust_decimal::RoundingStrategy::AwayFromZero);
    let target = Price::new(exact)?.max(inputs.floor.unwrap_or(Price::ZERO));
    Ok(Bid {
        amount: rules.round_up(target)?,
        inputs,
        rules,
    })
}

/// What an hour costs: the market price, but never less than the class's floor (rackspace-spot §1 Billing). None when the market price is unknown or
/// zero: such a class is no offering, never a free one (architecture §7.8).
pub fn billed_price(market: Option<Price>, floor: Option<Price>) -> Option<Price> {
    let market = market.filter(|price| !price.is_zero())?;
    Some(market.max(floor.unwrap_or(Price::ZERO)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn price(text: &str) -> Price {
        text.parse().unwrap()
    }

    fn bid(market: &str, percentile: Option<&str>, floor: Option<&str>, rules: BidRules) -> String {
        let inputs = BidInputs {
            market: price(market),
            percentile: percentile.map(price),
            floor: floor.map(price),
        };
        place_bid(inputs, rules).unwrap().amount.to_string()
    }

    #[test]
    fn a_bid_beats_the_higher_of_market_and_percentile_by_five_percent() {
        assert_eq!(bid("0.010", Some("0.048"), None, BidRules::Seed), "0.06"); // 0.0504
        assert_eq!(bid("0.012", Some("0.002"), None, BidRules::Seed), "0.013"); // 0.0126
        assert_eq!(bid("0.010", Some("0.101"), None, BidRules::Seed), "0.11"); // 0.10605
        assert_eq!(bid("0.010", Some("0.101"), None, BidRules::Ladder), "0.13");
    }

    #[test]
    fn three_percentiles_of_one_class_make_three_bids() {
        // ch.vs1.2xlarge-syd of the feed
        let bids = |rules| ["0.011", "0.036", "1.921"].map(|p| bid("0.01", Some(p), Some("0.01"), rules));
        assert_eq!(bids(BidRules::Seed), ["0.012", "0.038", "2.02"]);
        assert_eq!(bids(BidRules::Ladder), ["0.02", "0.04", "2.02"]);
    }

    #[test]
    fn the_floor_is_applied_before_rounding() {
        // rackspace-spot 4.3: the A30 class has a floor of 0.15
        assert_eq!(bid("0.05", Some("0.05"), Some("0.15"), BidRules::Ladder), "0.16");
        assert_eq!(bid("0.001", Some("0.002"), Some("0.01"), BidRules::Seed), "0.01");
    }

    #[test]
    fn a_class_without_percentiles_is_bid_for_by_its_market_price() {
        assert_eq!(bid("0.02", None, None, BidRules::Seed), "0.021");
    }

    #[test]
    fn the_billed_price_is_the_market_but_never_below_the_floor() {
        // rackspace-spot §1: charged 0.010 while the market read 0.002
        assert_eq!(
            billed_price(Some(price("0.002")), Some(price("0.01"))),
            Some(price("0.01"))
        );
        assert_eq!(
            billed_price(Some(price("0.06")), Some(price("0.01"))),
            Some(price("0.06"))
        );
    }

    #[test]
    fn a_class_without_a_price_is_no_offering_and_never_free() {
        // architecture §7.8
        assert_eq!(billed_price(None, Some(price("0.01"))), None);
        assert_eq!(billed_price(Some(Price::ZERO), Some(price("0.01"))), None);
    }

    proptest! {
        #[test]
        fn a_bid_is_legal_and_never_below_market_percentile_or_floor(
            market in 1_u32..20_000, percentile in proptest::option::of(1_u32..20_000),
            floor in proptest::option::of(1_u32..20_000), ladder in any::<bool>(),
        ) {
            let rules = if ladder { BidRules::Ladder } else { BidRules::Seed };
            let inputs = BidInputs {
                market: Price::from_mills(market),
                percentile: percentile.map(Price::from_mills),
                floor: floor.map(Price::from_mills),
            };
            let made = place_bid(inputs, rules).unwrap().amount;
            prop_assert!(rules.is_legal(made));
            prop_assert!(made > inputs.market);
            prop_assert!(inputs.percentile.is_none_or(|p| made > p));
            prop_assert!(inputs.floor.is_none_or(|f| made >= f));
        }
    }
}

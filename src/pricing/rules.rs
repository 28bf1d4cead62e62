//! Which bids the platform accepts, and what a refusal says about it.
//!
//! The rules changed three times within a year and are published nowhere (rackspace-spot §4.2), so two sets are known and the process can move from
//! one to the other when it is told that it must (architecture §7.7). Every rung of the ladder also satisfies the older rules.

use crate::pricing::price::{NotAPrice, Price};
use rust_decimal::{Decimal, RoundingStrategy};
use std::str::FromStr;
use thiserror::Error;

/// A set of legal increments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BidRules {
    /// At most three decimals up to $0.05, whole cents above.
    Seed,
    /// Whole cents on the ladder observed in 2026: 1 2 3 4 6 8 10 13 16 19 22 27 32 …
    Ladder,
}

/// The setting `RACKSPACE_BID_RULES`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BidRulesSetting {
    /// Always [`BidRules::Seed`].
    Seed,
    /// Always [`BidRules::Ladder`].
    Ladder,
    /// [`BidRules::Seed`] until the platform refuses a bid for its increment, then [`BidRules::Ladder`].
    #[default]
    Auto,
}

/// A text that is no rule set.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not one of auto, seed, ladder")]
pub struct UnknownRules(String);

impl FromStr for BidRulesSetting {
    type Err = UnknownRules;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "seed" => Ok(Self::Seed),
            "ladder" => Ok(Self::Ladder),
            other => Err(UnknownRules(other.chars().take(40).collect())),
        }
    }
}

impl BidRulesSetting {
    /// The rules to start with.
    pub fn initial(self) -> BidRules {
        match self {
            Self::Seed | Self::Auto => BidRules::Seed,
            Self::Ladder => BidRules::Ladder,
        }
    }

    /// The rules to go on with after a refusal under `current`.
    pub fn after_refusal(self, current: BidRules, cause: RefusalCause) -> BidRules {
        match (self, cause) {
            (Self::Auto, RefusalCause::Increment) => BidRules::Ladder,
            _ => current,
        }
    }
}

/// Why the platform's admission refused a bid, as far as its words tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalCause {
    /// The amount is not one of the legal steps.
    Increment,
    /// The market moved above the bid.
    BelowMarket,
    /// The class's floor is above the bid.
    BelowFloor,
    /// The class cannot be bid for at all: the webhook stumbles over its missing floor.
    NotBiddable,
    /// Something else.
    Other,
}

impl RefusalCause {
    /// Reads the webhook's words (rackspace-spot §4.2, §7-5). This is the border: the code of a denial says nothing, only its text does.
    pub fn of(words: &str) -> Self {
        let words = words.to_lowercase();
        let says = |part: &str| words.contains(part);
        if says("bid ladder") || says("multiple of") || says("decimal places") {
            Self::Increment
        } else if says("parse serverclass min bid price") {
            Self::NotBiddable
        } else if says("market price") {
            Self::BelowMarket
        } else if says("minimum bid price") || says("below minimum") {
            Self::BelowFloor
        } else {
            Self::Other
        }
    }
}

impl BidRules {
    /// The lowest legal bid that is not below `target`; refused where that leaves the believable range.
    pub fn round_up(self, target: Price) -> Result<Price, NotAPrice> {
        match self {
            Self::Seed => seed_round_up(target.amount()),
            Self::Ladder => ladder_round_up(target.amount()),
        }
    }

    /// Whether the platform would take this amount under these rules.
    pub fn is_legal(self, bid: Price) -> bool {
        !bid.is_zero() && self.round_up(bid).is_ok_and(|rounded| rounded == bid)
    }
}

fn seed_round_up(target: Decimal) -> Result<Price, NotAPrice> {
    let five_cents = Decimal::new(5, 2);
    let decimals = if target <= five_cents { 3 } else { 2 };
    let rounded = target.round_dp_with_strategy(decimals, RoundingStrategy::AwayFromZero);
    // Zero is not a bid: the lowest amount with three decimals is.
    Price::new(rounded.max(Decimal::new(1, 3)))
}

fn ladder_round_up(target: Decimal) -> Result<Price, NotAPrice> {
    use rust_decimal::prelude::ToPrimitive;
    let out_of_range = || NotAPrice::OutOfRange(target.to_string());
    let cents = (target * Decimal::ONE_HUNDRED)
        .round_dp_with_strategy(0, RoundingStrategy::AwayFromZero)
        .to_i64()
        .ok_or_else(out_of_range)?;
    Price::new(Decimal::new(rung_from(cents), 2))
}

/// The first rung at or above an amount in cents (rackspace-spot §4.2): steps of 1 up to 4, of 2 up to 10, of 3 up to 22, of 5 beyond.
fn rung_from(cents: i64) -> i64 {
    let (base, step) = match cents {
        ..=4 => (1, 1),
        5..=10 => (4, 2),
        11..=22 => (10, 3),
        _ => (22, 5),
    };
    let above = (cents - base).max(0);
    base + above.div_euclid(step) * step + if above % step == 0 { 0 } else { step }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn price(text: &str) -> Price {
        text.parse().unwrap()
    }

    #[test]
    fn the_published_examples_round_as_they_should_under_both_rules() {
        // rackspace-spot 4.3: raw target, seed result, ladder result
        for (target, seed, ladder) in [
            ("0.0012", "0.002", "0.01"),
            ("0.0126", "0.013", "0.02"),
            ("0.0504", "0.06", "0.06"),
            ("0.064", "0.07", "0.08"),
            ("0.0851", "0.09", "0.1"),
            ("0.1061", "0.11", "0.13"),
            ("0.2825", "0.29", "0.32"),
        ] {
            assert_eq!(
                BidRules::Seed.round_up(price(target)).unwrap(),
                price(seed),
                "seed {target}"
            );
            assert_eq!(
                BidRules::Ladder.round_up(price(target)).unwrap(),
                price(ladder),
                "ladder {target}"
            );
        }
    }

    #[test]
    fn the_ladder_has_the_observed_rungs_and_no_others_below_53_cents() {
        // rackspace-spot 4.2
        let rungs: Vec<u32> = (1..=52)
            .filter(|&c| BidRules::Ladder.is_legal(Price::from_mills(c * 10)))
            .collect();
        assert_eq!(rungs, [1, 2, 3, 4, 6, 8, 10, 13, 16, 19, 22, 27, 32, 37, 42, 47, 52]);
    }

    #[test]
    fn amounts_that_only_the_older_rules_take_are_off_the_ladder() {
        // rackspace-spot 4.3
        for text in ["0.005", "0.012", "0.05", "0.07", "0.09", "0.11", "0.15"] {
            assert!(BidRules::Seed.is_legal(price(text)), "{text}");
            assert!(!BidRules::Ladder.is_legal(price(text)), "{text}");
        }
    }

    #[test]
    fn a_floor_that_is_off_the_ladder_is_rounded_after_the_clamp() {
        // rackspace-spot 4.3: the A30 class
        assert_eq!(BidRules::Ladder.round_up(price("0.15")).unwrap(), price("0.16"));
    }

    #[test]
    fn auto_moves_to_the_ladder_at_the_first_refusal_that_says_so_and_stays() {
        // architecture §7.7
        let auto = BidRulesSetting::Auto;
        let off_ladder =
            RefusalCause::of("admission webhook denied the request: bid price 0.050000 is not on the bid ladder");
        assert_eq!(auto.initial(), BidRules::Seed);
        assert_eq!(auto.after_refusal(BidRules::Seed, off_ladder), BidRules::Ladder);
        assert_eq!(
            auto.after_refusal(BidRules::Seed, RefusalCause::BelowMarket),
            BidRules::Seed
        );
        assert_eq!(
            auto.after_refusal(BidRules::Ladder, RefusalCause::Other),
            BidRules::Ladder
        );
        assert_eq!(
            BidRulesSetting::Seed.after_refusal(BidRules::Seed, off_ladder),
            BidRules::Seed
        );
    }

    #[test]
    fn the_webhooks_words_are_told_apart() {
        // rackspace-spot 4.2, texts as quoted there
        let of = RefusalCause::of;
        let prefix = "BidPrice validation failed: ";
        assert_eq!(
            of(&format!(
                "{prefix}BidPrice must be greater than or equal to the market price of 0.010000, but got 0.005000"
            )),
            RefusalCause::BelowMarket
        );
        assert_eq!(
            of(&format!(
                "{prefix}BidPrice must be greater than or equal to the minimum bid price of 0.010000, but got 0.003000"
            )),
            RefusalCause::BelowFloor
        );
        assert_eq!(
            of("BidPrice must be a multiple of 0.005 between 0.001 and 0.05"),
            RefusalCause::Increment
        );
        assert_eq!(
            of(&format!(
                "{prefix}failed to parse serverclass min bid price: strconv.ParseFloat: parsing \"\": invalid syntax"
            )),
            RefusalCause::NotBiddable
        );
        assert_eq!(of("the cloudspace does not exist"), RefusalCause::Other);
    }

    proptest! {
        #[test]
        fn rounding_is_legal_minimal_and_never_below(micros in 0_i64..90_000_000, ladder in any::<bool>()) {
            let rules = if ladder { BidRules::Ladder } else { BidRules::Seed };
            let target = Price::new(Decimal::new(micros, 6)).unwrap();
            let bid = rules.round_up(target).unwrap();
            prop_assert!(bid >= target);
            prop_assert!(rules.is_legal(bid));
            // Minimal: no legal amount lies between the target and the bid. Legal amounts are whole mills.
            let mut below = bid.amount() - Decimal::new(1, 3);
            while below >= target.amount() && below > Decimal::ZERO {
                prop_assert!(!rules.is_legal(Price::new(below).unwrap()), "{} is legal too", below);
                below -= Decimal::new(1, 3);
            }
        }

        #[test]
        fn every_rung_of_the_ladder_is_legal_under_the_older_rules_too(micros in 0_i64..90_000_000) {
            let rung = BidRules::Ladder.round_up(Price::new(Decimal::new(micros, 6)).unwrap()).unwrap();
            prop_assert!(BidRules::Seed.is_legal(rung));
        }
    }
}

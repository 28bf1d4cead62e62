//! A price in US dollars per hour, exact.
//!
//! The platform writes prices in three ways: decimal strings (`"0.010000"`), strings with a dollar sign (what SDKs make of them), and JSON numbers
//! with binary-float noise (`0.036000000000000004`, rackspace-spot §3.8). All become the same decimal here; nothing is ever computed in floats.

use rust_decimal::{Decimal, RoundingStrategy};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The most that one hour of one machine is believed to cost; what is beyond is a broken or hostile source.
pub const HIGHEST_BELIEVABLE: Decimal = Decimal::ONE_HUNDRED;

/// Prices carry six decimals on the wire; float noise lies below that.
const DECIMALS: u32 = 6;

/// US dollars per hour: not negative, at most [`HIGHEST_BELIEVABLE`], six decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Price(Decimal);

/// Why a text or number is not a price.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotAPrice {
    /// Nothing was given.
    #[error("the price is empty")]
    Empty,
    /// It is no decimal number.
    #[error("{0:?} is not a decimal number")]
    Malformed(String),
    /// It is negative or unbelievably high.
    #[error("{0} is outside 0 … {HIGHEST_BELIEVABLE} USD per hour")]
    OutOfRange(String),
}

impl Price {
    /// Nothing at all: never a real price of a machine (architecture §7.8), only the neutral element of `max`.
    pub const ZERO: Self = Self(Decimal::ZERO);

    /// From an exact decimal.
    pub fn new(amount: Decimal) -> Result<Self, NotAPrice> {
        if amount.is_sign_negative() && !amount.is_zero() || amount > HIGHEST_BELIEVABLE {
            return Err(NotAPrice::OutOfRange(amount.to_string()));
        }
        Ok(Self(
            amount
                .round_dp_with_strategy(DECIMALS, RoundingStrategy::MidpointAwayFromZero)
                .abs()
                .normalize(),
        ))
    }

    /// From thousandths of a dollar, for tests and tables.
    pub fn from_mills(mills: u32) -> Self {
        Self(Decimal::new(i64::from(mills), 3).min(HIGHEST_BELIEVABLE).normalize())
    }

    /// The amount.
    pub fn amount(self) -> Decimal {
        self.0
    }

    /// Whether it is zero, which for a machine means "unknown".
    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    /// The amount as a float, for metrics and for the solver's columns only.
    pub fn as_f64(self) -> f64 {
        use rust_decimal::prelude::ToPrimitive;
        self.0.to_f64().unwrap_or_default()
    }

    /// From a JSON value: a number (with float noise) or a string (with or without `$`).
    pub fn from_json(value: &serde_json::Value) -> Result<Self, NotAPrice> {
        match value {
            serde_json::Value::Null => Err(NotAPrice::Empty),
            serde_json::Value::String(text) => text.parse(),
            serde_json::Value::Number(number) => parse_decimal(&number.to_string()),
            other => Err(NotAPrice::Malformed(shortened(&other.to_string()))),
        }
    }
}

impl FromStr for Price {
    type Err = NotAPrice;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let bare = text.strip_prefix('$').unwrap_or(text);
        if bare.is_empty() {
            return Err(NotAPrice::Empty);
        }
        parse_decimal(bare)
    }
}

impl fmt::Display for Price {
    /// The shortest form, which is also what goes over the wire (rackspace-spot §4.3: `0.1` and `0.10` are both accepted).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.normalize(), f)
    }
}

fn parse_decimal(text: &str) -> Result<Price, NotAPrice> {
    // Longer texts are nobody's price, and a limit here bounds the work that a hostile source can cause.
    if text.len() > 40 {
        return Err(NotAPrice::Malformed(shortened(text)));
    }
    let amount = if text.contains(['e', 'E']) {
        Decimal::from_scientific(text).ok()
    } else if text.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '-') && !text.contains('_') {
        Decimal::from_str(text).ok()
    } else {
        None
    };
    Price::new(amount.ok_or_else(|| NotAPrice::Malformed(shortened(text)))?)
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn price(text: &str) -> Price {
        text.parse().unwrap()
    }

    #[test]
    fn float_noise_of_the_feed_disappears() {
        // rackspace-spot §3.8
        let noisy: serde_json::Value = serde_json::from_str("0.036000000000000004").unwrap();
        assert_eq!(Price::from_json(&noisy).unwrap(), price("0.036"));
        let noisy: serde_json::Value = serde_json::from_str("1.9209999999999998").unwrap();
        assert_eq!(Price::from_json(&noisy).unwrap(), price("1.921"));
    }

    #[test]
    fn strings_are_read_with_and_without_a_dollar_sign() {
        assert_eq!(price("$0.001000"), price("0.001"));
        assert_eq!(price("0.010000").to_string(), "0.01");
        assert_eq!(price("0.10").to_string(), "0.1");
    }

    #[test]
    fn what_cannot_be_a_price_is_refused() {
        for bad in [
            "", "$", " ", "free", "-0.01", "101", "1e400", "NaN", "inf", "0x10", "1_000", "0.0.1", "--1",
        ] {
            assert!(bad.parse::<Price>().is_err(), "{bad}");
        }
        for bad in ["null", "true", "[]", "{}", "-1", "1e300"] {
            assert!(Price::from_json(&serde_json::from_str(bad).unwrap()).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,60}") {
            let _ = text.parse::<Price>();
        }

        #[test]
        fn what_is_written_reads_back(mills in 0_u32..100_000) {
            let written = Price::from_mills(mills);
            prop_assert_eq!(written.to_string().parse::<Price>().unwrap(), written);
        }
    }
}

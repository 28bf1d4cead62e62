//! Prices and what has been spent, in whole numbers.
//!
//! A price is micro-dollars per hour (the platform prints six decimals); an amount adds price times milliseconds, so no rounding happens before somebody
//! asks for dollars. Called by the auction, the admission checks and the ledger.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;

/// A price in micro-dollars per hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Price(i64);

impl Price {
    /// Nothing per hour.
    pub const ZERO: Self = Self(0);

    /// From micro-dollars per hour.
    pub const fn micros(micros: i64) -> Self {
        Self(micros)
    }

    /// From tenths of a cent per hour, the grain of a bid.
    pub const fn mills(mills: i64) -> Self {
        Self(mills.saturating_mul(1000))
    }

    /// Micro-dollars per hour.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Reads a bare decimal such as `0.01`; digits beyond the sixth are cut off. No sign, no dollar.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if whole.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') || fraction.contains('.')
        {
            return None;
        }
        let whole: i64 = whole.parse().ok()?;
        let padded: String = fraction.chars().chain("000000".chars()).take(6).collect();
        let fraction: i64 = padded.parse().ok()?;
        whole.checked_mul(1_000_000)?.checked_add(fraction).map(Self)
    }

    /// Ten times the price.
    pub const fn times(self, factor: i64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// Three decimals, as a bid is written.
    pub fn as_bid(self) -> String {
        format!("{}.{:03}", self.0 / 1_000_000, (self.0 % 1_000_000) / 1000)
    }
}

impl fmt::Display for Price {
    /// Six decimals, as the platform prints prices.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

impl Serialize for Price {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom(format!("{text:?} is not a price such as \"0.01\"")))
    }
}

/// An amount of money, exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Amount(i128);

/// Micro-dollars per hour times milliseconds that make one nano-dollar.
const NANO_DOLLAR: i128 = 3600;

impl Amount {
    /// What a machine at this price costs in this many milliseconds.
    pub fn of(price: Price, milliseconds: i64) -> Self {
        Self(i128::from(price.0) * i128::from(milliseconds))
    }

    /// The sum of two amounts.
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Dollars, for summaries.
    pub fn dollars(self) -> f64 {
        self.to_string().parse().unwrap_or(0.0)
    }
}

impl fmt::Display for Amount {
    /// Nine decimals, no dollar sign.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // micro-dollars x ms / (3,600,000 ms per hour) = micro-dollars; times 1000 = nano-dollars.
        let nano = self.0 / NANO_DOLLAR;
        write!(f, "{}.{:09}", nano / 1_000_000_000, nano % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_read_exactly_and_printed_with_six_decimals() {
        assert_eq!(Price::parse("0.01"), Some(Price::mills(10)));
        assert_eq!(Price::parse("0.036000000000000004"), Some(Price::mills(36)));
        assert_eq!(Price::parse("3"), Some(Price::mills(3000)));
        assert_eq!(Price::mills(11).to_string(), "0.011000");
        for bad in ["", ".5", "$0.01", "-1", "1.2.3", "abc", "99999999999999999999"] {
            assert_eq!(Price::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_hour_at_a_cent_costs_a_cent() {
        let amount = Amount::of(Price::mills(10), 3_600_000);
        assert_eq!(amount.to_string(), "0.010000000");
        assert!((amount.dollars() - 0.01).abs() < 1e-12);
    }
}

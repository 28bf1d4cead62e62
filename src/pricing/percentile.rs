//! Which percentile of the published 30-day distribution a NodeClass bids at.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A percentile of the feed. P80 survives about 80 % of the price ticks of the last 30 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Percentile {
    /// Cheapest, most often pre-empted.
    P20,
    /// In between.
    P50,
    /// Most stable; the default, also for a NodeClass without `spec` (surface §1.4).
    #[default]
    P80,
}

/// A text that is none of P20, P50, P80.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("bidPercentile {0:?} is not one of P20, P50, P80")]
pub struct UnknownPercentile(String);

impl FromStr for Percentile {
    type Err = UnknownPercentile;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "P20" => Ok(Self::P20),
            "P50" => Ok(Self::P50),
            "P80" => Ok(Self::P80),
            other => Err(UnknownPercentile(other.chars().take(40).collect())),
        }
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::P20 => "P20",
            Self::P50 => "P50",
            Self::P80 => "P80",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_three_published_percentiles_are_known() {
        for good in [Percentile::P20, Percentile::P50, Percentile::P80] {
            assert_eq!(good.to_string().parse::<Percentile>().unwrap(), good);
        }
        for bad in ["", "p80", "P90", "P80 ", "80"] {
            assert!(bad.parse::<Percentile>().is_err(), "{bad}");
        }
    }
}

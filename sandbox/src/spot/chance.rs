//! Chance by seed.
//!
//! Every draw belongs to a key (a pool, a server, a request number), so what one thing draws does not depend on the order in which others were asked for.
//! Called by the auction, the servers' life and the faults.

use chrono::TimeDelta;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// FNV-1a over bytes: stable for ever, unlike the hashers of the standard library.
pub(crate) fn fnv(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The generator that belongs to a key under a seed.
pub(crate) fn dice(seed: u64, purpose: &str, key: &str) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(fnv(fnv(seed, purpose.as_bytes()), key.as_bytes()))
}

/// A random version 4 UUID.
pub(crate) fn uuid(dice: &mut ChaCha8Rng) -> String {
    uuid::Builder::from_random_bytes(dice.random()).into_uuid().to_string()
}

/// Whether something of this probability happens; 0 never draws.
pub(crate) fn happens(probability: f64, dice: &mut ChaCha8Rng) -> bool {
    probability > 0.0 && dice.random::<f64>() < probability
}

/// How long something takes, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Distribution {
    /// Always the same.
    Fixed(f64),
    /// Evenly between two bounds.
    Between(f64, f64),
    /// Log-normal: half is below the median, few are much longer, none longer than the maximum.
    LongTail {
        /// Half of all draws are below.
        median: f64,
        /// Spread of the logarithm.
        sigma: f64,
        /// Draws are cut off here.
        max: f64,
    },
    /// It does not happen (rackspace-spot 7 row 32, the platform's issue 361).
    Never,
}

impl Distribution {
    /// Draws a length of time; `None` means never.
    pub(crate) fn draw(&self, dice: &mut ChaCha8Rng) -> Option<TimeDelta> {
        let seconds = match self {
            Self::Fixed(seconds) => *seconds,
            Self::Between(low, high) => low + (high - low) * dice.random::<f64>(),
            Self::LongTail { median, sigma, max } => {
                // Box-Muller; the offset keeps the logarithm away from zero.
                let (u, v): (f64, f64) = (dice.random::<f64>() + f64::MIN_POSITIVE, dice.random());
                let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
                (median * (sigma * normal).exp()).min(*max)
            }
            Self::Never => return None,
        };
        Some(delta(seconds))
    }
}

/// Seconds as a length of time; nonsense is zero.
pub(crate) fn delta(seconds: f64) -> TimeDelta {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .and_then(|whole| TimeDelta::from_std(whole).ok())
        .and_then(|exact| TimeDelta::try_milliseconds(exact.num_milliseconds()))
        .unwrap_or_else(TimeDelta::zero)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_key_draw_the_same_and_other_keys_differ() {
        let draw = |seed, key: &str| dice(seed, "test", key).random::<u64>();
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
    }

    #[test]
    fn the_long_tail_has_its_median_in_the_middle_and_stops_at_its_maximum() {
        let build = Distribution::LongTail {
            median: 450.0,
            sigma: 0.5,
            max: 1700.0,
        };
        let mut draws: Vec<i64> = (0..2001)
            .filter_map(|n| build.draw(&mut dice(7, "tail", &n.to_string())))
            .map(|d| d.num_seconds())
            .collect();
        draws.sort_unstable();
        assert!((420..480).contains(&draws[1000]), "{}", draws[1000]);
        assert!(
            draws[2000] <= 1700 && draws[1980] > 1000,
            "{} {}",
            draws[2000],
            draws[1980]
        );
        assert_eq!(Distribution::Never.draw(&mut dice(7, "tail", "x")), None);
    }
}

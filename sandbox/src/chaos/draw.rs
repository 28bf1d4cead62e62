//! Chance for plans: every part of a plan draws from a stream of its own, so a new kind of deed does not change the workloads of a seed.

use crate::spot::dice;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// A stream of chance.
pub(super) struct Draw(ChaCha8Rng);

impl Draw {
    /// The stream of one part of a seed's plan.
    pub(super) fn of(seed: u64, part: &str) -> Self {
        Self(dice(seed, "chaos", part))
    }

    /// Whether something of this probability happens.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.0.random::<f64>() < probability
    }

    /// A whole number, both ends included.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0.random_range(least..=most.max(least))
    }

    /// The same, as a count.
    pub(super) fn count(&mut self, least: u32, most: u32) -> u32 {
        self.0.random_range(least..=most.max(least))
    }

    /// A share between two bounds.
    pub(super) fn share(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.0.random::<f64>()
    }

    /// One of these.
    pub(super) fn one_of<T: Copy, const N: usize>(&mut self, from: [T; N]) -> T {
        from[self.0.random_range(0..N)]
    }

    /// A time between two numbers of seconds.
    pub(super) fn seconds(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_secs(self.between(least, most))
    }

    /// A lower-case UUID.
    pub(super) fn uuid(&mut self) -> String {
        crate::spot::uuid(&mut self.0)
    }
}

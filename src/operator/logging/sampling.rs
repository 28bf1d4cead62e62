//! Sampling (surface T25): of lines with the same level and message, each second the first hundred are written, then every hundredth.

use super::line::Shown;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;

const FIRST: u64 = 100;
const THEREAFTER: u64 = 100;
/// More different messages than this in one second are written without sampling; upstream counts them together by hash.
const LIMIT: usize = 4096;

/// Counts lines of the present second.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    second: i64,
    counts: BTreeMap<(Shown, String), u64>,
}

impl Sampler {
    /// Whether the line is written.
    pub(super) fn admits(&mut self, level: Shown, message: &str, now: DateTime<Utc>) -> bool {
        let second = now.timestamp();
        if second != self.second {
            self.second = second;
            self.counts.clear();
        }
        let key = (level, message.to_owned());
        if !self.counts.contains_key(&key) && self.counts.len() >= LIMIT {
            return true;
        }
        let count = self.counts.entry(key).or_default();
        *count += 1;
        *count <= FIRST || (*count - FIRST).is_multiple_of(THEREAFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    // surface T25
    #[test]
    fn each_second_the_first_hundred_lines_are_written_and_then_every_hundredth() {
        let mut sampler = Sampler::default();
        let admitted: Vec<u32> = (1..=350).filter(|_| sampler.admits(Shown::Info, "m", at(1))).collect();
        assert_eq!(admitted.len(), 102);
        assert_eq!(admitted.last(), Some(&300));
        assert!(
            sampler.admits(Shown::Info, "m", at(2)),
            "a new second starts from the beginning"
        );
    }

    #[test]
    fn messages_and_levels_are_counted_apart() {
        let mut sampler = Sampler::default();
        for _ in 0..150 {
            sampler.admits(Shown::Info, "m", at(1));
        }
        assert!(sampler.admits(Shown::Error, "m", at(1)));
        assert!(sampler.admits(Shown::Info, "n", at(1)));
        assert!(!sampler.admits(Shown::Info, "m", at(1)));
    }
}

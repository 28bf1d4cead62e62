//! Pure: which (server class, capacity type) is left alone for a while, because it did not deliver or was refused.
//!
//! The time doubles with each failure in a row, so that a class without stock is tried ever less, and ends with the first delivery (architecture
//! §7.3). The provider asks when it builds offerings, and tells it what happened.

use crate::scheduling::CapacityType;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeMap;

/// Why something is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// No server came within the launch timeout: a matter of hours.
    NotDelivered,
    /// The platform refused the order: a matter of minutes, prices move.
    Refused,
}

impl Cause {
    fn first(self) -> TimeDelta {
        match self {
            Self::NotDelivered => TimeDelta::minutes(15),
            Self::Refused => TimeDelta::minutes(3),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::NotDelivered => "no server came within the launch timeout",
            Self::Refused => "the platform refused the last order",
        }
    }
}

/// The longest time.
const LONGEST: TimeDelta = TimeDelta::hours(4);
/// Entries remembered; there are about 110 classes in two kinds.
const MOST: usize = 4_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    until: DateTime<Utc>,
    failures: u32,
    cause: Cause,
}

/// What is left alone, and until when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cooldowns {
    entries: BTreeMap<(String, CapacityType), Entry>,
}

impl Cooldowns {
    /// One more failure; says until when it is left alone.
    pub fn failed(
        &mut self,
        class: &str,
        capacity_type: CapacityType,
        cause: Cause,
        now: DateTime<Utc>,
    ) -> DateTime<Utc> {
        // A failure long after the last one is a first one again.
        self.entries
            .retain(|_, entry| entry.until.checked_add_signed(LONGEST).is_some_and(|end| now < end));
        let key = (class.to_owned(), capacity_type);
        let failures = self
            .entries
            .get(&key)
            .map_or(1, |entry| entry.failures.saturating_add(1));
        let doubled = 2_i32
            .checked_pow(failures.saturating_sub(1))
            .and_then(|f| cause.first().checked_mul(f));
        let until = now
            .checked_add_signed(doubled.unwrap_or(LONGEST).min(LONGEST))
            .unwrap_or(now);
        if self.entries.len() < MOST || self.entries.contains_key(&key) {
            self.entries.insert(key, Entry { until, failures, cause });
        }
        until
    }

    /// It delivered: whatever was, is over. Says whether anything changed.
    pub fn delivered(&mut self, class: &str, capacity_type: CapacityType) -> bool {
        self.entries.remove(&(class.to_owned(), capacity_type)).is_some()
    }

    /// Why it is left alone now, in words; none if it is not.
    pub fn reason(&self, class: &str, capacity_type: CapacityType, now: DateTime<Utc>) -> Option<String> {
        let entry = self
            .entries
            .get(&(class.to_owned(), capacity_type))
            .filter(|entry| now < entry.until)?;
        Some(format!(
            "{}, left alone until {}",
            entry.cause.words(),
            entry.until.format("%FT%TZ")
        ))
    }

    /// When the next of them ends.
    pub fn next_end(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.entries
            .values()
            .map(|entry| entry.until)
            .filter(|until| now < *until)
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_700_000_000 + 60 * minutes, 0).unwrap()
    }

    #[test]
    fn each_failure_in_a_row_doubles_the_time_up_to_four_hours() {
        let mut cool = Cooldowns::default();
        let minutes: Vec<i64> = (0..7)
            .map(|_| (cool.failed("c", CapacityType::Spot, Cause::NotDelivered, at(0)) - at(0)).num_minutes())
            .collect();
        assert_eq!(minutes, [15, 30, 60, 120, 240, 240, 240]);
    }

    #[test]
    fn only_the_class_and_capacity_type_that_failed_is_left_alone() {
        let mut cool = Cooldowns::default();
        cool.failed("c", CapacityType::Spot, Cause::NotDelivered, at(0));
        assert!(cool.reason("c", CapacityType::Spot, at(14)).is_some());
        assert!(cool.reason("c", CapacityType::Spot, at(15)).is_none());
        assert!(cool.reason("c", CapacityType::OnDemand, at(1)).is_none());
        assert!(cool.reason("d", CapacityType::Spot, at(1)).is_none());
        assert_eq!(cool.next_end(at(1)), Some(at(15)));
    }

    #[test]
    fn a_delivery_ends_it_and_starts_the_count_anew() {
        let mut cool = Cooldowns::default();
        cool.failed("c", CapacityType::Spot, Cause::NotDelivered, at(0));
        assert!(cool.delivered("c", CapacityType::Spot));
        assert_eq!(cool.failed("c", CapacityType::Spot, Cause::NotDelivered, at(0)), at(15));
    }

    #[test]
    fn a_failure_long_after_the_last_one_is_a_first_one() {
        let mut cool = Cooldowns::default();
        cool.failed("c", CapacityType::Spot, Cause::NotDelivered, at(0));
        let later = 15 + 4 * 60;
        assert_eq!(
            cool.failed("c", CapacityType::Spot, Cause::NotDelivered, at(later)),
            at(later + 15)
        );
    }
}

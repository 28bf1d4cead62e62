//! UIDs of objects that are gone, remembered for as long as a late event or a stale list may still show them.
//!
//! Two generations that turn every hour, or when the younger one is full: a UID is remembered for one to two hours, and no bookkeeping per UID is needed.
//! Relies on nothing; each [`Table`](super::table::Table) has its own, and the periodic look for doubts lets them age.

use super::object::Uid;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeSet;

/// How long a UID is remembered at least: what is told later than this of an object that went before comes from no API server that still serves.
const REMEMBERED: TimeDelta = TimeDelta::hours(1);
/// This many UIDs are remembered per kind at most.
pub(super) const GRAVES: usize = 4096;

/// What is gone.
#[derive(Debug, Default)]
pub(super) struct Graves {
    young: BTreeSet<Uid>,
    old: BTreeSet<Uid>,
    turned: Option<DateTime<Utc>>,
}

impl Graves {
    pub(super) fn bury(&mut self, uid: &Uid) {
        if uid.is_empty() || self.contains(uid) {
            return;
        }
        if self.young.len() >= GRAVES / 2 {
            self.turn();
        }
        self.young.insert(Uid::clone(uid));
    }

    pub(super) fn contains(&self, uid: &Uid) -> bool {
        self.young.contains(uid) || self.old.contains(uid)
    }

    /// Forgets what has been gone for long enough.
    pub(super) fn age(&mut self, now: DateTime<Utc>) {
        let turned = *self.turned.get_or_insert(now);
        if now.signed_duration_since(turned) >= REMEMBERED {
            self.turned = Some(now);
            self.turn();
        }
    }

    fn turn(&mut self) {
        self.old = std::mem::take(&mut self.young);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(60 * minutes, 0).unwrap()
    }

    #[test]
    fn what_is_gone_is_remembered_for_an_hour_and_forgotten_after_two() {
        let (mut graves, uid) = (Graves::default(), Uid::from("u"));
        graves.age(at(0));
        graves.bury(&uid);
        graves.age(at(60));
        graves.age(at(119));
        assert!(graves.contains(&uid));
        graves.age(at(120));
        assert_eq!((graves.contains(&uid), graves.len()), (false, 0));
    }

    #[test]
    fn graves_are_bounded_and_the_newest_half_stays() {
        let mut graves = Graves::default();
        let uid = |number: usize| Uid::from(number.to_string());
        for number in 0..10 * GRAVES {
            graves.bury(&uid(number));
            assert!(graves.len() <= GRAVES);
        }
        let newest = 10 * GRAVES - GRAVES / 2..10 * GRAVES;
        assert!(newest.map(uid).all(|uid| graves.contains(&uid)));
    }
}

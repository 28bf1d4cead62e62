//! Which pod is tried next: by priority, then by age in the queue; failed ones rest until something changed and their back-off is over. Pure.

use crate::observe::{Agenda, Name};
use chrono::{DateTime, TimeDelta, Utc};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Longest back-off.
const MOST_SECONDS: i64 = 10;

type Place = (Reverse<i32>, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Active(Place),
    /// Failed then; nothing has changed since.
    Resting(DateTime<Utc>),
    /// Something changed; waits for the end of its back-off.
    BackingOff,
    /// Taken out for an attempt.
    Tried,
}

#[derive(Debug)]
struct Entry {
    priority: i32,
    attempts: u32,
    state: State,
}

/// The pods that want a node.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    entries: BTreeMap<Name, Entry>,
    active: BTreeMap<Place, Name>,
    later: Agenda<Name>,
    counter: u64,
}

impl Queue {
    pub(crate) fn holds(&self, name: &Name) -> bool {
        self.entries.contains_key(name)
    }

    /// Puts a pod in, to be tried at once.
    pub(crate) fn add(&mut self, name: &Name, priority: i32) {
        self.remove(name);
        self.entries.insert(
            name.clone(),
            Entry {
                priority,
                attempts: 0,
                state: State::Tried,
            },
        );
        self.activate(name);
    }

    pub(crate) fn remove(&mut self, name: &Name) {
        if let Some(Entry {
            state: State::Active(place),
            ..
        }) = self.entries.remove(name)
        {
            self.active.remove(&place);
        }
    }

    fn activate(&mut self, name: &Name) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        self.counter = self.counter.saturating_add(1);
        let place = (Reverse(entry.priority), self.counter);
        entry.state = State::Active(place);
        self.active.insert(place, name.clone());
    }

    /// The next pod to try.
    pub(crate) fn take(&mut self, now: DateTime<Utc>) -> Option<Name> {
        while let Some(name) = self.later.take(now) {
            if self.entries.get(&name).is_some_and(|e| e.state == State::BackingOff) {
                self.activate(&name);
            }
        }
        let (_, name) = self.active.pop_first()?;
        if let Some(entry) = self.entries.get_mut(&name) {
            entry.state = State::Tried;
            entry.attempts = entry.attempts.saturating_add(1);
        }
        Some(name)
    }

    /// The attempt failed: the pod rests until something changes.
    pub(crate) fn failed(&mut self, name: &Name, now: DateTime<Utc>) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.state = State::Resting(now);
        }
    }

    /// The attempt could not be made: the pod is tried again after its back-off, whatever happens.
    pub(crate) fn retry(&mut self, name: &Name, now: DateTime<Utc>) {
        self.failed(name, now);
        self.wake(name);
    }

    /// Something changed: all that rest may be tried again.
    pub(crate) fn stir(&mut self) {
        let resting = self
            .entries
            .iter()
            .filter(|(_, e)| matches!(e.state, State::Resting(_)));
        let names: Vec<Name> = resting.map(|(name, _)| name.clone()).collect();
        for name in &names {
            self.wake(name);
        }
    }

    fn wake(&mut self, name: &Name) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        let State::Resting(since) = entry.state else { return };
        entry.state = State::BackingOff;
        let doublings = entry.attempts.saturating_sub(1).min(4);
        let seconds = 1_i64.checked_shl(doublings).unwrap_or(MOST_SECONDS).min(MOST_SECONDS);
        let due = since.checked_add_signed(TimeDelta::seconds(seconds)).unwrap_or(since);
        self.later.put(name.clone(), due);
    }

    /// When there is something to try, by itself.
    pub(crate) fn next(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        if self.active.is_empty() {
            self.later.next()
        } else {
            Some(now)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
    }

    fn name(name: &str) -> Name {
        Name::new("default", name)
    }

    #[test]
    fn higher_priority_comes_first_and_then_the_older_one() {
        let mut queue = Queue::default();
        queue.add(&name("old"), 0);
        queue.add(&name("new"), 0);
        queue.add(&name("important"), 5);
        let order: Vec<String> = std::iter::from_fn(|| queue.take(at(0))).map(|n| n.name).collect();
        assert_eq!(order, ["important", "old", "new"]);
    }

    #[test]
    fn a_failed_pod_rests_until_a_change_and_then_backs_off_longer_each_time() {
        let mut queue = Queue::default();
        queue.add(&name("p"), 0);
        for (second, wait) in [(0, 1), (10, 2), (20, 4), (40, 8), (60, 10), (80, 10)] {
            assert_eq!(queue.take(at(second)), Some(name("p")));
            queue.failed(&name("p"), at(second));
            assert_eq!(queue.next(at(second)), None, "it rests");
            queue.stir();
            assert_eq!(queue.next(at(second)), Some(at(second + wait)));
            assert_eq!(queue.take(at(second + wait - 1)), None);
        }
        queue.remove(&name("p"));
        assert_eq!(queue.take(at(1000)), None);
    }
}

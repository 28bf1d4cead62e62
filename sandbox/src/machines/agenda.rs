//! What is to be looked at next, and when.

use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, BTreeSet};

/// Keys with the instant they are due; one instant per key, the earlier one wins.
#[derive(Debug)]
pub struct Agenda<K> {
    by_key: BTreeMap<K, DateTime<Utc>>,
    by_time: BTreeSet<(DateTime<Utc>, K)>,
}

impl<K: Ord + Clone> Default for Agenda<K> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
            by_time: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Clone> Agenda<K> {
    /// Puts a key down for an instant, unless it is due earlier already.
    pub fn put(&mut self, key: K, at: DateTime<Utc>) {
        match self.by_key.get(&key) {
            Some(known) if *known <= at => return,
            Some(known) => {
                self.by_time.remove(&(*known, key.clone()));
            }
            None => {}
        }
        self.by_key.insert(key.clone(), at);
        self.by_time.insert((at, key));
    }

    /// Takes the first key that is due.
    pub fn take(&mut self, now: DateTime<Utc>) -> Option<K> {
        let (at, _) = self.by_time.first()?;
        if *at > now {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    /// When the next key is due.
    pub fn next(&self) -> Option<DateTime<Utc>> {
        self.by_time.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_in_the_order_of_their_instants_and_once_each() {
        let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        let mut agenda = Agenda::default();
        agenda.put("a", at(5));
        agenda.put("b", at(3));
        agenda.put("a", at(1));
        agenda.put("a", at(9));
        assert_eq!(agenda.next(), Some(at(1)));
        assert_eq!(
            [agenda.take(at(3)), agenda.take(at(3)), agenda.take(at(3))],
            [Some("a"), Some("b"), None]
        );
    }
}

//! Which key waits, which runs, which is delayed until when. No task, no waiting: the loop in `run` asks.

use crate::clock::Progress;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// The book-keeping of one queue.
#[derive(Debug)]
pub(super) struct Book<K> {
    capacity: usize,
    ready: VecDeque<K>,
    /// When a key that is in `ready` was put there.
    waiting: BTreeMap<K, Instant>,
    running: BTreeMap<K, Work>,
    /// Keys that were added while they ran.
    again: BTreeSet<K>,
    due: BTreeMap<(Instant, u64), K>,
    due_of: BTreeMap<K, (Instant, u64)>,
    failures: BTreeMap<K, u32>,
    tickets: u64,
}

/// The work on a key.
#[derive(Debug, Clone)]
struct Work {
    since: Instant,
    progress: Progress,
    /// Delays up to this ticket are older than the work.
    tickets: u64,
}

/// What became of an added key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    /// It waits now, or will be looked at once more after the present run.
    New,
    /// It was waiting already.
    Known,
    /// The queue is at its limit.
    Full,
}

impl<K: Ord + Clone> Book<K> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            ready: VecDeque::new(),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            again: BTreeSet::new(),
            due: BTreeMap::new(),
            due_of: BTreeMap::new(),
            failures: BTreeMap::new(),
            tickets: 0,
        }
    }

    pub(super) fn add(&mut self, key: K, now: Instant) -> Added {
        if self.running.contains_key(&key) {
            return if self.again.insert(key) {
                Added::New
            } else {
                Added::Known
            };
        }
        if self.waiting.contains_key(&key) {
            return Added::Known;
        }
        if !self.due_of.contains_key(&key) && self.len() >= self.capacity {
            return Added::Full;
        }
        self.waiting.insert(key.clone(), now);
        self.ready.push_back(key);
        Added::New
    }

    /// Adds the key at a later time; the earlier of two times wins.
    pub(super) fn add_at(&mut self, key: K, at: Instant) -> Added {
        if let Some(known) = self.due_of.get(&key).copied() {
            if known.0 <= at {
                return Added::Known;
            }
            self.due.remove(&known);
        } else if self.len() >= self.capacity {
            return Added::Full;
        }
        self.tickets += 1;
        let ticket = (at, self.tickets);
        self.due.insert(ticket, key.clone());
        self.due_of.insert(key, ticket);
        Added::New
    }

    /// Moves what is due to the ready keys, and says how many were new there.
    pub(super) fn promote(&mut self, now: Instant) -> u64 {
        let mut moved = 0;
        while let Some(entry) = self.due.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let key = entry.remove();
            self.due_of.remove(&key);
            if self.add(key, now) == Added::New {
                moved += 1;
            }
        }
        moved
    }

    /// When the next delayed key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first_key_value().map(|(ticket, _)| ticket.0)
    }

    /// Takes the next ready key for work, with the time it waited.
    pub(super) fn take(&mut self, now: Instant) -> Option<(K, Duration)> {
        let key = self.ready.pop_front()?;
        let since = self.waiting.remove(&key).unwrap_or(now);
        let work = Work {
            since: now,
            progress: Progress::begin(),
            tickets: self.tickets,
        };
        self.running.insert(key.clone(), work);
        Some((key, now.duration_since(since)))
    }

    /// Ends the work on a key, and makes it ready again if it was added meanwhile.
    pub(super) fn finish(&mut self, key: &K, now: Instant) {
        self.running.remove(key);
        if self.again.remove(key) {
            self.add(key.clone(), now);
        }
    }

    /// Counts a failure in a row of this key.
    pub(super) fn failed(&mut self, key: &K) -> u32 {
        let count = self.failures.entry(key.clone()).or_insert(0);
        *count = count.saturating_add(1);
        *count
    }

    pub(super) fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// The work on a key went well and says what comes next: a delay from before is over. Without this the key of an object that is gone would wait
    /// for what had been its time, which may be a month away (a claim's expiry).
    pub(super) fn settle(&mut self, key: &K) {
        self.forget(key);
        let Some(work) = self.running.get(key) else { return };
        let older = self.due_of.get(key).filter(|(_, ticket)| *ticket <= work.tickets);
        if let Some(ticket) = older.copied() {
            self.due.remove(&ticket);
            self.due_of.remove(key);
        }
    }

    /// Keys that wait for a worker.
    pub(super) fn depth(&self) -> usize {
        self.ready.len()
    }

    /// Keys whose time has not come.
    pub(super) fn delayed(&self) -> usize {
        self.due.len()
    }

    /// Keys that wait or are delayed.
    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.due.len()
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Since when the key that waits longest does so.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.waiting.values().min().copied()
    }

    /// The progress of the work on a key; of work that begins now where there is none.
    pub(super) fn progress_of(&self, key: &K) -> Progress {
        let work = self.running.get(key);
        work.map_or_else(Progress::begin, |work| work.progress.clone())
    }

    /// How long the work that has made no progress for longest has made none.
    pub(super) fn stuck_for(&self) -> Duration {
        let all = self.running.values().map(|work| work.progress.stuck_for());
        all.max().unwrap_or_default()
    }

    /// Since when each running key is worked on.
    pub(super) fn running_since(&self) -> impl Iterator<Item = Instant> {
        self.running.values().map(|work| work.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later(now: Instant, seconds: u64) -> Instant {
        now + Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_once_and_keys_keep_their_order() {
        let now = Instant::now();
        let mut book = Book::new(10);
        assert_eq!(book.add("b", now), Added::New);
        assert_eq!(book.add("a", now), Added::New);
        assert_eq!(book.add("b", now), Added::Known);
        assert_eq!(book.take(now).unwrap().0, "b");
        assert_eq!(book.take(now).unwrap().0, "a");
        assert!(book.take(now).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_added_while_it_runs_runs_once_more_afterwards_and_not_at_once() {
        let now = Instant::now();
        let mut book = Book::new(10);
        book.add("a", now);
        book.take(now).unwrap();
        assert_eq!(book.add("a", now), Added::New);
        assert_eq!(book.add("a", now), Added::Known);
        assert!(book.take(now).is_none(), "never twice at once");
        book.finish(&"a", now);
        assert_eq!(book.take(now).unwrap().0, "a");
        book.finish(&"a", now);
        assert!(book.take(now).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_times_the_earlier_wins() {
        let now = Instant::now();
        let mut book = Book::new(10);
        book.add_at("a", later(now, 10));
        assert_eq!(book.add_at("a", later(now, 20)), Added::Known);
        book.add_at("a", later(now, 5));
        assert_eq!(book.next_due(), Some(later(now, 5)));
        assert_eq!(book.promote(later(now, 4)), 0);
        assert_eq!(book.promote(later(now, 5)), 1);
        assert_eq!(book.next_due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_went_well_ends_the_delay_from_before_it_and_not_one_from_meanwhile() {
        let now = Instant::now();
        let mut book = Book::new(10);
        book.add_at("a", later(now, 1_000));
        book.add("a", now);
        book.take(now).unwrap();
        book.settle(&"a");
        book.finish(&"a", now);
        assert_eq!(
            (book.len(), book.next_due()),
            (0, None),
            "nothing is left of a key that is done"
        );
        book.add("a", now);
        book.take(now).unwrap();
        book.add_at("a", later(now, 7));
        book.settle(&"a");
        assert_eq!(book.next_due(), Some(later(now, 7)));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_failed_leaves_the_delay_from_before_it() {
        let now = Instant::now();
        let mut book = Book::new(10);
        book.add_at("a", later(now, 10));
        book.add("a", now);
        book.take(now).unwrap();
        book.failed(&"a");
        book.finish(&"a", now);
        book.add_at("a", later(now, 60));
        assert_eq!(book.next_due(), Some(later(now, 10)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_refuses_new_keys_but_takes_known_ones() {
        let now = Instant::now();
        let mut book = Book::new(2);
        book.add("a", now);
        book.add_at("b", later(now, 1));
        assert_eq!(book.add("c", now), Added::Full);
        assert_eq!(book.add_at("c", now), Added::Full);
        assert_eq!(book.add("a", now), Added::Known);
        assert_eq!(book.add("b", now), Added::New, "a delayed key may become ready");
    }
}

//! Shares what is equal: one allocation for the spec, labels, owner and words that thousands of pods have in common.
//!
//! Relies on nothing; the hub's readers hold one pool each. A pool keeps no value alive: what nobody uses any more is swept out.

use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

/// Values that are handed out once for all who have an equal one.
#[derive(Debug)]
pub struct Pool<T: ?Sized> {
    // Never iterated but for sweeping: its order reaches nothing.
    known: FxHashMap<u64, Vec<Weak<T>>>,
    until_sweep: usize,
}

/// A pool is swept when at least this many values came in since the last time: of a small cluster so many dead ones stay, of a large one as many as live.
const SWEEP_AT_LEAST: usize = 128;

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self {
            known: FxHashMap::default(),
            until_sweep: SWEEP_AT_LEAST,
        }
    }
}

impl<T: ?Sized + PartialEq> Pool<T> {
    /// The shared value that equals `value` by this hash, or `make` as the new shared one.
    pub fn share(&mut self, hash: u64, value: &T, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let bucket = self.known.entry(hash).or_default();
        if let Some(known) = bucket.iter().filter_map(Weak::upgrade).find(|known| **known == *value) {
            return known;
        }
        let new = make();
        bucket.push(Arc::downgrade(&new));
        self.until_sweep = self.until_sweep.saturating_sub(1);
        if self.until_sweep == 0 {
            self.sweep();
        }
        new
    }

    /// The shared value that equals this one by this hash; it becomes the shared one when it is the first.
    pub fn share_own(&mut self, hash: u64, value: &Arc<T>) -> Arc<T> {
        self.share(hash, value, || Arc::clone(value))
    }

    /// Values that somebody still uses.
    pub fn len(&self) -> usize {
        self.known
            .values()
            .flatten()
            .filter(|value| value.strong_count() > 0)
            .count()
    }

    /// Whether nobody uses any value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn sweep(&mut self) {
        self.known.retain(|_, bucket| {
            bucket.retain(|value| value.strong_count() > 0);
            !bucket.is_empty()
        });
        self.until_sweep = self.known.len().max(SWEEP_AT_LEAST);
    }
}

/// The hash that pools go by; it never leaves the process.
pub fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(pool: &mut Pool<str>, text: &str) -> Arc<str> {
        pool.share(hash_of(text), text, || text.into())
    }

    #[test]
    fn equal_values_are_one_and_different_ones_are_two_even_with_one_hash() {
        let mut pool = Pool::default();
        assert!(Arc::ptr_eq(&share(&mut pool, "a"), &share(&mut pool, "a")) || pool.is_empty());
        let first = pool.share(1, "a", || "a".into());
        let second = pool.share(1, "b", || "b".into());
        assert_eq!((&*first, &*second), ("a", "b"));
        assert!(Arc::ptr_eq(&first, &pool.share(1, "a", || "a".into())));
    }

    #[test]
    fn what_nobody_uses_is_swept_out() {
        let mut pool = Pool::default();
        for number in 0..10 * SWEEP_AT_LEAST {
            share(&mut pool, &number.to_string());
        }
        assert!(pool.known.len() <= 2 * SWEEP_AT_LEAST, "{}", pool.known.len());
        assert!(pool.is_empty());
    }
}

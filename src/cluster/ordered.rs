//! One kind's entries in the order of their keys, in blocks that copies share.
//!
//! The state changes one object at a time while others hold what was before it: a change copies one block and the list of blocks, and nothing is
//! kept per object but a pointer. With 15,000 pods a map of keys was a megabyte for every version that somebody held. Relies on the entries, whose
//! keys never change; tables keep their objects here, snapshots and whoever compares them hold copies.

use super::object::{Entry, Key};
use std::sync::Arc;

/// Entries per block at most: what a change copies.
const FULL: usize = 64;

type Block<T> = Arc<Vec<Arc<Entry<T>>>>;

/// Entries in the order of their keys; a copy shares everything until one side changes.
#[derive(Debug)]
pub struct Ordered<T> {
    /// None is empty.
    blocks: Vec<Block<T>>,
    len: usize,
}

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            len: 0,
        }
    }
}

impl<T> Clone for Ordered<T> {
    fn clone(&self) -> Self {
        Self {
            blocks: self.blocks.clone(),
            len: self.len,
        }
    }
}

/// Where a key is: the block and the place in it.
type Place = (usize, usize);

impl<T> Ordered<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry of this key.
    pub fn get(&self, key: &Key) -> Option<&Arc<Entry<T>>> {
        let (block, place) = self.find(key).ok()?;
        self.blocks.get(block)?.get(place)
    }

    /// Whether there is an entry of this key.
    pub fn contains_key(&self, key: &Key) -> bool {
        self.find(key).is_ok()
    }

    /// All entries.
    pub fn values(&self) -> impl Iterator<Item = &Arc<Entry<T>>> {
        self.blocks.iter().flat_map(|block| block.iter())
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.values().map(|entry| &entry.meta.key)
    }

    /// All keys and entries.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Arc<Entry<T>>)> {
        self.values().map(|entry| (&entry.meta.key, entry))
    }

    /// The entries whose keys come after this one, whether it is there or not.
    pub fn after(&self, key: &Key) -> impl Iterator<Item = &Arc<Entry<T>>> {
        let (block, place) = match self.find(key) {
            Ok((block, place)) => (block, place.saturating_add(1)),
            Err(place) => place,
        };
        let first = self.blocks.get(block).into_iter();
        let first = first.flat_map(move |block| block.iter().skip(place));
        let others = self.blocks.iter().skip(block.saturating_add(1));
        first.chain(others.flat_map(|block| block.iter()))
    }

    /// Takes an entry in; yields the one that had its key.
    pub fn insert(&mut self, entry: Arc<Entry<T>>) -> Option<Arc<Entry<T>>> {
        let (at, place) = match self.find(&entry.meta.key) {
            Ok((block, place)) => {
                let known = Arc::make_mut(self.blocks.get_mut(block)?).get_mut(place)?;
                return Some(std::mem::replace(known, entry));
            }
            Err(place) => place,
        };
        self.len = self.len.saturating_add(1);
        let Some(block) = self.blocks.get_mut(at).map(Arc::make_mut) else {
            self.blocks.push(Arc::new(vec![entry]));
            return None;
        };
        if block.len() < FULL {
            block.insert(place, entry);
            return None;
        }
        // What comes in order, as lists do, begins a new block: the full one would stay half empty for good.
        let in_order = place == block.len();
        let mut rest = block.split_off(if in_order { place } else { FULL / 2 });
        match place.checked_sub(block.len()) {
            Some(place) if in_order || place > 0 => rest.insert(place, entry),
            Some(_) | None => block.insert(place, entry),
        }
        self.blocks.insert(at.saturating_add(1), Arc::new(rest));
        None
    }

    /// Takes the entry of this key out.
    pub fn remove(&mut self, key: &Key) -> Option<Arc<Entry<T>>> {
        let (at, place) = self.find(key).ok()?;
        let block = Arc::make_mut(self.blocks.get_mut(at)?);
        let gone = block.remove(place);
        if block.is_empty() {
            self.blocks.remove(at);
        } else {
            self.join(at);
            self.join(at.saturating_sub(1));
        }
        self.len = self.len.saturating_sub(1);
        Some(gone)
    }

    /// Puts a block and the next one together when that leaves room for more.
    fn join(&mut self, at: usize) {
        let next = at.saturating_add(1);
        let size = |at: usize| self.blocks.get(at).map(|block| block.len());
        if let (Some(left), Some(right)) = (size(at), size(next))
            && left.saturating_add(right) <= FULL / 2
        {
            let right = self.blocks.remove(next);
            if let Some(left) = self.blocks.get_mut(at) {
                Arc::make_mut(left).extend(right.iter().map(Arc::clone));
            }
        }
    }

    /// Where the key is, or would be put.
    fn find(&self, key: &Key) -> Result<Place, Place> {
        let begins_before = |block: &Block<T>| block.first().is_some_and(|first| first.meta.key <= *key);
        let block = self.blocks.partition_point(begins_before).saturating_sub(1);
        let entries = self.blocks.get(block).map_or(&[][..], |block| block.as_slice());
        match entries.binary_search_by(|entry| entry.meta.key.cmp(key)) {
            Ok(place) => Ok((block, place)),
            Err(place) => Err((block, place)),
        }
    }
}

impl<T> FromIterator<Arc<Entry<T>>> for Ordered<T> {
    fn from_iter<I: IntoIterator<Item = Arc<Entry<T>>>>(entries: I) -> Self {
        let mut all = Self::default();
        for entry in entries {
            all.insert(entry);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::object::Meta;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn entry(number: u16, facts: u16) -> Arc<Entry<u16>> {
        let mut meta = Meta::read(&kube::core::ObjectMeta::default());
        meta.key = key(number);
        Arc::new(Entry { meta, facts })
    }

    fn key(number: u16) -> Key {
        Key::namespaced(&format!("ns-{}", number % 3), &format!("{number:05}"))
    }

    fn shown(entries: &Ordered<u16>) -> Vec<(Key, u16)> {
        entries.iter().map(|(key, entry)| (key.clone(), entry.facts)).collect()
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u16),
        Remove(u16),
        Hold,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            5 => (0..400_u16).prop_map(Step::Insert),
            4 => (0..400_u16).prop_map(Step::Remove),
            1 => Just(Step::Hold),
        ]
    }

    proptest! {
        #[test]
        fn it_is_a_map_by_key_and_what_is_held_stays_as_it_was(
            first in 0..400_u16, steps in proptest::collection::vec(step(), 0..600), asked in 0..400_u16,
        ) {
            let mut entries: Ordered<u16> = (0..first).map(|number| entry(number, 0)).collect();
            let mut model: BTreeMap<Key, u16> = (0..first).map(|number| (key(number), 0)).collect();
            let mut held = Vec::new();
            for (facts, step) in (1..).zip(steps) {
                match step {
                    Step::Insert(number) => {
                        let old = entries.insert(entry(number, facts)).map(|old| old.facts);
                        prop_assert_eq!(old, model.insert(key(number), facts));
                    }
                    Step::Remove(number) => {
                        let old = entries.remove(&key(number)).map(|old| old.facts);
                        prop_assert_eq!(old, model.remove(&key(number)));
                    }
                    Step::Hold => held.push((entries.clone(), shown(&entries))),
                }
                prop_assert_eq!(entries.len(), model.len());
            }
            prop_assert_eq!(shown(&entries), model.clone().into_iter().collect::<Vec<_>>());
            prop_assert_eq!(entries.get(&key(asked)).map(|entry| entry.facts), model.get(&key(asked)).copied());
            let after = (std::ops::Bound::Excluded(key(asked)), std::ops::Bound::Unbounded);
            let expected: Vec<u16> = model.range(after).map(|(_, facts)| *facts).collect();
            prop_assert_eq!(entries.after(&key(asked)).map(|entry| entry.facts).collect::<Vec<_>>(), expected);
            prop_assert!(entries.blocks.iter().all(|block| (1..=FULL).contains(&block.len())));
            for (copy, was) in held {
                prop_assert_eq!(shown(&copy), was);
            }
        }
    }

    #[test]
    fn what_comes_in_order_fills_its_blocks() {
        let mut numbers: Vec<u16> = (0..6400).collect();
        numbers.sort_by_key(|number| key(*number));
        let entries: Ordered<u16> = numbers.into_iter().map(|number| entry(number, 0)).collect();
        assert_eq!(entries.blocks.len(), 100);
    }

    #[test]
    fn a_change_leaves_the_other_blocks_shared() {
        let before: Ordered<u16> = (0..640).map(|number| entry(number, 0)).collect();
        let mut after = before.clone();
        after.insert(entry(77, 1));
        let own = after
            .blocks
            .iter()
            .filter(|block| !before.blocks.iter().any(|other| Arc::ptr_eq(block, other)));
        assert_eq!(own.count(), 1);
    }

    #[test]
    fn few_are_not_spread_over_many_blocks() {
        let mut entries: Ordered<u16> = (0..3000).map(|number| entry(number, 0)).collect();
        for number in (0..3000).filter(|number| number % 100 > 0) {
            entries.remove(&key(number));
        }
        assert_eq!(entries.len(), 30);
        assert!(entries.blocks.len() <= 4, "{}", entries.blocks.len());
    }
}

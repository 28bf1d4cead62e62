//! One kind's objects, and the rules by which observations and assumptions get along (architecture §3.2).
//!
//! Newest version wins, whoever brings it. An assumption is an entry that no watch has confirmed; it ends by
//!
//! | what | and then |
//! |---|---|
//! | an event at or past its version | the event holds |
//! | a deletion of its UID | it is gone |
//! | a list begun after the write, which is one whose version is at or past it | the list holds |
//! | a list that shows an older version than we know | stale, or the server was set back: in doubt, it is read at once |
//! | a bookmark at or past its version | in doubt: it is read at once |
//! | 30 s without any of these | in doubt: it is read |
//! | the answer to that read | the answer holds |
//!
//! UIDs whose deletion was told stay gone ([`Graves`]): a late event or a stale list does not bring them back. Relies on nothing else; [`Cluster`](super::Cluster) owns one per kind.

use super::delta::Source;
use super::graves::Graves;
use super::object::{Entry, Key, Uid, Version};
use super::ordered::Ordered;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// After this long without confirmation an assumption is read.
pub const DOUBT_AFTER: TimeDelta = TimeDelta::seconds(30);

/// Objects by key; a copy shares everything until one side changes.
pub type Entries<T> = Arc<Ordered<T>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Assumed {
    version: Version,
    since: DateTime<Utc>,
    /// When it shall be read, if nothing ends it before.
    read_at: DateTime<Utc>,
}

/// What applying something did to one key.
#[derive(Debug)]
pub struct Moved<T> {
    /// What was there.
    pub old: Option<Arc<Entry<T>>>,
    /// What is there now.
    pub new: Option<Arc<Entry<T>>>,
}

/// One kind's objects.
#[derive(Debug)]
pub struct Table<T> {
    entries: Entries<T>,
    assumed: BTreeMap<Key, Assumed>,
    graves: Graves,
    /// Up to where each watch of this kind has told everything.
    frontier: BTreeMap<Source, Version>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            entries: Arc::default(),
            assumed: BTreeMap::new(),
            graves: Graves::default(),
            frontier: BTreeMap::new(),
        }
    }
}

impl<T> Table<T> {
    /// The objects; cheap.
    pub fn entries(&self) -> Entries<T> {
        Arc::clone(&self.entries)
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<&Arc<Entry<T>>> {
        self.entries.get(key)
    }

    /// How many of the objects no watch has confirmed yet.
    #[cfg(test)]
    pub fn assumptions(&self) -> usize {
        self.assumed.len()
    }

    /// A watch told of this object.
    pub fn apply(&mut self, source: &Source, entry: Arc<Entry<T>>) -> Option<Moved<T>> {
        self.reach(source, entry.meta.version);
        if self.graves.contains(&entry.meta.uid) {
            return None;
        }
        let known = self.entries.get(&entry.meta.key);
        if known.is_some_and(|known| entry.meta.version.is_older_than(known.meta.version)) {
            return None;
        }
        self.confirm(entry)
    }

    /// A watch told that this UID is gone.
    pub fn delete(&mut self, source: &Source, key: &Key, uid: &Uid, version: Version) -> Option<Moved<T>> {
        self.reach(source, version);
        self.graves.bury(uid);
        self.take_if(key, uid)
    }

    /// A complete list. Yields one movement per key that moved.
    pub fn list(
        &mut self,
        source: &Source,
        version: Version,
        began: DateTime<Utc>,
        listed: Vec<Arc<Entry<T>>>,
        unread: &BTreeSet<Key>,
    ) -> Vec<Moved<T>> {
        let mut moved = Vec::new();
        for (key, known) in self.missing(source, &listed, unread) {
            if self.list_knows(&key, version, began) {
                moved.extend(self.take_if(&key, &known.meta.uid));
            } else {
                self.doubt(&key, known.meta.version, began);
            }
        }
        for entry in listed {
            let key = entry.meta.key.clone();
            let confirmed = self.list_knows(&key, version, began) && self.assumed.remove(&key).is_some();
            let (untold, shown) = (self.graves.contains(&entry.meta.uid), entry.meta.version);
            if confirmed && !untold {
                // The list is newer than the write, so it holds whatever it shows.
                moved.extend(self.confirm(entry));
            } else if let Some(movement) = self.apply(source, entry) {
                moved.push(movement);
            } else if !untold && let Some(newest) = self.entries.get(&key).map(|known| known.meta.version) {
                self.doubt_if_behind(&key, shown, newest, began);
            }
        }
        self.frontier.insert(source.clone(), version);
        moved
    }

    /// The watch has told everything up to `version`: assumptions up to there are read at once.
    pub fn bookmark(&mut self, source: &Source, version: Version) {
        self.reach(source, version);
        for (key, assumed) in &mut self.assumed {
            if source.covers(key) && version.has_reached(assumed.version) {
                assumed.read_at = assumed.since;
            }
        }
    }

    /// The API server answered one of our writes with this object.
    pub fn assume(&mut self, source: &Source, entry: Arc<Entry<T>>, now: DateTime<Utc>) -> Option<Moved<T>> {
        let meta = &entry.meta;
        if self.graves.contains(&meta.uid) {
            return None;
        }
        match self.entries.get(&meta.key) {
            // The watch was faster.
            Some(known) if known.meta.uid == meta.uid && known.meta.version.has_reached(meta.version) => return None,
            Some(known) if meta.version.is_older_than(known.meta.version) => return None,
            // The watch is past the write and does not have it: it came and went.
            None if self.has_reached(source, meta.version) => return None,
            Some(_) | None => {}
        }
        self.bury_predecessor(&entry);
        let read_at = now.checked_add_signed(DOUBT_AFTER).unwrap_or(now);
        let assumed = Assumed {
            version: entry.meta.version,
            since: now,
            read_at,
        };
        self.assumed.insert(entry.meta.key.clone(), assumed);
        Some(self.put(entry))
    }

    /// The API server answered that this UID is gone.
    pub fn assume_gone(&mut self, key: &Key, uid: &Uid) -> Option<Moved<T>> {
        self.graves.bury(uid);
        self.take_if(key, uid)
    }

    /// The answer to a read that began at `began`.
    pub fn read(
        &mut self,
        source: &Source,
        key: &Key,
        began: DateTime<Utc>,
        found: Option<Arc<Entry<T>>>,
    ) -> Option<Moved<T>> {
        let in_doubt = self.assumed.get(key).is_some_and(|assumed| assumed.since <= began);
        match found {
            Some(entry) if in_doubt && !self.graves.contains(&entry.meta.uid) => self.confirm(entry),
            // Not a watch: it tells nothing of other objects, so the frontier stays.
            Some(entry) => {
                let known = self.entries.get(key);
                let newer = known.is_none_or(|known| !entry.meta.version.is_older_than(known.meta.version));
                let buried = self.graves.contains(&entry.meta.uid);
                let passed = known.is_none() && self.has_reached(source, entry.meta.version);
                (newer && !buried && !passed).then(|| self.put(entry))
            }
            None if in_doubt => {
                let uid = self.entries.get(key).map(|known| Arc::clone(&known.meta.uid))?;
                self.graves.bury(&uid);
                self.take_if(key, &uid)
            }
            None => None,
        }
    }

    /// The assumptions that somebody should read now.
    pub fn doubts(&self, now: DateTime<Utc>) -> impl Iterator<Item = &Key> {
        self.assumed
            .iter()
            .filter(move |(_, assumed)| assumed.read_at <= now)
            .map(|(key, _)| key)
    }

    /// Time passes for what is gone.
    pub fn age(&mut self, now: DateTime<Utc>) {
        self.graves.age(now);
    }

    /// A doubt is being looked into; it comes up again if nothing is heard of it for as long.
    pub fn postpone(&mut self, key: &Key, now: DateTime<Utc>) {
        if let Some(assumed) = self.assumed.get_mut(key) {
            assumed.read_at = now.checked_add_signed(DOUBT_AFTER).unwrap_or(now);
        }
    }

    /// Nothing is watched any more: forgets every object of the watch.
    pub fn forget(&mut self, source: &Source) -> Vec<Moved<T>> {
        self.frontier.remove(source);
        let keys: Vec<Key> = self.entries.keys().filter(|key| source.covers(key)).cloned().collect();
        let entries = if keys.is_empty() {
            return Vec::new();
        } else {
            Arc::make_mut(&mut self.entries)
        };
        let taken = keys.iter().filter_map(|key| entries.remove(key)).collect::<Vec<_>>();
        self.assumed.retain(|key, _| !source.covers(key));
        taken
            .into_iter()
            .map(|old| Moved {
                old: Some(old),
                new: None,
            })
            .collect()
    }

    /// What was told holds; nothing moves if it is what is known already, as when a watch tells of our own write.
    fn confirm(&mut self, entry: Arc<Entry<T>>) -> Option<Moved<T>> {
        self.assumed.remove(&entry.meta.key);
        let is_same = |known: &Arc<Entry<T>>| {
            known.meta.uid == entry.meta.uid
                && entry.meta.version.is_known()
                && known.meta.version == entry.meta.version
        };
        if self.entries.get(&entry.meta.key).is_some_and(is_same) {
            return None;
        }
        self.bury_predecessor(&entry);
        Some(self.put(entry))
    }

    /// Whether a list of this version and time says the truth about a key: it does unless the object was seen or written at a later version.
    fn list_knows(&self, key: &Key, version: Version, began: DateTime<Utc>) -> bool {
        let known = self
            .entries
            .get(key)
            .map(|known| known.meta.version)
            .unwrap_or_default();
        if version.is_known() && known.is_known() {
            return version.has_reached(known);
        }
        self.assumed.get(key).is_none_or(|assumed| began > assumed.since)
    }

    /// What is known of a watch's objects that a list does not show.
    fn missing(&self, source: &Source, listed: &[Arc<Entry<T>>], unread: &BTreeSet<Key>) -> Vec<(Key, Arc<Entry<T>>)> {
        let present: BTreeSet<&Key> = listed.iter().map(|entry| &entry.meta.key).chain(unread).collect();
        let known = self.entries.iter();
        let missing = known.filter(|(key, _)| source.covers(key) && !present.contains(*key));
        missing.map(|(key, entry)| (key.clone(), Arc::clone(entry))).collect()
    }

    /// A list older than what we know is stale, or the server was set back: only a read tells which.
    fn doubt(&mut self, key: &Key, version: Version, since: DateTime<Utc>) {
        self.assumed.entry(key.clone()).or_insert(Assumed {
            version,
            since,
            read_at: since,
        });
    }

    fn doubt_if_behind(&mut self, key: &Key, shown: Version, newest: Version, since: DateTime<Utc>) {
        if shown.is_older_than(newest) {
            self.doubt(key, newest, since);
        }
    }

    fn put(&mut self, entry: Arc<Entry<T>>) -> Moved<T> {
        let old = Arc::make_mut(&mut self.entries).insert(Arc::clone(&entry));
        Moved { old, new: Some(entry) }
    }

    /// Removes the entry of this key if it is still the one of this UID.
    fn take_if(&mut self, key: &Key, uid: &Uid) -> Option<Moved<T>> {
        // An event without UID cannot be told from one about the present object.
        if self
            .entries
            .get(key)
            .is_none_or(|entry| !uid.is_empty() && entry.meta.uid != *uid)
        {
            return None;
        }
        self.assumed.remove(key);
        let old = Arc::make_mut(&mut self.entries).remove(key)?;
        Some(Moved {
            old: Some(old),
            new: None,
        })
    }

    /// A name with another UID than before: the one before is gone.
    fn bury_predecessor(&mut self, entry: &Entry<T>) {
        let known = self
            .entries
            .get(&entry.meta.key)
            .map(|known| Arc::clone(&known.meta.uid));
        if let Some(uid) = known.filter(|uid| *uid != entry.meta.uid) {
            self.graves.bury(&uid);
        }
    }

    fn has_reached(&self, source: &Source, version: Version) -> bool {
        self.frontier
            .get(source)
            .is_some_and(|frontier| frontier.has_reached(version))
    }

    fn reach(&mut self, source: &Source, version: Version) {
        match self.frontier.get_mut(source) {
            Some(frontier) if frontier.is_older_than(version) => *frontier = version,
            Some(_) => {}
            None => {
                self.frontier.insert(source.clone(), version);
            }
        }
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;

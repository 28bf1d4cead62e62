//! The objects of all kinds, one revision counter, and what happened to them.
//!
//! Every change gets the next revision and an entry in its kind's log; the log feeds watches, answers reads of an older revision, and forgets
//! by age and length (what is forgotten is answered with 410). The owner and UID indexes are kept here too, so that they can never lag.
//! Called only under the server's lock; nothing here waits.

use super::kinds::Resource;
use super::object;
use crate::ticks::{Moved, Ticks};
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

/// Which object of a kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Namespace, empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// A key from its two parts.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// An object as it was at one revision; its JSON text is made once for all readers.
#[derive(Debug)]
pub struct Stored {
    value: Value,
    revision: u64,
    json: OnceLock<Bytes>,
}

impl Stored {
    pub(crate) fn new(value: Value, revision: u64) -> Self {
        Self {
            value,
            revision,
            json: OnceLock::new(),
        }
    }

    /// The object.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The revision that wrote it.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The object as JSON text.
    pub fn json(&self) -> &Bytes {
        self.json
            .get_or_init(|| serde_json::to_vec(&self.value).unwrap_or_default().into())
    }
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It came.
    Added,
    /// It changed.
    Modified,
    /// It went.
    Deleted,
}

/// One change.
#[derive(Debug)]
pub struct Event {
    /// Its revision.
    pub revision: u64,
    /// What happened.
    pub kind: EventKind,
    /// To which object.
    pub key: ObjectKey,
    /// The object after the change; at a deletion as it was last, with the deletion's resourceVersion.
    pub object: Arc<Stored>,
    /// The object before the change.
    pub previous: Option<Arc<Stored>>,
    at: DateTime<Utc>,
}

pub(crate) type Objects = BTreeMap<ObjectKey, Arc<Stored>>;

/// A revision that is no longer kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compacted {
    pub(crate) asked: u64,
    pub(crate) oldest: u64,
}

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) resource: Arc<Resource>,
    pub(crate) objects: Objects,
    log: VecDeque<Arc<Event>>,
    compacted: u64,
    changed: Ticks,
}

impl Table {
    /// The changes after a revision, oldest first.
    pub(crate) fn since(&self, revision: u64) -> Result<impl Iterator<Item = &Arc<Event>>, Compacted> {
        if revision < self.compacted {
            return Err(Compacted {
                asked: revision,
                oldest: self.compacted,
            });
        }
        let from = self.log.partition_point(|e| e.revision <= revision);
        Ok(self.log.range(from..))
    }

    pub(crate) fn subscribe(&self) -> Moved {
        self.changed.subscribe()
    }

    /// The objects as they were at a revision, by undoing what came later.
    pub(crate) fn at(&self, revision: u64) -> Result<Objects, Compacted> {
        let later: Vec<&Arc<Event>> = self.since(revision)?.collect();
        let mut objects = self.objects.clone();
        for event in later.into_iter().rev() {
            match &event.previous {
                Some(previous) => objects.insert(event.key.clone(), Arc::clone(previous)),
                None => objects.remove(&event.key),
            };
        }
        Ok(objects)
    }

    fn forget(&mut self, now: DateTime<Utc>, limits: LogLimits) {
        let horizon = now.checked_sub_signed(limits.age).unwrap_or(DateTime::<Utc>::MIN_UTC);
        while self.log.len() > limits.length || self.log.front().is_some_and(|e| e.at < horizon) {
            if let Some(event) = self.log.pop_front() {
                self.compacted = event.revision;
            }
        }
    }
}

/// How much of the past is kept per kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// At most so many changes.
    pub length: usize,
    /// None older than this.
    pub age: TimeDelta,
}

impl Default for LogLimits {
    fn default() -> Self {
        // kube-apiserver compacts every five minutes and keeps the last five.
        Self {
            length: 20_000,
            age: TimeDelta::minutes(10),
        }
    }
}

/// What the background work (garbage, budgets, namespaces) has to look at.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// UIDs of objects that went.
    pub(crate) gone: BTreeSet<String>,
    /// Objects with owners that were written: their owners may be absent.
    pub(crate) owned: BTreeSet<(String, ObjectKey)>,
    /// Objects that wait for dependents (`foregroundDeletion`, `orphan`).
    pub(crate) waiting: BTreeSet<(String, ObjectKey)>,
    /// Namespaces whose pods or budgets changed.
    pub(crate) budgets: BTreeSet<String>,
    /// Namespaces that are being deleted.
    pub(crate) namespaces: BTreeSet<String>,
}

impl Pending {
    pub(crate) fn is_empty(&self) -> bool {
        self.gone.is_empty()
            && self.owned.is_empty()
            && self.waiting.is_empty()
            && self.budgets.is_empty()
            && self.namespaces.is_empty()
    }
}

#[derive(Debug)]
pub(crate) struct Store {
    tables: BTreeMap<String, Table>,
    revision: u64,
    limits: LogLimits,
    uids: BTreeMap<String, (String, ObjectKey)>,
    dependents: BTreeMap<String, BTreeSet<(String, ObjectKey)>>,
    pub(crate) pending: Pending,
}

impl Store {
    pub(crate) fn new(limits: LogLimits) -> Self {
        Self {
            tables: BTreeMap::new(),
            // Not 1, so that "0" and "1" are never a real object's version.
            revision: 100,
            limits,
            uids: BTreeMap::new(),
            dependents: BTreeMap::new(),
            pending: Pending::default(),
        }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn serve(&mut self, resource: Arc<Resource>) {
        let revision = self.revision;
        let qualified = resource.qualified();
        if let Some(table) = self.tables.get_mut(&qualified) {
            table.resource = resource;
            return;
        }
        let changed = Ticks::new(revision);
        let table = Table {
            resource,
            objects: Objects::new(),
            log: VecDeque::new(),
            compacted: 0,
            changed,
        };
        self.tables.insert(qualified, table);
    }

    pub(crate) fn stop_serving(&mut self, qualified: &str) {
        self.tables.remove(qualified);
    }

    pub(crate) fn table(&self, qualified: &str) -> Option<&Table> {
        self.tables.get(qualified)
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = (&String, &Table)> {
        self.tables.iter()
    }

    pub(crate) fn get(&self, table: &str, key: &ObjectKey) -> Option<&Arc<Stored>> {
        self.tables.get(table)?.objects.get(key)
    }

    pub(crate) fn objects(&self, table: &str) -> impl Iterator<Item = (&ObjectKey, &Arc<Stored>)> {
        self.tables.get(table).into_iter().flat_map(|t| t.objects.iter())
    }

    /// The objects of a kind in one namespace.
    pub(crate) fn in_namespace(&self, table: &str, namespace: &str) -> impl Iterator<Item = &Arc<Stored>> {
        let from = ObjectKey::new(namespace, "");
        let objects = self.tables.get(table).map(|t| t.objects.range(from..));
        objects
            .into_iter()
            .flatten()
            .take_while(move |(k, _)| k.namespace == namespace)
            .map(|(_, o)| o)
    }

    pub(crate) fn by_uid(&self, uid: &str) -> Option<&(String, ObjectKey)> {
        self.uids.get(uid)
    }

    pub(crate) fn dependents(&self, uid: &str) -> Vec<(String, ObjectKey)> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Writes an object under the next revision.
    pub(crate) fn put(&mut self, table: &str, key: &ObjectKey, mut value: Value, now: DateTime<Utc>) -> Arc<Stored> {
        self.revision = self.revision.saturating_add(1);
        let revision = self.revision;
        object::set_meta(&mut value, "resourceVersion", revision.to_string());
        let stored = Arc::new(Stored::new(value, revision));
        let previous = self
            .tables
            .get_mut(table)
            .and_then(|t| t.objects.insert(key.clone(), Arc::clone(&stored)));
        let owners = "/metadata/ownerReferences";
        let is_placed = previous.as_ref().is_some_and(|previous| {
            let (before, now) = (previous.value(), stored.value());
            object::uid(before) == object::uid(now) && object::list(before, owners) == object::list(now, owners)
        });
        if !is_placed {
            if let Some(previous) = &previous {
                self.unindex(table, key, previous.value());
            }
            self.index(table, key, stored.value());
        }
        let kind = if previous.is_some() {
            EventKind::Modified
        } else {
            EventKind::Added
        };
        self.note(table, key, stored.value(), kind);
        let event = Event {
            revision,
            kind,
            key: key.clone(),
            object: Arc::clone(&stored),
            previous,
            at: now,
        };
        self.log(table, event);
        stored
    }

    /// Removes an object under the next revision; returns it as it is reported: `last` if the removal also changed it.
    pub(crate) fn remove(
        &mut self,
        table: &str,
        key: &ObjectKey,
        last: Option<Value>,
        now: DateTime<Utc>,
    ) -> Option<Arc<Stored>> {
        let previous = self.tables.get_mut(table)?.objects.remove(key)?;
        self.revision = self.revision.saturating_add(1);
        let revision = self.revision;
        self.unindex(table, key, previous.value());
        let mut value = last.unwrap_or_else(|| previous.value().clone());
        object::set_meta(&mut value, "resourceVersion", revision.to_string());
        let last = Arc::new(Stored::new(value, revision));
        self.note(table, key, last.value(), EventKind::Deleted);
        let event = Event {
            revision,
            kind: EventKind::Deleted,
            key: key.clone(),
            object: Arc::clone(&last),
            previous: Some(previous),
            at: now,
        };
        self.log(table, event);
        Some(last)
    }

    /// Forgets the whole past: watches and reads of older revisions are answered with 410 from now on.
    pub(crate) fn compact(&mut self) {
        let revision = self.revision;
        for table in self.tables.values_mut() {
            table.log.clear();
            table.compacted = revision;
            // Watches that lag behind must notice.
            table.changed.set(revision);
        }
    }

    fn log(&mut self, table: &str, event: Event) {
        let limits = self.limits;
        if let Some(table) = self.tables.get_mut(table) {
            let (revision, at) = (event.revision, event.at);
            table.log.push_back(Arc::new(event));
            table.forget(at, limits);
            table.changed.set(revision);
        }
    }

    fn index(&mut self, table: &str, key: &ObjectKey, value: &Value) {
        let place = (table.to_owned(), key.clone());
        self.uids.insert(object::uid(value).to_owned(), place.clone());
        for owner in object::list(value, "/metadata/ownerReferences") {
            let uid = object::text(owner, "/uid").to_owned();
            self.dependents.entry(uid).or_default().insert(place.clone());
        }
    }

    fn unindex(&mut self, table: &str, key: &ObjectKey, value: &Value) {
        let place = (table.to_owned(), key.clone());
        self.uids.remove(object::uid(value));
        for owner in object::list(value, "/metadata/ownerReferences") {
            let uid = object::text(owner, "/uid");
            if let Some(set) = self.dependents.get_mut(uid) {
                set.remove(&place);
                if set.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
    }

    fn note(&mut self, table: &str, key: &ObjectKey, value: &Value, kind: EventKind) {
        let place = || (table.to_owned(), key.clone());
        if kind == EventKind::Deleted {
            self.pending.gone.insert(object::uid(value).to_owned());
        } else if !object::list(value, "/metadata/ownerReferences").is_empty() {
            self.pending.owned.insert(place());
        }
        if object::is_deleting(value) && kind != EventKind::Deleted {
            let waits = object::finalizers(value)
                .iter()
                .any(|f| matches!(*f, "foregroundDeletion" | "orphan"));
            if waits {
                self.pending.waiting.insert(place());
            }
        }
        match table {
            "pods" | "poddisruptionbudgets.policy" => {
                self.pending.budgets.insert(key.namespace.clone());
            }
            "namespaces" if object::is_deleting(value) && kind != EventKind::Deleted => {
                self.pending.namespaces.insert(key.name.clone());
            }
            _ => {}
        }
    }
}

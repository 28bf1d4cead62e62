//! The state of the cluster as far as we know it: observed objects, our own recent writes, our plans; and the machines that follow from them.
//!
//! Whoever owns a [`Cluster`] applies [`Delta`]s and [`Assumption`]s and gets the [`Change`]s; [`Cluster::snapshot`] hands out everything behind
//! `Arc`s and costs what changed since the last one. Relies on the tables' rules and on the provider's word for which claim a Node belongs to.
//! The cluster task (`k8s::cluster_task`) is the one owner.

use super::delta::{Assumption, Change, Delta, Doubt, Object, Source, What};
use super::entries::{Labels, PodEntry};
use super::index::Index;
use super::ledger::{Ledger, MachineId, Mark, Plan};
use super::machine::StateNode;
use super::object::{Entry, Key, Kind};
use super::snapshot::Snapshot;
use super::table::Moved;
use super::tables::{ALL_KINDS, Kept, Tables, Tracked, on_kind, on_object};
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Tells which claim a Node belongs to by what the platform wrote on it, before provider IDs agree (architecture §3.4).
pub type ClaimOfNode = Arc<dyn Fn(&Labels) -> Option<String> + Send + Sync>;

/// The state, with one owner.
pub struct Cluster {
    pub(super) tables: Tables,
    pub(super) index: Index,
    pub(super) ledger: Ledger,
    pub(super) claim_of_node: ClaimOfNode,
    awaited: BTreeSet<Source>,
    unserved: BTreeSet<Source>,
    machines: Arc<BTreeMap<MachineId, Arc<StateNode>>>,
    dirty: BTreeSet<MachineId>,
    revision: u64,
    moved_at: DateTime<Utc>,
    last: Option<Arc<Snapshot>>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// An empty state that is complete once each of `awaited` was listed or found unserved.
    pub fn new(awaited: impl IntoIterator<Item = Source>, claim_of_node: ClaimOfNode, now: DateTime<Utc>) -> Self {
        Self {
            tables: Tables::default(),
            index: Index::default(),
            ledger: Ledger::default(),
            claim_of_node,
            awaited: awaited.into_iter().collect(),
            unserved: BTreeSet::new(),
            machines: Arc::default(),
            dirty: BTreeSet::new(),
            revision: 0,
            moved_at: now,
            last: None,
        }
    }

    /// Applies what was observed; the changes are in the order in which they happened.
    pub fn observe(&mut self, delta: Delta, now: DateTime<Utc>) -> Vec<Change> {
        let mut changes = Vec::new();
        match delta {
            Delta::Applied(object) => on_object!(object, entry => self.apply_one(entry, now, &mut changes)),
            Delta::Deleted {
                kind,
                key,
                uid,
                version,
            } => on_kind!(kind, T => {
                let moved = self.tables.table_mut::<T>().delete(&source_of(kind, &key), &key, &uid, version);
                self.settle::<T>(moved, now, &mut changes);
            }),
            Delta::Listed {
                source,
                version,
                began,
                objects,
                unread,
            } => {
                on_kind!(source.kind, T => {
                    let listed = objects.into_iter().filter_map(T::unwrap).collect();
                    let moved = self.tables.table_mut::<T>().list(&source, version, began, listed, &unread);
                    self.settle_all::<T>(moved, now, &mut changes);
                });
                self.arrived(&source);
            }
            Delta::Bookmark { source, version } => {
                on_kind!(source.kind, T => self.tables.table_mut::<T>().bookmark(&source, version));
            }
            Delta::Unserved(source) => {
                on_kind!(source.kind, T => {
                    let moved = self.tables.table_mut::<T>().forget(&source);
                    self.settle_all::<T>(moved, now, &mut changes);
                });
                self.arrived(&source);
                self.unserved.insert(source);
            }
            Delta::Read {
                kind,
                key,
                began,
                found,
            } => on_kind!(kind, T => {
                let found = found.and_then(T::unwrap);
                let moved = self.tables.table_mut::<T>().read(&source_of(kind, &key), &key, began, found);
                self.settle::<T>(moved, now, &mut changes);
            }),
        }
        changes
    }

    /// Applies what one of our own writes lets us know.
    pub fn assume(&mut self, assumption: Assumption, now: DateTime<Utc>) -> Vec<Change> {
        let mut changes = Vec::new();
        match assumption {
            Assumption::Written(object) => on_object!(object, entry => self.assume_one(entry, now, &mut changes)),
            Assumption::Gone { kind, key, uid } => on_kind!(kind, T => {
                let moved = self.tables.table_mut::<T>().assume_gone(&key, &uid);
                self.settle::<T>(moved, now, &mut changes);
            }),
        }
        changes
    }

    /// Writes plans down: the pods are spoken for until they are bound or the machine dies. Plans for pods that are gone or bound, and for
    /// machines that nobody knows, are void from the start.
    pub fn plan(&mut self, plans: impl IntoIterator<Item = Plan>) {
        for plan in plans {
            let waits = self
                .tables
                .pods
                .get(&plan.pod)
                .is_some_and(|pod| pod.meta.uid == plan.uid && pod.node().is_none());
            if waits && self.knows(&plan.machine) {
                let before = self.ledger.plans().get(&plan.pod).map(|before| before.machine.clone());
                self.touch_machine(plan.machine.clone());
                if let Some(before) = before {
                    self.touch_machine(before);
                }
                self.ledger.plan(plan);
            }
        }
        self.move_on();
    }

    /// Protects a machine from disruption until then (lifecycle 16.6).
    pub fn nominate(&mut self, machine: MachineId, until: DateTime<Utc>) {
        if self.knows(&machine) {
            self.touch_machine(machine.clone());
            self.ledger.nominate(machine, until);
            self.move_on();
        }
    }

    /// Marks machines for deletion, or takes the mark back; this by itself does not renew the consolidation state (lifecycle 16.9).
    pub fn mark(&mut self, machines: impl IntoIterator<Item = MachineId>, mark: Mark) {
        for machine in machines {
            if self.knows(&machine) && self.ledger.mark(machine.clone(), mark) {
                self.touch_machine(machine);
                self.move_on();
            }
        }
    }

    /// Whether every initial list is in (the only global gate, architecture §3.4).
    pub fn is_complete(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Grows with every change that says anything.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The assumptions that somebody should read now; each comes up again if nothing is heard of it for as long.
    pub fn doubts(&mut self, now: DateTime<Utc>) -> Vec<Doubt> {
        self.tables.doubts(now)
    }

    /// Everything as it is now. Costs nothing when nothing moved since the last one.
    pub fn snapshot(&mut self) -> Arc<Snapshot> {
        if let Some(last) = &self.last {
            return Arc::clone(last);
        }
        self.assemble();
        let snapshot = Arc::new(Snapshot {
            revision: self.revision,
            complete: self.is_complete(),
            unserved: self.unserved.clone(),
            moved_at: self.moved_at,
            machines: Arc::clone(&self.machines),
            unbound: self.index.unbound(),
            daemons: self.index.daemons(),
            plans: self.ledger.plans(),
            objects: self.tables.entries(),
            volumes: OnceLock::new(),
        });
        self.last = Some(Arc::clone(&snapshot));
        snapshot
    }

    /// One pod, for triggers.
    pub fn pod(&self, key: &Key) -> Option<&Arc<PodEntry>> {
        self.tables.pods.get(key)
    }

    /// The objects, for triggers.
    pub fn objects(&self) -> super::tables::Objects {
        self.tables.entries()
    }

    /// Every object as if it had just appeared, kind by kind and in the order of their keys: for triggers that begin to listen late.
    pub fn everything(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        for kind in ALL_KINDS {
            on_kind!(kind, T => {
                for (key, entry) in self.tables.table_mut::<T>().entries().iter() {
                    let (key, uid) = (key.clone(), Arc::clone(&entry.meta.uid));
                    changes.push(Change { kind, key, uid, what: What::Appeared });
                }
            });
        }
        changes
    }

    /// The machine that a Node belongs to, for triggers.
    pub fn machine_of_node(&self, node: &str) -> Option<MachineId> {
        let entry = self.tables.nodes.get(&Key::cluster(node))?;
        Some(self.owner_of(entry).map_or_else(
            || MachineId::Node(node.into()),
            |claim| MachineId::Claim(Arc::clone(&claim.meta.key.name)),
        ))
    }

    fn apply_one<T: Tracked>(&mut self, entry: Arc<Entry<T>>, now: DateTime<Utc>, changes: &mut Vec<Change>) {
        let source = source_of(T::KIND, &entry.meta.key);
        let moved = self.tables.table_mut::<T>().apply(&source, entry);
        self.settle::<T>(moved, now, changes);
    }

    fn assume_one<T: Tracked>(&mut self, entry: Arc<Entry<T>>, now: DateTime<Utc>, changes: &mut Vec<Change>) {
        let source = source_of(T::KIND, &entry.meta.key);
        let moved = self.tables.table_mut::<T>().assume(&source, entry, now);
        self.settle::<T>(moved, now, changes);
    }

    fn settle_all<T: Tracked>(&mut self, moved: Vec<Moved<T>>, now: DateTime<Utc>, changes: &mut Vec<Change>) {
        for movement in moved {
            self.settle::<T>(Some(movement), now, changes);
        }
    }

    /// Follows up on a movement of one table: indexes, machines, consolidation state, changes.
    fn settle<T: Tracked>(&mut self, moved: Option<Moved<T>>, now: DateTime<Utc>, changes: &mut Vec<Change>) {
        let Some(moved) = moved else { return };
        self.last = None;
        let (old, new) = (moved.old.as_deref(), moved.new.as_deref());
        if let (Some(old), Some(new)) = (old, new)
            && old.meta.uid == new.meta.uid
            && old.meta.deleting == new.meta.deleting
            && T::says_the_same(&old.facts, &new.facts)
        {
            // Only the version moved, as by a heartbeat: readers get the newer entry, nobody is told.
            T::follow(self, &moved, now);
            return;
        }
        let renews = T::renews(self, &moved);
        T::follow(self, &moved, now);
        self.revision = self.revision.saturating_add(1);
        if renews {
            self.moved_at = now;
        }
        tell(&moved, changes);
    }

    pub(super) fn touch_machine(&mut self, machine: MachineId) {
        self.dirty.insert(machine);
        self.last = None;
    }

    fn move_on(&mut self) {
        self.revision = self.revision.saturating_add(1);
        self.last = None;
    }

    fn arrived(&mut self, source: &Source) {
        if self.awaited.remove(source) {
            self.move_on();
        }
    }

    fn knows(&self, machine: &MachineId) -> bool {
        match machine {
            MachineId::Claim(name) => self.tables.claims.get(&claim_key(name)).is_some(),
            MachineId::Node(name) => self.tables.nodes.get(&claim_key(name)).is_some(),
        }
    }

    fn assemble(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        if dirty.is_empty() {
            return;
        }
        let fresh: Vec<_> = dirty.into_iter().map(|id| (self.machine(&id), id)).collect();
        let machines = Arc::make_mut(&mut self.machines);
        for (machine, id) in fresh {
            match machine {
                Some(machine) => machines.insert(id, Arc::new(machine)),
                None => machines.remove(&id),
            };
        }
    }
}

/// The key of a cluster-scoped object of this name.
pub(super) fn claim_key(name: &Arc<str>) -> Key {
    Key {
        scope: Arc::default(),
        name: Arc::clone(name),
    }
}

/// Where an object of that kind and key is listed.
fn source_of(kind: Kind, key: &Key) -> Source {
    let class = if kind == Kind::NodeClass {
        Arc::clone(&key.scope)
    } else {
        Arc::default()
    };
    Source { kind, class }
}

/// Says what a movement was about.
fn tell<T: Tracked>(moved: &Moved<T>, changes: &mut Vec<Change>) {
    let mut say = |entry: &Entry<T>, what| {
        let (key, uid) = (entry.meta.key.clone(), Arc::clone(&entry.meta.uid));
        changes.push(Change {
            kind: T::KIND,
            key,
            uid,
            what,
        });
    };
    match (moved.old.as_deref(), moved.new.as_deref()) {
        (Some(old), Some(new)) if old.meta.uid != new.meta.uid => {
            say(old, What::Gone);
            say(new, What::Appeared);
        }
        (Some(old), Some(new)) if old.meta.deleting.is_none() && new.meta.deleting.is_some() => {
            say(new, What::Deleting);
        }
        (Some(old), Some(new)) => say(new, T::what(&old.facts, &new.facts)),
        (None, Some(new)) => say(new, What::Appeared),
        (Some(old), None) => say(old, What::Gone),
        (None, None) => {}
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
pub(super) mod tests;

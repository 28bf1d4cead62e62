//! What a movement of each kind brings with it: indexes, joins, the ledger, and whether it renews the consolidation state (lifecycle 16.9).
//!
//! Relies on the indexes; the state asks it for each movement.

use super::delta::What;
use super::entries::{ClaimEntry, CsiNodeFacts, DaemonSetFacts, NodeFacts, PodEntry, PodFacts};
use super::index::{add, take};
use super::ledger::MachineId;
use super::object::Entry;
use super::state::Cluster;
use super::table::Moved;
use super::tables::Tracked;
use crate::api::{Conditioned, NodeClaim, NodeOverlay, NodePool, conditions};
use chrono::{DateTime, Utc};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The object that held the name before, if it is not the one that holds it now.
fn ended<T>(moved: &Moved<T>) -> Option<&Arc<Entry<T>>> {
    let old = moved.old.as_ref()?;
    let goes_on = moved.new.as_ref().is_some_and(|new| new.meta.uid == old.meta.uid);
    (!goes_on).then_some(old)
}

impl Tracked for PodFacts {
    // A new version of a pod nearly always says something.
    fn says_the_same(_old: &Self, _new: &Self) -> bool {
        false
    }

    fn what(old: &Self, new: &Self) -> What {
        if !old.is_terminal() && new.is_terminal() {
            What::Ended
        } else if new.node().is_some() && old.node() != new.node() {
            What::Bound
        } else {
            What::Changed
        }
    }

    fn renews(_cluster: &Cluster, moved: &Moved<Self>) -> bool {
        let node = |pod: &Option<Arc<PodEntry>>| pod.as_ref().and_then(|pod| pod.node().map(str::to_owned));
        let bound = moved.new.as_ref().is_some_and(|pod| !pod.is_terminal())
            && node(&moved.new).is_some()
            && node(&moved.old) != node(&moved.new);
        bound || ended(moved).is_some()
    }

    fn follow(cluster: &mut Cluster, moved: &Moved<Self>, _now: DateTime<Utc>) {
        if let Some(old) = &moved.old {
            cluster.index.drop_pod(old);
        }
        if let Some(new) = &moved.new {
            cluster.index.put_pod(new);
            cluster.index.show_daemon(new);
        }
        let waits = moved
            .new
            .as_ref()
            .is_some_and(|pod| pod.node().is_none() && !pod.is_terminal());
        let key = moved
            .new
            .as_ref()
            .or(moved.old.as_ref())
            .map(|pod| pod.meta.key.clone());
        if let Some(key) = key.filter(|_| !waits || ended(moved).is_some())
            && let Some(machine) = cluster.ledger.forget_pod(&key)
        {
            cluster.touch_machine(machine);
        }
        let nodes: BTreeSet<String> = [&moved.old, &moved.new]
            .into_iter()
            .flatten()
            .filter_map(|pod| pod.node().map(str::to_owned))
            .collect();
        for node in nodes {
            cluster.touch_node(&node);
        }
    }
}

impl Tracked for NodeFacts {
    fn says_the_same(old: &Self, new: &Self) -> bool {
        old == new
    }

    fn renews(_cluster: &Cluster, moved: &Moved<Self>) -> bool {
        match (&moved.old, &moved.new) {
            (Some(old), Some(new)) => {
                old.meta.uid != new.meta.uid
                    || old.is_initialized() != new.is_initialized()
                    || old.is_deleting() != new.is_deleting()
            }
            _ => true,
        }
    }

    fn follow(cluster: &mut Cluster, moved: &Moved<Self>, _now: DateTime<Utc>) {
        let mut todo = Vec::new();
        if let Some(old) = &moved.old {
            todo.push(MachineId::Node(Arc::clone(&old.meta.key.name)));
            todo.extend(cluster.around_node(old));
            if let Some(uid) = (cluster.claim_of_node)(&old.facts.labels) {
                take(&mut cluster.index.nodes_by_claim_uid, &uid, &old.meta.key.name);
            }
            if let Some(id) = &old.provider_id {
                take(&mut cluster.index.nodes_by_provider_id, id, &old.meta.key.name);
            }
        }
        if let Some(new) = &moved.new {
            todo.push(MachineId::Node(Arc::clone(&new.meta.key.name)));
            if let Some(uid) = (cluster.claim_of_node)(&new.facts.labels) {
                add(&mut cluster.index.nodes_by_claim_uid, &uid, &new.meta.key.name);
            }
            if let Some(id) = &new.provider_id {
                add(&mut cluster.index.nodes_by_provider_id, id, &new.meta.key.name);
            }
        }
        if let Some(gone) = ended(moved) {
            cluster
                .ledger
                .forget_machine(&MachineId::Node(Arc::clone(&gone.meta.key.name)));
        }
        cluster.touch_around(todo);
    }
}

impl Tracked for NodeClaim {
    // Its metadata holds its version, so two versions always differ.
    fn says_the_same(_old: &Self, _new: &Self) -> bool {
        false
    }

    fn renews(_cluster: &Cluster, moved: &Moved<Self>) -> bool {
        let leaves = |claim: &ClaimEntry| claim.is_deleting() || claim.facts.is_true(conditions::INSTANCE_TERMINATING);
        match (&moved.old, &moved.new) {
            (Some(old), Some(new)) => old.meta.uid != new.meta.uid || leaves(old) != leaves(new),
            _ => true,
        }
    }

    fn follow(cluster: &mut Cluster, moved: &Moved<Self>, _now: DateTime<Utc>) {
        let mut todo = Vec::new();
        if let Some(old) = &moved.old {
            todo.push(MachineId::Claim(Arc::clone(&old.meta.key.name)));
            todo.extend(cluster.around_claim(old));
            cluster.index.claims_by_uid.remove(&old.meta.uid);
            if let Some(id) = old.provider_id() {
                take(&mut cluster.index.claims_by_provider_id, id, &old.meta.key.name);
            }
        }
        if let Some(new) = &moved.new {
            todo.push(MachineId::Claim(Arc::clone(&new.meta.key.name)));
            cluster
                .index
                .claims_by_uid
                .insert(Arc::clone(&new.meta.uid), Arc::clone(&new.meta.key.name));
            if let Some(id) = new.provider_id() {
                add(&mut cluster.index.claims_by_provider_id, id, &new.meta.key.name);
            }
        }
        if let Some(gone) = ended(moved) {
            cluster
                .ledger
                .forget_machine(&MachineId::Claim(Arc::clone(&gone.meta.key.name)));
        }
        cluster.touch_around(todo);
    }
}

impl Tracked for NodePool {
    fn says_the_same(_old: &Self, _new: &Self) -> bool {
        false
    }

    fn renews(_cluster: &Cluster, moved: &Moved<Self>) -> bool {
        let generation = |pool: &Option<Arc<Entry<Self>>>| pool.as_ref().map(|pool| pool.metadata.generation);
        generation(&moved.old) != generation(&moved.new)
    }
}

impl Tracked for NodeOverlay {
    fn says_the_same(old: &Self, new: &Self) -> bool {
        old == new
    }

    /// Its spec changes prices, and its status tells that the change holds.
    fn renews(_cluster: &Cluster, _moved: &Moved<Self>) -> bool {
        true
    }
}

impl Tracked for DaemonSetFacts {
    fn says_the_same(_old: &Self, _new: &Self) -> bool {
        false
    }

    fn follow(cluster: &mut Cluster, moved: &Moved<Self>, _now: DateTime<Utc>) {
        if let Some(gone) = ended(moved) {
            Arc::make_mut(&mut cluster.index.daemons).remove(&gone.meta.key);
        }
    }
}

impl Tracked for CsiNodeFacts {
    fn says_the_same(old: &Self, new: &Self) -> bool {
        old == new
    }

    fn follow(cluster: &mut Cluster, moved: &Moved<Self>, _now: DateTime<Utc>) {
        let name = moved
            .new
            .as_ref()
            .or(moved.old.as_ref())
            .map(|entry| Arc::clone(&entry.meta.key.name));
        if let Some(name) = name {
            cluster.touch_node(&name);
        }
    }
}

//! Everything that is known at one moment, for whoever decides; cheap to hold and to clone.
//!
//! Relies on the state that made it and never changes. Controllers ask the cluster task for one, decide on it, and carry its revision.

use super::delta::Source;
use super::entries::{ClaimEntry, NodeEntry, PodEntry, PoolEntry, VolumeAttachmentEntry};
use super::index::Pods;
use super::ledger::{MachineId, Plan, Plans};
use super::machine::StateNode;
use super::object::Key;
use super::tables::Objects;
use crate::resources::ResourceList;
use crate::scheduling::volumes::Volumes;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

/// The consolidation state renews itself when it is this old (lifecycle 16.9).
const CONSOLIDATION_RENEWAL: TimeDelta = TimeDelta::minutes(5);

/// Everything that is known at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Grows with every change that says anything.
    pub revision: u64,
    /// Whether every initial list is in: before that nothing may be decided.
    pub complete: bool,
    /// Optional kinds that are not served or not permitted.
    pub unserved: BTreeSet<Source>,
    /// When something last changed that consolidation would look at (lifecycle 16.9).
    pub moved_at: DateTime<Utc>,
    /// Every machine, joined: claims without Node, Nodes without claim, and both in one.
    pub machines: Arc<BTreeMap<MachineId, Arc<StateNode>>>,
    /// Pods without node that have not ended.
    pub unbound: Pods,
    /// The newest pod of each DaemonSet, by the set's key (lifecycle 16.12).
    pub daemons: Pods,
    /// Pods that are spoken for, and by which machine.
    pub plans: Plans,
    /// The objects of every kind, as they were read.
    pub objects: Objects,
    pub(super) volumes: OnceLock<Arc<Volumes>>,
}

/// What the machines of a NodePool add up to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PoolTotals {
    /// Capacity of the machines that are not marked for deletion, `nodes` included (lifecycle 16.7).
    pub resources: ResourceList,
    /// Claims among them that have no type yet, so that their capacity is not in the sum: limits count them at the maximum of their types.
    pub unresolved: Vec<Arc<ClaimEntry>>,
}

/// The claims of a NodePool by what becomes of them (lifecycle 16.10).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolClaims {
    /// Names of those that stay.
    pub active: BTreeSet<Arc<str>>,
    /// Names of those that go.
    pub deleting: BTreeSet<Arc<str>>,
}

impl Snapshot {
    /// One NodePool.
    pub fn pool(&self, name: &str) -> Option<&Arc<PoolEntry>> {
        self.objects.pools.get(&Key::cluster(name))
    }

    /// One NodeClaim.
    pub fn claim(&self, name: &str) -> Option<&Arc<ClaimEntry>> {
        self.objects.claims.get(&Key::cluster(name))
    }

    /// One Node.
    pub fn node(&self, name: &str) -> Option<&Arc<NodeEntry>> {
        self.objects.nodes.get(&Key::cluster(name))
    }

    /// One Pod.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&Arc<PodEntry>> {
        self.objects.pods.get(&Key::namespaced(namespace, name))
    }

    /// One machine.
    pub fn machine(&self, id: &MachineId) -> Option<&Arc<StateNode>> {
        self.machines.get(id)
    }

    /// The machine of a claim.
    pub fn machine_of_claim(&self, claim: &str) -> Option<&Arc<StateNode>> {
        self.machines.get(&MachineId::Claim(claim.into()))
    }

    /// The machine that a Node is (part of).
    pub fn machine_of_node(&self, node: &str) -> Option<&Arc<StateNode>> {
        let is_it = |machine: &&Arc<StateNode>| machine.node.as_ref().is_some_and(|known| known.name() == node);
        self.machines
            .get(&MachineId::Node(node.into()))
            .or_else(|| self.machines.values().find(is_it))
    }

    /// Pods that wait for a machine we could get (scheduling 3-1), spoken for or not, in order of their keys.
    pub fn provisionable(&self) -> impl Iterator<Item = &Arc<PodEntry>> {
        self.unbound.values().filter(|pod| pod.is_provisionable())
    }

    /// Where a pod is planned, if it still is the pod that the plan was made for.
    pub fn plan_of(&self, pod: &PodEntry) -> Option<&Plan> {
        self.plans.get(&pod.meta.key).filter(|plan| plan.uid == pod.meta.uid)
    }

    /// VolumeAttachments of a node (lifecycle 13.8).
    pub fn attachments_of<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Arc<VolumeAttachmentEntry>> {
        self.objects
            .attachments
            .values()
            .filter(move |attachment| &*attachment.facts.node == node)
    }

    /// What the machines of each NodePool add up to (lifecycle 16.7, architecture §3.4).
    pub fn totals(&self) -> BTreeMap<String, PoolTotals> {
        let mut totals: BTreeMap<String, PoolTotals> = BTreeMap::new();
        for machine in self
            .machines
            .values()
            .filter(|machine| !machine.is_marked_for_deletion())
        {
            let Some(pool) = machine.nodepool() else { continue };
            let total = totals.entry(pool.to_owned()).or_default();
            total.resources.add(&machine.capacity());
            if !machine.is_resolved() {
                total.unresolved.extend(machine.claim.iter().map(Arc::clone));
            }
        }
        totals
    }

    /// The claims of each NodePool (lifecycle 16.10); claims without the label are not counted.
    pub fn claims_by_pool(&self) -> BTreeMap<String, PoolClaims> {
        let mut pools: BTreeMap<String, PoolClaims> = BTreeMap::new();
        for machine in self.machines.values() {
            let Some(claim) = &machine.claim else { continue };
            let Some(pool) = claim.nodepool() else { continue };
            let claims = pools.entry(pool.to_owned()).or_default();
            let set = if machine.is_marked_for_deletion() {
                &mut claims.deleting
            } else {
                &mut claims.active
            };
            set.insert(Arc::clone(&claim.meta.key.name));
        }
        pools
    }

    /// The consolidation state (lifecycle 16.9): equal stamps mean that nothing changed that consolidation would look at.
    ///
    /// Differs: upstream renews the stamp at the first reading after five minutes; here it renews at every full five minutes since the change,
    /// so that it depends on the state and the time alone.
    pub fn consolidation_state(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        let renewal = CONSOLIDATION_RENEWAL.num_milliseconds();
        let age = now.signed_duration_since(self.moved_at).num_milliseconds().max(0);
        let renewals = TimeDelta::try_milliseconds(age - age % renewal).unwrap_or_default();
        self.moved_at.checked_add_signed(renewals).unwrap_or(self.moved_at)
    }
}

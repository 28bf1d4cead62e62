//! Who belongs to whom: pods to nodes, daemon pods to their sets, Nodes to NodeClaims (by UID first, by provider ID second; architecture §3.4).
//!
//! ```text
//! Node ──label or pool name (the provider's word)──▶ claim UID ──▶ NodeClaim          first
//! Node ──spec.providerID ═ status.providerID──▶ NodeClaim                              second
//! ```
//!
//! A Node has at most one owner and a claim at most one Node, so no machine is counted twice whichever order things come in. Relies on the tables;
//! the state calls it for each movement.

use super::entries::{ClaimEntry, NodeEntry, NodeFacts, PodEntry};
use super::ledger::MachineId;
use super::machine::StateNode;
use super::object::Key;
use super::state::{Cluster, claim_key};
use crate::api::labels;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

/// Pods by key; copies share.
pub type Pods = Arc<BTreeMap<Key, Arc<PodEntry>>>;

/// The pods of a machine by key: what a machine holds is what the index holds, and a change makes it anew.
pub(super) type BoundPods = Arc<[Arc<PodEntry>]>;

type Name = Arc<str>;
type Names = BTreeSet<Name>;

/// The relations.
#[derive(Debug, Default)]
pub struct Index {
    pods_by_node: BTreeMap<Name, BoundPods>,
    pub(super) unbound: Pods,
    pub(super) daemons: Pods,
    pub(super) claims_by_uid: BTreeMap<Name, Name>,
    pub(super) claims_by_provider_id: BTreeMap<Name, Names>,
    pub(super) nodes_by_claim_uid: BTreeMap<Name, Names>,
    pub(super) nodes_by_provider_id: BTreeMap<Name, Names>,
}

impl Index {
    /// Pods without node that have not ended.
    pub fn unbound(&self) -> Pods {
        Arc::clone(&self.unbound)
    }

    /// The newest pod of each DaemonSet, by the set's key (lifecycle 16.12).
    pub fn daemons(&self) -> Pods {
        Arc::clone(&self.daemons)
    }

    pub(super) fn drop_pod(&mut self, pod: &PodEntry) {
        if let Some(node) = pod.node() {
            if let Some(pods) = self.pods_by_node.get_mut(node) {
                *pods = without(pods, &pod.meta.key).cloned().collect();
                if pods.is_empty() {
                    self.pods_by_node.remove(node);
                }
            }
        } else if self.unbound.contains_key(&pod.meta.key) {
            Arc::make_mut(&mut self.unbound).remove(&pod.meta.key);
        }
    }

    pub(super) fn put_pod(&mut self, pod: &Arc<PodEntry>) {
        if pod.is_terminal() {
            return;
        }
        match &pod.pod.standing.node {
            Some(node) if !node.is_empty() => {
                let pods = self.pods_by_node.entry(Arc::clone(node)).or_default();
                let mut all: Vec<_> = without(pods, &pod.meta.key).cloned().collect();
                let place = all.partition_point(|other| other.meta.key < pod.meta.key);
                all.insert(place, Arc::clone(pod));
                *pods = all.into();
            }
            Some(_) | None => {
                Arc::make_mut(&mut self.unbound).insert(pod.meta.key.clone(), Arc::clone(pod));
            }
        }
    }

    /// Takes the pod as its DaemonSet's example if it is the newest (lifecycle 16.12); none known is better than an older one.
    pub(super) fn show_daemon(&mut self, pod: &Arc<PodEntry>) {
        let Some(owner) = pod.daemon_set() else { return };
        let set = Key {
            scope: Arc::clone(&pod.meta.key.scope),
            name: Arc::clone(&owner.name),
        };
        let rank = |pod: &PodEntry| (pod.meta.created, Arc::clone(&pod.meta.key.name));
        let is_newest = self
            .daemons
            .get(&set)
            .is_none_or(|known| known.meta.key == pod.meta.key || rank(known) <= rank(pod));
        if is_newest {
            Arc::make_mut(&mut self.daemons).insert(set, Arc::clone(pod));
        }
    }
}

/// The pods but the one of this key.
fn without<'a>(pods: &'a [Arc<PodEntry>], key: &'a Key) -> impl Iterator<Item = &'a Arc<PodEntry>> {
    pods.iter().filter(move |pod| pod.meta.key != *key)
}

pub(super) fn add(map: &mut BTreeMap<Name, Names>, key: &str, name: &Name) {
    map.entry(key.into()).or_default().insert(Arc::clone(name));
}

pub(super) fn take(map: &mut BTreeMap<Name, Names>, key: &str, name: &Name) {
    if let Some(names) = map.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            map.remove(key);
        }
    }
}

impl Cluster {
    /// The claim that a Node belongs to.
    pub(super) fn owner_of(&self, node: &NodeEntry) -> Option<&Arc<ClaimEntry>> {
        let uid = (self.claim_of_node)(&node.facts.labels);
        let by_uid = uid.and_then(|uid| self.index.claims_by_uid.get(uid.as_str()));
        let by_id = || {
            let claims = self.index.claims_by_provider_id.get(node.provider_id.as_deref()?)?;
            claims.first()
        };
        self.tables.claims.get(&claim_key(by_uid.or_else(by_id)?))
    }

    /// The Node of a claim: of several the one that the claim names, else that of its provider ID, else the oldest.
    fn node_of(&self, claim: &ClaimEntry) -> Option<&Arc<NodeEntry>> {
        let by_uid = self.index.nodes_by_claim_uid.get(&claim.meta.uid);
        let by_id = claim
            .provider_id()
            .and_then(|id| self.index.nodes_by_provider_id.get(id));
        let names = by_uid.into_iter().chain(by_id).flatten();
        let nodes = names.filter_map(|name| self.tables.nodes.get(&claim_key(name)));
        let own = nodes.filter(|node| {
            self.owner_of(node)
                .is_some_and(|owner| owner.meta.uid == claim.meta.uid)
        });
        own.min_by_key(|node| {
            let named = claim.node_name() == Some(node.name());
            let identified = claim.provider_id().is_some() && claim.provider_id() == node.provider_id.as_deref();
            (!named, !identified, node.meta.created, Arc::clone(&node.meta.key.name))
        })
    }

    /// Puts one machine together; `None` if there is none of this identity.
    pub(super) fn machine(&self, id: &MachineId) -> Option<StateNode> {
        let (claim, node) = match id {
            MachineId::Claim(name) => {
                let claim = self.tables.claims.get(&claim_key(name))?;
                (Some(Arc::clone(claim)), self.node_of(claim).map(Arc::clone))
            }
            MachineId::Node(name) => {
                let node = self.tables.nodes.get(&claim_key(name))?;
                let joined = self.owner_of(node).and_then(|claim| self.node_of(claim));
                if joined.is_some_and(|joined| joined.meta.key == node.meta.key) || is_premature(node) {
                    return None;
                }
                (None, Some(Arc::clone(node)))
            }
        };
        let bound = node
            .as_ref()
            .and_then(|node| self.index.pods_by_node.get(&node.meta.key.name));
        let limits = node.as_ref().and_then(|node| self.tables.csi_nodes.get(&node.meta.key));
        Some(StateNode {
            id: id.clone(),
            claim,
            pods: bound.cloned().unwrap_or_default(),
            planned: self.ledger.planned_on(id).cloned().collect(),
            marked: self.ledger.is_marked(id),
            nominated_until: self.ledger.nominated_until(id),
            volume_limits: limits.map(|entry| Arc::clone(&entry.facts.limits)).unwrap_or_default(),
            view: OnceLock::new(),
            node,
        })
    }

    pub(super) fn around_node(&self, node: &NodeEntry) -> Vec<MachineId> {
        let uid = (self.claim_of_node)(&node.facts.labels);
        let by_uid = uid.and_then(|uid| self.index.claims_by_uid.get(uid.as_str()));
        let by_id = node
            .provider_id
            .as_deref()
            .and_then(|id| self.index.claims_by_provider_id.get(id));
        by_uid
            .into_iter()
            .chain(by_id.into_iter().flatten())
            .map(|name| MachineId::Claim(Arc::clone(name)))
            .collect()
    }

    pub(super) fn around_claim(&self, claim: &ClaimEntry) -> Vec<MachineId> {
        let by_uid = self.index.nodes_by_claim_uid.get(&claim.meta.uid);
        let by_id = claim
            .provider_id()
            .and_then(|id| self.index.nodes_by_provider_id.get(id));
        let names = by_uid.into_iter().chain(by_id).flatten();
        names.map(|name| MachineId::Node(Arc::clone(name))).collect()
    }

    /// Touches these machines and all that could be joined differently because of them.
    pub(super) fn touch_around(&mut self, mut todo: Vec<MachineId>) {
        let mut seen = BTreeSet::new();
        while let Some(id) = todo.pop() {
            if !seen.insert(id.clone()) {
                continue;
            }
            match &id {
                MachineId::Claim(name) => {
                    let claim = self.tables.claims.get(&claim_key(name));
                    todo.extend(claim.map(|claim| self.around_claim(claim)).unwrap_or_default());
                }
                MachineId::Node(name) => {
                    let node = self.tables.nodes.get(&claim_key(name));
                    todo.extend(node.map(|node| self.around_node(node)).unwrap_or_default());
                }
            }
            self.touch_machine(id);
        }
    }

    /// Something on a Node changed that cannot change who owns it.
    pub(super) fn touch_node(&mut self, name: &str) {
        let owner = self
            .tables
            .nodes
            .get(&Key::cluster(name))
            .and_then(|node| self.owner_of(node));
        if let Some(owner) = owner.map(|claim| Arc::clone(&claim.meta.key.name)) {
            self.touch_machine(MachineId::Claim(owner));
        }
        self.touch_machine(MachineId::Node(name.into()));
    }
}

/// A Node of ours that nobody can tell much about yet: no provider ID, or neither type nor initialization (lifecycle 16.2). Its claim stands for
/// it meanwhile.
fn is_premature(node: &NodeFacts) -> bool {
    let ours = node.label(labels::NODEPOOL).is_some();
    let untyped = node.label(labels::INSTANCE_TYPE).is_none() && !node.is_initialized();
    ours && (node.provider_id.is_none() || untyped)
}

//! Which machines could be disrupted at all, and why the others could not (disruption 2).
//!
//! Every machine is held against the same list of reasons in a fixed order; the first that applies is told to the owner. Relies on a snapshot in
//! which every initial list is in. Called by the disruption loop and again by validation.

use super::cost;
use super::method::Class;
use super::pdb::{Guards, Hold};
use crate::api::{Conditioned, conditions, labels};
use crate::cluster::entries::{ClaimEntry, NodeEntry, PodEntry, PoolEntry};
use crate::cluster::{Key, MachineId, Snapshot, StateNode};
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A machine that could go.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The machine.
    pub machine: Arc<StateNode>,
    /// Its claim.
    pub claim: Arc<ClaimEntry>,
    /// Its node.
    pub node: Arc<NodeEntry>,
    /// Its pool.
    pub pool: Arc<PoolEntry>,
    /// Pods that would come back somewhere else.
    pub reschedulable: Vec<Arc<PodEntry>>,
    /// What it costs to take the node away (disruption 2.4).
    pub cost: f64,
}

impl Candidate {
    /// The name of its pool.
    pub fn pool_name(&self) -> &str {
        self.pool.name()
    }

    /// Whether the claim's condition is True.
    pub fn is_true(&self, condition: &str) -> bool {
        self.claim.facts.is_true(condition)
    }

    /// Whether both mean the same machine, not a successor of the same name.
    pub fn is_same(&self, other: &Self) -> bool {
        self.claim.meta.uid == other.claim.meta.uid && self.node.meta.uid == other.node.meta.uid
    }
}

/// Why a machine is no candidate (disruption 2.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A command for it is under way.
    UnderWay,
    /// It has no NodeClaim: it is not ours.
    NotOurs,
    /// The claim has no node.
    NoNode,
    /// The node is not initialized.
    NotInitialized,
    /// It is going already.
    GoingAway,
    /// Pods were promised to it a moment ago.
    Nominated,
    /// The node's own annotation forbids it.
    Annotated,
    /// It belongs to no pool.
    NoPoolLabel,
    /// Its pool is gone or has no instance types.
    PoolUnknown(String),
    /// A pod's annotation forbids it.
    PodProtected(Key),
    /// Eviction of one of its pods would be refused.
    Held(Hold),
}

impl Refusal {
    /// In words, for the owner; nothing where there is nothing to tell.
    pub fn message(&self) -> Option<String> {
        Some(match self {
            Self::UnderWay | Self::NotOurs => return None,
            Self::NoNode => "Nodeclaim does not have an associated node".to_owned(),
            Self::NotInitialized => "Node isn't initialized".to_owned(),
            Self::GoingAway => "Node is deleting or marked for deletion".to_owned(),
            Self::Nominated => "Node is nominated for a pending pod".to_owned(),
            Self::Annotated => format!(
                "Disruption is blocked through the {:?} annotation",
                labels::DO_NOT_DISRUPT_ANNOTATION
            ),
            Self::NoPoolLabel => format!("Node doesn't have required label (label={})", labels::NODEPOOL),
            Self::PoolUnknown(pool) => format!("NodePool not found (NodePool={pool})"),
            Self::PodProtected(pod) => {
                format!("Pod has {:?} annotation (Pod={pod})", labels::DO_NOT_DISRUPT_ANNOTATION)
            }
            Self::Held(Hold::Exhausted(budget)) => {
                format!("Pdb prevents pod evictions (PodDisruptionBudget=[{budget}])")
            }
            Self::Held(Hold::SeveralBudgets(budgets)) => {
                let names: Vec<String> = budgets.iter().map(ToString::to_string).collect();
                format!(
                    "Eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{}])",
                    names.join(" ")
                )
            }
        })
    }

    /// Whether waiting alone may lift it, without anything changing in the cluster.
    pub const fn passes_with_time(&self) -> bool {
        matches!(self, Self::Nominated | Self::PodProtected(_) | Self::PoolUnknown(_))
    }
}

/// What a look at the machines rests on.
#[derive(Debug)]
pub struct Look<'a> {
    /// The cluster.
    pub snapshot: &'a Snapshot,
    /// What PodDisruptionBudgets say.
    pub guards: Guards,
    /// Pools that are ours and have instance types (disruption 2.1).
    pub pools: &'a BTreeMap<String, Arc<PoolEntry>>,
    /// Machines that a command is under way for.
    pub busy: &'a BTreeSet<MachineId>,
    /// The present instant.
    pub now: DateTime<Utc>,
}

/// A machine with its refusal.
#[derive(Debug, Clone)]
pub struct Refused {
    /// The machine.
    pub machine: Arc<StateNode>,
    /// Why not.
    pub why: Refusal,
}

impl Look<'_> {
    /// All machines, parted into those that could go and the others.
    pub fn candidates(&self, class: Class) -> (Vec<Candidate>, Vec<Refused>) {
        let (mut candidates, mut refused) = (Vec::new(), Vec::new());
        for machine in self.snapshot.machines.values() {
            match self.candidate(machine, class) {
                Ok(candidate) => candidates.push(candidate),
                Err(why) => refused.push(Refused {
                    machine: Arc::clone(machine),
                    why,
                }),
            }
        }
        (candidates, refused)
    }

    /// One machine.
    pub fn candidate(&self, machine: &Arc<StateNode>, class: Class) -> Result<Candidate, Refusal> {
        if self.busy.contains(&machine.id) {
            return Err(Refusal::UnderWay);
        }
        let claim = machine.claim.as_ref().ok_or(Refusal::NotOurs)?;
        let node = machine.node.as_ref().ok_or(Refusal::NoNode)?;
        if !machine.is_initialized() {
            return Err(Refusal::NotInitialized);
        }
        if machine.is_marked_for_deletion() {
            return Err(Refusal::GoingAway);
        }
        if machine.is_nominated(self.now) {
            return Err(Refusal::Nominated);
        }
        let annotation = machine.annotations().get(labels::DO_NOT_DISRUPT_ANNOTATION);
        if annotation.is_some_and(|value| value == "true") {
            return Err(Refusal::Annotated);
        }
        let name = machine.nodepool().ok_or(Refusal::NoPoolLabel)?;
        let pool = self
            .pools
            .get(name)
            .ok_or_else(|| Refusal::PoolUnknown(name.to_owned()))?;
        if let Some(refusal) = self.held_by_pods(machine)
            && !is_bounded(claim, class)
        {
            return Err(refusal);
        }
        let reschedulable = machine.pods.iter().filter(|pod| pod.pod.standing.is_reschedulable());
        Ok(Candidate {
            reschedulable: reschedulable.map(Arc::clone).collect(),
            cost: self.cost(machine, claim),
            machine: Arc::clone(machine),
            claim: Arc::clone(claim),
            node: Arc::clone(node),
            pool: Arc::clone(pool),
        })
    }

    fn held_by_pods(&self, machine: &StateNode) -> Option<Refusal> {
        let protected = machine
            .pods
            .iter()
            .find(|pod| !pod.pod.standing.is_disruptable(self.now));
        if let Some(pod) = protected {
            return Some(Refusal::PodProtected(pod.meta.key.clone()));
        }
        machine
            .pods
            .iter()
            .find_map(|pod| self.guards.hold(pod, self.now))
            .map(Refusal::Held)
    }

    fn cost(&self, machine: &StateNode, claim: &ClaimEntry) -> f64 {
        let age = claim
            .meta
            .created
            .map(|created| self.now.signed_duration_since(created))
            .unwrap_or_default();
        let life = claim
            .spec
            .expire_after
            .value()
            .map(crate::api::GoDuration::as_time_delta);
        let remaining = cost::lifetime_remaining(life, age);
        let of_pod = |pod: &Arc<PodEntry>| {
            let standing = &pod.pod.standing;
            cost::eviction_cost(
                cost::deletion_cost(standing.deletion_cost.as_deref()),
                standing.priority,
            )
        };
        machine.pods.iter().map(of_pod).sum::<f64>() * remaining
    }
}

/// Whether the node would go in bounded time whatever its pods say (disruption 1.7).
fn is_bounded(claim: &ClaimEntry, class: Class) -> bool {
    class == Class::Eventual && claim.spec.termination_grace_period.is_some()
}

/// Whether the machine counts as a node of its pool for budgets (disruption 4.5).
pub(super) fn counts(machine: &StateNode) -> bool {
    let terminating = |claim: &Arc<ClaimEntry>| claim.facts.is_true(conditions::INSTANCE_TERMINATING);
    machine.is_initialized() && machine.claim.as_ref().is_some_and(|claim| !terminating(claim))
}

#[cfg(test)]
#[path = "candidate_tests.rs"]
mod tests;

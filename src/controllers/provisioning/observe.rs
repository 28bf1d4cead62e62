//! The question of a provisioning pass: which pods, which pools, which machines (scheduling 2-2, 2-3). PURE but for asking the provider.
//!
//! Differs: upstream schedules nothing while any claim lacks a provider ID; here a claim takes part as soon as its order is placed, and one
//! without a type yet holds the pods that the ledger promised it and counts against limits at the largest of its types (architecture §3.4). What it
//! was asked for beyond those pods it takes: after a restart, and for pods of machines that leave, the ledger knows nothing, and without this the
//! same pods would get a second claim.

use super::doubts::Held;
use crate::api::{Conditioned, NodePool, Operator, conditions};
use crate::cloud::CloudError;
use crate::cluster::entries::{ClaimEntry, PodEntry, PoolEntry};
use crate::cluster::{MachineId, Snapshot, StateNode};
use crate::controllers::{Arrival, Arrivals, Kit};
use crate::resources::{Quantity, ResourceList, names};
use crate::scheduling::pdb::{Budget, is_currently_reschedulable};
use crate::scheduling::validation::{InvalidPod, asks_for_overwritten, validate_pod};
use crate::scheduling::{
    Fate, InstanceType, Node, Ownership, Pod, Pool, Problem, Promises, Readiness, Requirements, Taint, WellKnownLabels,
};
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a pass is about.
pub(super) struct Question {
    /// For the solver.
    pub(super) problem: Problem,
    /// The NodePools behind [`Problem::pools`], by name.
    pub(super) pools: BTreeMap<String, Arc<PoolEntry>>,
    /// Machines behind [`Problem::nodes`], in the same order; none for a claim of which it is not known whether it exists.
    pub(super) machines: Vec<Option<MachineId>>,
    /// Which of these machines the ledger promises to which pods.
    pub(super) promises: Promises,
    /// Pods that cannot be tried, and why.
    pub(super) invalid: Vec<(Arc<PodEntry>, Vec<InvalidPod>)>,
    /// How many pods of the problem are pending; the rest come from machines that leave.
    pub(super) pending: usize,
}

/// The pods of a pass (scheduling 2-2.2, 2-2.3).
pub(super) struct Wanted {
    /// Valid pending pods, then pods of machines that leave.
    pub(super) pods: Vec<Arc<Pod>>,
    /// How many of them are pending.
    pub(super) pending: usize,
    pub(super) invalid: Vec<(Arc<PodEntry>, Vec<InvalidPod>)>,
}

/// What pods may ask for by label.
pub(super) struct Labels<'a> {
    pub(super) well_known: &'a WellKnownLabels,
    /// Not these: no node keeps what its claim says of them.
    pub(super) overwritten: &'a [&'static str],
    /// Pods, by UID, that are ruled out by labels of nodes that were created for them.
    pub(super) ruled_out: BTreeMap<Arc<str>, InvalidPod>,
}

/// Chooses the pods. A pod that is promised to a live claim without a type, or for which a create is in doubt, waits and is not placed again.
pub(super) fn wanted(snapshot: &Snapshot, held: &Held, labels: &Labels<'_>, now: DateTime<Utc>) -> Wanted {
    let volumes = snapshot.volumes_for_scheduling();
    let mut wanted = Wanted {
        pods: Vec::new(),
        pending: 0,
        invalid: Vec::new(),
    };
    let waits = |pod: &&Arc<PodEntry>| held.pods.contains(pod.uid()) || is_promised(snapshot, pod);
    for pod in snapshot.provisionable().filter(|pod| !waits(pod)) {
        let mut findings = validate_pod(&pod.pod, &volumes, labels.well_known);
        findings.extend(asks_for_overwritten(&pod.pod, labels.overwritten));
        findings.extend(labels.ruled_out.get(&pod.pod.uid).cloned());
        if findings.is_empty() {
            wanted.pods.push(Arc::clone(&pod.pod));
        } else {
            wanted.invalid.push((Arc::clone(pod), findings));
        }
    }
    wanted.pending = wanted.pods.len();
    let budgets: Vec<Budget> = snapshot
        .objects
        .pdbs
        .values()
        .map(|budget| budget.placement.clone())
        .collect();
    let leaving = snapshot
        .machines
        .values()
        .filter(|machine| machine.is_marked_for_deletion());
    let leaving = leaving.flat_map(|machine| machine.pods.iter());
    for pod in leaving.filter(|pod| !held.pods.contains(pod.uid())) {
        if is_currently_reschedulable(&pod.pod, &budgets, now) {
            wanted.pods.push(Arc::clone(&pod.pod));
        }
    }
    wanted
}

fn is_promised(snapshot: &Snapshot, pod: &PodEntry) -> bool {
    let plan = snapshot.plan_of(pod);
    let machine = plan.and_then(|plan| snapshot.machine(&plan.machine));
    machine.is_some_and(|machine| !machine.is_resolved() && !machine.is_marked_for_deletion())
}

/// The pools that may open claims: ours, dynamic, ready, not being deleted (scheduling 2-3), by name.
pub(super) fn usable_pools(snapshot: &Snapshot, kit: &Kit) -> Vec<Arc<PoolEntry>> {
    let kinds = kit.provider.node_class_kinds();
    let mut usable = Vec::new();
    for pool in snapshot.objects.pools.values() {
        if !pool.is_managed(kinds) || pool.is_static() || pool.facts.is_deleting() {
            continue;
        }
        if pool.facts.is_true(conditions::READY) {
            usable.push(Arc::clone(pool));
        } else {
            tracing::error!(NodePool = pool.name(), "ignoring nodepool, not ready");
        }
    }
    usable
}

/// A pool with its types, if the provider can name any; one that cannot stays in the list with none (scheduling 2-4).
pub(super) async fn with_types(kit: &Kit, pool: &NodePool) -> Pool {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let types: Arc<[Arc<InstanceType>]> = match kit.provider.instance_types(pool).await {
        Ok(types) => {
            if types.is_empty() {
                tracing::info!(NodePool = name, "skipping, no resolved instance types found");
            }
            types
        }
        Err(CloudError::NotEvaluated { .. }) => {
            tracing::debug!(NodePool = name, "skipping, awaiting nodeoverlay evaluation");
            Arc::new([])
        }
        Err(error) => {
            tracing::error!(
                NodePool = name,
                error = error.full_text(),
                "skipping, unable to resolve instance types"
            );
            Arc::new([])
        }
    };
    Pool::from_api(pool, types)
}

/// All machines, and what stands for claims without a type. A claim that came late gets no machine, so no pod may wait for it.
pub(super) fn machines(
    snapshot: &Snapshot,
    held: &Held,
    pools: &[Pool],
    arrivals: &Arrivals,
) -> (Vec<Arc<Node>>, Vec<Option<MachineId>>) {
    let comes = |claim: &&Arc<ClaimEntry>| arrivals.of(&claim.facts) != Arrival::Late;
    let mut nodes = Vec::with_capacity(snapshot.machines.len());
    let mut ids = Vec::with_capacity(snapshot.machines.len());
    for (id, machine) in snapshot.machines.iter() {
        if machine.is_resolved() {
            nodes.push(Arc::clone(machine.for_scheduling()));
        } else if let Some(claim) = machine
            .claim
            .as_ref()
            .filter(|_| !machine.is_marked_for_deletion())
            .filter(comes)
        {
            let mut node = untyped(claim, pools);
            node.allocatable = unspoken(snapshot, machine, claim);
            nodes.push(Arc::new(node));
        } else {
            continue;
        }
        ids.push(Some(id.clone()));
    }
    for claim in held
        .claims
        .iter()
        .filter(|claim| snapshot.claim(claim.name()).is_none())
    {
        nodes.push(Arc::new(untyped(claim, pools)));
        ids.push(None);
    }
    (nodes, ids)
}

/// What earlier passes have bought for whom, as long as the ledger remembers: until the pod is bound or the machine is dead (architecture §3.3).
pub(super) fn promises(snapshot: &Snapshot, machines: &[Option<MachineId>]) -> Promises {
    let places = machines.iter().enumerate();
    let places: BTreeMap<&MachineId, usize> = places.filter_map(|(at, id)| Some((id.as_ref()?, at))).collect();
    let plans = snapshot.plans.values();
    plans
        .filter_map(|plan| Some((Arc::clone(&plan.uid), *places.get(&plan.machine)?)))
        .collect()
}

/// A claim without a type counts against its pool's limits at the largest of the types it may become.
fn untyped(claim: &ClaimEntry, pools: &[Pool]) -> Node {
    let pool = claim.nodepool().unwrap_or_default();
    let types = pools
        .iter()
        .find(|known| known.name == pool)
        .map(|known| Arc::clone(&known.instance_types));
    let wanted = Requirements::from_api(&claim.spec.requirements);
    let mut capacity = ResourceList::default();
    for type_ in types.iter().flat_map(|types| types.iter()) {
        if type_.requirements.intersects(&wanted).is_ok() {
            capacity = capacity.maximum(&type_.capacity);
        }
    }
    capacity.set(names::NODES, Quantity::units(1));
    Node {
        name: claim.name().to_owned(),
        labels: Arc::new(likely_labels(claim)),
        taints: claim.spec.taints.iter().map(Taint::from).collect(),
        ownership: Ownership::Managed,
        readiness: Readiness::ComingUp,
        fate: Fate::Stays,
        capacity,
        ..Node::default()
    }
}

/// The labels that it is placed on by: any of the values that it may have suits the pods that its requirements were made of.
fn likely_labels(claim: &ClaimEntry) -> BTreeMap<String, String> {
    let listed = claim.spec.requirements.iter();
    let listed = listed.filter(|wanted| wanted.operator == Operator::In);
    let one_of = listed.filter_map(|wanted| Some((wanted.key.clone(), wanted.values.first()?.clone())));
    let mut labels: BTreeMap<String, String> = one_of.collect();
    labels.extend(claim.metadata.labels.clone().unwrap_or_default());
    labels
}

/// What the claim was asked for and is promised to nobody that we know of.
fn unspoken(snapshot: &Snapshot, machine: &StateNode, claim: &ClaimEntry) -> ResourceList {
    let asked = ResourceList::from_api(&claim.spec.resources.requests);
    let mut promised = ResourceList::default();
    for key in machine.planned.iter() {
        if let Some(pod) = snapshot.objects.pods.get(key) {
            promised.add(&pod.pod.requests);
        }
    }
    asked.minus(&promised)
}

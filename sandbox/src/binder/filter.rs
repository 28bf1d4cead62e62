//! All filters in kube-scheduler's order.

use super::cluster::{Cluster, Used};
use super::facts::{NodeFacts, PodFacts};
use super::node_rules;
use super::prepare::Prepared;
use super::reason::Reason;

/// Whether a pod may go on a node, or is rightly there: its own presence in the cluster counts for nothing.
pub fn feasible(cluster: &Cluster, node: &str, pod: &PodFacts) -> Result<(), Reason> {
    let prepared = Prepared::of(cluster, pod)?;
    let facts = cluster.node(node).ok_or(Reason::NoSuchNode)?;
    check(cluster, &prepared, facts, pod)
}

/// The filters for one node, with what was prepared for all.
pub(crate) fn check(cluster: &Cluster, prepared: &Prepared, node: &NodeFacts, pod: &PodFacts) -> Result<(), Reason> {
    let used = cluster.used(&node.name);
    if !used.pods.contains_key(&pod.name) {
        return check_with(cluster, prepared, node, pod, used);
    }
    let mut others = Cluster::default();
    for other in used.pods.values().filter(|p| p.name != pod.name) {
        others.place(other.clone(), &node.name);
    }
    check_with(cluster, prepared, node, pod, others.used(&node.name))
}

fn check_with(
    cluster: &Cluster,
    prepared: &Prepared,
    node: &NodeFacts,
    pod: &PodFacts,
    used: &Used,
) -> Result<(), Reason> {
    node_rules::cordon(pod, node)?;
    node_rules::taints(pod, node)?;
    node_rules::affinity(pod, node)?;
    node_rules::ports(pod, used)?;
    node_rules::resources(pod, node, used)?;
    prepared.volumes.check(cluster, node, used)?;
    prepared.spread.check(node)?;
    prepared.affinity.check(node)
}

//! Which of the nodes that can take a pod gets it.

use super::cluster::Cluster;
use super::facts::{NodeFacts, PodFacts};
use super::labels::term_selects;
use super::taints::unwelcome;
use std::cmp::Reverse;

/// The best node: fewest unwelcome taints, most preferred affinity, most room left; equal ones by name.
///
/// Differs: kube-scheduler adds up weighted scores of more plugins and draws among equals. Here the order is fixed, so that a seed replays.
pub(crate) fn best<'a>(cluster: &Cluster, pod: &PodFacts, nodes: &[&'a NodeFacts]) -> Option<&'a NodeFacts> {
    nodes.iter().copied().min_by_key(|node| {
        let preferred: i64 = pod
            .preferred_nodes
            .iter()
            .filter(|p| term_selects(&p.preference, &node.name, &node.labels))
            .fold(0, |sum, p| sum.saturating_add(i64::from(p.weight)));
        (
            unwelcome(&node.taints, &pod.tolerations),
            Reverse(preferred),
            Reverse(room(cluster, pod, node)),
            &node.name,
        )
    })
}

/// The mean free share of cpu and memory after the pod, of a thousand.
fn room(cluster: &Cluster, pod: &PodFacts, node: &NodeFacts) -> i64 {
    let used = cluster.used(&node.name);
    let share = |resource: &str, taken: i64, own: i64| {
        let total = node.allocatable.get(resource).copied().unwrap_or(0);
        let free = total.saturating_sub(taken).saturating_sub(own).max(0);
        free.saturating_mul(1000).checked_div(total).unwrap_or(0)
    };
    let cpu = share("cpu", used.scored.0, pod.scored.0);
    let memory = share("memory", used.scored.1, pod.scored.1);
    cpu.saturating_add(memory) / 2
}

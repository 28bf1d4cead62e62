//! Required pod affinity and anti-affinity, of the pod itself and of those that are there.

use super::cluster::Cluster;
use super::facts::{NodeFacts, PodFacts, Term};
use super::labels::selects;
use super::reason::Reason;
use std::collections::BTreeSet;

/// Label key and value.
type Domain = (String, String);

/// What the terms mean in this cluster, worked out once for all nodes.
#[derive(Debug)]
pub(crate) struct AffinityState {
    keys: Vec<String>,
    /// Domains with a pod that satisfies all affinity terms.
    attracted: BTreeSet<Domain>,
    /// Nobody satisfies the terms yet, but the pod itself does: it may be the first.
    first: bool,
    /// Domains with a pod that an anti-affinity term of the pod speaks of.
    avoided: BTreeSet<Domain>,
    /// Domains of pods whose anti-affinity speaks of the pod.
    repelled: BTreeSet<Domain>,
}

fn takes(term: &Term, cluster: &Cluster, pod: &PodFacts) -> bool {
    let namespace = &pod.name.namespace;
    let by_labels = |s| {
        cluster
            .namespace_labels(namespace)
            .is_some_and(|labels| selects(s, labels))
    };
    let inside = term.namespaces.contains(namespace) || term.namespace_selector.as_ref().is_some_and(by_labels);
    inside && term.selector.as_ref().is_some_and(|s| selects(s, &pod.labels))
}

fn domain(node: &NodeFacts, key: &str) -> Option<Domain> {
    node.labels.get(key).map(|value| (key.to_owned(), value.clone()))
}

impl AffinityState {
    pub(crate) fn work_out(cluster: &Cluster, pod: &PodFacts) -> Self {
        let (mut attracted, mut avoided, mut repelled) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        if !pod.affinity.is_empty() || !pod.anti_affinity.is_empty() {
            for (node, other) in cluster.placed(&pod.name) {
                if !pod.affinity.is_empty() && pod.affinity.iter().all(|t| takes(t, cluster, other)) {
                    attracted.extend(pod.affinity.iter().filter_map(|t| domain(node, &t.topology_key)));
                }
                let against = pod.anti_affinity.iter().filter(|t| takes(t, cluster, other));
                avoided.extend(against.filter_map(|t| domain(node, &t.topology_key)));
            }
        }
        for (node, other) in cluster.repelling().filter(|(_, other)| other.name != pod.name) {
            let against = other.anti_affinity.iter().filter(|t| takes(t, cluster, pod));
            repelled.extend(against.filter_map(|t| domain(node, &t.topology_key)));
        }
        let first = attracted.is_empty() && pod.affinity.iter().all(|t| takes(t, cluster, pod));
        let keys = pod.affinity.iter().map(|t| t.topology_key.clone()).collect();
        Self {
            keys,
            attracted,
            first,
            avoided,
            repelled,
        }
    }

    pub(crate) fn check(&self, node: &NodeFacts) -> Result<(), Reason> {
        let own: Vec<Option<Domain>> = self.keys.iter().map(|key| domain(node, key)).collect();
        if own.iter().any(Option::is_none) {
            return Err(Reason::Affinity);
        }
        let near = own.iter().flatten().all(|d| self.attracted.contains(d));
        if !near && !self.first {
            return Err(Reason::Affinity);
        }
        let here = |set: &BTreeSet<Domain>| set.iter().any(|(key, value)| node.labels.get(key) == Some(value));
        if here(&self.avoided) {
            return Err(Reason::AntiAffinity);
        }
        if here(&self.repelled) {
            Err(Reason::ExistingAntiAffinity)
        } else {
            Ok(())
        }
    }
}

//! Topology spread: hard constraints only.

use super::cluster::Cluster;
use super::facts::{NodeFacts, PodFacts, Spread};
use super::labels::{is_empty, selects};
use super::node_rules::matches_node;
use super::reason::Reason;
use super::taints::{Ignored, untolerated};
use std::collections::BTreeMap;

/// One constraint, counted.
#[derive(Debug)]
struct Counted {
    constraint: Spread,
    counts: BTreeMap<String, i64>,
    least: i64,
    own: i64,
}

/// All hard constraints of a pod, counted once for all nodes.
#[derive(Debug)]
pub(crate) struct SpreadState(Vec<Counted>);

/// Whether a node takes part in the counting of a constraint.
fn takes_part(constraint: &Spread, pod: &PodFacts, node: &NodeFacts) -> bool {
    let affinity = !constraint.honor_affinity || matches_node(pod, node);
    let taints =
        !constraint.honor_taints || untolerated(&node.taints, &pod.tolerations, Ignored::Preferences).is_none();
    affinity && taints
}

/// Whether a pod is one of those that a constraint of `pod` spreads.
fn counts_as(constraint: &Spread, namespace: &str, other: &PodFacts) -> bool {
    let selected = |s| !is_empty(s) && selects(s, &other.labels);
    other.name.namespace == namespace && !other.terminating && constraint.selector.as_ref().is_some_and(selected)
}

impl SpreadState {
    pub(crate) fn count(cluster: &Cluster, pod: &PodFacts) -> Self {
        let has_all = |node: &NodeFacts| pod.spreads.iter().all(|c| node.labels.contains_key(&c.key));
        let counted = pod.spreads.iter().map(|constraint| {
            let mut counts: BTreeMap<String, i64> = BTreeMap::new();
            // A node that lacks the key of any constraint takes part in none.
            for node in cluster.nodes().filter(|n| has_all(n) && takes_part(constraint, pod, n)) {
                let Some(domain) = node.labels.get(&constraint.key) else {
                    continue;
                };
                let pods = cluster.used(&node.name).pods.values().filter(|p| p.name != pod.name);
                let here = pods.filter(|p| counts_as(constraint, &pod.name.namespace, p)).count();
                let slot = counts.entry(domain.clone()).or_default();
                *slot = slot.saturating_add(i64::try_from(here).unwrap_or(i64::MAX));
            }
            let domains = i64::try_from(counts.len()).unwrap_or(i64::MAX);
            let least = counts.values().min().copied().unwrap_or(0);
            let own = constraint.selector.as_ref().is_some_and(|s| selects(s, &pod.labels));
            Counted {
                constraint: constraint.clone(),
                least: if domains < constraint.min_domains { 0 } else { least },
                counts,
                own: i64::from(own),
            }
        });
        Self(counted.collect())
    }

    pub(crate) fn check(&self, node: &NodeFacts) -> Result<(), Reason> {
        for counted in &self.0 {
            let Some(domain) = node.labels.get(&counted.constraint.key) else {
                return Err(Reason::SpreadLabel);
            };
            let here = counted.counts.get(domain).copied().unwrap_or(0);
            let skew = here.saturating_add(counted.own).saturating_sub(counted.least);
            if skew > counted.constraint.max_skew {
                return Err(Reason::Spread);
            }
        }
        Ok(())
    }
}

//! The gauges that describe nodes, kept once per node and written as one family each (surface §5.1).
//!
//! A node's eight families share ten label values: kept apart they would weigh several megabytes with 500 nodes. The age of a node and the
//! utilization of the cluster follow from what is kept at the moment of a scrape. Filled by the controller `metrics.node`.

use super::exposition::Family;
use super::nodes::NODE_LABELS;
use super::{Exposition, text};
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The amounts of one resource on one node; what the node has none of is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct NodeAmounts {
    /// What it offers to pods.
    pub allocatable: Option<f64>,
    /// Requests of all pods bound to it.
    pub pod_requests: Option<f64>,
    /// Limits of all pods bound to it.
    pub pod_limits: Option<f64>,
    /// Requests of the DaemonSet pods among them.
    pub daemon_requests: Option<f64>,
    /// Limits of the DaemonSet pods among them.
    pub daemon_limits: Option<f64>,
    /// Capacity less allocatable.
    pub overhead: Option<f64>,
}

/// The nodes that are shown; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct NodeGauges(Arc<Mutex<BTreeMap<Box<str>, Node>>>);

#[derive(Debug)]
struct Node {
    /// Escaped values of [`NODE_LABELS`], joined by newlines.
    labels: Box<str>,
    created: Option<f64>,
    amounts: Box<[(Arc<str>, NodeAmounts)]>,
}

impl NodeGauges {
    /// Declares the families.
    pub(super) fn new(exposition: &Exposition) -> Self {
        let gauges = Self::default();
        let with_resource: Vec<&str> = NODE_LABELS.into_iter().chain(["resource_type"]).collect();
        for (name, help, pick) in FAMILIES {
            let family = Amounts {
                name,
                help,
                pick: *pick,
                nodes: gauges.clone(),
            };
            exposition.written(name, help, &with_resource, Arc::new(family));
        }
        exposition.written(
            LIFETIME.0,
            LIFETIME.1,
            &NODE_LABELS,
            Arc::new(Lifetimes(gauges.clone())),
        );
        let utilization = Arc::new(Utilization(gauges.clone()));
        exposition.written(UTILIZATION.0, UTILIZATION.1, &["resource_type"], utilization);
        gauges
    }

    /// Replaces what is shown of a node. `labels` are the values of [`NODE_LABELS`].
    pub fn show(
        &self,
        node: &str,
        labels: [&str; NODE_LABELS.len()],
        created: Option<DateTime<Utc>>,
        amounts: impl IntoIterator<Item = (Arc<str>, NodeAmounts)>,
    ) {
        let node_shown = Node {
            labels: text::joined(labels),
            created: created.map(text::instant),
            amounts: amounts.into_iter().collect(),
        };
        self.lock().insert(node.into(), node_shown);
    }

    /// Removes everything about a node.
    pub fn remove(&self, node: &str) {
        self.lock().remove(node);
    }

    /// How many nodes are shown.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether no node is shown.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Node>> {
        // A node is replaced in one step: what a panicking thread left behind is still right.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Pick = fn(&NodeAmounts) -> Option<f64>;

const FAMILIES: &[(&str, &str, Pick)] = &[
    ("karpenter_nodes_allocatable", "Resources a node offers to pods.", |a| {
        a.allocatable
    }),
    (
        "karpenter_nodes_total_pod_requests",
        "Requests of the pods bound to a node.",
        |a| a.pod_requests,
    ),
    (
        "karpenter_nodes_total_pod_limits",
        "Limits of the pods bound to a node.",
        |a| a.pod_limits,
    ),
    (
        "karpenter_nodes_total_daemon_requests",
        "Requests of a node's DaemonSet pods.",
        |a| a.daemon_requests,
    ),
    (
        "karpenter_nodes_total_daemon_limits",
        "Limits of a node's DaemonSet pods.",
        |a| a.daemon_limits,
    ),
    (
        "karpenter_nodes_system_overhead",
        "Capacity that a node keeps for itself.",
        |a| a.overhead,
    ),
];

const LIFETIME: (&str, &str) = ("karpenter_nodes_current_lifetime_seconds", "Age of a node.");
const UTILIZATION: (&str, &str) = (
    "karpenter_cluster_utilization_percent",
    "Share of the allocatable resources of all nodes that pods request.",
);

/// One family per resource.
#[derive(Debug)]
struct Amounts {
    name: &'static str,
    help: &'static str,
    pick: Pick,
    nodes: NodeGauges,
}

impl Family for Amounts {
    fn write(&self, out: &mut String, _now: DateTime<Utc>) {
        let nodes = self.nodes.lock();
        let mut opened = false;
        for node in nodes.values() {
            for (resource, amounts) in &node.amounts {
                let Some(value) = (self.pick)(amounts) else { continue };
                if !opened {
                    text::header(out, self.name, self.help, "gauge");
                    opened = true;
                }
                let labels = NODE_LABELS.into_iter().zip(node.labels.split('\n'));
                text::sample(out, self.name, labels.chain([("resource_type", &**resource)]), value);
            }
        }
    }
}

/// How old each node is.
#[derive(Debug)]
struct Lifetimes(NodeGauges);

impl Family for Lifetimes {
    fn write(&self, out: &mut String, now: DateTime<Utc>) {
        let nodes = self.0.lock();
        let mut dated = nodes.values().filter_map(|node| Some((node, node.created?))).peekable();
        if dated.peek().is_some() {
            text::header(out, LIFETIME.0, LIFETIME.1, "gauge");
        }
        for (node, created) in dated {
            let labels = NODE_LABELS.into_iter().zip(node.labels.split('\n'));
            text::sample(out, LIFETIME.0, labels, text::age(created, now));
        }
    }
}

/// What share of all nodes pods ask for.
#[derive(Debug)]
struct Utilization(NodeGauges);

impl Family for Utilization {
    fn write(&self, out: &mut String, _now: DateTime<Utc>) {
        let nodes = self.0.lock();
        let mut totals: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for (resource, amounts) in nodes.values().flat_map(|node| node.amounts.iter()) {
            let total = totals.entry(resource).or_default();
            total.0 += amounts.pod_requests.unwrap_or_default();
            total.1 += amounts.allocatable.unwrap_or_default();
        }
        totals.retain(|_, (_, allocatable)| *allocatable > 0.0);
        if !totals.is_empty() {
            text::header(out, UTILIZATION.0, UTILIZATION.1, "gauge");
        }
        for (resource, (requests, allocatable)) in totals {
            let label = std::iter::once(("resource_type", resource));
            text::sample(out, UTILIZATION.0, label, 100.0 * requests / allocatable);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> (Exposition, NodeGauges) {
        let exposition = Exposition::new();
        let gauges = NodeGauges::new(&exposition);
        (exposition, gauges)
    }

    fn labels(name: &str) -> [&str; 10] {
        ["default", "z", "r", "t", "amd64", "linux", "spot", "", name, ""]
    }

    #[test]
    fn a_node_is_shown_in_each_family_that_it_has_a_value_for_and_goes_from_all_together() {
        let (exposition, gauges) = shown();
        let amounts = NodeAmounts {
            allocatable: Some(4.0),
            pod_requests: Some(1.0),
            ..NodeAmounts::default()
        };
        let created = DateTime::from_timestamp(1_750_000_000, 0).unwrap();
        gauges.show("a", labels("a"), Some(created), [("cpu".into(), amounts)]);
        gauges.show("b", labels("b"), None, [("cpu".into(), amounts)]);
        let text = exposition.render(created + chrono::TimeDelta::seconds(90)).unwrap();
        assert_eq!(text.matches("karpenter_nodes_allocatable{").count(), 2, "{text}");
        assert!(!text.contains("karpenter_nodes_total_pod_limits"), "{text}");
        assert!(text.contains("node_name=\"a\",phase=\"\"} 90\n"), "{text}");
        assert!(
            text.contains("karpenter_cluster_utilization_percent{resource_type=\"cpu\"} 25\n"),
            "{text}"
        );
        gauges.remove("a");
        gauges.remove("b");
        assert_eq!(exposition.render(created).unwrap(), "");
    }
}

//! Metrics of nodes (surface §5.1).
//!
//! Counted by the lifecycle and termination controllers; the gauges per node belong to the cluster observability that
//! `DISABLE_CLUSTER_STATE_OBSERVABILITY` turns off (surface T28).

use super::buckets::LIFETIMES;
use super::node_gauges::NodeGauges;
use super::{Counters, DeclareError, Exposition, Histograms, Summaries};

/// Labels of the gauges that describe a node: the well-known labels' last path elements, then the node itself. Read from the Node, so what the cloud's
/// controller overwrote shows (surface T18).
pub const NODE_LABELS: [&str; 10] = [
    "nodepool",
    "zone",
    "region",
    "instance_type",
    "arch",
    "os",
    "capacity_type",
    "windows_build",
    "node_name",
    "phase",
];

/// What is counted of nodes.
#[derive(Debug, Clone)]
pub struct NodeMetrics {
    /// Label `nodepool`; counted at registration.
    pub created: Counters<1>,
    /// Label `nodepool`; counted when the node's finalizer goes.
    pub terminated: Counters<1>,
    /// Label `nodepool`; counted when a drain is complete.
    pub drained: Counters<1>,
    /// Label `nodepool`; seconds from the node's deletion to the end of its finalizer. A summary (surface T8).
    pub termination_seconds: Summaries<1>,
    /// Label `nodepool`; seconds from the node's creation to the end of its finalizer.
    pub lifetime_seconds: Histograms<1>,
    /// [`NODE_LABELS`] and for most `resource_type`; what every node, managed or not, has and bears, and how old it is.
    pub gauges: NodeGauges,
}

impl NodeMetrics {
    /// Declares the families.
    pub fn new(exposition: &Exposition) -> Result<Self, DeclareError> {
        Ok(Self {
            created: exposition.counters("karpenter_nodes_created_total", "Nodes that registered.", ["nodepool"])?,
            terminated: exposition.counters(
                "karpenter_nodes_terminated_total",
                "Nodes whose removal is complete.",
                ["nodepool"],
            )?,
            drained: exposition.counters(
                "karpenter_nodes_drained_total",
                "Nodes whose drain is complete.",
                ["nodepool"],
            )?,
            termination_seconds: exposition.summaries(
                "karpenter_nodes_termination_duration_seconds",
                "Time from the deletion of a node to its end.",
                ["nodepool"],
            ),
            lifetime_seconds: exposition.histograms(
                "karpenter_nodes_lifetime_duration_seconds",
                "Age of nodes at their end.",
                ["nodepool"],
                LIFETIMES,
            )?,
            gauges: NodeGauges::new(exposition),
        })
    }
}

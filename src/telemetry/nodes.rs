//! Metrics of nodes (surface §5.1).
//!
//! Counted by the lifecycle and termination controllers; the gauges per node belong to the cluster observability that
//! `DISABLE_CLUSTER_STATE_OBSERVABILITY` turns off (surface T28).

use super::buckets::LIFETIMES;
use super::{Counters, DeclareError, Exposition, Histograms, SeriesStore, Summaries};

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

/// [`NODE_LABELS`] and the resource.
const NODE_RESOURCE_LABELS: [&str; 11] = [
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
    "resource_type",
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
    /// [`NODE_LABELS`] and `resource_type`; of every node, managed or not.
    pub allocatable: SeriesStore<11>,
    /// [`NODE_LABELS`] and `resource_type`; requests of all pods bound to the node.
    pub pod_requests: SeriesStore<11>,
    /// [`NODE_LABELS`] and `resource_type`; limits of all pods bound to the node.
    pub pod_limits: SeriesStore<11>,
    /// [`NODE_LABELS`] and `resource_type`; requests of the DaemonSet pods among them.
    pub daemon_requests: SeriesStore<11>,
    /// [`NODE_LABELS`] and `resource_type`; limits of the DaemonSet pods among them.
    pub daemon_limits: SeriesStore<11>,
    /// [`NODE_LABELS`] and `resource_type`; capacity less allocatable.
    pub system_overhead: SeriesStore<11>,
    /// [`NODE_LABELS`]; the node's age.
    pub current_lifetime_seconds: SeriesStore<10>,
}

impl NodeMetrics {
    /// Declares the families.
    pub fn new(exposition: &Exposition) -> Result<Self, DeclareError> {
        let per_resource = |name: &str, help: &str| exposition.series(name, help, NODE_RESOURCE_LABELS);
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
            allocatable: per_resource("karpenter_nodes_allocatable", "Resources a node offers to pods."),
            pod_requests: per_resource(
                "karpenter_nodes_total_pod_requests",
                "Requests of the pods bound to a node.",
            ),
            pod_limits: per_resource(
                "karpenter_nodes_total_pod_limits",
                "Limits of the pods bound to a node.",
            ),
            daemon_requests: per_resource(
                "karpenter_nodes_total_daemon_requests",
                "Requests of a node's DaemonSet pods.",
            ),
            daemon_limits: per_resource(
                "karpenter_nodes_total_daemon_limits",
                "Limits of a node's DaemonSet pods.",
            ),
            system_overhead: per_resource(
                "karpenter_nodes_system_overhead",
                "Capacity that a node keeps for itself.",
            ),
            current_lifetime_seconds: exposition.series(
                "karpenter_nodes_current_lifetime_seconds",
                "Age of a node.",
                NODE_LABELS,
            ),
        })
    }
}

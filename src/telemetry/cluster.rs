//! Metrics of the cluster state (surface §5.1 and §5.4).
//!
//! Counted by the task that keeps the state.

use super::{DeclareError, Exposition, Gauges};

/// What is counted of the cluster state.
#[derive(Debug, Clone)]
pub struct ClusterMetrics {
    /// No labels; nodes in the state.
    pub node_count: Gauges<0>,
    /// No labels; 1 when the initial lists are complete, else 0.
    pub synced: Gauges<0>,
    /// No labels; seconds since the state is not synced, else 0.
    pub unsynced_seconds: Gauges<0>,
}

impl ClusterMetrics {
    /// Declares the families.
    pub fn new(exposition: &Exposition) -> Result<Self, DeclareError> {
        Ok(Self {
            node_count: exposition.gauges("karpenter_cluster_state_node_count", "Nodes in the cluster state.", [])?,
            synced: exposition.gauges(
                "karpenter_cluster_state_synced",
                "Whether the cluster state holds everything the API server had at start.",
                [],
            )?,
            unsynced_seconds: exposition.gauges(
                "karpenter_cluster_state_unsynced_time_seconds",
                "Time since the cluster state is not synced.",
                [],
            )?,
        })
    }
}

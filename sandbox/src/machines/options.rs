//! What can be set about the machines.

use serde::{Deserialize, Serialize};

/// How machines behave as Kubernetes sees them. All times are real seconds: the platform's speed does not touch what Kubernetes controllers time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct MachineOptions {
    /// Between two renewals of the Lease.
    pub lease_seconds: u32,
    /// Between two status heartbeats without change.
    pub status_seconds: u32,
    /// From binding to running.
    pub pod_start_seconds: f64,
    /// From the wish to delete a pod to its end; absent means its whole grace period.
    pub pod_stop_seconds: Option<f64>,
    /// Who notices silent nodes.
    pub node_lifecycle: NodeLifecycle,
    /// Seconds without heartbeat until the node counts as unknown; only when we are the node-lifecycle controller.
    pub silence_seconds: u32,
}

impl Default for MachineOptions {
    fn default() -> Self {
        Self {
            lease_seconds: 10,
            status_seconds: 300,
            pod_start_seconds: 1.0,
            pod_stop_seconds: None,
            node_lifecycle: NodeLifecycle::Elsewhere,
            silence_seconds: 40,
        }
    }
}

/// Who plays the node-lifecycle controller: removes the not-ready taint of ready nodes, marks silent ones unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeLifecycle {
    /// The control plane has one.
    Elsewhere,
    /// The machines do it themselves.
    Here,
}

//! Metrics of pods (surface §5.3).
//!
//! Those that describe pods belong to the cluster observability (surface T28); evictions are counted by the termination controller, scheduling
//! decisions by the provisioning controller.

use super::buckets::DURATIONS;
use super::decisions::PodDecisions;
use super::pod_states::PodStates;
use super::{Counters, DeclareError, Exposition, Histograms, Summaries};

/// Labels of `karpenter_pods_state`, in the order in which values are given.
pub const POD_STATE_LABELS: [&str; 12] = [
    "name",
    "namespace",
    "owner",
    "node",
    "scheduled",
    "nodepool",
    "zone",
    "arch",
    "capacity_type",
    "instance_type",
    "phase",
    "ready",
];

/// What is counted of pods.
#[derive(Debug, Clone)]
pub struct PodMetrics {
    /// [`POD_STATE_LABELS`]; 1 for every pod. And how long pods wait (labels `name`, `namespace`): for a node and until they are Ready, since they were
    /// created and since a place was found for them.
    pub state: PodStates,
    /// No labels; creation to Ready of pods that were seen pending. A summary (surface T8).
    pub startup_seconds: Summaries<0>,
    /// No labels; creation to bound of pods that were seen pending.
    pub bound_seconds: Histograms<0>,
    /// No labels; from the first judgement as schedulable to Ready.
    pub provisioning_startup_seconds: Histograms<0>,
    /// No labels; from the first judgement as schedulable to bound.
    pub provisioning_bound_seconds: Histograms<0>,
    /// Pods that passes were about; counts how long decisions take (no labels) and shows what is undecided (labels `name`, `namespace`).
    pub decisions: PodDecisions,
    /// Label `code`: the HTTP status, `200` on success.
    pub eviction_requests: Counters<1>,
    /// Label `reason`: the disruption reason in the API's spelling, `Forceful Termination`, or empty.
    pub drained: Counters<1>,
}

impl PodMetrics {
    /// Declares the families.
    pub fn new(exposition: &Exposition) -> Result<Self, DeclareError> {
        let durations = |name: &str, help: &str| exposition.histograms(name, help, [], DURATIONS);
        Ok(Self {
            state: PodStates::new(exposition),
            startup_seconds: exposition.summaries(
                "karpenter_pods_startup_duration_seconds",
                "Time from the creation of a pod to Ready.",
                [],
            ),
            bound_seconds: durations(
                "karpenter_pods_bound_duration_seconds",
                "Time from the creation of a pod to bound.",
            )?,
            provisioning_startup_seconds: durations(
                "karpenter_pods_provisioning_startup_duration_seconds",
                "Time from judging a pod schedulable to Ready.",
            )?,
            provisioning_bound_seconds: durations(
                "karpenter_pods_provisioning_bound_duration_seconds",
                "Time from judging a pod schedulable to bound.",
            )?,
            decisions: PodDecisions::new(
                exposition.ages(
                    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
                    "Time since a pod without decision was first seen.",
                    ["name", "namespace"],
                ),
                durations(
                    "karpenter_pods_scheduling_decision_duration_seconds",
                    "Time from first seeing a pod to the first decision.",
                )?,
            ),
            eviction_requests: exposition.counters(
                "karpenter_pods_eviction_requests_total",
                "Evictions asked for, by HTTP status.",
                ["code"],
            )?,
            drained: exposition.counters("karpenter_pods_drained_total", "Pods evicted, by reason.", ["reason"])?,
        })
    }
}

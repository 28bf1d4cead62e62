//! Metrics of the scheduling simulations (surface §5.4).
//!
//! Counted by the provisioning and disruption controllers around each simulation.

use super::buckets::DURATIONS;
use super::{DeclareError, Exposition, Gauges, Histograms, SeriesStore};

/// What is counted of simulations.
#[derive(Debug, Clone)]
pub struct SchedulerMetrics {
    /// Label `controller` (`provisioner`, `disruption`); duration of one simulation.
    pub scheduling_seconds: Histograms<1>,
    /// Labels `controller`, `scheduling_id`; keyed by the controller, so the next run drops the ids of the last one.
    pub queue_depth: SeriesStore<2>,
    /// Labels `controller`, `scheduling_id`; removed at the simulation's end.
    pub unfinished_work_seconds: SeriesStore<2>,
    /// No labels; pods that validation skipped in the last round.
    pub ignored_pods: Gauges<0>,
    /// Label `controller`; pods with errors after a round.
    pub unschedulable_pods: Gauges<1>,
}

impl SchedulerMetrics {
    /// Declares the families.
    pub fn new(exposition: &Exposition) -> Result<Self, DeclareError> {
        Ok(Self {
            scheduling_seconds: exposition.histograms(
                "karpenter_scheduler_scheduling_duration_seconds",
                "Duration of scheduling simulations.",
                ["controller"],
                DURATIONS,
            )?,
            queue_depth: exposition.series(
                "karpenter_scheduler_queue_depth",
                "Pods left in the present simulation.",
                ["controller", "scheduling_id"],
            ),
            unfinished_work_seconds: exposition.ages(
                "karpenter_scheduler_unfinished_work_seconds",
                "Duration so far of the present simulation.",
                ["controller", "scheduling_id"],
            ),
            ignored_pods: exposition.gauges(
                "karpenter_scheduler_ignored_pods_count",
                "Pods that the last round skipped because they are invalid.",
                [],
            )?,
            unschedulable_pods: exposition.gauges(
                "karpenter_scheduler_unschedulable_pods_count",
                "Pods that the last round could not place.",
                ["controller"],
            )?,
        })
    }
}

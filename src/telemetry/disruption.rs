//! Metrics of voluntary disruption (surface §5.4).
//!
//! Counted by the disruption controller. Reasons are lower case here (surface T9) except where a field says otherwise.

use super::buckets::DURATIONS;
use super::{Counters, DeclareError, Exposition, Gauges, Histograms};

/// What is counted of disruption.
#[derive(Debug, Clone)]
pub struct DisruptionMetrics {
    /// Labels `reason`, `consolidation_type` (`empty`, `multi`, `single`, or empty); each evaluation of a method.
    pub evaluation_seconds: Histograms<2>,
    /// Labels `decision` (`delete`/`replace`), `reason`, `consolidation_type`; commands that are carried out.
    pub decisions: Counters<3>,
    /// Labels `nodepool`, `decision`, `reason`, `consolidation_type`; once per NodePool that a command touches.
    pub decisions_by_nodepool: Counters<4>,
    /// Label `reason`; candidates found.
    pub eligible_nodes: Gauges<1>,
    /// Label `consolidation_type`; chosen, then refused by the second look.
    pub failed_validations: Counters<1>,
    /// Labels `decision`, `reason` (snake case), `consolidation_type` (carries the decision's value, as upstream shows it).
    pub queue_failures: Counters<3>,
}

impl DisruptionMetrics {
    /// Declares the families.
    pub fn new(exposition: &Exposition) -> Result<Self, DeclareError> {
        Ok(Self {
            evaluation_seconds: exposition.histograms(
                "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
                "Duration of looking for nodes to disrupt.",
                ["reason", "consolidation_type"],
                DURATIONS,
            )?,
            decisions: exposition.counters(
                "karpenter_voluntary_disruption_decisions_total",
                "Disruption commands that were carried out.",
                ["decision", "reason", "consolidation_type"],
            )?,
            decisions_by_nodepool: exposition.counters(
                "karpenter_voluntary_disruption_decisions_by_nodepool_total",
                "Disruption commands that were carried out, by NodePool.",
                ["nodepool", "decision", "reason", "consolidation_type"],
            )?,
            eligible_nodes: exposition.gauges(
                "karpenter_voluntary_disruption_eligible_nodes",
                "Nodes that may be disrupted for a reason.",
                ["reason"],
            )?,
            failed_validations: exposition.counters(
                "karpenter_voluntary_disruption_failed_validations_total",
                "Chosen candidates that a second look refused.",
                ["consolidation_type"],
            )?,
            queue_failures: exposition.counters(
                "karpenter_voluntary_disruption_queue_failures_total",
                "Commands that failed while they were carried out.",
                ["decision", "reason", "consolidation_type"],
            )?,
        })
    }
}

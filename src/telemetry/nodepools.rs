//! Metrics of NodePools (surface §5.2).
//!
//! The limits and usage belong to the cluster observability (surface T28); the budgets are counted by the disruption controller.

use super::{Counters, DeclareError, Exposition, Gauges, SeriesStore};

/// What is counted of NodePools.
#[derive(Debug, Clone)]
pub struct NodePoolMetrics {
    /// Labels `resource_type`, `nodepool`; one series per key of `spec.limits`.
    pub limit: SeriesStore<2>,
    /// Labels `resource_type`, `nodepool`; one series per key of `status.resources`.
    pub usage: SeriesStore<2>,
    /// Label `nodepool`; hourly prices of its claims' offerings, added up.
    pub cost: SeriesStore<1>,
    /// Label `nodepool`; the provider could not be asked what a pool's types cost.
    pub cost_errors: Counters<1>,
    /// Labels `nodepool`, `reason` in the API's spelling (surface T9); what the budgets leave.
    pub allowed_disruptions: Gauges<2>,
    /// Labels `nodepool`, `reason` in the API's spelling (surface T9); nodes that count against the budgets.
    pub nodes_consuming_budgets: Gauges<2>,
}

impl NodePoolMetrics {
    /// Declares the families.
    pub fn new(exposition: &Exposition) -> Result<Self, DeclareError> {
        Ok(Self {
            limit: exposition.series(
                "karpenter_nodepools_limit",
                "Limits of a NodePool.",
                ["resource_type", "nodepool"],
            ),
            usage: exposition.series(
                "karpenter_nodepools_usage",
                "Resources of a NodePool's machines.",
                ["resource_type", "nodepool"],
            ),
            cost: exposition.series(
                "karpenter_nodepools_cost_total",
                "Hourly prices of a NodePool's machines, added up.",
                ["nodepool"],
            ),
            cost_errors: exposition.counters(
                "karpenter_nodepools_cost_tracker_errors_total",
                "Times that the price of a NodePool's machines could not be asked for.",
                ["nodepool"],
            )?,
            allowed_disruptions: exposition.gauges(
                "karpenter_nodepools_allowed_disruptions",
                "Nodes that the NodePool's budgets allow to disrupt now.",
                ["nodepool", "reason"],
            )?,
            nodes_consuming_budgets: exposition.gauges(
                "karpenter_nodepools_nodes_consuming_budgets",
                "Nodes that count against the NodePool's budgets now.",
                ["nodepool", "reason"],
            )?,
        })
    }
}

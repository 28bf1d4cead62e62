//! Metrics of NodeClaims (surface §5.1).
//!
//! Counted by the provisioning, lifecycle, termination and removal controllers.

use super::buckets::exponential;
use super::{Counters, DeclareError, Exposition, Gauges, Histograms};

/// What is counted of NodeClaims.
#[derive(Debug, Clone)]
pub struct NodeClaimMetrics {
    /// Labels `reason` (`provisioned`, or the lower-case reason of a replacement), `nodepool`, `min_values_relaxed` (`true`/`false`).
    pub created: Counters<3>,
    /// Labels `nodepool`, `capacity_type`; counted when the termination finalizer goes.
    pub terminated: Counters<2>,
    /// Labels `reason` (snake case), `nodepool`, `capacity_type`; counted when a controller, not a user, deletes a claim.
    pub disrupted: Counters<3>,
    /// Label `nodepool`; seconds from the deletion to the end of the finalizer.
    pub termination_seconds: Histograms<1>,
    /// Label `nodepool`; seconds from the first delete at the cloud to the machine's end.
    pub instance_termination_seconds: Histograms<1>,
    /// No labels; machines without NodeClaim that are left alone because nothing proves that they are ours (architecture §7.20). Ours, not
    /// upstream's.
    pub unclaimed_machines: Gauges<0>,
}

impl NodeClaimMetrics {
    /// Declares the families.
    pub fn new(exposition: &Exposition) -> Result<Self, DeclareError> {
        Ok(Self {
            created: exposition.counters(
                "karpenter_nodeclaims_created_total",
                "NodeClaims that Karpenter created.",
                ["reason", "nodepool", "min_values_relaxed"],
            )?,
            terminated: exposition.counters(
                "karpenter_nodeclaims_terminated_total",
                "NodeClaims whose removal is complete.",
                ["nodepool", "capacity_type"],
            )?,
            disrupted: exposition.counters(
                "karpenter_nodeclaims_disrupted_total",
                "NodeClaims that Karpenter decided to delete.",
                ["reason", "nodepool", "capacity_type"],
            )?,
            termination_seconds: exposition.histograms(
                "karpenter_nodeclaims_termination_duration_seconds",
                "Time from the deletion of a NodeClaim to its end.",
                ["nodepool"],
                &exponential(1.0, 2.0, 12),
            )?,
            instance_termination_seconds: exposition.histograms(
                "karpenter_nodeclaims_instance_termination_duration_seconds",
                "Time from asking the cloud to delete a machine to its end.",
                ["nodepool"],
                &exponential(1.0, 2.0, 11),
            )?,
            unclaimed_machines: exposition.gauges(
                "karpenter_nodeclaims_unclaimed_machines",
                "Machines without NodeClaim that are left alone because nothing proves that they are ours.",
                [],
            )?,
        })
    }
}

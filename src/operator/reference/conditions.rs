//! The conditions that objects carry, with every reason (surface §3).

/// One reason of one condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionRow {
    /// Kind of the object.
    pub kind: &'static str,
    /// Type of the condition.
    pub type_: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// The reason.
    pub reason: &'static str,
    /// What it says, one sentence.
    pub meaning: &'static str,
}

const fn row(
    kind: &'static str,
    type_: &'static str,
    status: &'static str,
    reason: &'static str,
    meaning: &'static str,
) -> ConditionRow {
    ConditionRow {
        kind,
        type_,
        status,
        reason,
        meaning,
    }
}

const CLAIM: &str = "NodeClaim";
const POOL: &str = "NodePool";
const CLASS: &str = "RackspaceSpotNodeClass";
const OVERLAY: &str = "NodeOverlay";

/// All of them, by kind and in the order of an object's life.
#[rustfmt::skip] // a table: one row per reason
pub const CONDITIONS: &[ConditionRow] = &[
    row(CLAIM, "Launched", "Unknown", "AwaitingReconciliation", "Nobody has looked at the claim yet."),
    row(CLAIM, "Launched", "Unknown", "AwaitingServerAssignment", "The bid is placed and the platform has not assigned a server."),
    row(CLAIM, "Launched", "Unknown", "LaunchFailed", "The order failed and is tried again; the message has the platform's words."),
    row(CLAIM, "Launched", "Unknown", "PoolConflict", "A pool of this claim's name exists and is not what was ordered."),
    row(CLAIM, "Launched", "Unknown", "PoolRefused", "The platform refused the order for good."),
    row(CLAIM, "Launched", "Unknown", "UnknownServerClass", "None of the claim's server classes is sold in the region."),
    row(CLAIM, "Launched", "Unknown", "InvalidClaimUID", "The claim has no UID that a pool can be named after."),
    row(CLAIM, "Launched", "Unknown", "SentByEarlierLeader", "The claim arrived after another leader had planned its pods anew; it goes without a machine."),
    row(CLAIM, "Launched", "True", "Launched", "A server is assigned."),
    row(CLAIM, "Registered", "Unknown", "AwaitingReconciliation", "The server is not assigned yet."),
    row(CLAIM, "Registered", "Unknown", "NodeNotFound", "The server is assigned and has not joined the cluster."),
    row(CLAIM, "Registered", "False", "MultipleNodesFound", "Two Nodes say that they are this claim's machine."),
    row(CLAIM, "Registered", "True", "Registered", "The Node is there and has the claim's labels, taints and finalizer."),
    row(CLAIM, "Initialized", "Unknown", "AwaitingReconciliation", "The Node is not registered yet."),
    row(CLAIM, "Initialized", "Unknown", "NodeNotFound", "The Node that was registered is not there."),
    row(CLAIM, "Initialized", "Unknown", "NodeNotReady", "The kubelet does not report Ready."),
    row(CLAIM, "Initialized", "Unknown", "StartupTaintsExist", "A startup taint of the NodePool is still on the Node."),
    row(CLAIM, "Initialized", "Unknown", "KnownEphemeralTaintsExist", "A taint that goes by itself is still on the Node."),
    row(CLAIM, "Initialized", "Unknown", "ResourceNotRegistered", "A resource that pods asked for is not there yet."),
    row(CLAIM, "Initialized", "True", "Initialized", "The Node takes pods and counts as finished."),
    row(CLAIM, "Ready", "Unknown", "AwaitingReconciliation", "Nobody has looked at the claim yet."),
    row(CLAIM, "Ready", "Unknown", "ReconcilingDependents", "Launched, Registered or Initialized is not True yet; the message says which."),
    row(CLAIM, "Ready", "False", "UnhealthyDependents", "Launched, Registered or Initialized is False; the message says which."),
    row(CLAIM, "Ready", "True", "Ready", "The machine is launched, registered and initialized."),
    row(CLAIM, "ConsistentStateFound", "True", "ConsistentStateFound", "The node has what the claim says."),
    row(CLAIM, "ConsistentStateFound", "False", "ConsistencyCheckFailed", "The node has less than nine tenths of something that the claim says; an Event has the numbers."),
    row(CLAIM, "Consolidatable", "True", "Consolidatable", "Nothing happened on the node for consolidateAfter, so it may be consolidated."),
    row(CLAIM, "Drifted", "True", "NodePoolDrifted", "The NodePool's template has changed since."),
    row(CLAIM, "Drifted", "True", "RequirementsDrifted", "The node no longer meets the NodePool's requirements."),
    row(CLAIM, "Drifted", "True", "InstanceTypeNotFound", "The server class is not sold any more."),
    row(CLAIM, "DisruptionReason", "True", "Empty", "The node goes because no pod needs it."),
    row(CLAIM, "DisruptionReason", "True", "Drifted", "The node goes because it has drifted."),
    row(CLAIM, "DisruptionReason", "True", "Underutilized", "The node goes because its pods fit elsewhere for less."),
    row(CLAIM, "Drained", "Unknown", "Draining", "Pods are being evicted."),
    row(CLAIM, "Drained", "True", "Drained", "All pods that had to leave have left."),
    row(CLAIM, "VolumesDetached", "Unknown", "AwaitingVolumeDetachment", "Volumes are still attached to the node."),
    row(CLAIM, "VolumesDetached", "False", "TerminationGracePeriodElapsed", "Volumes are still attached and the grace period is over, so the machine ends all the same."),
    row(CLAIM, "VolumesDetached", "True", "VolumesDetached", "No volume is attached any more."),
    row(CLAIM, "InstanceTerminating", "True", "InstanceTerminating", "The platform was told to delete the pool."),
    row(POOL, "ValidationSucceeded", "Unknown", "AwaitingReconciliation", "Nobody has looked at the NodePool yet."),
    row(POOL, "ValidationSucceeded", "False", "NodePoolValidationFailed", "The NodePool makes no sense; the message says what is wrong."),
    row(POOL, "ValidationSucceeded", "True", "ValidationSucceeded", "The NodePool makes sense."),
    row(POOL, "NodeClassReady", "Unknown", "AwaitingReconciliation", "Nobody has looked at the NodePool yet."),
    row(POOL, "NodeClassReady", "False", "NodeClassNotFound", "The node class that it names does not exist."),
    row(POOL, "NodeClassReady", "False", "NodeClassTerminating", "The node class that it names is being deleted."),
    row(POOL, "NodeClassReady", "False", "NodeClassReadinessUnknown", "Nobody has said yet whether the node class is ready."),
    row(POOL, "NodeClassReady", "False", "UnhealthyDependents", "The node class is not ready; its own conditions say why."),
    row(POOL, "NodeClassReady", "True", "NodeClassReady", "The node class is ready."),
    row(POOL, "NodeRegistrationHealthy", "Unknown", "AwaitingReconciliation", "Nothing was launched since the NodePool or its class changed."),
    row(POOL, "NodeRegistrationHealthy", "False", "RegistrationFailed", "Two of the last four machines did not become nodes."),
    row(POOL, "NodeRegistrationHealthy", "False", "AwaitingServerAssignment", "Two of the last four claims got no server in time."),
    row(POOL, "NodeRegistrationHealthy", "False", "LaunchFailed", "Two of the last four orders failed."),
    row(POOL, "NodeRegistrationHealthy", "True", "NodeRegistrationHealthy", "Machines of the NodePool become nodes."),
    row(POOL, "Ready", "Unknown", "AwaitingReconciliation", "Nobody has looked at the NodePool yet."),
    row(POOL, "Ready", "Unknown", "ReconcilingDependents", "Its validation or its node class is not known yet."),
    row(POOL, "Ready", "False", "UnhealthyDependents", "Its validation or its node class is False; the message says which. It makes no machines."),
    row(POOL, "Ready", "True", "Ready", "The NodePool may make machines."),
    row(CLASS, "ServerClassesDiscovered", "Unknown", "AwaitingReconciliation", "Nobody has looked at the node class yet."),
    row(CLASS, "ServerClassesDiscovered", "False", "ListServerClassesFailed", "The platform could not be asked for its server classes; the message has its words."),
    row(CLASS, "ServerClassesDiscovered", "False", "NoServerClasses", "The region sells no server class that can be used."),
    row(CLASS, "ServerClassesDiscovered", "False", "InvalidBidPercentile", "The bid percentile is none that the platform publishes."),
    row(CLASS, "ServerClassesDiscovered", "True", "ServerClassesDiscovered", "The server classes of the region are known."),
    row(CLASS, "Ready", "Unknown", "AwaitingReconciliation", "Nobody has looked at the node class yet."),
    row(CLASS, "Ready", "Unknown", "ReconcilingDependents", "The server classes are not known yet."),
    row(CLASS, "Ready", "False", "UnhealthyDependents", "The server classes could not be had."),
    row(CLASS, "Ready", "True", "Ready", "Machines can be had by this class."),
    row(OVERLAY, "ValidationSucceeded", "False", "RuntimeValidation", "The NodeOverlay makes no sense; the message says what is wrong."),
    row(OVERLAY, "ValidationSucceeded", "False", "Conflict", "Another NodeOverlay of the same weight changes the same thing of the same instance types, and comes after it by name."),
    row(OVERLAY, "ValidationSucceeded", "True", "ValidationSucceeded", "The NodeOverlay makes sense and clashes with none."),
    row(OVERLAY, "Ready", "False", "UnhealthyDependents", "Its validation is False, so it changes nothing."),
    row(OVERLAY, "Ready", "True", "Ready", "The NodeOverlay changes the instance types that it selects."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_row_appears_twice() {
        let rows: BTreeSet<_> = CONDITIONS
            .iter()
            .map(|row| (row.kind, row.type_, row.status, row.reason))
            .collect();
        assert_eq!(rows.len(), CONDITIONS.len());
    }
}

//! The Events that we publish (surface §4.2).

/// One reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRow {
    /// Its word. `<ConditionType>` stands for every type of a condition.
    pub reason: &'static str,
    /// `Normal` or `Warning`.
    pub type_: &'static str,
    /// Kinds of the objects it is about.
    pub objects: &'static [&'static str],
    /// Its texts, with `<words>` for what differs.
    pub messages: &'static [&'static str],
    /// What makes two of them the same, and for how long the second is dropped.
    pub repeats: &'static str,
    /// When it is told.
    pub when: &'static str,
}

const fn row(
    reason: &'static str,
    type_: &'static str,
    objects: &'static [&'static str],
    messages: &'static [&'static str],
    repeats: &'static str,
    when: &'static str,
) -> EventRow {
    EventRow {
        reason,
        type_,
        objects,
        messages,
        repeats,
        when,
    }
}

const NORMAL: &str = "Normal";
const WARNING: &str = "Warning";
const BOTH: &[&str] = &["Node", "NodeClaim"];

/// All of them, by reason.
#[rustfmt::skip] // a table: one row per reason
pub const EVENTS: &[EventRow] = &[
    row("<ConditionType>", NORMAL, &["NodeClaim", "NodePool", "Node", "RackspaceSpotNodeClass"],
        &["Status condition transitioned, Type: <type>, Status: <from> -> <to>, Reason: <reason>",
          "Status condition transitioned, Type: <type>, Status: <from> -> <to>, Reason: <reason>, Message: <message>"],
        "each transition is told", "A condition changed its status; not when it is seen for the first time."),
    row("AwaitingVolumeDetachment", NORMAL, &["Node"],
        &["Awaiting deletion of bound volumeattachments (<names>)"],
        "node, 2 min", "The node is drained and its volumes are still attached."),
    row("DisruptionBlocked", NORMAL, &["Node", "NodeClaim", "NodePool"],
        &["Nodeclaim does not have an associated node", "Node isn't initialized", "Node is deleting or marked for deletion",
          "Node is nominated for a pending pod", "Disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation",
          "Node doesn't have required label (label=<label>)", "NodePool not found (NodePool=<pool>)",
          "Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=<pod>)",
          "Pdb prevents pod evictions (PodDisruptionBudget=[<budget>])",
          "Eviction does not support multiple PDBs (PodDisruptionBudget(s)=[<budgets>])",
          "No allowed disruptions for disruption reason <reason> due to blocking budget"],
        "object, 2 min; NodePool and reason, 1 min", "Something keeps a node, or all nodes of a NodePool, from being disrupted."),
    row("DisruptionLaunching", NORMAL, &["NodeClaim"],
        &["Launching NodeClaim: <reason>"],
        "claim and reason, 2 min", "A replacement is being launched."),
    row("DisruptionTerminating", NORMAL, BOTH,
        &["Disrupting Node: <reason>", "Disrupting NodeClaim: <reason>"],
        "object and reason, 2 min", "The node was chosen to go and its claim was deleted."),
    row("DisruptionWaitingReadiness", NORMAL, &["NodeClaim"],
        &["Waiting on readiness to continue disruption"],
        "claim, 2 min", "A replacement is launched and not ready yet."),
    row("Disrupted", NORMAL, &["Pod"],
        &["Deleting the pod to accommodate the terminationTime <time> of the node. The pod was granted <seconds> seconds of grace-period of its <seconds> terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt annotation."],
        "pod name, 2 min", "The grace period of the node is nearly over, so the pod is deleted."),
    row("DoNotDisruptGracePeriodElapsed", NORMAL, &["Pod"],
        &["Do-not-disrupt grace period has elapsed, the pod may be disrupted"],
        "pod, 2 min", "The time that the pod asked for in karpenter.sh/do-not-disrupt is over."),
    row("DoNotDisruptUntil", NORMAL, &["Pod"],
        &["Do-not-disrupt grace period elapses at <time>"],
        "pod and time, 2 min", "The pod asked for some time in karpenter.sh/do-not-disrupt."),
    row("Evicted", NORMAL, &["Pod"],
        &["Evicted pod: <reason>"],
        "pod name, 2 min", "The API server agreed to evict the pod."),
    row("FailedConsistencyCheck", WARNING, &["NodeClaim"],
        &["expected <amount> of resource <resource>, but found <amount> (<percent>% of expected)"],
        "claim and text, 2 min", "The node has much less of something than the claim says."),
    row("FailedDraining", WARNING, &["Node"],
        &["Failed to drain node, <count> pods are waiting to be evicted",
          "Failed to drain node, evicting pod violates a PDB (Pod=<pod>)",
          "Failed to drain node, eviction does not support multiple PDBs (Pod=<pod>)"],
        "node, 2 min", "Pods are still on a node that is going."),
    row("FailedScheduling", WARNING, &["Pod"],
        &["Failed to schedule pod, <errors>"],
        "pod, 5 min", "No machine that could be had would take the pod."),
    row("Finalized", NORMAL, &["NodeClaim", "NodePool", "Node", "RackspaceSpotNodeClass"],
        &["Finalized <finalizer>"],
        "each is told", "A finalizer went, or the object went with it."),
    row("InsufficientCapacityError", WARNING, &["NodeClaim"],
        &["NodeClaim <name> event: <error>"],
        "claim, 2 min", "The provider cannot make the machine; the claim is deleted and its pods are tried again."),
    row("InvalidDoNotDisruptAnnotation", WARNING, &["Pod"],
        &["Invalid \"karpenter.sh/do-not-disrupt\" annotation: <why>, so it is ignored"],
        "pod and text, 2 min", "The annotation is neither true nor a duration."),
    row("LeaderElection", NORMAL, &["Lease"],
        &["<identity> became leader", "<identity> stopped leading"],
        "each is told", "The lease changed hands; the Event comes from that identity."),
    row("NoCompatibleInstanceTypes", WARNING, &["NodePool"],
        &["NodePool requirements filtered out all compatible available instance types",
          "NodePool requirements filtered out all compatible available instance types due to minValues incompatibility"],
        "NodePool, 1 min", "Pods were tried and none of the NodePool's server classes fits its requirements."),
    row("NoPrice", WARNING, &["RackspaceSpotNodeClass"],
        &["Server class <class> is not offered: no price is known"],
        "once for a class as long as it has none", "Neither the platform nor the price feed names a price for the class, so nothing is ordered of it."),
    row("Nominated", NORMAL, &["Pod"],
        &["Pod should schedule on: nodeclaim/<claim>", "Pod should schedule on: node/<node>",
          "Pod should schedule on: nodeclaim/<claim>, node/<node>"],
        "pod, 2 min; 5 a second in all, 10 at once", "A machine was found or will be made for the pod."),
    row("TerminationGracePeriodExpiring", WARNING, BOTH,
        &["All pods will be deleted by <time>"],
        "object, 2 min", "A node with a termination grace period is going."),
    row("UnclaimedMachine", WARNING, &["RackspaceSpotNodeClass"],
        &["Machine <pool> has no NodeClaim and nothing proves that it is ours, so it is left alone; it may cost money"],
        "machine, 1 h", "A pool in the cloudspace looks like one of ours and nothing proves it."),
    row("Unconsolidatable", NORMAL, BOTH,
        &["NodePool \"<pool>\" has consolidation disabled"],
        "object, 15 min", "The node is no candidate for consolidation."),
    row("Unreadable", WARNING, &["NodePool", "NodeClaim", "RackspaceSpotNodeClass", "Node", "Pod", "any other kind that is watched"],
        &["The object cannot be read and is left out: <fault>"],
        "object and fault, 2 min", "An object does not have the form of its kind; everything else goes on without it."),
];

//! What a controller is asked to look at.

use crate::observe::Name;

/// One controller's object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Deployment(Name),
    ReplicaSet(Name),
    StatefulSet(Name),
    DaemonSet(Name),
    Job(Name),
    /// Binding and protection of a claim.
    Claim(Name),
    /// Phase and reclaiming of a volume.
    Volume(Name),
    /// The attachments of a volume.
    Attachments(Name),
    /// Heartbeat and taints of a node.
    Node(Name),
    /// Eviction, collection and ephemeral claims of a pod.
    Pod(Name),
}

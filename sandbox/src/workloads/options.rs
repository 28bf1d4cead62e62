//! What can be set about the controllers.

use serde::{Deserialize, Serialize};

/// How long the controllers take. All times are real seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkloadOptions {
    /// Without heartbeat until a node counts as unknown; 40 until Kubernetes 1.31, 50 since.
    pub silence_seconds: u32,
    /// From a claim that may have a volume to the volume.
    pub provision_seconds: u32,
    /// From a pod on a node to its volumes attached.
    pub attach_seconds: u32,
    /// From the last pod gone to its volumes detached.
    pub detach_seconds: u32,
    /// From a node gone to the end of the pods that were on it.
    pub orphan_seconds: u32,
}

impl Default for WorkloadOptions {
    fn default() -> Self {
        Self {
            silence_seconds: 50,
            provision_seconds: 2,
            attach_seconds: 2,
            detach_seconds: 5,
            orphan_seconds: 40,
        }
    }
}

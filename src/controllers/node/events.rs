//! The Events of Nodes that are going, and of their pods (surface §4.2).

use crate::cluster::Key;
use crate::k8s::events::{Event, EventType, Involved};
use crate::lifecycle::drain::ForcedDeletion;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;

/// Most names of attachments that are listed.
const NAMES: usize = 5;

/// A pod as an Event's object.
pub(crate) fn pod(key: &Key, uid: &str) -> Involved {
    Involved {
        api_version: Pod::api_version(&()).into_owned(),
        kind: Pod::kind(&()).into_owned(),
        namespace: key.namespace().to_owned(),
        name: key.name.to_string(),
        uid: uid.to_owned(),
    }
}

fn failed_draining(node: Involved, why: &str) -> Event {
    let name = node.name.clone();
    let message = format!("Failed to drain node, {why}");
    Event::new(EventType::Warning, "FailedDraining", node, message).deduped_by([name])
}

/// Pods are waited for.
pub(super) fn pods_waiting(node: Involved, count: usize) -> Event {
    failed_draining(node, &format!("{count} pods are waiting to be evicted"))
}

/// A PodDisruptionBudget lets a pod not go now.
pub(crate) fn budget_violated(node: Involved, pod: &Key) -> Event {
    failed_draining(node, &format!("evicting pod violates a PDB (Pod={pod})"))
}

/// Several PodDisruptionBudgets match a pod.
pub(crate) fn several_budgets(node: Involved, pod: &Key) -> Event {
    failed_draining(node, &format!("eviction does not support multiple PDBs (Pod={pod})"))
}

/// Volumes are waited for.
pub(super) fn volumes_attached(node: Involved, attachments: &[&str]) -> Event {
    let name = node.name.clone();
    let mut listed = attachments.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
    let rest = attachments.len().saturating_sub(NAMES);
    if rest > 0 {
        listed.push_str(&format!(" and {rest} other(s)"));
    }
    let message = format!("Awaiting deletion of bound volumeattachments ({listed})");
    Event::new(EventType::Normal, "AwaitingVolumeDetachment", node, message).deduped_by([name])
}

/// A pod was asked to leave and the API server agreed.
pub(crate) fn evicted(pod: Involved, reason: &str) -> Event {
    let name = pod.name.clone();
    Event::new(EventType::Normal, "Evicted", pod, format!("Evicted pod: {reason}")).deduped_by([name])
}

/// A pod is deleted by force, since its node's time is over.
pub(super) fn pod_forced(forced: &ForcedDeletion, end: &str) -> Event {
    let involved = pod(&forced.pod, &forced.uid);
    let name = involved.name.clone();
    let message = format!(
        "Deleting the pod to accommodate the terminationTime {end} of the node. The pod was granted {} seconds of grace-period of its {} \
         terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt annotation.",
        forced.granted_seconds, forced.own_seconds
    );
    Event::new(EventType::Normal, "Disrupted", involved, message).deduped_by([name])
}

/// The line that tells of the taint (surface §8.2).
pub(crate) fn log_taint(node: &str) {
    let taint = crate::api::labels::disrupted_taint();
    tracing::info!(
        Node = node,
        "taint.Key" = taint.key,
        "taint.Value" = taint.value.unwrap_or_default(),
        "taint.Effect" = taint.effect,
        "tainted node"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_five_attachments_are_named() {
        let node = || Involved {
            api_version: "v1".into(),
            kind: "Node".into(),
            namespace: String::new(),
            name: "n".into(),
            uid: "u".into(),
        };
        let told = |names: &[&str]| volumes_attached(node(), names).message;
        assert!(told(&["a", "b"]).ends_with("(a, b)"));
        assert!(told(&["a", "b", "c", "d", "e", "f", "g"]).ends_with("(a, b, c, d, e and 2 other(s))"));
    }
}

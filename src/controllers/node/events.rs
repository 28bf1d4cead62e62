//! The Events of Nodes that are going, and of their pods (surface §4.2).

use crate::api::labels::DO_NOT_DISRUPT_ANNOTATION;
use crate::api::{NodeClaim, time};
use crate::cluster::Key;
use crate::cluster::entries::{NodeEntry, PodEntry};
use crate::k8s::events::{Event, EventType, Involved};
use crate::lifecycle::drain::ForcedDeletion;
use crate::scheduling::pod::DoNotDisrupt;
use chrono::{DateTime, Utc};
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
    let named: Vec<&str> = attachments.iter().take(NAMES).copied().collect();
    let named = named.join(", ");
    let listed = match attachments.len().saturating_sub(NAMES) {
        0 => named,
        rest => format!("{named} and {rest} other(s)"),
    };
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

/// What is to be told of a pod's own protection, if anything (lifecycle 14.2).
pub(crate) fn protection(pod_entry: &PodEntry, now: DateTime<Utc>) -> Option<Event> {
    let uid = pod_entry.meta.uid.to_string();
    let involved = || pod(&pod_entry.meta.key, &uid);
    match pod_entry.pod.standing.do_not_disrupt(now) {
        DoNotDisrupt::Absent | DoNotDisrupt::InForce => None,
        DoNotDisrupt::Invalid(text) => {
            let why = format!("{text:?} is neither \"true\" nor a positive duration");
            let message = format!("Invalid {DO_NOT_DISRUPT_ANNOTATION:?} annotation: {why}, so it is ignored");
            let event = Event::new(EventType::Warning, "InvalidDoNotDisruptAnnotation", involved(), message);
            Some(event.deduped_by([uid.clone(), why]))
        }
        DoNotDisrupt::Until(end) => {
            let end = time::to_rfc3339(end);
            let message = format!("Do-not-disrupt grace period elapses at {end}");
            let event = Event::new(EventType::Normal, "DoNotDisruptUntil", involved(), message);
            Some(event.deduped_by([uid.clone(), end]))
        }
        DoNotDisrupt::Elapsed(_) => {
            let message = "Do-not-disrupt grace period has elapsed, the pod may be disrupted";
            let event = Event::new(EventType::Normal, "DoNotDisruptGracePeriodElapsed", involved(), message);
            Some(event.deduped_by([uid.clone()]))
        }
    }
}

/// The line that tells of the taint (surface §8.2).
pub(crate) fn log_taint(node: &NodeEntry) {
    let taint = crate::api::labels::disrupted_taint();
    let claim = node.owners.iter().find(|owner| owner.kind == NodeClaim::kind(&()));
    tracing::info!(
        Node = node.name(),
        NodeClaim = claim.map(|owner| owner.name.as_str()),
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
    fn a_protection_that_means_nothing_or_ends_is_told() {
        let now: DateTime<Utc> = "2026-03-02T09:30:00Z".parse().unwrap();
        let told = |value: &str| {
            let object = serde_json::json!({
                "metadata": { "name": "p", "namespace": "ns", "uid": "u", "annotations": { "karpenter.sh/do-not-disrupt": value } },
                "spec": { "containers": [] }, "status": { "startTime": "2026-03-02T09:00:00Z" },
            });
            let entry = crate::cluster::entries::Reader::new().pod(&serde_json::from_value(object).unwrap());
            protection(&entry, now).map(|event| (event.reason.into_owned(), event.message))
        };
        assert_eq!(told("true"), None);
        assert_eq!(told("false").unwrap().0, "InvalidDoNotDisruptAnnotation");
        let (reason, message) = told("1h").unwrap();
        assert_eq!(reason, "DoNotDisruptUntil");
        assert!(message.ends_with("2026-03-02T10:00:00Z"), "{message}");
        assert_eq!(told("10m").unwrap().0, "DoNotDisruptGracePeriodElapsed");
    }

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

//! Owner references and the states of pods, as controllers read and write them.

use crate::observe::Name;
use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use karpenter::api::time;
use kube::Resource;
use serde_json::{Value, json};

/// The reference to the controller, if there is one.
pub(crate) fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references
        .iter()
        .flatten()
        .find(|o| o.controller == Some(true))
}

/// The owner reference that makes an object a controller of another.
pub(crate) fn reference<K: Resource<DynamicType = ()>>(owner: &K) -> Value {
    let meta = owner.meta();
    json!({"apiVersion": K::api_version(&()), "kind": K::kind(&()), "name": meta.name, "uid": meta.uid,
        "controller": true, "blockOwnerDeletion": true})
}

/// A pod from a template, without a name.
pub(crate) fn pod_from<K: Resource<DynamicType = ()>>(owner: &K, template: &PodTemplateSpec) -> Value {
    let meta = template.metadata.clone().unwrap_or_default();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"labels": meta.labels.unwrap_or_default(), "annotations": meta.annotations.unwrap_or_default(),
            "finalizers": meta.finalizers.unwrap_or_default(), "ownerReferences": [reference(owner)]},
        "spec": template.spec,
    })
}

/// Sets a key of an object within an object.
pub(crate) fn put(object: &mut Value, parent: &str, key: &str, value: impl Into<Value>) {
    if let Some(map) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
        map.insert(key.to_owned(), value.into());
    }
}

/// The instant of a Kubernetes time.
pub(crate) fn instant(at: Option<&Time>) -> Option<DateTime<Utc>> {
    at.map(time::from_k8s)
}

/// Some seconds later.
pub(crate) fn later(at: DateTime<Utc>, seconds: i64) -> DateTime<Utc> {
    TimeDelta::try_seconds(seconds)
        .and_then(|d| at.checked_add_signed(d))
        .unwrap_or(at)
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|s| s.phase.as_deref())
        .unwrap_or("Pending")
}

pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub(crate) fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Neither finished nor being deleted.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_going(pod)
}

pub(crate) fn host(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|n| !n.is_empty())
}

/// Since when a pod is ready, if it is.
pub(crate) fn ready_since(pod: &Pod) -> Option<DateTime<Utc>> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|c| c.type_ == "Ready" && c.status == "True")?;
    Some(instant(ready.last_transition_time.as_ref()).unwrap_or(DateTime::<Utc>::MIN_UTC))
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_since(pod).is_some()
}

/// When a pod counts, or will count, as available.
pub(crate) fn available_at(pod: &Pod, min_ready_seconds: Option<i32>) -> Option<DateTime<Utc>> {
    ready_since(pod).map(|at| later(at, i64::from(min_ready_seconds.unwrap_or(0))))
}

/// Names of the claims of a pod, those of ephemeral volumes included.
pub(crate) fn claims(pod: &Pod) -> Vec<Name> {
    let own = Name::of(pod);
    let volumes = pod.spec.as_ref().and_then(|s| s.volumes.as_ref()).into_iter().flatten();
    volumes
        .filter_map(|v| match (&v.persistent_volume_claim, &v.ephemeral) {
            (Some(claim), _) => Some(Name::new(&own.namespace, &claim.claim_name)),
            (None, Some(_)) => Some(Name::new(&own.namespace, &format!("{}-{}", own.name, v.name))),
            (None, None) => None,
        })
        .collect()
}

/// A count as Kubernetes writes it.
pub(crate) fn count(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// A wish for that many, as a number to loop over.
pub(crate) fn many(n: i32) -> usize {
    usize::try_from(n.max(0)).unwrap_or(0)
}

/// An instant in Kubernetes' text.
pub(crate) fn text(at: DateTime<Utc>) -> String {
    time::to_rfc3339(at)
}

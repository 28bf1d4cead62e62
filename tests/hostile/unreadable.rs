//! Objects that no type of ours can hold.

use serde_json::{Value, json};

/// The name of the object of a kind. Each has its own: events of one instant are told apart by their objects' names.
pub fn name_of(kind: &str) -> String {
    format!("strange-{}", kind.to_lowercase())
}

/// One object of each watched kind that has a field of the wrong type, and the place that its author must be told.
#[allow(clippy::too_many_lines)] // a table, one row a kind
pub fn unreadable() -> Vec<(Value, &'static str)> {
    let object = |version: &str, kind: &str, namespaced: bool, more: Value| {
        let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name_of(kind) } });
        if namespaced {
            object["metadata"]["namespace"] = json!("default");
        }
        object
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        object
    };
    vec![
        (
            object(
                "karpenter.sh/v1",
                "NodePool",
                false,
                json!({ "spec": "whatever you like" }),
            ),
            "spec",
        ),
        (
            object(
                "karpenter.sh/v1",
                "NodeClaim",
                false,
                json!({ "spec": { "requirements": "none" } }),
            ),
            "spec",
        ),
        (
            object(
                "karpenter.rackspace.com/v1",
                "RackspaceSpotNodeClass",
                false,
                json!({ "spec": { "bidPercentile": 80 } }),
            ),
            "spec.bidPercentile",
        ),
        (
            object("v1", "Node", false, json!({ "spec": { "unschedulable": "yes" } })),
            "spec.unschedulable",
        ),
        (
            object(
                "v1",
                "Pod",
                true,
                json!({ "spec": { "priority": "high", "containers": [{ "name": "main", "image": "app:1" }] } }),
            ),
            "spec.priority",
        ),
        (
            object(
                "apps/v1",
                "DaemonSet",
                true,
                json!({ "spec": {
            "minReadySeconds": "soon", "selector": { "matchLabels": { "a": "b" } },
            "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "nodeSelector": { "never": "there" },
                "containers": [{ "name": "main", "image": "app:1" }] } } } }),
            ),
            "spec.minReadySeconds",
        ),
        (
            object(
                "v1",
                "PersistentVolumeClaim",
                true,
                json!({ "spec": { "volumeName": 7 } }),
            ),
            "spec.volumeName",
        ),
        (
            object("v1", "PersistentVolume", false, json!({ "spec": { "csi": "x" } })),
            "spec.csi",
        ),
        (
            object("storage.k8s.io/v1", "StorageClass", false, json!({ "provisioner": 7 })),
            "provisioner",
        ),
        (
            object(
                "storage.k8s.io/v1",
                "CSINode",
                false,
                json!({ "spec": { "drivers": "x" } }),
            ),
            "spec.drivers",
        ),
        (
            object(
                "storage.k8s.io/v1",
                "VolumeAttachment",
                false,
                json!({ "spec": { "attacher": 7 } }),
            ),
            "spec.attacher",
        ),
        (
            object(
                "policy/v1",
                "PodDisruptionBudget",
                true,
                json!({ "spec": { "minAvailable": true } }),
            ),
            "spec.minAvailable",
        ),
        (
            object("v1", "Namespace", false, json!({ "spec": { "finalizers": "x" } })),
            "spec.finalizers",
        ),
    ]
}

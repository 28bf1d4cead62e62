//! The volume that the driver makes for a claim: reachable where the node's plugin says it is.

use crate::observe::Name;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Which driver made a volume.
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// The node that a volume is made near.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Near<'a> {
    /// Labels of the Node.
    pub(crate) labels: &'a BTreeMap<String, String>,
    /// What its plugins registered.
    pub(crate) plugin: Option<&'a CSINode>,
}

/// What the volume of a claim is called.
pub(crate) fn name(claim: &PersistentVolumeClaim) -> Name {
    Name::new(
        "",
        &format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default()),
    )
}

/// A reference to a claim.
pub(crate) fn reference(claim: &PersistentVolumeClaim) -> Value {
    let meta = &claim.metadata;
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid})
}

/// The volume for a claim.
pub(crate) fn provisioned(claim: &PersistentVolumeClaim, class: &StorageClass, near: Option<Near<'_>>) -> Value {
    let spec = claim.spec.clone().unwrap_or_default();
    let request = spec.resources.and_then(|r| r.requests).unwrap_or_default();
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name(claim).name, "annotations": {PROVISIONED_BY: class.provisioner}},
        "spec": {
            "accessModes": spec.access_modes, "capacity": {"storage": request.get("storage")},
            "claimRef": reference(claim), "storageClassName": spec.storage_class_name,
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
            "volumeMode": spec.volume_mode.as_deref().unwrap_or("Filesystem"),
            "csi": {"driver": class.provisioner, "volumeHandle": claim.metadata.uid},
        },
    });
    let expressions = topology(class, near);
    if !expressions.is_empty()
        && let Some(fields) = volume.pointer_mut("/spec").and_then(Value::as_object_mut)
    {
        let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}});
        fields.insert("nodeAffinity".to_owned(), affinity);
    }
    volume
}

fn topology(class: &StorageClass, near: Option<Near<'_>>) -> Vec<Value> {
    let Some(near) = near else {
        // Without a node, the class may say where; the first of its places is taken.
        let first = class.allowed_topologies.as_ref().and_then(|t| t.first());
        let expressions = first
            .and_then(|t| t.match_label_expressions.as_ref())
            .into_iter()
            .flatten();
        return expressions
            .map(|e| json!({"key": e.key, "operator": "In", "values": e.values}))
            .collect();
    };
    let drivers = near.plugin.map(|p| p.spec.drivers.as_slice()).unwrap_or_default();
    let keys = drivers
        .iter()
        .filter(|d| d.name == class.provisioner)
        .flat_map(|d| d.topology_keys.iter().flatten());
    keys.filter_map(|key| {
        let value = near.labels.get(key)?;
        Some(json!({"key": key, "operator": "In", "values": [value]}))
    })
    .collect()
}

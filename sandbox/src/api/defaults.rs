//! What the API server fills in: CRD defaults for custom kinds, the defaults that matter here for built-in ones.
//!
//! Relies on [`super::validation`] for CRD schemas. Called by [`super::write`] between decoding and validation.

use super::kinds::{Origin, Resource};
use super::object::{self, default_to};
use super::quantity;
use super::validation;
use serde_json::{Map, Value, json};

/// The status a new object starts with, whatever its creator wrote. Nodes keep what the kubelet wrote.
pub(crate) fn reset_status(resource: &Resource, new: &mut Value) {
    if resource.built_in().is_none() || !resource.has_status() || resource.is("", "Node") {
        return;
    }
    let start = match resource.kind.as_str() {
        "Pod" => json!({ "phase": "Pending", "qosClass": qos_class(new) }),
        "Namespace" => json!({ "phase": "Active" }),
        "PersistentVolume" | "PersistentVolumeClaim" => json!({ "phase": "Pending" }),
        "PodDisruptionBudget" => {
            json!({ "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0 })
        }
        "Service" => json!({ "loadBalancer": {} }),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "Job" => json!({}),
        "DaemonSet" => {
            json!({ "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0 })
        }
        _ => return object::copy_root(new, &Value::Null, "status"),
    };
    if let Value::Object(root) = new {
        root.insert("status".into(), start);
    }
}

/// Fills in what is absent.
pub(crate) fn apply(resource: &Resource, mut new: Value, old: Option<&Value>) -> Value {
    match &resource.origin {
        Origin::Custom(schema) => validation::apply_schema_defaults(schema, &mut new),
        Origin::BuiltIn(_) => built_in(resource, &mut new, old),
    }
    new
}

fn built_in(resource: &Resource, new: &mut Value, old: Option<&Value>) {
    match resource.kind.as_str() {
        "Pod" => object::edit_at(new, "spec", pod_spec),
        "Node" => node(new),
        "Namespace" if old.is_none() => namespace(new),
        "Deployment" => workload(new, deployment),
        "ReplicaSet" => workload(new, |spec| default_to(spec, "replicas", 1)),
        "StatefulSet" => workload(new, stateful_set),
        "DaemonSet" => workload(new, daemon_set),
        "Job" => workload(new, job),
        "PersistentVolumeClaim" => object::edit_at(new, "spec", |s| default_to(s, "volumeMode", "Filesystem")),
        "PersistentVolume" => object::edit_at(new, "spec", |s| {
            default_to(s, "volumeMode", "Filesystem");
            default_to(s, "persistentVolumeReclaimPolicy", "Retain");
        }),
        "StorageClass" => {
            if let Value::Object(root) = new {
                default_to(root, "reclaimPolicy", "Delete");
                default_to(root, "volumeBindingMode", "Immediate");
            }
        }
        "PriorityClass" => {
            if let Value::Object(root) = new {
                default_to(root, "preemptionPolicy", "PreemptLowerPriority");
            }
        }
        "Secret" => {
            if let Value::Object(root) = new {
                fold_string_data(root);
                default_to(root, "type", "Opaque");
            }
        }
        "CSIDriver" => object::edit_at(new, "spec", |s| default_to(s, "attachRequired", true)),
        _ => {}
    }
    quantity::canonical_in(new);
}

fn workload(new: &mut Value, own: impl FnOnce(&mut Map<String, Value>)) {
    object::edit_at(new, "spec", |spec| {
        own(spec);
        if let Some(Value::Object(pod)) = spec.get_mut("template").and_then(|t| t.get_mut("spec")) {
            pod_spec(pod);
        }
    });
}

fn deployment(spec: &mut Map<String, Value>) {
    default_to(spec, "replicas", 1);
    default_to(spec, "revisionHistoryLimit", 10);
    default_to(spec, "progressDeadlineSeconds", 600);
    let rolling = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" } });
    default_to(spec, "strategy", rolling);
}

fn stateful_set(spec: &mut Map<String, Value>) {
    default_to(spec, "replicas", 1);
    default_to(spec, "podManagementPolicy", "OrderedReady");
    default_to(spec, "revisionHistoryLimit", 10);
    default_to(
        spec,
        "updateStrategy",
        json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } }),
    );
    default_to(
        spec,
        "persistentVolumeClaimRetentionPolicy",
        json!({ "whenDeleted": "Retain", "whenScaled": "Retain" }),
    );
}

fn daemon_set(spec: &mut Map<String, Value>) {
    default_to(spec, "revisionHistoryLimit", 10);
    let rolling = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 1 } });
    default_to(spec, "updateStrategy", rolling);
}

fn job(spec: &mut Map<String, Value>) {
    for (key, value) in [("parallelism", 1), ("completions", 1), ("backoffLimit", 6)] {
        default_to(spec, key, value);
    }
    default_to(spec, "completionMode", "NonIndexed");
    default_to(spec, "suspend", false);
}

fn pod_spec(spec: &mut Map<String, Value>) {
    default_to(spec, "restartPolicy", "Always");
    default_to(spec, "dnsPolicy", "ClusterFirst");
    default_to(spec, "schedulerName", "default-scheduler");
    default_to(spec, "terminationGracePeriodSeconds", 30);
    default_to(spec, "enableServiceLinks", true);
    default_to(spec, "securityContext", json!({}));
    for list in ["containers", "initContainers"] {
        if let Some(Value::Array(containers)) = spec.get_mut(list) {
            for container in containers.iter_mut().filter_map(Value::as_object_mut) {
                container_defaults(container);
            }
        }
    }
    if let Some(Value::Array(spreads)) = spec.get_mut("topologySpreadConstraints") {
        for spread in spreads.iter_mut().filter_map(Value::as_object_mut) {
            default_to(spread, "nodeAffinityPolicy", "Honor");
            default_to(spread, "nodeTaintsPolicy", "Ignore");
        }
    }
}

fn container_defaults(container: &mut Map<String, Value>) {
    default_to(container, "terminationMessagePath", "/dev/termination-log");
    default_to(container, "terminationMessagePolicy", "File");
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let tag = image.rsplit('/').next().unwrap_or_default();
    let floats = !tag.contains('@') && (tag.ends_with(":latest") || !tag.contains(':'));
    default_to(
        container,
        "imagePullPolicy",
        if floats { "Always" } else { "IfNotPresent" },
    );
    if let Some(Value::Array(ports)) = container.get_mut("ports") {
        for port in ports.iter_mut().filter_map(Value::as_object_mut) {
            default_to(port, "protocol", "TCP");
        }
    }
    // What is limited and not requested is requested at its limit.
    if let Some(Value::Object(resources)) = container.get_mut("resources")
        && let Some(Value::Object(limits)) = resources.get("limits").cloned()
        && let Value::Object(requests) = resources.entry("requests").or_insert_with(|| json!({}))
    {
        for (name, limit) in limits {
            default_to(requests, &name, limit);
        }
    }
}

fn node(new: &mut Value) {
    // Allocatable defaults to capacity.
    let capacity = new.pointer("/status/capacity").cloned();
    if let (Some(capacity), Some(Value::Object(status))) = (capacity, new.get_mut("status")) {
        default_to(status, "allocatable", capacity);
    }
}

fn namespace(new: &mut Value) {
    let name = object::name(new).to_owned();
    object::edit_at(new, "spec", |s| default_to(s, "finalizers", json!(["kubernetes"])));
    object::edit_meta(new, |m| {
        let labels = m.entry("labels").or_insert_with(|| json!({}));
        if let Value::Object(labels) = labels {
            labels.insert("kubernetes.io/metadata.name".into(), name.into());
        }
    });
}

fn fold_string_data(secret: &mut Map<String, Value>) {
    use base64::Engine;
    let Some(Value::Object(plain)) = secret.remove("stringData") else {
        return;
    };
    let data = secret.entry("data").or_insert_with(|| json!({}));
    if let Value::Object(data) = data {
        for (key, value) in plain {
            let bytes = value.as_str().unwrap_or_default().as_bytes();
            data.insert(key, base64::engine::general_purpose::STANDARD.encode(bytes).into());
        }
    }
}

fn qos_class(pod: &Value) -> &'static str {
    let containers: Vec<&Value> = object::list(pod, "/spec/containers")
        .iter()
        .chain(object::list(pod, "/spec/initContainers"))
        .collect();
    let amount = |c: &Value, kind: &str, name: &str| c.pointer(&format!("/resources/{kind}/{name}")).cloned();
    let any = containers.iter().any(|c| {
        ["requests", "limits"]
            .iter()
            .any(|k| ["cpu", "memory"].iter().any(|n| amount(c, k, n).is_some()))
    });
    let guaranteed = containers.iter().all(|c| {
        ["cpu", "memory"].iter().all(|n| {
            let limit = amount(c, "limits", n);
            limit.is_some() && amount(c, "requests", n).is_none_or(|r| Some(r) == limit)
        })
    });
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

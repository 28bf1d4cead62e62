//! What users apply, in short words. Everything is of one corner: its NodePools label their nodes with it, and its pods go nowhere else.

use serde_json::{Value, json};

/// The label by which the pods of a corner find its nodes.
pub const CORNER: &str = "scenario";

/// A NodeClass that bids by this percentile.
pub fn node_class(name: &str, percentile: &str) -> Value {
    json!({
        "apiVersion": "karpenter.rackspace.com/v1", "kind": "RackspaceSpotNodeClass", "metadata": {"name": name},
        "spec": {"bidPercentile": percentile},
    })
}

/// A NodePool of the corner, with the corner's NodeClass, in haste to give nodes back. Its name is the corner's, with the suffix if there is one.
pub fn node_pool(corner: &str, suffix: &str, capacity_types: &[&str]) -> Value {
    let name = if suffix.is_empty() {
        corner.to_owned()
    } else {
        format!("{corner}-{suffix}")
    };
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": {CORNER: corner}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": corner},
                    "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": capacity_types}],
                },
            },
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s", "budgets": [{"nodes": "100%"}],
            },
        },
    })
}

/// The same with these server classes alone.
pub fn of_classes(mut node_pool: Value, classes: &[&str]) -> Value {
    let requirement = json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": classes});
    let requirements = node_pool.pointer_mut("/spec/template/spec/requirements");
    requirements.and_then(Value::as_array_mut).unwrap().push(requirement);
    node_pool
}

/// What a pod of the corner is made of.
pub fn pod(corner: &str, cpu: &str, memory: &str) -> Value {
    json!({
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {CORNER: corner},
        "containers": [{
            "name": "main", "image": "registry.k8s.io/pause:3.10",
            "resources": {"requests": {"cpu": cpu, "memory": memory}},
        }],
    })
}

/// A Deployment; its pods carry its name as `app`.
pub fn deployment(name: &str, replicas: u32, pod: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    })
}

/// A DaemonSet.
pub fn daemon_set(name: &str, pod: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    })
}

/// A StatefulSet, each replica with a volume of the platform's default class.
pub fn stateful_set(name: &str, replicas: u32, pod: &Value) -> Value {
    let mut pod = pod.clone();
    pod["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "ssd",
                    "resources": {"requests": {"storage": "10Gi"}},
                },
            }],
        },
    })
}

/// The object with this in a place; what the place lies in is made.
pub fn with(mut object: Value, place: &str, value: Value) -> Value {
    let mut here = &mut object;
    for key in place.split('.') {
        here = &mut here[key];
    }
    *here = value;
    object
}

/// Selects the pods of a workload.
pub fn of_app(app: &str) -> Value {
    json!({"matchLabels": {"app": app}})
}

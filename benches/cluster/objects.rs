//! The objects of a large cluster as an API server sends them: 500 nodes, and 15,000 pods of Deployments of thirty.
//!
//! What is heavy in real objects is here too: a node's images, a pod's environment, mounts and statuses.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How many nodes.
pub const NODES: usize = 500;
/// How many pods.
pub const PODS: usize = 15_000;
const SIBLINGS: usize = 30;
/// How many namespaces the pods are in, `team-00` and so on.
pub const NAMESPACES: usize = 20;

/// A node with labels, conditions and images.
pub fn node(number: usize) -> Value {
    let name = format!("node-{number:04}");
    let mut labels: BTreeMap<String, String> = (0..20)
        .map(|label| (format!("example.com/label-{label}"), format!("value-{label}")))
        .collect();
    labels.insert("kubernetes.io/hostname".into(), name.clone());
    labels.insert("topology.kubernetes.io/zone".into(), format!("zone-{}", number % 3));
    labels.insert("node.kubernetes.io/instance-type".into(), "gp.vs1.large-iad".into());
    let images: Vec<Value> = (0..40)
        .map(|image| json!({ "names": [format!("registry.example.com/team/image-{image}@sha256:{image:064}")], "sizeBytes": 123_456_789 }))
        .collect();
    let condition = |type_: &str, status: &str| {
        json!({ "type": type_, "status": status, "reason": "KubeletReports", "message": "the kubelet has sufficient resources",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "uid": format!("node-uid-{number}"), "resourceVersion": "1", "labels": labels,
            "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": { "volumes.kubernetes.io/controller-managed-attach-detach": "true" } },
        "spec": { "providerID": format!("openstack:///{number}") },
        "status": {
            "capacity": { "cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110" },
            "allocatable": { "cpu": "7500m", "memory": "30Gi", "ephemeral-storage": "90Gi", "pods": "110" },
            "conditions": [condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
                condition("PIDPressure", "False"), condition("Ready", "True")],
            "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }],
            "images": images,
        },
    })
}

/// A running pod.
pub fn pod(number: usize) -> Value {
    let app = number / SIBLINGS;
    let set = format!("app-{app:03}-6d4cf56db6");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{set}-{number:05}"), "namespace": format!("team-{:02}", app % NAMESPACES),
            "uid": format!("00000000-0000-0000-0000-{number:012}"), "resourceVersion": (number + 2).to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z", "generateName": format!("{set}-"),
            "labels": { "app.kubernetes.io/name": format!("app-{app:03}"), "app.kubernetes.io/instance": "production",
                "app.kubernetes.io/version": "1.2.3", "pod-template-hash": "6d4cf56db6" },
            "annotations": { "prometheus.io/scrape": "true", "checksum/config": "0123456789abcdef" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": format!("rs-{app}"),
                "controller": true, "blockOwnerDeletion": true }],
        },
        "spec": spec(number, app),
        "status": status(number),
    })
}

fn spec(number: usize, app: usize) -> Value {
    let environment: Vec<Value> = (0..15)
        .map(|variable| json!({ "name": format!("SETTING_{variable}"), "value": format!("some value of some length {variable}") }))
        .collect();
    let toleration =
        |key: &str| json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 });
    json!({
        "nodeName": format!("node-{:04}", number % NODES),
        "serviceAccountName": "default", "schedulerName": "default-scheduler", "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 30, "priority": 0,
        "containers": [{ "name": "main", "image": "registry.example.com/team/app:1.2.3", "ports": [{ "containerPort": 8080 }],
            "env": environment, "imagePullPolicy": "IfNotPresent",
            "livenessProbe": { "httpGet": { "path": "/healthz", "port": 8080 }, "periodSeconds": 10 },
            "volumeMounts": [{ "name": "config", "mountPath": "/etc/app" }],
            "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" } } }],
        "volumes": [{ "name": "config", "configMap": { "name": format!("app-{app:03}") } }],
        "tolerations": [toleration("node.kubernetes.io/not-ready"), toleration("node.kubernetes.io/unreachable")],
        "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": { "app.kubernetes.io/name": format!("app-{app:03}") } } }],
    })
}

fn status(number: usize) -> Value {
    let condition =
        |type_: &str| json!({ "type": type_, "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z" });
    json!({
        "phase": "Running", "startTime": "2026-01-01T00:00:05Z", "qosClass": "Burstable", "podIP": "10.1.2.3",
        "conditions": [condition("PodScheduled"), condition("Initialized"), condition("ContainersReady"), condition("Ready")],
        "containerStatuses": [{ "name": "main", "ready": true, "restartCount": 0, "image": "registry.example.com/team/app:1.2.3",
            "imageID": format!("registry.example.com/team/app@sha256:{:064}", 7), "containerID": format!("containerd://{number:064}"),
            "state": { "running": { "startedAt": "2026-01-01T00:00:08Z" } } }],
    })
}

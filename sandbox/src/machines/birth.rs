//! What a kubelet creates when its machine comes up: the Node, its Lease, the CSINode (rackspace-spot 5.3, 5.4).

use crate::spot::{MachineOrder, Shape};
use chrono::{DateTime, SecondsFormat, Utc};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Map, Value, json};

/// Taint that only the cloud controller removes.
pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Taint that only the node-lifecycle controller removes.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The zone label of the Cinder CSI node plugin.
pub const CINDER_ZONE: &str = "topology.cinder.csi.openstack.org/zone";

/// Kubernetes time with whole seconds.
pub fn seconds(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Kubernetes time with microseconds.
pub fn micros(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// The Node as the kubelet registers it.
pub fn node(order: &MachineOrder, now: DateTime<Utc>) -> Value {
    let name = &order.server.node_name;
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}, "labels": {
            "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "node-role.kubernetes.io/worker": "",
        }},
        "spec": {"taints": [
            {"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"},
            {"key": NOT_READY, "effect": "NoSchedule"},
        ]},
        "status": status(order, now),
    })
}

/// The whole status of a Node that is not ready yet.
pub fn status(order: &MachineOrder, now: DateTime<Utc>) -> Value {
    let server = &order.server;
    let shape = Shape::new(order.class.cpu.unwrap_or_default(), order.class.node_memory_ki);
    let list = |resources: [(&'static str, String); 4]| -> Map<String, Value> {
        resources
            .into_iter()
            .map(|(name, amount)| (name.to_owned(), json!(amount)))
            .collect()
    };
    json!({
        "capacity": list(shape.capacity()), "allocatable": list(shape.allocatable()),
        "addresses": [
            {"type": "ExternalIP", "address": server.ip}, {"type": "InternalIP", "address": server.internal_ip},
            {"type": "Hostname", "address": server.node_name},
        ],
        "conditions": conditions(now, Readiness::Starting),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "kubeletVersion": format!("v{}", order.kubernetes_version), "kubeProxyVersion": "", "osImage": "Ubuntu 22.04",
            "kernelVersion": "6.8.0-134-generic", "containerRuntimeVersion": "containerd://2.2.1", "architecture": "amd64",
            "operatingSystem": "linux", "machineID": server.uuid.replace('-', ""), "systemUUID": server.uuid,
            "bootID": server.internal_id,
        },
    })
}

/// What a kubelet says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// The network is not up yet.
    Starting,
    /// Ready.
    Ready,
}

/// The four conditions of a kubelet, all turned at `now`.
pub fn conditions(now: DateTime<Utc>, readiness: Readiness) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
               "lastHeartbeatTime": seconds(now), "lastTransitionTime": seconds(now)})
    };
    let ready = match readiness {
        Readiness::Ready => condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        Readiness::Starting => condition(
            "Ready",
            "False",
            "KubeletNotReady",
            "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized",
        ),
    };
    json!([
        condition(
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available"
        ),
        condition(
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure"
        ),
        condition(
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available"
        ),
        ready,
    ])
}

fn owner(node: &Node) -> Value {
    let uid = node.metadata.uid.clone().unwrap_or_default();
    let name = node.metadata.name.clone().unwrap_or_default();
    json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}])
}

/// The Lease that says the kubelet lives.
pub fn lease(node: &Node, seconds: u32, now: DateTime<Utc>) -> Value {
    let name = node.metadata.name.clone().unwrap_or_default();
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease", "ownerReferences": owner(node)},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": seconds.saturating_mul(4), "renewTime": micros(now)},
    })
}

/// What the Cinder CSI node plugin registers.
pub fn csi_node(node: &Node, server: &str) -> Value {
    let name = node.metadata.name.clone().unwrap_or_default();
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": {"name": name, "ownerReferences": owner(node)},
        "spec": {"drivers": [{
            "name": "cinder.csi.openstack.org", "nodeID": server, "topologyKeys": [CINDER_ZONE], "allocatable": {"count": 26},
        }]},
    })
}

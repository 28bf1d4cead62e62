//! What the state of a large cluster weighs: with 500 nodes and 15,000 pods the whole operator stays under 64 MiB (architecture §5), and the
//! state is only a part of it. A test binary of its own, since it measures its process.

use karpenter::cluster::entries::{NodeEntry, Reader};
use karpenter::cluster::{Cluster, Delta, Kind, Object, Source, Version};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The operator's, so that what is measured is what the operator would hold.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODES: usize = 500;
const PODS: usize = 15_000;
/// Half of what the operator may have.
const MOST_MIB: f64 = 32.0;

fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024.0
}

fn node(number: usize) -> Object {
    let name = format!("node-{number:04}");
    let labels: std::collections::BTreeMap<String, String> = (0..25)
        .map(|label| (format!("example.com/label-{label}"), format!("value-{label}")))
        .collect();
    let object = json!({
        "metadata": { "name": name, "uid": format!("node-uid-{number}"), "resourceVersion": "1", "labels": labels },
        "spec": { "providerID": format!("openstack:///{number}") },
        "status": {
            "capacity": { "cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110" },
            "allocatable": { "cpu": "7500m", "memory": "30Gi", "ephemeral-storage": "90Gi", "pods": "110" },
            "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status" }],
        },
    });
    Object::Node(Arc::new(NodeEntry::read(serde_json::from_value(object).unwrap())))
}

/// A pod as a Deployment of thirty makes it.
fn pod(number: usize, reader: &mut Reader) -> Object {
    let app = number / 30;
    let object = json!({
        "metadata": {
            "name": format!("app-{app:03}-6d4cf56db6-{number:05}"), "namespace": format!("team-{:02}", app % 20),
            "uid": format!("00000000-0000-0000-0000-{number:012}"), "resourceVersion": number.to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "app.kubernetes.io/name": format!("app-{app:03}"), "app.kubernetes.io/instance": "production",
                "app.kubernetes.io/version": "1.2.3", "pod-template-hash": "6d4cf56db6" },
            "annotations": { "prometheus.io/scrape": "true", "checksum/config": "0123456789abcdef" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("app-{app:03}-6d4cf56db6"),
                "uid": format!("rs-{app}"), "controller": true }],
        },
        "spec": {
            "nodeName": format!("node-{:04}", number % NODES),
            "containers": [{ "name": "main", "image": "registry/app:1.2.3", "ports": [{ "containerPort": 8080 }],
                "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" } } }],
            "tolerations": [
                { "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
                { "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 }],
            "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": { "matchLabels": { "app.kubernetes.io/name": format!("app-{app:03}") } } }],
        },
        "status": { "phase": "Running", "startTime": "2026-01-01T00:00:05Z", "conditions": [
            { "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z" },
            { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z" }] },
    });
    Object::Pod(Arc::new(reader.pod(&serde_json::from_value(object).unwrap())))
}

#[test]
fn a_large_cluster_fits_into_half_of_what_the_operator_may_have() {
    let now = chrono::DateTime::UNIX_EPOCH;
    let mut cluster = Cluster::new([], Arc::new(|_| None), now);
    // What reading needs for a moment is the allocator's by now, and not counted.
    let mut reader = Reader::new();
    drop((0..500).map(|number| pod(number, &mut reader)).collect::<Vec<_>>());
    let before = resident_mib();
    let mut listed = |kind, objects| {
        let (source, version, unread) = (Source::of(kind), Version::of(20_000), BTreeSet::new());
        cluster.observe(
            Delta::Listed {
                source,
                version,
                began: now,
                objects,
                unread,
            },
            now,
        );
    };
    listed(Kind::Node, (0..NODES).map(node).collect());
    listed(Kind::Pod, (0..PODS).map(|number| pod(number, &mut reader)).collect());
    let snapshot = cluster.snapshot();
    let nodes = snapshot.nodes_for_scheduling();
    let weight = resident_mib() - before;
    assert_eq!(nodes.iter().map(|node| node.pods.len()).sum::<usize>(), PODS);
    println!("state of {NODES} nodes and {PODS} pods: {weight:.1} MiB");
    assert!(weight < MOST_MIB, "{weight:.1} MiB");
}

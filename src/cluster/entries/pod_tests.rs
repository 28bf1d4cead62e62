use super::*;
use serde_json::{Value, json};

fn pod(name: &str, change: impl FnOnce(&mut Value)) -> core::Pod {
    let mut object = json!({
        "metadata": { "name": name, "namespace": "ns", "uid": name, "resourceVersion": "5",
            "labels": { "app": "web" }, "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": true }] },
        "spec": { "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "1" } } }],
            "volumes": [{ "name": format!("token-{name}"), "projected": {} }] },
        "status": { "phase": "Pending" },
    });
    change(&mut object);
    serde_json::from_value(object).unwrap()
}

#[test]
fn pods_of_one_owner_share_owner_namespace_and_the_empty_list_of_claims() {
    let mut reader = Reader::new();
    let (a, b) = (reader.pod(&pod("a", |_| {})), reader.pod(&pod("b", |_| {})));
    assert!(Arc::ptr_eq(&a.owners, &b.owners));
    assert!(Arc::ptr_eq(&a.claims, &b.claims));
    assert!(Arc::ptr_eq(&a.meta.key.scope, &b.meta.key.scope));
}

#[test]
fn pods_of_one_owner_share_what_placement_looks_at() {
    let mut reader = Reader::new();
    let bound = |p: &mut Value| p["spec"]["nodeName"] = json!("node");
    let (a, b) = (reader.pod(&pod("a", bound)), reader.pod(&pod("b", bound)));
    assert!(Arc::ptr_eq(&a.pod.labels, &b.pod.labels));
    assert!(Arc::ptr_eq(&a.pod.constraints, &b.pod.constraints));
    assert!(Arc::ptr_eq(&a.pod.requests, &b.pod.requests) && Arc::ptr_eq(&a.pod.limits, &b.pod.limits));
    let node = |pod: &PodEntry| pod.pod.standing.node.clone().unwrap();
    assert!(Arc::ptr_eq(&node(&a), &node(&b)));
}

#[test]
fn amounts_that_are_written_differently_stay_as_they_were_written() {
    let mut reader = Reader::new();
    let mut written = |text: &str| {
        let change = |p: &mut Value| p["spec"]["containers"][0]["resources"]["requests"] = json!({ "memory": text });
        reader.pod(&pod("a", change)).pod.requests.to_json()
    };
    let (binary, decimal) = (written("1Gi"), written("1073741824"));
    assert!(
        binary.contains("1Gi") && decimal.contains("1073741824"),
        "{binary} {decimal}"
    );
}

#[test]
fn the_claims_of_a_pod_are_named_even_when_ephemeral() {
    let read = Reader::new().pod(&pod("a", |p| {
        p["spec"]["volumes"] = json!([
            { "name": "data", "persistentVolumeClaim": { "claimName": "data-a" } },
            { "name": "tmp", "ephemeral": { "volumeClaimTemplate": { "spec": { "storageClassName": "fast" } } } },
            { "name": "cfg", "configMap": { "name": "x" } },
        ]);
    }));
    let names: Vec<&str> = read.claims.iter().map(|claim| &*claim.claim).collect();
    assert_eq!(names, ["data-a", "a-tmp"]);
    assert_eq!(read.claims[1].ephemeral.clone().flatten().as_deref(), Some("fast"));
}

#[test]
fn conditions_carry_their_time_and_gates_are_seen() {
    let read = Reader::new().pod(&pod("a", |p| {
        p["spec"]["schedulingGates"] = json!([{ "name": "g" }]);
        p["spec"]["priorityClassName"] = json!("system-node-critical");
        p["status"]["conditions"] =
            json!([{ "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z" }]);
    }));
    assert!(read.gated);
    assert_eq!(read.priority_class.as_deref(), Some("system-node-critical"));
    let scheduled = read.scheduled.unwrap();
    assert!(scheduled.state);
    assert_eq!(scheduled.since, time::parse_rfc3339("2026-01-01T00:00:05Z"));
    assert_eq!(read.ready, None);
}

#[test]
fn the_daemon_set_of_a_pod_is_the_one_that_controls_it() {
    let read = Reader::new().pod(&pod("a", |p| {
        p["metadata"]["ownerReferences"] = json!([
            { "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "other", "uid": "o" },
            { "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "d", "controller": true }]);
    }));
    assert_eq!(&*read.daemon_set().unwrap().name, "agent");
}

#[test]
fn an_empty_pod_is_read_without_complaint() {
    let read = Reader::new().pod(&core::Pod::default());
    assert!(!read.is_terminal() && !read.is_provisionable());
    assert_eq!(read.node(), None);
}

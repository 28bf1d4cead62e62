use super::*;
use crate::cluster::entries::{DaemonSetEntry, PvEntry, PvcEntry, StorageClassEntry};
use crate::cluster::state::tests::{at, claim, node, pod};
use crate::cluster::{Cluster, Delta, Object};
use serde_json::json;

fn with(objects: impl IntoIterator<Item = Object>) -> Arc<Snapshot> {
    let mut cluster = Cluster::new([], Arc::new(|_| None), at(0));
    for object in objects {
        cluster.observe(Delta::Applied(object), at(1));
    }
    cluster.snapshot()
}

fn read<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_claim_with_its_type_takes_part_and_one_without_does_not() {
    // architecture §3.4
    let unresolved = claim("early", 2, |c| c["status"] = json!({}));
    let snapshot = with([
        claim("c", 1, |_| {}),
        unresolved,
        node("n", 3, |_| {}),
        pod("p", 4, |p| {
            p["spec"]["nodeName"] = json!("n");
            p["status"] = json!({ "phase": "Running" });
        }),
    ]);
    let nodes = snapshot.nodes_for_scheduling();
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["c", "n"]);
    assert_eq!(
        (nodes[0].ownership, nodes[0].readiness),
        (Ownership::Managed, Readiness::ComingUp)
    );
    assert_eq!(
        (nodes[1].ownership, nodes[1].readiness),
        (Ownership::Foreign, Readiness::Initialized)
    );
    assert_eq!(nodes[1].pods.len(), 1);
}

#[test]
fn the_view_of_a_machine_is_made_once_while_nothing_about_it_changes() {
    let mut cluster = Cluster::new([], Arc::new(|_| None), at(0));
    cluster.observe(Delta::Applied(node("n", 1, |_| {})), at(1));
    let first = Arc::clone(&cluster.snapshot().nodes_for_scheduling()[0]);
    cluster.observe(Delta::Applied(pod("waiting", 2, |_| {})), at(1));
    assert!(Arc::ptr_eq(&first, &cluster.snapshot().nodes_for_scheduling()[0]));
    cluster.observe(
        Delta::Applied(pod("bound", 3, |p| p["spec"]["nodeName"] = json!("n"))),
        at(1),
    );
    assert_eq!(cluster.snapshot().nodes_for_scheduling()[0].pods.len(), 1);
}

#[test]
fn a_daemon_set_is_shown_by_its_pod_with_the_templates_affinity_or_by_its_template() {
    // scheduling 12-1
    let set = |name: &str| {
        let object = json!({ "metadata": { "name": name, "namespace": "ns", "uid": name, "resourceVersion": "1" }, "spec": {
            "selector": {}, "template": { "spec": { "containers": [{ "name": "c", "resources": { "limits": { "cpu": "1" } } }] } } } });
        Object::DaemonSet(Arc::new(DaemonSetEntry::read(read(object))))
    };
    let daemon = pod("seen-1", 3, |p| {
        p["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "seen", "uid": "seen", "controller": true }]);
        p["spec"]["affinity"] = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n"] }] }] } } });
    });
    let snapshot = with([set("seen"), set("unseen"), daemon]);
    let daemons = snapshot.daemons_for_scheduling();
    assert_eq!(daemons.len(), 2);
    assert_eq!(&*daemons[0].name, "seen-1");
    assert!(daemons[0].constraints.required_terms.is_empty());
    assert_eq!(
        daemons[1].requests.amount("cpu"),
        crate::resources::Quantity::units(1),
        "limits stand in for requests"
    );
}

#[test]
fn volumes_are_found_by_namespace_and_name() {
    let pvc = read(
        json!({ "metadata": { "name": "data", "namespace": "ns", "uid": "1", "resourceVersion": "1" },
        "spec": { "volumeName": "pv" } }),
    );
    let pv = read(
        json!({ "metadata": { "name": "pv", "uid": "2", "resourceVersion": "2" },
        "spec": { "csi": { "driver": "d", "volumeHandle": "h" }, "claimRef": { "namespace": "ns", "name": "data" } } }),
    );
    let class = read(json!({ "metadata": { "name": "fast", "uid": "3", "resourceVersion": "3" }, "provisioner": "d" }));
    let snapshot = with([
        Object::PersistentVolumeClaim(Arc::new(PvcEntry::read(&pvc))),
        Object::PersistentVolume(Arc::new(PvEntry::read(&pv))),
        Object::StorageClass(Arc::new(StorageClassEntry::read(&class))),
    ]);
    let volumes = snapshot.volumes_for_scheduling();
    assert_eq!(volumes.claims["ns/data"].volume.as_deref(), Some("pv"));
    assert_eq!(volumes.volumes["pv"].driver.as_deref(), Some("d"));
    assert!(volumes.classes.contains_key("fast"));
    assert!(Arc::ptr_eq(&volumes, &snapshot.volumes_for_scheduling()));
}

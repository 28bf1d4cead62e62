use super::*;
use crate::cluster::entries::{ClaimEntry, CsiNodeEntry, NodeEntry, PoolEntry, Reader};
use crate::cluster::{Pods, Uid, Version};
use serde_json::{Value, json};

pub(crate) const LABEL: &str = "example.com/claim-uid";

pub(crate) fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000 + seconds, 0).unwrap()
}

fn cluster() -> Cluster {
    let claim_of_node: ClaimOfNode = Arc::new(|labels| labels.get(LABEL).cloned());
    Cluster::new([], claim_of_node, at(0))
}

pub(crate) fn claim(name: &str, version: u64, change: impl FnOnce(&mut Value)) -> Object {
    let mut object = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": { "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "labels": { "karpenter.sh/nodepool": "pool", "node.kubernetes.io/instance-type": "big" } },
        "spec": { "nodeClassRef": { "group": "g", "kind": "K", "name": "n" }, "requirements": [] },
        "status": { "capacity": { "cpu": "4", "memory": "8Gi" }, "allocatable": { "cpu": "3", "memory": "7Gi" } },
    });
    change(&mut object);
    Object::NodeClaim(Arc::new(ClaimEntry::read(serde_json::from_value(object).unwrap())))
}

pub(crate) fn node(name: &str, version: u64, change: impl FnOnce(&mut Value)) -> Object {
    let mut object = json!({
        "metadata": { "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(), "labels": {} },
        "spec": {}, "status": { "capacity": { "cpu": "4" }, "allocatable": { "cpu": "3" } },
    });
    change(&mut object);
    Object::Node(Arc::new(NodeEntry::read(serde_json::from_value(object).unwrap())))
}

pub(crate) fn pod(name: &str, version: u64, change: impl FnOnce(&mut Value)) -> Object {
    let mut object = json!({
        "metadata": { "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": version.to_string() },
        "spec": { "containers": [{ "name": "c" }] },
        "status": { "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }] },
    });
    change(&mut object);
    Object::Pod(Arc::new(Reader::new().pod(&serde_json::from_value(object).unwrap())))
}

fn on(node: &'static str) -> impl FnOnce(&mut Value) {
    move |pod| {
        pod["spec"]["nodeName"] = json!(node);
        pod["status"] = json!({ "phase": "Running" });
    }
}

fn see(cluster: &mut Cluster, object: Object, second: i64) -> Vec<Change> {
    cluster.observe(Delta::Applied(object), at(second))
}

fn gone(cluster: &mut Cluster, kind: Kind, key: Key, second: i64) -> Vec<Change> {
    let uid: Uid = format!("uid-{}", key.name).into();
    cluster.observe(
        Delta::Deleted {
            kind,
            key,
            uid,
            version: Version::of(1_000_000),
        },
        at(second),
    )
}

fn machines(cluster: &mut Cluster) -> Vec<(String, Option<String>)> {
    let snapshot = cluster.snapshot();
    let show = |machine: &Arc<StateNode>| {
        (
            machine.id.to_string(),
            machine.node.as_ref().map(|node| node.name().to_owned()),
        )
    };
    snapshot.machines.values().map(show).collect()
}

fn joined(claim: &str, node: &str) -> Vec<(String, Option<String>)> {
    vec![(format!("nodeclaim/{claim}"), Some(node.to_owned()))]
}

fn labelled(node: &mut Value, uid: &str) {
    node["metadata"]["labels"] = json!({ LABEL: uid, "karpenter.sh/nodepool": "pool" });
}

#[test]
fn a_machine_counts_once_whichever_of_claim_and_node_comes_first_and_however_they_are_joined() {
    let by_uid = || node("n", 2, |n| labelled(n, "uid-c"));
    let by_id = || {
        node("n", 2, |n| {
            n["spec"]["providerID"] = json!("openstack:///1");
            n["metadata"]["labels"] =
                json!({ "karpenter.sh/nodepool": "pool", "node.kubernetes.io/instance-type": "x" });
        })
    };
    let with_id = || claim("c", 1, |c| c["status"]["providerID"] = json!("openstack:///1"));
    let cases: [(Object, Object); 2] = [(claim("c", 1, |_| {}), by_uid()), (with_id(), by_id())];
    for (claim, node) in cases {
        for order in [[claim.clone(), node.clone()], [node.clone(), claim.clone()]] {
            let mut cluster = cluster();
            for object in order {
                see(&mut cluster, object, 1);
                cluster.snapshot();
            }
            assert_eq!(machines(&mut cluster), joined("c", "n"));
        }
    }
}

#[test]
fn the_uid_wins_over_the_provider_id() {
    // architecture §3.4: the platform's IDs may be late or wrong, the claim's UID is ours
    let mut cluster = cluster();
    see(
        &mut cluster,
        claim("by-id", 1, |c| c["status"]["providerID"] = json!("id")),
        1,
    );
    see(
        &mut cluster,
        node("n", 2, |n| {
            labelled(n, "uid-by-uid");
            n["spec"]["providerID"] = json!("id");
        }),
        1,
    );
    assert_eq!(
        machines(&mut cluster),
        joined("by-id", "n"),
        "nobody else claims it yet"
    );
    see(&mut cluster, claim("by-uid", 3, |_| {}), 2);
    assert_eq!(
        machines(&mut cluster),
        [
            ("nodeclaim/by-id".to_owned(), None),
            ("nodeclaim/by-uid".to_owned(), Some("n".to_owned())),
        ]
    );
    gone(&mut cluster, Kind::NodeClaim, Key::cluster("by-uid"), 3);
    assert_eq!(machines(&mut cluster), joined("by-id", "n"), "and back");
}

#[test]
fn a_second_server_of_one_claim_does_not_become_its_node() {
    // architecture §7.21
    let mut cluster = cluster();
    let of_c = |name, id: &'static str, version, created: &'static str| {
        node(name, version, |n| {
            labelled(n, "uid-c");
            n["metadata"]["labels"]["node.kubernetes.io/instance-type"] = json!("x");
            n["metadata"]["creationTimestamp"] = json!(created);
            n["spec"]["providerID"] = json!(id);
        })
    };
    see(&mut cluster, claim("c", 1, |_| {}), 1);
    see(&mut cluster, of_c("second", "2", 2, "2026-01-02T00:00:00Z"), 1);
    see(&mut cluster, of_c("zfirst", "1", 3, "2026-01-01T00:00:00Z"), 1);
    let expected = |own: &str, other: &str| {
        vec![
            ("nodeclaim/c".to_owned(), Some(own.to_owned())),
            (format!("node/{other}"), Some(other.to_owned())),
        ]
    };
    assert_eq!(machines(&mut cluster), expected("zfirst", "second"), "the oldest");
    see(
        &mut cluster,
        claim("c", 4, |c| c["status"]["nodeName"] = json!("second")),
        2,
    );
    assert_eq!(
        machines(&mut cluster),
        expected("second", "zfirst"),
        "the one that the claim names"
    );
}

#[test]
fn a_node_of_ours_without_claim_is_left_out_until_it_can_be_told() {
    // lifecycle 16.2
    let mut cluster = cluster();
    let ours = |version, id: Option<&'static str>, type_: Option<&'static str>| {
        node("n", version, |n| {
            n["metadata"]["labels"] = json!({ "karpenter.sh/nodepool": "pool" });
            if let Some(id) = id {
                n["spec"]["providerID"] = json!(id);
            }
            if let Some(type_) = type_ {
                n["metadata"]["labels"]["node.kubernetes.io/instance-type"] = json!(type_);
            }
        })
    };
    see(&mut cluster, ours(1, None, Some("x")), 1);
    assert!(machines(&mut cluster).is_empty());
    see(&mut cluster, ours(2, Some("id"), None), 1);
    assert!(machines(&mut cluster).is_empty());
    see(&mut cluster, ours(3, Some("id"), Some("x")), 1);
    assert_eq!(machines(&mut cluster).len(), 1);
    see(&mut cluster, node("other", 4, |_| {}), 1);
    assert_eq!(machines(&mut cluster).len(), 2, "a node that is not ours needs nothing");
}

#[test]
fn removing_one_half_leaves_the_other() {
    // lifecycle 16.3
    let mut cluster = cluster();
    see(&mut cluster, claim("c", 1, |_| {}), 1);
    see(
        &mut cluster,
        node("n", 2, |n| {
            labelled(n, "uid-c");
            n["metadata"]["labels"]["node.kubernetes.io/instance-type"] = json!("x");
            n["spec"]["providerID"] = json!("id");
        }),
        1,
    );
    gone(&mut cluster, Kind::NodeClaim, Key::cluster("c"), 2);
    assert_eq!(machines(&mut cluster), [("node/n".to_owned(), Some("n".to_owned()))]);
    gone(&mut cluster, Kind::Node, Key::cluster("n"), 3);
    assert!(machines(&mut cluster).is_empty());
}

#[test]
fn a_nodes_pods_are_known_whichever_comes_first_and_ended_ones_do_not_count() {
    let mut cluster = cluster();
    see(&mut cluster, pod("early", 1, on("n")), 1);
    see(&mut cluster, node("n", 2, |_| {}), 1);
    see(&mut cluster, pod("late", 3, on("n")), 1);
    let names = |cluster: &mut Cluster| -> Vec<String> {
        let snapshot = cluster.snapshot();
        let machine = snapshot.machine_of_node("n").unwrap();
        machine.pods.iter().map(|pod| pod.name().to_owned()).collect()
    };
    assert_eq!(names(&mut cluster), ["early", "late"]);
    see(
        &mut cluster,
        pod("late", 4, |p| {
            on("n")(p);
            p["status"] = json!({ "phase": "Succeeded" });
        }),
        2,
    );
    assert_eq!(names(&mut cluster), ["early"]);
    gone(&mut cluster, Kind::Pod, Key::namespaced("ns", "early"), 3);
    assert!(names(&mut cluster).is_empty());
}

#[test]
fn changes_say_what_happened() {
    let mut cluster = cluster();
    let what = |changes: Vec<Change>| changes.into_iter().map(|change| change.what).collect::<Vec<_>>();
    assert_eq!(what(see(&mut cluster, pod("p", 1, |_| {}), 1)), [What::Appeared]);
    assert_eq!(what(see(&mut cluster, pod("p", 2, on("n")), 1)), [What::Bound]);
    assert_eq!(what(see(&mut cluster, pod("p", 1, |_| {}), 1)), [], "an older event");
    assert_eq!(
        what(see(
            &mut cluster,
            pod("p", 3, |p| {
                on("n")(p);
                p["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }),
            1
        )),
        [What::Deleting]
    );
    assert_eq!(
        what(see(
            &mut cluster,
            pod("p", 4, |p| {
                on("n")(p);
                p["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                p["status"] = json!({ "phase": "Failed" });
            }),
            1
        )),
        [What::Ended]
    );
    assert_eq!(
        what(gone(&mut cluster, Kind::Pod, Key::namespaced("ns", "p"), 1)),
        [What::Gone]
    );
    assert_eq!(what(see(&mut cluster, node("n", 5, |_| {}), 1)), [What::Appeared]);
    assert_eq!(what(see(&mut cluster, node("n", 6, |_| {}), 1)), [], "a heartbeat");
}

#[test]
fn a_plan_lasts_until_the_pod_is_bound_or_its_machine_dies() {
    // architecture §3.3
    let mut cluster = cluster();
    see(&mut cluster, claim("c", 1, |_| {}), 1);
    for name in ["a", "b"] {
        see(&mut cluster, pod(name, 2, |_| {}), 1);
    }
    let plan = |name: &str| Plan {
        pod: Key::namespaced("ns", name),
        uid: format!("uid-{name}").into(),
        machine: MachineId::Claim("c".into()),
    };
    cluster.plan([plan("a"), plan("b"), plan("unknown")]);
    let planned = |cluster: &mut Cluster| cluster.snapshot().plans.len();
    assert_eq!(planned(&mut cluster), 2);
    assert_eq!(cluster.snapshot().machine_of_claim("c").unwrap().planned.len(), 2);
    see(&mut cluster, pod("a", 3, on("n")), 2);
    assert_eq!(planned(&mut cluster), 1);
    gone(&mut cluster, Kind::NodeClaim, Key::cluster("c"), 3);
    assert_eq!(planned(&mut cluster), 0);
    cluster.plan([plan("b")]);
    assert_eq!(planned(&mut cluster), 0, "the machine is not there any more");
}

#[test]
fn a_plan_is_not_for_a_successor_of_the_same_name() {
    let mut cluster = cluster();
    see(&mut cluster, claim("c", 1, |_| {}), 1);
    see(&mut cluster, pod("a", 2, |_| {}), 1);
    cluster.plan([Plan {
        pod: Key::namespaced("ns", "a"),
        uid: "uid-a".into(),
        machine: MachineId::Claim("c".into()),
    }]);
    see(
        &mut cluster,
        pod("a", 3, |p| p["metadata"]["uid"] = json!("another")),
        2,
    );
    assert!(cluster.snapshot().plans.is_empty());
}

#[test]
fn the_consolidation_state_is_renewed_by_what_consolidation_looks_at() {
    // lifecycle 16.9
    let mut cluster = cluster();
    let stamp = |cluster: &mut Cluster, second| cluster.snapshot().consolidation_state(at(second));
    see(&mut cluster, node("n", 1, |_| {}), 1);
    assert_eq!(stamp(&mut cluster, 2), at(1), "a node appeared");
    see(&mut cluster, pod("p", 2, |_| {}), 3);
    assert_eq!(stamp(&mut cluster, 4), at(1), "a pod that waits changes nothing");
    see(&mut cluster, pod("p", 3, on("n")), 5);
    assert_eq!(stamp(&mut cluster, 6), at(5), "it was bound");
    see(
        &mut cluster,
        pod("p", 4, |p| {
            on("n")(p);
            p["status"] = json!({ "phase": "Succeeded" });
        }),
        7,
    );
    assert_eq!(stamp(&mut cluster, 8), at(5), "a pod that ends does not renew it");
    gone(&mut cluster, Kind::Pod, Key::namespaced("ns", "p"), 9);
    assert_eq!(stamp(&mut cluster, 10), at(9), "but its deletion does");
    see(
        &mut cluster,
        node("n", 5, |n| {
            n["metadata"]["labels"] = json!({ "karpenter.sh/initialized": "true" });
        }),
        11,
    );
    assert_eq!(stamp(&mut cluster, 12), at(11), "initialized");
    cluster.mark([MachineId::Node("n".into())], Mark::ForDeletion);
    assert_eq!(stamp(&mut cluster, 13), at(11), "a mark does not");
    assert_eq!(stamp(&mut cluster, 11 + 299), at(11));
    assert_eq!(
        stamp(&mut cluster, 11 + 301),
        at(11 + 300),
        "by itself every five minutes"
    );
    assert_eq!(stamp(&mut cluster, 11 + 601), at(11 + 600));
}

#[test]
fn the_totals_of_a_pool_leave_out_what_is_going_and_name_what_has_no_type_yet() {
    // lifecycle 16.7, architecture §3.4
    let mut cluster = cluster();
    see(&mut cluster, claim("a", 1, |_| {}), 1);
    see(
        &mut cluster,
        claim("b", 2, |c| {
            c["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }),
        1,
    );
    see(
        &mut cluster,
        claim("new", 3, |c| {
            c["status"] = json!({});
            c["metadata"]["labels"] = json!({ "karpenter.sh/nodepool": "pool" });
        }),
        1,
    );
    let totals = cluster.snapshot().totals();
    let pool = &totals["pool"];
    assert_eq!(pool.resources.amount("cpu"), crate::resources::Quantity::units(4));
    assert_eq!(pool.resources.amount("nodes"), crate::resources::Quantity::units(2));
    assert_eq!(
        pool.unresolved
            .iter()
            .map(|claim| claim.name().to_owned())
            .collect::<Vec<_>>(),
        ["new"]
    );
    let claims = &cluster.snapshot().claims_by_pool()["pool"];
    assert_eq!((claims.active.len(), claims.deleting.len()), (2, 1));
    cluster.mark([MachineId::Claim("a".into())], Mark::ForDeletion);
    assert_eq!(
        cluster.snapshot().totals()["pool"].resources.amount("nodes"),
        crate::resources::Quantity::units(1)
    );
    cluster.mark([MachineId::Claim("a".into())], Mark::Not);
    assert_eq!(
        cluster.snapshot().totals()["pool"].resources.amount("nodes"),
        crate::resources::Quantity::units(2)
    );
}

#[test]
fn a_daemon_set_is_represented_by_its_newest_pod_until_the_set_goes() {
    // lifecycle 16.12
    let mut cluster = cluster();
    let daemon = |name: &str, version, created: &'static str| {
        pod(name, version, |p| {
            on("n")(p);
            p["metadata"]["creationTimestamp"] = json!(created);
            p["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "d", "controller": true }]);
        })
    };
    let shown = |daemons: &Pods| daemons.values().map(|pod| pod.name().to_owned()).collect::<Vec<_>>();
    see(&mut cluster, daemon("old", 1, "2026-01-01T00:00:00Z"), 1);
    see(&mut cluster, daemon("new", 2, "2026-01-02T00:00:00Z"), 1);
    see(&mut cluster, daemon("old", 3, "2026-01-01T00:00:00Z"), 1);
    assert_eq!(shown(&cluster.snapshot().daemons), ["new"]);
    gone(&mut cluster, Kind::Pod, Key::namespaced("ns", "new"), 2);
    assert_eq!(
        shown(&cluster.snapshot().daemons),
        ["new"],
        "an old picture is better than none"
    );
    gone(&mut cluster, Kind::DaemonSet, Key::namespaced("ns", "agent"), 3);
    assert_eq!(
        shown(&cluster.snapshot().daemons).len(),
        1,
        "the set was never seen, so nothing is known to go"
    );
}

#[test]
fn a_nomination_protects_its_machine_and_volume_limits_come_with_the_node() {
    let mut cluster = cluster();
    see(&mut cluster, node("n", 1, |_| {}), 1);
    let csi = json!({ "metadata": { "name": "n", "uid": "csi", "resourceVersion": "2" },
        "spec": { "drivers": [{ "name": "d", "nodeID": "n", "allocatable": { "count": 7 } }, { "name": "e", "nodeID": "n" }] } });
    see(
        &mut cluster,
        Object::CsiNode(Arc::new(CsiNodeEntry::read(serde_json::from_value(csi).unwrap()))),
        1,
    );
    cluster.nominate(MachineId::Node("n".into()), at(20));
    cluster.nominate(MachineId::Node("unknown".into()), at(20));
    let snapshot = cluster.snapshot();
    let machine = snapshot.machine_of_node("n").unwrap();
    assert!(machine.is_nominated(at(19)) && !machine.is_nominated(at(20)));
    assert_eq!(machine.volume_limits.get("d"), Some(&7));
    assert_eq!(machine.volume_limits.len(), 1);
}

#[test]
fn the_state_is_complete_once_every_awaited_list_is_in_or_unserved() {
    let sources = [Source::of(Kind::NodePool), Source::of(Kind::NodeOverlay)];
    let mut cluster = Cluster::new(sources.clone(), Arc::new(|_| None), at(0));
    assert!(!cluster.snapshot().complete);
    let [pools, overlays] = sources;
    let pool = json!({ "metadata": { "name": "p", "uid": "p", "resourceVersion": "1" }, "spec": { "template": {
        "spec": { "nodeClassRef": { "group": "g", "kind": "K", "name": "n" }, "requirements": [] } } } });
    let objects = vec![Object::NodePool(Arc::new(PoolEntry::read(
        serde_json::from_value(pool).unwrap(),
    )))];
    let (version, unread) = (Version::of(1), BTreeSet::new());
    cluster.observe(
        Delta::Listed {
            source: pools,
            version,
            began: at(0),
            objects,
            unread,
        },
        at(1),
    );
    assert!(!cluster.snapshot().complete);
    cluster.observe(Delta::Unserved(overlays.clone()), at(1));
    let snapshot = cluster.snapshot();
    assert!(snapshot.complete && snapshot.pool("p").is_some() && snapshot.unserved.contains(&overlays));
}

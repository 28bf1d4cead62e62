use super::*;
use crate::spot::{Options, Platform};
use serde_json::json;

const POOL: &str = "7f3b0c52-4c1e-4f0e-9a55-0d2f6a1b9c11";

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
}

/// A server whose Node registers at second 1000, with a label, an annotation, a label the cloud owns, and a taint.
fn order() -> MachineOrder {
    let mut platform = Platform::new(Options::default(), at(0));
    let body = json!({"metadata": {"name": POOL}, "spec": {"serverClass": "ch.vs1.large-iad", "desired": 1, "cloudSpace": "sandbox",
        "bidPrice": "0.01", "customLabels": {"team": "a", "topology.kubernetes.io/region": "mine", "topology.kubernetes.io/zone": "z"},
        "customAnnotations": {"note": "n"}, "customTaints": [{"key": "dedicated", "value": "ci", "effect": "NoSchedule"}]}});
    let path = "/apis/ngpc.rxt.io/v1/namespaces/org-knyiltp8zznvkz5g/spotnodepools";
    let call = platform.call("POST", path, &body);
    assert_eq!(platform.answer(at(1), &call).code, 201);
    platform.advance(at(20));
    let mut order = platform.machine_orders().remove(0);
    order.server.phase = Phase::Active;
    order.server.joins_at = Some(at(1000));
    order.server.ready_after = TimeDelta::seconds(20);
    order.server.labels_after = TimeDelta::seconds(3);
    order
}

fn registered() -> MachineOrder {
    let mut order = order();
    order.server.registered_at = Some(at(1000));
    order
}

fn node(order: &MachineOrder, change: impl FnOnce(&mut Value)) -> Node {
    let mut node = birth::node(order, at(1000));
    node["metadata"]["resourceVersion"] = json!("7");
    change(&mut node);
    serde_json::from_value(node).unwrap()
}

/// A memory with nothing to do for Lease and CSINode.
fn settled(second: i64) -> Memory {
    Memory {
        leased: Some(at(second)),
        has_csi_node: true,
        cleaned: false,
    }
}

fn acts(order: &MachineOrder, node: Option<&Node>, second: i64) -> Vec<Act> {
    plan(order, node, settled(second), &MachineOptions::default(), at(second)).acts
}

fn apply(node: &Node, patch: &Value) -> Node {
    let mut object = serde_json::to_value(node).unwrap();
    json_patch::merge(&mut object, patch);
    serde_json::from_value(object).unwrap()
}

fn only_patch(acts: &[Act]) -> &Value {
    let [Act::PatchNode(patch), ..] = acts else {
        panic!("{acts:?}")
    };
    patch
}

#[test]
fn the_node_registers_at_its_instant_with_a_kubelets_taints_and_what_the_machine_really_has() {
    let order = order();
    assert_eq!(
        plan(&order, None, settled(0), &MachineOptions::default(), at(999)).next,
        Some(at(1000))
    );
    let acts = acts(&order, None, 1000);
    let [Act::Register(node)] = acts.as_slice() else {
        panic!("{acts:?}")
    };
    assert_eq!(
        node["status"]["allocatable"]["memory"], "6457304Ki",
        "rackspace-spot 5.5"
    );
    assert_eq!(node["spec"]["taints"][0]["key"], UNINITIALIZED);
    assert_eq!(node["spec"]["taints"][1]["key"], NOT_READY);
    let name = node["metadata"]["name"].as_str().unwrap();
    let digits = name.strip_prefix("prod-instance-").unwrap();
    assert!(
        digits.len() == 17 && digits.bytes().all(|byte| byte.is_ascii_digit()),
        "rackspace-spot 5.2: {name}"
    );
}

#[test]
fn the_cloud_controller_writes_its_labels_and_provider_id_and_restores_them() {
    // rows 24, 25; rackspace-spot 5.3
    let order = registered();
    let fresh = node(&order, |node| {
        node["metadata"]["labels"]["node.kubernetes.io/instance-type"] = json!("ch.vs1.large-iad");
    });
    let acts_at_two = acts(&order, Some(&fresh), 1002);
    let patch = only_patch(&acts_at_two);
    assert_eq!(
        patch["spec"]["providerID"],
        json!(format!("openstack:///{}", order.server.uuid))
    );
    assert_eq!(
        patch["metadata"]["labels"]["node.kubernetes.io/instance-type"],
        "compute1-8"
    );
    assert_eq!(patch["metadata"]["labels"]["topology.kubernetes.io/region"], "IAD");
    assert_eq!(
        patch["spec"]["taints"],
        json!([{"effect": "NoSchedule", "key": NOT_READY}])
    );
    let mut done = apply(&fresh, patch);
    done.metadata
        .labels
        .as_mut()
        .unwrap()
        .insert("node.kubernetes.io/instance-type".into(), "edited".into());
    let again = acts(&order, Some(&done), 1002);
    assert_eq!(
        only_patch(&again)["metadata"]["labels"],
        json!({"node.kubernetes.io/instance-type": "compute1-8"})
    );
}

#[test]
fn pool_metadata_comes_within_seconds_except_what_the_cloud_owns() {
    // row 23; rackspace-spot 4.4
    let order = registered();
    let fresh = node(&order, |_| {});
    assert!(acts(&order, Some(&fresh), 1001).is_empty());
    let acts = acts(&order, Some(&fresh), 1003);
    let patch = only_patch(&acts);
    let labels = &patch["metadata"]["labels"];
    assert_eq!(
        (&labels["team"], &labels["topology.kubernetes.io/zone"]),
        (&json!("a"), &json!("z"))
    );
    assert_eq!(labels["topology.kubernetes.io/region"], "IAD");
    assert_eq!(labels["servers.ngpc.rxt.io/class"], "ch.vs1.large-iad");
    assert_eq!(labels["servers.ngpc.rxt.io/type"], "spot");
    assert_eq!(labels["nodepool.ngpc.rxt.io/name"], POOL);
    assert_eq!(patch["metadata"]["annotations"]["note"], "n");
    assert_eq!(
        acts.last(),
        Some(&Act::Applied(Applied::Labels)),
        "reported only after it was written"
    );
}

#[test]
fn labels_that_leave_the_pool_leave_the_node() {
    let mut order = registered();
    order.server.applied = Some((order.labels.clone(), order.annotations.clone()));
    order.labels.remove("team");
    let node = node(&order, |node| node["metadata"]["labels"]["team"] = json!("a"));
    let acts = acts(&order, Some(&node), 1003);
    assert_eq!(only_patch(&acts)["metadata"]["labels"]["team"], Value::Null);
}

fn ready_node(order: &MachineOrder) -> Node {
    node(order, |node| {
        node["spec"] = json!({"providerID": format!("openstack:///{}", order.server.uuid)});
        for (label, value) in CLOUD_LABELS.iter().zip(["compute1-8", "compute1-8", "IAD", "IAD"]) {
            node["metadata"]["labels"][*label] = json!(value);
        }
        node["status"]["conditions"] = birth::conditions(at(1020), Readiness::Ready);
    })
}

#[test]
fn a_node_becomes_ready_after_a_while_and_its_taints_come_sixty_seconds_later_and_once() {
    // row 23
    let mut order = registered();
    order.server.applied = Some((order.labels.clone(), order.annotations.clone()));
    let starting = node(&order, |node| node["spec"] = json!({}));
    let labelled = apply(&starting, only_patch(&acts(&order, Some(&starting), 1010)));
    assert!(acts(&order, Some(&labelled), 1019).is_empty());
    assert!(matches!(
        acts(&order, Some(&labelled), 1020).as_slice(),
        [Act::PatchStatus(_)]
    ));
    let ready = ready_node(&order);
    assert!(acts(&order, Some(&ready), 1079).is_empty());
    let late = acts(&order, Some(&ready), 1080);
    assert_eq!(
        only_patch(&late)["spec"]["taints"],
        json!([{"effect": "NoSchedule", "key": "dedicated", "value": "ci"}])
    );
    assert_eq!(late.last(), Some(&Act::Applied(Applied::Taints)));
    order.server.tainted = true;
    assert!(
        acts(&order, Some(&ready), 1081).is_empty(),
        "a removed taint is not put back"
    );
}

#[test]
fn the_kubelet_renews_its_lease_every_ten_seconds_and_its_status_every_five_minutes() {
    let mut order = registered();
    order.server.applied = Some((order.labels.clone(), order.annotations.clone()));
    order.server.tainted = true;
    let ready = ready_node(&order);
    let options = MachineOptions::default();
    let idle = plan(&order, Some(&ready), settled(1100), &options, at(1109));
    assert_eq!((idle.acts.len(), idle.next), (0, Some(at(1110))));
    assert_eq!(
        plan(&order, Some(&ready), settled(1100), &options, at(1110)).acts,
        [Act::RenewLease]
    );
    assert!(matches!(
        acts(&order, Some(&ready), 1320).as_slice(),
        [Act::PatchStatus(_)]
    ));
}

#[test]
fn a_dead_machine_falls_silent_and_its_node_is_deleted_by_the_cloud_controller_unless_it_lingers() {
    // row 19
    let mut order = registered();
    order.server.phase = Phase::Dead;
    order.server.node_deleted_at = Some(at(2050));
    let ready = ready_node(&order);
    assert!(acts(&order, Some(&ready), 2049).is_empty());
    assert_eq!(acts(&order, Some(&ready), 2050), [Act::DeleteNode]);
    assert_eq!(acts(&order, None, 2051), [Act::CleanUp]);
    order.node_lingers = true;
    assert!(acts(&order, Some(&ready), 9999).is_empty());
}

#[test]
fn silence_is_unknown_after_forty_seconds_if_we_are_the_node_lifecycle_controller() {
    let mut order = registered();
    order.server.sick = true;
    let ready = ready_node(&order);
    let here = MachineOptions {
        node_lifecycle: NodeLifecycle::Here,
        ..MachineOptions::default()
    };
    let look = |second| plan(&order, Some(&ready), settled(1100), &here, at(second)).acts;
    assert!(look(1139).is_empty());
    let acts = look(1140);
    let [Act::PatchStatus(patch)] = acts.as_slice() else {
        panic!("{acts:?}")
    };
    assert_eq!(patch["status"]["conditions"][3]["status"], "Unknown");
    assert!(
        plan(
            &order,
            Some(&ready),
            settled(1100),
            &MachineOptions::default(),
            at(9999)
        )
        .acts
        .is_empty()
    );
}

#[test]
fn a_node_that_was_deleted_by_hand_does_not_come_back() {
    assert!(acts(&registered(), None, 1500).is_empty());
}

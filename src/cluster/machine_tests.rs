use super::*;
use crate::cluster::Object;
use crate::cluster::state::tests::{at, claim, node};
use serde_json::{Value, json};

fn machine(claim_: Option<Object>, node_: Option<Object>) -> StateNode {
    let claim = claim_.map(|object| {
        if let Object::NodeClaim(claim) = object {
            claim
        } else {
            panic!("a claim")
        }
    });
    let node = node_.map(|object| {
        if let Object::Node(node) = object {
            node
        } else {
            panic!("a node")
        }
    });
    StateNode {
        id: MachineId::Claim("c".into()),
        claim,
        node,
        pods: Arc::default(),
        planned: Arc::default(),
        marked: false,
        nominated_until: None,
        volume_limits: VolumeLimits::default(),
        view: OnceLock::new(),
    }
}

fn keys(taints: &[Taint]) -> Vec<&str> {
    taints.iter().map(|taint| taint.key.as_str()).collect()
}

fn tainted(object: &mut Value) {
    object["spec"]["taints"] = json!([
        { "key": "own", "effect": "NoSchedule" },
        { "key": "starting", "effect": "NoSchedule" },
        { "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" },
        { "key": "karpenter.sh/unregistered", "effect": "NoExecute" },
    ]);
}

fn with_startup(object: &mut Value) {
    object["spec"]["taints"] = json!([{ "key": "of-claim", "effect": "NoSchedule" }]);
    object["spec"]["startupTaints"] = json!([{ "key": "starting", "effect": "NoSchedule" }]);
}

fn stage(labels: Value) -> impl FnOnce(&mut Value) {
    move |node| {
        tainted(node);
        node["metadata"]["labels"] = labels;
    }
}

#[test]
fn taints_are_the_claims_until_registered_and_what_passes_is_left_out_until_initialized() {
    // lifecycle 16.4
    let claim = || Some(claim("c", 1, with_startup));
    let unregistered = machine(claim(), Some(node("n", 1, stage(json!({})))));
    assert_eq!(keys(&unregistered.taints()), ["of-claim"]);
    let registered = machine(
        claim(),
        Some(node("n", 1, stage(json!({ "karpenter.sh/registered": "true" })))),
    );
    assert_eq!(keys(&registered.taints()), ["own"]);
    let both = json!({ "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true" });
    let initialized = machine(claim(), Some(node("n", 1, stage(both))));
    assert_eq!(initialized.taints().len(), 4);
    let others = machine(None, Some(node("n", 1, stage(json!({})))));
    assert_eq!(others.taints().len(), 4, "a node that is not ours shows everything");
}

#[test]
fn names_and_labels_come_from_the_claim_until_registered() {
    let labels = |registered: &str| json!({ "karpenter.sh/registered": registered, "from": "node" });
    let before = machine(Some(claim("c", 1, |_| {})), Some(node("n", 1, stage(labels("false")))));
    assert_eq!((before.name(), before.label("from")), ("c", None));
    let after = machine(Some(claim("c", 1, |_| {})), Some(node("n", 1, stage(labels("true")))));
    assert_eq!((after.name(), after.label("from")), ("n", Some("node")));
    assert_eq!(after.hostname(), "n");
    // architecture §7.14
    assert_eq!(after.instance_type(), Some("big"));
}

#[test]
fn resources_are_the_nodes_where_it_has_any_and_the_claims_otherwise_until_initialized() {
    // scheduling 23-7
    let sized = |labels: Value| {
        node("n", 1, |n| {
            n["metadata"]["labels"] = labels;
            n["status"]["allocatable"] = json!({ "cpu": "2", "memory": "0", "gpu": "0" });
        })
    };
    let early = machine(Some(claim("c", 1, |_| {})), Some(sized(json!({}))));
    assert_eq!(early.allocatable().amount("cpu"), Quantity::units(2));
    assert_eq!(early.allocatable().amount("memory").value(), 7 << 30);
    assert!(early.allocatable().get("gpu").is_some_and(Quantity::is_zero));
    let late = machine(
        Some(claim("c", 1, |_| {})),
        Some(sized(json!({ "karpenter.sh/initialized": "true" }))),
    );
    assert!(late.allocatable().amount("memory").is_zero());
    let alone = machine(Some(claim("c", 1, |_| {})), None);
    assert_eq!(alone.allocatable().amount("cpu"), Quantity::units(3));
    assert_eq!(alone.capacity().amount("nodes"), Quantity::units(1));
}

#[test]
fn a_machine_is_marked_by_flag_by_its_claim_or_if_it_has_none_by_its_node() {
    // lifecycle 16.5
    let deleting = |object: &mut Value| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let terminating = |object: &mut Value| {
        object["status"]["conditions"] = json!([{ "type": "InstanceTerminating", "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "InstanceTerminating", "message": "" }]);
    };
    assert!(!machine(Some(claim("c", 1, |_| {})), Some(node("n", 1, |_| {}))).is_marked_for_deletion());
    assert!(machine(Some(claim("c", 1, deleting)), None).is_marked_for_deletion());
    assert!(machine(Some(claim("c", 1, terminating)), None).is_marked_for_deletion());
    assert!(machine(None, Some(node("n", 1, deleting))).is_marked_for_deletion());
    assert!(!machine(Some(claim("c", 1, |_| {})), Some(node("n", 1, deleting))).is_marked_for_deletion());
    let mut flagged = machine(Some(claim("c", 1, |_| {})), None);
    flagged.marked = true;
    assert!(flagged.is_marked_for_deletion());
}

#[test]
fn a_claim_is_resolved_once_its_type_and_allocatable_are_written() {
    assert!(machine(Some(claim("c", 1, |_| {})), None).is_resolved());
    assert!(!machine(Some(claim("c", 1, |c| c["status"] = json!({}))), None).is_resolved());
    let mut nominated = machine(None, Some(node("n", 1, |_| {})));
    nominated.nominated_until = Some(at(1));
    assert!(nominated.is_nominated(at(0)));
}

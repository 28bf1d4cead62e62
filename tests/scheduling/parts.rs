//! The small parts by example: prices, allocatable, host ports, what a pod asks for, which pods move, what an overlay may say.

use crate::pods::*;
use crate::world::*;
use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter::api::{NodeOverlay, validation};
use karpenter::resources::{Quantity, ResourceList, names};
use karpenter::scheduling::pdb::{Budget, is_currently_reschedulable};
use karpenter::scheduling::pod::{DoNotDisrupt, Phase};
use karpenter::scheduling::ports::HostPort;
use karpenter::scheduling::{InstanceType, Overhead, Pod, Requirements, adjusted_price};
use serde_json::{Value, json};

#[test]
fn an_adjustment_makes_of_a_price_what_its_sign_says() {
    // PRC-1 to PRC-17
    let cases = [
        (10.0, "-10%", 9.0),
        (10.0, "+10%", 11.0),
        (10.0, "-50%", 5.0),
        (10.0, "+100%", 20.0),
        (10.0, "-100%", 0.0),
        (10.0, "-200%", 0.0),
        (1.5, "-25%", 1.125),
        (10.0, "+0", 10.0),
        (10.0, "+5", 15.0),
        (10.0, "-2.5", 7.5),
        (10.0, "-10", 0.0),
        (10.0, "-15", 0.0),
        (1.25, "+0.75", 2.0),
        (0.001, "+100", 100.001),
        (0.0001, "+0.0001", 0.0002),
        (82781.0, "80.0", 80.0),
        (82781.0, "", 82781.0),
    ];
    for (price, adjustment, expected) in cases {
        let made: f64 = adjusted_price(price, adjustment);
        assert!((made - expected).abs() < 1e-9, "{price} {adjustment}: {made}");
    }
}

#[test]
fn huge_pages_are_taken_from_memory() {
    // ALO-1, ALO-2
    let gibibytes = |amount: i64| Quantity::bytes(amount << 30);
    let allocatable = |small: i64, large: i64| {
        let capacity = ResourceList::new()
            .with(names::CPU, Quantity::units(5))
            .with(names::MEMORY, gibibytes(20))
            .with("hugepages-2Mi", gibibytes(small))
            .with("hugepages-1Gi", gibibytes(large));
        let overhead = Overhead {
            kube_reserved: ResourceList::new()
                .with(names::CPU, Quantity::millis(125))
                .with(names::MEMORY, gibibytes(1)),
            ..Overhead::default()
        };
        InstanceType::new("t", Requirements::new(), Vec::new(), capacity, overhead)
            .allocatable()
            .clone()
    };
    let usual = allocatable(5, 10);
    assert_eq!(
        (usual.amount(names::MEMORY), usual.amount(names::CPU)),
        (gibibytes(4), Quantity::millis(4875))
    );
    assert_eq!(allocatable(50, 10).amount(names::MEMORY), Quantity::ZERO);
}

fn host_port(ip: &str, port: i32, protocol: &str) -> HostPort {
    HostPort {
        ip: ip.to_owned(),
        port,
        protocol: protocol.to_owned(),
    }
}

#[test]
fn host_ports_conflict_by_port_protocol_and_address() {
    // HP-1 to HP-6
    let own = host_port("10.0.0.0", 4443, "TCP");
    assert_eq!(own.to_string(), "IP=10.0.0.0 Port=4443 Proto=TCP");
    let cases = [
        (own.clone(), true),
        (host_port("0.0.0.0", 4443, "TCP"), true),
        (host_port("::", 4443, "TCP"), true),
        (host_port("10.0.0.0", 4443, "SCTP"), false),
        (host_port("10.0.0.0", 443, "TCP"), false),
    ];
    for (other, expected) in cases {
        assert_eq!(
            (own.conflicts(&other), other.conflicts(&own)),
            (expected, expected),
            "{other}"
        );
    }
}

/// A container or, in braces, a sidecar: cores and gibibytes.
fn container(name: &str, (cpu, memory): (i64, i64)) -> Value {
    let amounts = json!({"cpu": cpu.to_string(), "memory": format!("{memory}Gi")});
    json!({"name": name, "resources": {"requests": amounts, "limits": amounts}})
}

/// What a pod with these init containers asks for; true means a sidecar.
fn asks(own: (i64, i64), first: &[(bool, (i64, i64))], more: &Value) -> (Quantity, Quantity) {
    let starting: Vec<Value> = first
        .iter()
        .enumerate()
        .map(|(at, (side, amounts))| {
            let mut one = container(&format!("i{at}"), *amounts);
            if *side {
                one["restartPolicy"] = json!("Always");
            }
            one
        })
        .collect();
    let mut object = object("p", &[more.clone(), json!({"spec": {"initContainers": starting}})]);
    object["spec"]["containers"] = json!([container("main", own)]);
    let pod = Pod::from_api(&serde_json::from_value(object).unwrap());
    assert_eq!(pod.requests.amount(names::PODS), Quantity::units(1));
    (pod.requests.amount(names::CPU), pod.requests.amount(names::MEMORY))
}

#[test]
fn what_a_pod_asks_for_is_the_most_it_needs_at_any_time() {
    // RES-1 to RES-12
    type First<'a> = &'a [(bool, (i64, i64))];
    let (side, init) = (true, false);
    let none = json!({});
    let overhead = json!({"spec": {"overhead": {"cpu": "5", "memory": "1Gi"}}});
    let several = |last: (i64, i64)| {
        [
            (side, (2, 2)),
            (side, (1, 1)),
            (side, (3, 3)),
            (side, (5, 5)),
            (init, last),
        ]
    };
    let mixed = |first: (i64, i64)| {
        [
            (init, first),
            (side, (1, 1)),
            (init, (3, 3)),
            (init, (1, 1)),
            (side, (5, 5)),
            (init, (1, 1)),
            (init, (1, 1)),
            (side, (1, 1)),
        ]
    };
    let interleaved: Vec<(bool, (i64, i64))> = mixed((2, 2)).into_iter().chain([(init, (2, 1))]).collect();
    let cases: Vec<((i64, i64), Vec<(bool, (i64, i64))>, &Value, (i64, i64))> = vec![
        ((2, 1), vec![(side, (1, 2))], &none, (3, 3)),
        ((2, 1), vec![(init, (4, 2)), (side, (3, 3))], &overhead, (10, 5)),
        ((2, 1), vec![(side, (4, 2)), (init, (10, 2))], &none, (14, 4)),
        ((2, 2), vec![(side, (4, 2)), (init, (1, 1))], &none, (6, 4)),
        ((3, 3), several((20, 20)).to_vec(), &none, (31, 31)),
        ((3, 3), several((1, 1)).to_vec(), &none, (14, 14)),
        ((3, 3), mixed((25, 25)).to_vec(), &none, (25, 25)),
        ((3, 3), interleaved, &none, (10, 10)),
        (
            (3, 3),
            vec![(init, (25, 4)), (side, (1, 1)), (side, (5, 5))],
            &none,
            (25, 9),
        ),
        (
            (3, 3),
            vec![(init, (4, 25)), (side, (1, 1)), (side, (5, 5))],
            &none,
            (9, 25),
        ),
        ((2, 4), vec![(side, (4, 2)), (init, (10, 2))], &none, (14, 6)),
        ((10, 2), vec![(side, (4, 2)), (init, (2, 4))], &none, (14, 6)),
    ];
    for (own, first, more, expected) in cases {
        let first: First<'_> = &first;
        let made = asks(own, first, more);
        assert_eq!(
            made,
            (Quantity::units(expected.0), Quantity::bytes(expected.1 << 30)),
            "{own:?} {first:?}"
        );
    }
}

#[test]
fn what_the_pod_asks_for_as_a_whole_replaces_what_its_containers_ask() {
    // RES-13, RES-14, RES-15
    let whole = |amount: i64| json!({"spec": {"resources": {"requests": {"cpu": amount.to_string(), "memory": format!("{amount}Gi")}}}});
    let expected = |amount: i64| (Quantity::units(amount), Quantity::bytes(amount << 30));
    assert_eq!(asks((1, 1), &[], &whole(2)), expected(2));
    assert_eq!(asks((1, 1), &[(true, (1, 1))], &whole(2)), expected(2));
    assert_eq!(asks((1, 1), &[(true, (1, 1))], &whole(10)), expected(10));
}

fn at(minute: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH
        .checked_add_signed(TimeDelta::minutes(minute))
        .unwrap()
}

/// A running pod that began at minute 0, with this annotation.
fn protected(annotation: Option<&str>, started: Option<DateTime<Utc>>) -> Pod {
    let mut pod = pod("p", &[]);
    pod.standing.phase = Phase::Running;
    pod.standing.do_not_disrupt = annotation.map(str::to_owned);
    pod.standing.started = started;
    pod
}

#[test]
fn the_annotation_that_protects_a_pod_is_in_force_as_long_as_it_says() {
    // DND-1 to DND-14
    let says = |annotation: Option<&str>, started| protected(annotation, started).standing.do_not_disrupt(at(10));
    let invalid = |text: &str| DoNotDisrupt::Invalid(text.to_owned());
    let cases = [
        (None, DoNotDisrupt::Absent, true),
        (Some("true"), DoNotDisrupt::InForce, false),
        (Some("invalid-format"), invalid("invalid-format"), true),
        (Some("0s"), invalid("0s"), true),
        (Some("-5m"), invalid("-5m"), true),
        (Some("15m"), DoNotDisrupt::Until(at(15)), false),
        (Some("5m"), DoNotDisrupt::Elapsed(at(5)), true),
    ];
    for (annotation, expected, disruptable) in cases {
        assert_eq!(says(annotation, Some(at(0))), expected);
        assert_eq!(
            protected(annotation, Some(at(0))).standing.is_disruptable(at(10)),
            disruptable,
            "{annotation:?}"
        );
    }
    assert_eq!(says(Some("5m"), None), DoNotDisrupt::InForce);
    let mut ended = protected(Some("true"), Some(at(0)));
    ended.standing.phase = Phase::Succeeded;
    assert!(ended.standing.is_disruptable(at(10)));
}

fn budget(spec: Value) -> Budget {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "a"}});
    let object: PodDisruptionBudget =
        serde_json::from_value(json!({"metadata": {"name": "b", "namespace": "default"}, "spec": spec})).unwrap();
    Budget::from(&object)
}

fn blocking() -> [Vec<Budget>; 4] {
    [
        vec![budget(json!({"minAvailable": "100%"}))],
        vec![budget(json!({"maxUnavailable": "0%"}))],
        vec![budget(json!({"maxUnavailable": 0}))],
        vec![
            budget(json!({"maxUnavailable": 1})),
            budget(json!({"maxUnavailable": 1})),
        ],
    ]
}

#[test]
fn a_budget_that_never_lets_go_keeps_a_pod_where_it_is() {
    // PDB-12 to PDB-19, DEL-6 to DEL-9
    let covered = |ready: Option<bool>| {
        let mut own = protected(None, Some(at(0)));
        own.labels = std::sync::Arc::new([("app".to_owned(), "a".to_owned())].into());
        own.standing.ready = ready;
        own
    };
    let moves = |pod: &Pod, budgets: &[Budget]| is_currently_reschedulable(pod, budgets, at(10));
    let always = budget(json!({"minAvailable": "100%", "unhealthyPodEvictionPolicy": "AlwaysAllow"}));
    assert!(moves(&covered(Some(false)), std::slice::from_ref(&always)));
    assert!(!moves(&covered(Some(false)), &blocking()[0]));
    assert!(moves(&protected(None, Some(at(0))), &blocking()[0]));
    for budgets in blocking() {
        assert!(!moves(&covered(Some(true)), &budgets));
    }
    assert!(!moves(&protected(Some("true"), Some(at(0))), &[]));
}

#[test]
fn only_pods_that_come_back_elsewhere_are_moved() {
    // DEL-2, DEL-3, DEL-4, DEL-5
    let moves = |change: fn(&mut Pod)| {
        let mut own = protected(None, Some(at(0)));
        change(&mut own);
        is_currently_reschedulable(&own, &[], at(10))
    };
    assert!(moves(|_| {}));
    assert!(!moves(|pod| pod.standing.deleted = Some(at(5))));
    assert!(!moves(|pod| pod.standing.daemon = true));
    assert!(!moves(|pod| {
        pod.standing.deleted = Some(at(5));
        pod.standing.controller = Some(("ReplicaSet".into(), "r".into()));
    }));
    assert!(moves(|pod| {
        pod.standing.deleted = Some(at(5));
        pod.standing.stateful = true;
    }));
}

#[test]
fn usage_up_to_a_limit_is_allowed_and_above_is_not() {
    // LIM-8
    let limits = ResourceList::new().with(names::CPU, Quantity::units(4));
    let used = |cores: i64| ResourceList::new().with(names::CPU, Quantity::units(cores));
    assert!(limits.exceeded_by(&used(4)).is_none());
    assert_eq!(limits.exceeded_by(&used(5)).map(|(name, ..)| name), Some("cpu"));
}

fn overlay(requirements: Value, more: &Value) -> bool {
    let mut spec = json!({"requirements": requirements});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    let object =
        json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "o"}, "spec": spec});
    let overlay: NodeOverlay = serde_json::from_value(object).unwrap();
    validation::validate_nodeoverlay(&overlay).is_valid()
}

#[test]
fn an_overlay_may_say_what_makes_sense_of_labels() {
    // OVV-1 to OVV-17; what the API server refuses by itself is in tests/crds.rs
    let one = |key: &str, operator: &str, values: &[&str]| {
        overlay(
            json!([{"key": key, "operator": operator, "values": values}]),
            &json!({}),
        )
    };
    assert!(!one("Test", "In", &[]) && !one("Test", "NotIn", &[]));
    for key in [
        "Test",
        "test.com/Test",
        "test.com.com/test",
        "key-only",
        "kubernetes.io/test",
        "k8s.io/test",
        "sub.k8s.io/test",
    ] {
        assert!(one(key, "Exists", &[]), "{key}");
    }
    for key in ["test.com.com}", "Test.com/test", "test/test/test", "test/", "/test"] {
        assert!(!one(key, "Exists", &[]), "{key}");
    }
    assert!(one(POOL, "In", &["x"]));
    let long = "a".repeat(250);
    assert!(!one(&format!("{long}.com/x"), "Exists", &[]) || !one(&format!("x.com/{long}"), "Exists", &[]));
    assert!(!one(&format!("x.com/{long}"), "Exists", &[]));
    for (operator, values) in [
        ("In", &["z"][..]),
        ("NotIn", &["z"]),
        ("Exists", &[]),
        ("Gt", &["1"]),
        ("Lt", &["1"]),
        ("Gte", &["1"]),
        ("Lte", &["1"]),
    ] {
        assert!(one(ZONE, operator, values), "{operator}");
    }
    assert!(!one(ZONE, "unknown", &["x"]) && !one("karpenter.sh/test", "In", &["x"]));
    for key in [
        ZONE,
        TYPE,
        ARCH,
        OS,
        "topology.kubernetes.io/region",
        "node.kubernetes.io/windows-build",
    ] {
        assert!(one(key, "In", &["test"]), "{key}");
    }
    let both = json!([{"key": ZONE, "operator": "In", "values": ["test", "foo"]}, {"key": ZONE, "operator": "NotIn", "values": ["test", "bar"]}]);
    assert!(overlay(both, &json!({})));
    for operator in ["Gt", "Lt", "Gte", "Lte"] {
        for values in [&[][..], &["1", "2"], &["a"], &["-1"]] {
            assert!(!one("test", operator, values), "{operator} {values:?}");
        }
    }
}

#[test]
fn an_overlay_adds_no_resource_that_every_node_has() {
    // OVV-24 to OVV-27
    let adding = |name: &str| overlay(json!([]), &json!({"capacity": {name: "1"}}));
    assert!(adding("smarter-devices/fuse"));
    for name in ["cpu", "memory", "pods", "ephemeral-storage"] {
        assert!(!adding(name), "{name}");
    }
}

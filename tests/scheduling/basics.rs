//! A pass in general: sizes, limits, daemons, what a new claim says (scheduling §8, §12, §20, §21).

use crate::pods::*;
use crate::world::*;
use karpenter::resources::{Quantity, ResourceList};
use karpenter::scheduling::{DeviceClaims, Node, Pod, Taint, labels};
use serde_json::{Value, json};
use std::sync::Arc;

fn kind_for(mut world: World, fragments: &[Value]) -> Option<String> {
    let machine = world.machine(&pod("p", fragments))?;
    machine.labels.get(TYPE).cloned()
}

fn is(value: &str) -> Option<String> {
    Some(value.to_owned())
}

#[test]
fn many_equal_pods_are_all_placed() {
    // PRV-1, PRV-2
    let mut world = World::f();
    assert_eq!(world.provision(&pods("one", 1, &[])).machines(), 1);
    assert_eq!(world.provision(&pods("hundred", 100, &[])).on.len(), 100);
}

#[test]
fn each_accelerator_finds_its_own_type_and_a_full_machine_is_full() {
    // PRV-13, PRV-14, NC-5
    assert_eq!(
        kind_for(World::f(), &[limit(&[("gpu-A", "1")])]),
        is("gpu-vendor-instance-type")
    );
    assert_eq!(
        kind_for(World::f(), &[limit(&[("gpu-B", "1")])]),
        is("gpu-vendor-b-instance-type")
    );
    let mut single = World::f().requiring(TYPE, "In", &["single-pod-instance-type"]);
    assert_eq!(single.provision(&pods("p", 3, &[])).machines(), 3);
}

#[test]
fn sidecars_and_init_containers_count_as_the_scheduler_counts_them() {
    // PRV-17, PRV-18, PRV-19, PRV-20
    let sized = || {
        let mut types = cloud_f();
        types.extend(
            [("c10", 10, 4), ("c11", 11, 5), ("c12", 12, 6)]
                .map(|(name, cores, memory)| Kind::of(name, cores, memory).made()),
        );
        World::of(types).requiring(ARCH, "In", &["amd64"])
    };
    let starting = |name: &str, cpu: &str, memory: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu, "memory": memory}}});
    let side = |cpu: &str, memory: &str| {
        let mut container = starting("side", cpu, memory);
        container["restartPolicy"] = json!("Always");
        container
    };
    let with = |own: Value, first: Vec<Value>| [own, json!({"spec": {"initContainers": first}})];
    let cases = [
        (
            size("6", "2Gi"),
            vec![starting("i", "10", "4Gi"), side("4900m", "2900Mi")],
        ),
        (
            size("6", "2Gi"),
            vec![side("4900m", "2900Mi"), starting("i", "5", "1Gi")],
        ),
        (
            size("5", "1Gi"),
            vec![side("4900m", "2900Mi"), starting("i", "6", "2Gi")],
        ),
    ];
    for (own, first) in cases {
        assert_eq!(kind_for(sized(), &with(own, first)), is("c11"));
    }
    let whole = [
        size("5", "1Gi"),
        json!({"spec": {"resources": {"requests": {"cpu": "9900m", "memory": "3900Mi"}}}}),
        json!({"spec": {"initContainers": [starting("i", "6", "2Gi"), side("4", "2Gi")]}}),
    ];
    assert_eq!(kind_for(sized(), &whole), is("c10"));
}

fn with_limit(name: &str, amount: i64) -> World {
    let mut world = World::f();
    world.pool().limits = ResourceList::new().with(name, Quantity::units(amount));
    world
}

#[test]
fn limits_hold_for_what_is_there_and_what_is_planned() {
    // LIM-1, LIM-2, LIM-3, LIM-4, LIM-5, LIM-6
    let mut full = with_limit("cpu", 20);
    full.problem.nodes.push(Arc::new(Node {
        name: "big".to_owned(),
        labels: Arc::new([(POOL.to_owned(), "default".to_owned())].into()),
        capacity: ResourceList::new().with("cpu", Quantity::units(100)),
        ..Node::default()
    }));
    assert!(!full.places(&pod("p", &[])));
    let mut two = with_limit("cpu", 2);
    assert!(two.places(&pod("first", &[ask(&[("cpu", "1750m")])])));
    assert!(!two.places(&pod("second", &[ask(&[("cpu", "1750m")])])));
    let apart = [test(), ask(&[("cpu", "1500m")]), far(HOST, ("test", "test"))];
    assert_eq!(with_limit("cpu", 3).provision(&pods("p", 2, &apart)).on.len(), 1);
    assert!(!with_limit("cpu", 2).places(&pod("p", &[ask(&[("cpu", "2100m")])])));
    assert!(!with_limit("pods", 1).places(&pod("p", &[limit(&[("gpu-A", "1")])])));
}

#[test]
fn the_number_of_machines_can_be_limited() {
    // LIM-7
    let mut world = with_limit("nodes", 2);
    let apart = |name: &str| pod(name, &[test(), ask(&[("cpu", "1500m")]), far(HOST, ("test", "test"))]);
    let placed = ["a", "b", "c"].map(|name| world.places(&apart(name)));
    assert_eq!(placed, [true, true, false]);
    let at_once = with_limit("nodes", 2).provision(&["a", "b", "c"].map(apart));
    assert_eq!(at_once.on.len(), 2);
}

#[test]
fn a_claim_counts_with_the_largest_type_it_may_become() {
    // LIM-9
    let types = vec![Kind::of("four", 4, 4).made(), Kind::of("sixteen", 16, 16).made()];
    let mut world = World::of(types);
    world.pool().limits = ResourceList::new().with("cpu", Quantity::units(20));
    let apart = pods("p", 2, &[test(), far(HOST, ("test", "test"))]);
    let outcome = world.plan(&apart);
    // 20 − 16 leaves room for one of four cores, and for no other of sixteen.
    let listed: Vec<usize> = outcome
        .new_claims
        .iter()
        .map(|claim| claim.instance_types.len())
        .collect();
    assert_eq!(listed, [2, 1]);
}

fn daemon(fragments: &[Value]) -> Arc<Pod> {
    let template = object("daemon", fragments);
    let set = json!({"metadata": {"name": "d", "namespace": "default"},
        "spec": {"selector": {}, "template": {"metadata": template["metadata"], "spec": template["spec"]}}});
    Arc::new(Pod::for_daemon_set(&serde_json::from_value(set).unwrap(), None).unwrap())
}

fn with_daemon(fragments: &[Value]) -> World {
    let mut world = World::f();
    world.problem.daemons = vec![daemon(fragments)];
    world
}

const LARGER: &str = "default-instance-type";
const SMALLER: &str = "small-instance-type";

#[test]
fn what_daemons_ask_for_is_there_on_every_new_machine() {
    // DS-1, DS-4, DS-6, DS-7, DS-8, DS-9, DS-10, DS-18
    let own = [size("1", "1Gi")];
    assert_eq!(kind_for(with_daemon(&[size("2", "2Gi")]), &own), is(LARGER));
    assert_eq!(kind_for(with_daemon(&[size("10000", "10000Gi")]), &own), None);
    let limits = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "10000", "memory": "10000Gi"}});
    assert_eq!(kind_for(with_daemon(&[limits]), &own), None);
    let starting = |resources: Value| json!({"spec": {"initContainers": [{"name": "i", "resources": resources}]}});
    let both = [
        json!({"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}),
        starting(json!({"requests": {"cpu": "3"}, "limits": {"memory": "3Gi"}})),
    ];
    assert_eq!(kind_for(with_daemon(&both), &[]), is(LARGER));
    assert_eq!(
        kind_for(with_daemon(&[starting(json!({"limits": {"memory": "10000Gi"}}))]), &[]),
        None
    );
    let huge = starting(json!({"requests": {"cpu": "10000", "memory": "10000Gi"}}));
    assert_eq!(kind_for(with_daemon(&[huge]), &[]), None);
    assert!(kind_for(with_daemon(&[]), &own).is_some());
}

#[test]
fn a_daemon_takes_its_host_port_on_every_machine() {
    // DS-2
    let mut world = with_daemon(&[port(8080)]);
    let outcome = world.provision(&[pod("p", &[port(8080)])]);
    assert!(outcome.on.is_empty() && outcome.results.new_claims.is_empty());
}

#[test]
fn a_daemon_counts_where_it_would_run() {
    // DS-3, DS-11, DS-12, DS-13, DS-15, DS-16, DS-17
    let ask_for = size("2", "2Gi");
    let own = [size("1", "1Gi")];
    let mut starting = with_daemon(std::slice::from_ref(&ask_for));
    starting.pool().startup_taints = vec![Taint::new("foo.com/taint", "", "NoSchedule")];
    assert_eq!(kind_for(starting, &own), is(LARGER));
    let mut tainted = with_daemon(std::slice::from_ref(&ask_for));
    tainted.pool().taints = vec![Taint::new("foo", "bar", "NoSchedule")];
    let tolerant = [size("1", "1Gi"), tolerate("", "Exists", "", "")];
    assert_eq!(kind_for(tainted, &tolerant), is(SMALLER));
    let mut soft = with_daemon(std::slice::from_ref(&ask_for));
    soft.pool().taints = vec![Taint::new("test", "", "PreferNoSchedule")];
    assert_eq!(kind_for(soft, &own), is(LARGER));
    let with = |more: Value| with_daemon(&[ask_for.clone(), more]);
    assert_eq!(kind_for(with(sel("node", "invalid")), &own), is(SMALLER));
    let z2 = [size("1", "1Gi"), sel(ZONE, "z2")];
    assert_eq!(kind_for(with(must("foo", "NotIn", &["bar"])), &z2), is(LARGER));
    let terms = with_daemon(&[
        ask_for.clone(),
        must("foo", "In", &["voo"]),
        must("foo", "In", &["bar"]),
    ]);
    assert_eq!(kind_for(terms.labelled("foo", "bar"), &own), is(LARGER));
    assert_eq!(kind_for(with(prefer(1, "node", "In", &["invalid"])), &own), is(LARGER));
}

#[test]
fn the_newest_real_pod_of_a_daemon_set_is_what_counts_with_the_templates_affinity() {
    // DS-5, DS-14
    let template = |fragments: &[Value]| {
        let of = object("daemon", fragments);
        serde_json::from_value(json!({"metadata": {"name": "d", "namespace": "default"},
            "spec": {"selector": {}, "template": {"metadata": of["metadata"], "spec": of["spec"]}}}))
        .unwrap()
    };
    let real = pod("daemon-real", &[size("2", "2Gi"), must(HOST, "In", &["its-node"])]);
    let mut world = World::f().labelled("foo", "bar");
    let set = template(&[size("4", "4Gi"), must("foo", "In", &["bar"])]);
    world.problem.daemons = vec![Arc::new(Pod::for_daemon_set(&set, Some(&real)).unwrap())];
    assert_eq!(kind_for(world, &[size("1", "1Gi"), sel("foo", "bar")]), is(LARGER));
    let real = pod("daemon-real", &[size("2", "2Gi")]);
    let mut world = World::f();
    world.problem.daemons = vec![Arc::new(
        Pod::for_daemon_set(&template(&[size("4", "4Gi")]), Some(&real)).unwrap(),
    )];
    assert_eq!(kind_for(world, &[size("1", "1Gi"), sel(POOL, "default")]), is(LARGER));
}

#[test]
fn a_claim_says_what_was_asked_and_of_which_types_it_may_be() {
    // LAB-1, NC-1, NC-2, NC-3, NC-4, NC-8, NC-9
    let mut world = World::f()
        .requiring("custom-key", "In", &["value"])
        .requiring("custom-key2", "In", &["value"]);
    world
        .pool()
        .annotations
        .insert("karpenter.sh/do-not-disrupt".into(), "true".into());
    let asked = [ask(&[("cpu", "1"), ("memory", "1Mi"), ("gpu-A", "1")])];
    let plan = world.plan(&[pod("p", &[])]);
    let claim = &plan.new_claims[0];
    assert_eq!(claim.requirements.get(TYPE).unwrap().len(), 6);
    assert!(claim.requirements.get(POOL).unwrap().has("default"));
    for key in ["custom-key", "custom-key2"] {
        assert_eq!(claim.requirements.get(key).unwrap().single_value(), Some("value"));
    }
    assert_eq!(claim.annotations["karpenter.sh/do-not-disrupt"], "true");
    let amounts = |claim: &karpenter::scheduling::NewClaim| -> Vec<(String, String)> {
        claim
            .requests
            .iter()
            .map(|(name, amount)| (name.to_owned(), amount.to_string()))
            .collect()
    };
    let pair = |name: &str, amount: &str| (name.to_owned(), amount.to_owned());
    let claims = world.plan(&[pod("p", &asked)]).new_claims;
    assert_eq!(
        amounts(&claims[0]),
        [
            pair("cpu", "1"),
            pair("gpu-A", "1"),
            pair("memory", "1Mi"),
            pair("pods", "1")
        ]
    );
    world.problem.daemons = vec![daemon(&[size("1", "1Mi")])];
    let claims = world.plan(&[pod("p", &[size("1", "1Mi")])]).new_claims;
    assert_eq!(
        amounts(&claims[0]),
        [pair("cpu", "2"), pair("memory", "2Mi"), pair("pods", "2")]
    );
    for (key, value) in [(ARCH, "arm64"), (OS, "ios")] {
        let plan = World::f().requiring(key, "In", &[value]).plan(&[pod("p", &[])]);
        let own = &plan.new_claims[0].requirements;
        assert_eq!(own.get(key).unwrap().single_value(), Some(value));
        assert_eq!(own.get(TYPE).unwrap().single_value(), Some("arm-instance-type"));
    }
}

#[test]
fn custom_labels_of_a_machine_come_from_requirements_and_well_known_ones_do_not() {
    // LAB-2, LAB-5
    let mut world = World::f().labelled("test-key-1", "v1");
    for (key, operator, values) in [
        ("key-2", "In", &["v2"][..]),
        ("key-3", "NotIn", &["v3"]),
        ("key-4", "Lt", &["4"]),
        ("key-5", "Gt", &["5"]),
        ("key-6", "Exists", &[]),
        ("key-7", "DoesNotExist", &[]),
        (labels::WINDOWS_BUILD, "NotIn", &["test-value"]),
        ("foo", "In", &["bar"]),
    ] {
        world.require(key, operator, values);
    }
    let machine = world.machine(&pod("p", &[])).unwrap();
    let own = &machine.labels;
    assert_eq!(
        (own["test-key-1"].as_str(), own["key-2"].as_str(), own["foo"].as_str()),
        ("v1", "v2", "bar")
    );
    assert_ne!(own["key-3"], "v3");
    assert!(own["key-4"].parse::<i64>().unwrap() < 4 && own["key-5"].parse::<i64>().unwrap() > 5);
    assert!(own.contains_key("key-6") && own.contains_key(POOL) && !own.contains_key("key-7"));
    assert!(!own.contains_key(labels::WINDOWS_BUILD));
}

#[test]
fn taints_are_tolerated_in_every_way_that_kubernetes_knows() {
    // TNT-1, TNT-2, TNT-3, TNT-4
    let tainted = |key: &str, value: &str| {
        let mut world = World::f();
        world.pool().taints = vec![Taint::new(key, value, "NoSchedule")];
        world
    };
    for toleration in [
        tolerate("nvidia.com/gpu", "Equal", "true", "NoSchedule"),
        tolerate("nvidia.com/gpu", "Exists", "", "NoSchedule"),
        tolerate("nvidia.com/gpu", "Exists", "", ""),
        tolerate("", "Exists", "", ""),
    ] {
        assert!(tainted("nvidia.com/gpu", "true").places(&pod("p", &[toleration])));
    }
    let all = tolerate("", "Exists", "", "NoSchedule");
    assert_eq!(
        tainted("test", "bar").machine(&pod("p", &[all])).unwrap().taints.len(),
        1
    );
    let cases = [
        (vec![tolerate("test-key", "Exists", "", "NoSchedule")], true),
        (vec![tolerate("test-key", "Equal", "test-value", "NoSchedule")], true),
        (vec![], false),
        (vec![tolerate("invalid", "Exists", "", "")], false),
        (vec![tolerate("test-key", "Equal", "", "NoSchedule")], false),
    ];
    for (fragments, expected) in cases {
        assert_eq!(
            tainted("test-key", "test-value").places(&pod("p", &fragments)),
            expected
        );
    }
    let mut starting = World::f();
    starting.pool().startup_taints = vec![Taint::new("a", "", "NoSchedule")];
    assert!(starting.places(&pod("p", &[])));
}

#[test]
fn a_toleration_of_the_pod_is_no_taint_of_the_machine() {
    // TNT-5: the standard taints of a machine that comes up are registration's affair
    let machine = World::f().machine(&pod("p", &[tolerate("test-key", "Exists", "", "NoExecute")]));
    assert!(machine.unwrap().taints.is_empty());
}

#[test]
fn an_unusable_pool_says_so() {
    // ERR-1, ERR-2, ERR-3, ERR-4
    let reason = |mut world: World| world.provision(&[pod("p", &[size("32", "256Gi")])]).reason("p");
    let filtered = "nodepool requirements filtered out all available instance types";
    assert!(reason(World::f().requiring(TYPE, "In", &["non-existent"])).contains(filtered));
    assert!(reason(World::f().requiring(ARCH, "In", &["non-existent-arch"])).contains(filtered));
    let both = World::f()
        .requiring(ARCH, "In", &["amd64"])
        .requiring(ARCH, "In", &["arm64"]);
    assert!(reason(both).contains(filtered));
    let zones = World::f().requiring(ZONE, "In", &["non-existent-1", "non-existent-2"]);
    assert!(
        zones
            .plan(&pods("p", 3, &[]))
            .errors
            .iter()
            .all(|error| error.reason.to_string().contains(filtered))
    );
}

#[test]
fn pods_with_resource_claims_are_refused_unless_claims_are_overlooked() {
    // DRA-1, DRA-2, DRA-3, DRA-4, DRA-5
    let claims = json!({"resources": {"claims": [{"name": "gpu"}]}});
    let in_container = {
        let mut made = object("p", &[]);
        made["spec"]["containers"][0]["resources"] = claims["resources"].clone();
        made
    };
    let in_init = {
        let mut made = object("p", &[]);
        made["spec"]["initContainers"] = json!([{"name": "i", "resources": claims["resources"]}]);
        made
    };
    let both = {
        let mut made = in_container.clone();
        made["spec"]["initContainers"] = in_init["spec"]["initContainers"].clone();
        made
    };
    for one in [in_container.clone(), in_init, both] {
        let own = Pod::from_api(&serde_json::from_value(one).unwrap());
        let outcome = World::f().provision(std::slice::from_ref(&own));
        assert!(outcome.results.new_claims.is_empty());
        assert!(outcome.reason("p").contains("Dynamic Resource Allocation"));
        let mut overlooking = World::f();
        overlooking.options.device_claims = DeviceClaims::Overlook;
        assert!(overlooking.places(&own));
    }
    assert!(World::f().places(&pod("p", &[])));
    let mut demanding = in_container;
    demanding["spec"]["containers"][0]["resources"]["requests"] = json!({"cpu": "3"});
    let counting = |claims: DeviceClaims| {
        let mut world = World::f();
        world.options.device_claims = claims;
        world.problem.daemons = vec![Arc::new(Pod::from_api(
            &serde_json::from_value(demanding.clone()).unwrap(),
        ))];
        kind_for(world, &[ask(&[("cpu", "1")])])
    };
    assert_eq!(counting(DeviceClaims::Refuse), is(SMALLER));
    assert_eq!(counting(DeviceClaims::Overlook), is("arm-instance-type"));
}

//! Volumes: where they let a pod go, and how many a machine attaches (scheduling §18, 4-6).

use crate::pods::*;
use crate::world::*;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use karpenter::scheduling::{Node, Pod, Volumes};
use serde_json::{Value, json};
use std::sync::Arc;

const DRIVER: &str = "fake.csi.provider";

fn volumes(world: &mut World) -> &mut Volumes {
    Arc::make_mut(&mut world.problem.volumes)
}

fn terms(zones: &[&[&str]]) -> Value {
    let terms: Vec<Value> = zones
        .iter()
        .map(|zones| json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": zones}]}))
        .collect();
    json!({"nodeSelectorTerms": terms})
}

/// A volume with these node terms, of the driver or with another source.
fn add_volume(world: &mut World, name: &str, terms: &Value, source: Value) {
    let mut object = json!({"metadata": {"name": name}, "spec": {"nodeAffinity": {"required": terms}}});
    if terms.is_null() {
        object["spec"]["nodeAffinity"] = Value::Null;
    }
    for (key, value) in source.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    let volume: PersistentVolume = serde_json::from_value(object).unwrap();
    volumes(world).volumes.insert(name.to_owned(), (&volume).into());
}

fn csi(driver: &str, name: &str) -> Value {
    json!({"csi": {"driver": driver, "volumeHandle": name}})
}

/// A claim with these fields of its spec; bound for good when it names a volume.
fn add_claim(world: &mut World, name: &str, class: Option<&str>, volume: Option<&str>) {
    add_claim_object(
        world,
        name,
        json!({"spec": {"storageClassName": class, "volumeName": volume}}),
    );
}

fn add_claim_object(world: &mut World, name: &str, mut object: Value) {
    object["metadata"]["name"] = json!(name);
    object["metadata"]["namespace"] = json!("default");
    let bound = object["spec"]["volumeName"].is_string();
    if bound && object["metadata"].get("annotations").is_none() {
        object["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    }
    let claim: PersistentVolumeClaim = serde_json::from_value(object).unwrap();
    volumes(world).claims.insert(format!("default/{name}"), (&claim).into());
}

fn add_class(world: &mut World, name: &str, provisioner: &str, mode: &str, topologies: &Value) {
    let object = json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, "allowedTopologies": topologies});
    let class: StorageClass = serde_json::from_value(object).unwrap();
    volumes(world).classes.insert(name.to_owned(), (&class).into());
}

const WAITS: &str = "WaitForFirstConsumer";

/// A claim bound to a volume that can be used in one of these groups of zones.
pub fn bind_claim(world: &mut World, name: &str, zones: &[&[&str]]) {
    let volume = format!("volume-of-{name}");
    add_volume(world, &volume, &terms(zones), csi(DRIVER, &volume));
    add_claim(world, name, Some("class"), Some(&volume));
}

fn zonal(values: &[&[&str]]) -> Value {
    let all = values
        .iter()
        .map(|values| json!({"matchLabelExpressions": [{"key": ZONE, "values": values}]}));
    Value::Array(all.collect())
}

/// A cluster with the class of zones z2 and z3.
fn world() -> World {
    let mut world = World::f();
    add_class(&mut world, "class", DRIVER, WAITS, &zonal(&[&["z2", "z3"]]));
    world
}

fn zone_of(world: &mut World, fragments: &[Value]) -> Option<String> {
    let machine = world.machine(&pod("p", fragments))?;
    machine.labels.get(ZONE).cloned()
}

fn z3() -> Option<String> {
    Some("z3".to_owned())
}

#[test]
fn a_claim_that_is_not_in_order_keeps_its_pod_back_and_nobody_else() {
    // VOL-1, VOL-2, VOL-3, VOL-4, VOL-5, VOL-6, VOL-7, VOL-8
    let mut ready = world();
    assert!(!ready.places(&pod("p", &[mount("missing")])));
    let cases = [
        (Some(""), true, true),
        (Some(""), false, false),
        (Some("missing"), true, true),
        (Some("missing"), false, false),
    ];
    for (class, bound, expected) in cases {
        let mut world = world();
        add_volume(&mut world, "volume", &Value::Null, csi(DRIVER, "volume"));
        add_claim(&mut world, "data", class, bound.then_some("volume"));
        assert_eq!(
            world.places(&pod("p", &[mount("data")])),
            expected,
            "{class:?} bound: {bound}"
        );
    }
    let broken: [fn(&mut World); 3] = [
        |_| {},
        |world| add_claim(world, "data", Some("missing"), None),
        |world| add_claim(world, "data", Some("class"), Some("missing")),
    ];
    for break_it in broken {
        let mut world = world();
        break_it(&mut world);
        let outcome = world.provision(&[pod("broken", &[mount("data")]), pod("plain", &[])]);
        assert_eq!(outcome.on.keys().collect::<Vec<_>>(), ["plain"]);
    }
}

#[test]
fn a_volume_that_is_to_come_goes_where_its_class_can_make_it() {
    // VOL-9, VOL-10, VOL-11, VOL-12
    let wish = |zones: &[&str]| must(ZONE, "In", zones);
    for source in [mount("data"), ephemeral("data")] {
        let mut world = world();
        add_claim(&mut world, "data", Some("class"), None);
        add_claim(&mut world, "p-data", Some("class"), None);
        assert_eq!(zone_of(&mut world, &[source.clone(), wish(&["z1", "z3"])]), z3());
        assert_eq!(zone_of(&mut world, &[source, wish(&["z1"])]), None);
    }
}

#[test]
fn a_volume_that_is_there_is_used_where_it_is() {
    // VOL-13, VOL-14, VOL-20, VOL-21
    for (source, claim) in [(mount("data"), "data"), (ephemeral("data"), "p-data")] {
        let mut world = world();
        bind_claim(&mut world, claim, &[&["z3"]]);
        assert_eq!(zone_of(&mut world, std::slice::from_ref(&source)), z3());
        assert_eq!(zone_of(&mut world, &[source, must(ZONE, "In", &["z1"])]), None);
    }
}

#[test]
fn the_hostname_of_a_local_volume_is_not_kept_to() {
    // VOL-15, VOL-16, VOL-17, VOL-18, VOL-19
    let host = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": HOST, "operator": "In", "values": ["somewhere"]}]}]});
    for (source, expected) in [
        (json!({"local": {"path": "/x"}}), true),
        (json!({"hostPath": {"path": "/x"}}), true),
        (csi(DRIVER, "volume"), false),
    ] {
        for (mounted, claim) in [(mount("data"), "data"), (ephemeral("data"), "p-data")] {
            let mut world = world();
            add_volume(&mut world, "volume", &host, source.clone());
            add_claim(&mut world, claim, Some(""), Some("volume"));
            assert_eq!(world.places(&pod("p", &[mounted])), expected, "{source}");
        }
    }
}

#[test]
fn the_zone_of_a_volume_survives_relaxation() {
    // VOL-22
    let mut world = world();
    bind_claim(&mut world, "data", &[&["z3"]]);
    let terms = [
        must("example.com/label", "In", &["unsupported"]),
        must(PAID, "In", &["on-demand"]),
    ];
    assert_eq!(
        zone_of(&mut world, &[mount("data"), terms[0].clone(), terms[1].clone()]),
        z3()
    );
}

/// A cluster with one huge type and no limits, and an attach limit on every machine that comes up.
struct Attaching(World, u64);

impl Attaching {
    fn to(limit: u64) -> Self {
        let mut world = World::of(vec![
            Kind {
                pods: 1024,
                ..Kind::of("huge", 1024, 1024)
            }
            .made(),
        ]);
        world.pool().limits = karpenter::resources::ResourceList::new();
        add_class(&mut world, "class", DRIVER, WAITS, &Value::Null);
        Self(world, limit)
    }

    /// One pod a pass.
    fn provision(&mut self, pods: &[Pod]) {
        for pod in pods {
            self.0.provision(std::slice::from_ref(pod));
            let limit = self.1;
            for node in &mut self.0.problem.nodes {
                let node: &mut Node = Arc::make_mut(node);
                node.volume_limits = [(DRIVER.to_owned(), limit), ("ebs.csi.aws.com".to_owned(), limit)].into();
            }
        }
    }
}

#[test]
fn a_machine_attaches_no_more_than_it_can_and_a_shared_claim_counts_once() {
    // VU-1, VU-2, VU-3
    let mut limited = Attaching::to(10);
    let two = |at: usize| {
        let claims = [format!("a-{at}"), format!("b-{at}")];
        (pod(&format!("p{at}"), &[mount(&claims[0]), mount(&claims[1])]), claims)
    };
    for at in 0..6 {
        two(at)
            .1
            .iter()
            .for_each(|claim| add_claim(&mut limited.0, claim, Some("class"), None));
    }
    limited.provision(&[pod("first", &[])]);
    limited.provision(&(0..6).map(|at| two(at).0).collect::<Vec<_>>());
    assert_eq!(limited.0.machines(), 2);
    let mut shared = Attaching::to(10);
    add_volume(&mut shared.0, "volume", &Value::Null, csi(DRIVER, "volume"));
    add_claim(&mut shared.0, "data", Some("class"), Some("volume"));
    shared.provision(&pods("p", 100, &[mount("data")]));
    assert_eq!(shared.0.machines(), 1);
    let mut network = Attaching::to(1);
    add_volume(
        &mut network.0,
        "volume",
        &Value::Null,
        json!({"nfs": {"server": "s", "path": "/"}}),
    );
    add_claim(&mut network.0, "data", Some(""), Some("volume"));
    network.provision(&pods("p", 5, &[mount("data"), mount("data")]));
    assert_eq!(network.0.machines(), 1);
}

#[test]
fn each_term_of_a_volume_is_an_alternative() {
    // VU-4, VU-5, VU-6, VU-7
    let alone = |name: &str, claim: &str| pod(name, &[test(), mount(claim), far(ZONE, ("test", "test"))]);
    let mut bound = World::f();
    bind_claim(&mut bound, "a", &[&["z1"], &["z2"]]);
    bind_claim(&mut bound, "b", &[&["z1"], &["z2"]]);
    assert_eq!(bound.provision(&[alone("p", "a"), alone("q", "b")]).on.len(), 2);
    assert_eq!(bound.skew(ZONE), [1, 1]);
    for source in [json!({"local": {"path": "/x"}}), json!({"hostPath": {"path": "/x"}})] {
        let mut world = World::f();
        let either = json!({"nodeSelectorTerms": [
            {"matchExpressions": [{"key": HOST, "operator": "In", "values": ["existing-host"]}]},
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["invalid-zone"]}]},
        ]});
        add_volume(&mut world, "volume", &either, source);
        add_claim(&mut world, "data", Some(""), Some("volume"));
        assert!(world.places(&pod("p", &[mount("data")])));
    }
    let mut to_come = World::f();
    add_class(&mut to_come, "class", DRIVER, WAITS, &zonal(&[&["z1"], &["z2"]]));
    for claim in ["a", "b"] {
        add_claim(&mut to_come, claim, Some("class"), None);
    }
    assert_eq!(to_come.provision(&[alone("p", "a"), alone("q", "b")]).on.len(), 2);
    assert_eq!(to_come.skew(ZONE), [1, 1]);
}

#[test]
fn alternatives_of_two_volumes_must_hold_together() {
    // VU-8
    let mut world = World::of(cloud_n(5));
    let special = |value: &str| json!({"matchLabelExpressions": [{"key": "special", "values": [value]}]});
    add_class(
        &mut world,
        "a",
        DRIVER,
        WAITS,
        &json!([special("required"), special("optional")]),
    );
    let with = |zone: &str, value: &str| json!({"matchLabelExpressions": [{"key": ZONE, "values": [zone]}, {"key": "special", "values": [value]}]});
    add_class(
        &mut world,
        "b",
        DRIVER,
        WAITS,
        &json!([with("z1", "optional"), with("z2", "required")]),
    );
    add_claim(&mut world, "one", Some("a"), None);
    add_claim(&mut world, "two", Some("b"), None);
    let machine = world.machine(&pod("p", &[mount("one"), mount("two")])).unwrap();
    assert_eq!(
        (machine.labels[ZONE].as_str(), machine.labels["special"].as_str()),
        ("z1", "optional")
    );
}

#[test]
fn the_driver_of_a_claim_is_that_of_its_class_or_volume() {
    // VU-9, VU-10, VU-11, VU-25, VU-26: which class is the default one is decided by the API server, which writes it into the claim
    for provisioner in [DRIVER, "kubernetes.io/aws-ebs"] {
        for source in [mount as fn(&str) -> Value, ephemeral] {
            let mut limited = Attaching::to(1);
            add_class(&mut limited.0, "own", provisioner, WAITS, &Value::Null);
            let own = ["p", "q"].map(|name| {
                for claim in [format!("{name}-data"), "data".to_owned()] {
                    add_claim(&mut limited.0, &claim, Some("own"), None);
                }
                let fragment = if source("x") == mount("x") {
                    mount(&format!("{name}-data"))
                } else {
                    source("data")
                };
                pod(name, &[fragment])
            });
            limited.provision(&[pod("first", &[])]);
            limited.provision(&own);
            assert_eq!(limited.0.machines(), 2, "{provisioner}");
        }
    }
    let mut migrated = Attaching::to(1);
    for name in ["a", "b"] {
        add_volume(
            &mut migrated.0,
            name,
            &Value::Null,
            json!({"awsElasticBlockStore": {"volumeID": name}}),
        );
        add_claim(&mut migrated.0, name, Some(""), Some(name));
    }
    migrated.provision(&[pod("p", &[mount("a")]), pod("q", &[mount("b")])]);
    assert_eq!(migrated.0.machines(), 2);
}

#[test]
fn claims_and_volumes_that_go_or_are_lost_are_waited_for() {
    // VU-15, VU-16, VU-17, VU-18, VU-19, VU-20
    let places = |prepare: fn(&mut World)| {
        let mut world = world();
        prepare(&mut world);
        world.places(&pod("p", &[mount("data")]))
    };
    assert!(!places(|world| {
        add_class(world, "at-once", DRIVER, "Immediate", &Value::Null);
        add_claim(world, "data", Some("at-once"), None);
    }));
    assert!(!places(|world| {
        let going =
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"storageClassName": "class"}});
        add_claim_object(world, "data", going);
    }));
    assert!(!places(|world| {
        bind_claim(world, "data", &[&["z1"]]);
        volumes(world).volumes.get_mut("volume-of-data").unwrap().terminating = true;
    }));
    assert!(!places(|world| add_claim_object(
        world,
        "data",
        json!({"spec": {"storageClassName": "class"}, "status": {"phase": "Lost"}})
    )));
    let completed = |annotations: Value| {
        let mut world = world();
        add_volume(&mut world, "volume", &Value::Null, csi(DRIVER, "volume"));
        add_claim_object(
            &mut world,
            "data",
            json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": "volume"}}),
        );
        world.places(&pod("p", &[mount("data")]))
    };
    assert!(!completed(json!({})));
    assert!(completed(json!({"pv.kubernetes.io/bind-completed": "yes"})));
}

#[test]
fn a_bound_ephemeral_claim_needs_no_class_and_one_to_come_does() {
    // VU-21, VU-22, VU-23, VU-24
    for class in ["non-existent", ""] {
        let mut world = world();
        add_volume(&mut world, "volume", &Value::Null, csi(DRIVER, "volume"));
        add_claim(&mut world, "p-data", Some(class), Some("volume"));
        assert!(world.places(&pod("p", &[ephemeral("data")])));
        assert!(!world.places(&pod("q", &[ephemeral("data")])));
    }
}

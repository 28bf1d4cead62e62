//! The simulated scheduler's filters, one by one, and what it says when none is passed. Pure: no API, no time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "json! literals as arguments read best without a borrow"
)]

use k8s_openapi::api::core::v1::Namespace;
use sandbox::binder::{Cluster, NodeFacts, PodFacts, Reason, Reason as R, feasible};
use serde_json::{Value, json};
use std::sync::Arc;

fn node(name: &str, more: Value) -> NodeFacts {
    let mut value = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}});
    merge(&mut value, &more);
    NodeFacts::of(&serde_json::from_value(value).unwrap())
}

fn zone(name: &str, zone: &str) -> NodeFacts {
    node(name, json!({"metadata": {"labels": {"zone": zone}}}))
}

fn pod(name: &str, more: Value) -> PodFacts {
    let mut value = json!({"metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]}});
    merge(&mut value, &more);
    PodFacts::of(&serde_json::from_value(value).unwrap())
}

fn merge(value: &mut Value, more: &Value) {
    match (value, more) {
        (Value::Object(value), Value::Object(more)) => {
            for (key, more) in more {
                merge(value.entry(key.clone()).or_insert(Value::Null), more);
            }
        }
        (value, more) => *value = more.clone(),
    }
}

fn cluster(nodes: Vec<NodeFacts>, pods: Vec<(PodFacts, &str)>) -> Cluster {
    let mut cluster = Cluster::default();
    for node in nodes {
        cluster.set_node(node);
    }
    for (pod, host) in pods {
        cluster.place(Arc::new(pod), host);
    }
    for (name, labels) in [("default", json!({})), ("other", json!({"team": "b"}))] {
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap();
        cluster.set_namespace(&namespace);
    }
    cluster
}

fn verdicts(cluster: &Cluster, pod: &PodFacts) -> Vec<Result<(), Reason>> {
    cluster.nodes().map(|n| feasible(cluster, n.name(), pod)).collect()
}

#[test]
fn resources_count_requests_and_the_number_of_pods() {
    let filling = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1600m"}}}]}});
    let full = pod("full", filling.clone());
    let world = cluster(
        vec![
            node("a", json!({})),
            node("b", json!({"status": {"allocatable": {"pods": "1"}}})),
        ],
        vec![(full, "a"), (pod("full-b", filling.clone()), "b")],
    );
    let short = |names: &[&str]| Err(R::Resources(names.iter().map(|n| (*n).to_owned()).collect()));
    assert_eq!(
        verdicts(&world, &pod("p", json!({}))),
        [short(&["cpu"]), short(&["pods", "cpu"])]
    );
    let gpu = pod(
        "p",
        json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]}}),
    );
    assert_eq!(feasible(&world, "a", &gpu), short(&["nvidia.com/gpu"]));
    let nothing = pod("p", json!({"spec": {"containers": [{"name": "c", "resources": null}]}}));
    assert_eq!(feasible(&world, "a", &nothing), Ok(()));
    // A pod that is there does not stand in its own way.
    assert_eq!(feasible(&world, "a", &pod("full", filling)), Ok(()));
}

#[test]
fn cordon_and_taints_need_tolerations() {
    let taint = json!({"spec": {"taints": [{"key": "dedicated", "value": "ci", "effect": "NoSchedule"}]}});
    let world = cluster(
        vec![
            node("cordoned", json!({"spec": {"unschedulable": true}})),
            node("tainted", taint),
        ],
        vec![],
    );
    let refused = Err(R::Taint {
        key: "dedicated".into(),
        value: "ci".into(),
    });
    assert_eq!(verdicts(&world, &pod("p", json!({}))), [Err(R::Unschedulable), refused]);
    let all = pod("p", json!({"spec": {"tolerations": [{"operator": "Exists"}]}}));
    assert_eq!(verdicts(&world, &all), [Ok(()), Ok(())]);
}

#[test]
fn selectors_and_required_node_affinity_choose_nodes() {
    let world = cluster(vec![zone("a", "z1"), zone("b", "z2")], vec![]);
    let by_selector = pod("p", json!({"spec": {"nodeSelector": {"zone": "z2"}}}));
    assert_eq!(verdicts(&world, &by_selector), [Err(R::NodeAffinity), Ok(())]);
    let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]);
    let affinity = |terms: Value| json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}});
    assert_eq!(
        verdicts(&world, &pod("p", affinity(terms))),
        [Ok(()), Ok(())],
        "terms are alternatives"
    );
    let both = json!([{"matchExpressions": [{"key": "zone", "operator": "Exists"}, {"key": "zone", "operator": "NotIn", "values": ["z1"]}]}]);
    assert_eq!(
        verdicts(&world, &pod("p", affinity(both))),
        [Err(R::NodeAffinity), Ok(())],
        "within a term all hold"
    );
}

#[test]
fn host_ports_clash_by_port_protocol_and_address() {
    let with = |name: &str, port: Value| pod(name, json!({"spec": {"containers": [{"name": "c", "ports": [port]}]}}));
    let world = cluster(
        vec![node("a", json!({}))],
        vec![(
            with(
                "there",
                json!({"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}),
            ),
            "a",
        )],
    );
    let asks = [
        (json!({"containerPort": 80, "hostPort": 80}), Err(R::Ports)),
        (
            json!({"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.2"}),
            Ok(()),
        ),
        (
            json!({"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1", "protocol": "UDP"}),
            Ok(()),
        ),
        (json!({"containerPort": 80}), Ok(())),
    ];
    for (port, expected) in asks {
        assert_eq!(feasible(&world, "a", &with("p", port.clone())), expected, "{port}");
    }
}

fn affinity(kind: &str, term: Value) -> Value {
    json!({"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}})
}

fn term(key: &str) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}})
}

#[test]
fn pod_affinity_goes_where_matching_pods_are_and_the_first_may_go_anywhere() {
    let nodes = || {
        vec![
            zone("a", "z1"),
            zone("b", "z1"),
            zone("c", "z2"),
            node("nowhere", json!({})),
        ]
    };
    let near = pod("p", affinity("podAffinity", term("zone")));
    let alone = cluster(nodes(), vec![]);
    assert_eq!(
        verdicts(&alone, &near),
        [Ok(()), Ok(()), Ok(()), Err(R::Affinity)],
        "it satisfies its own term, where the key is"
    );
    let world = cluster(nodes(), vec![(pod("there", json!({})), "a")]);
    assert_eq!(
        verdicts(&world, &near),
        [Ok(()), Ok(()), Err(R::Affinity), Err(R::Affinity)]
    );
    let mut stranger = term("zone");
    stranger["labelSelector"] = json!({"matchLabels": {"app": "none"}});
    assert_eq!(
        feasible(&alone, "a", &pod("p", affinity("podAffinity", stranger))),
        Err(R::Affinity)
    );
}

#[test]
fn anti_affinity_works_in_both_directions_and_across_namespaces_as_said() {
    let nodes = || vec![zone("a", "z1"), zone("b", "z2")];
    let against = affinity("podAntiAffinity", term("zone"));
    let world = cluster(nodes(), vec![(pod("there", json!({})), "a")]);
    assert_eq!(
        verdicts(&world, &pod("p", against.clone())),
        [Err(R::AntiAffinity), Ok(())]
    );
    let world = cluster(nodes(), vec![(pod("there", against), "a")]);
    assert_eq!(
        verdicts(&world, &pod("p", json!({}))),
        [Err(R::ExistingAntiAffinity), Ok(())]
    );
    let elsewhere = pod("p", json!({"metadata": {"namespace": "other"}}));
    assert_eq!(
        verdicts(&world, &elsewhere),
        [Ok(()), Ok(())],
        "a term is about its own namespace"
    );
    for scope in [
        json!({"namespaceSelector": {"matchLabels": {"team": "b"}}}),
        json!({"namespaces": ["other"]}),
        json!({"namespaceSelector": {}}),
    ] {
        let mut wide = term("zone");
        merge(&mut wide, &scope);
        let world = cluster(nodes(), vec![(pod("there", affinity("podAntiAffinity", wide)), "a")]);
        assert_eq!(
            verdicts(&world, &elsewhere),
            [Err(R::ExistingAntiAffinity), Ok(())],
            "{scope}"
        );
    }
}

fn spread(more: Value) -> Value {
    let mut constraint = json!({"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}});
    merge(&mut constraint, &more);
    json!({"spec": {"topologySpreadConstraints": [constraint]}})
}

#[test]
fn spread_keeps_the_skew_over_the_domains_that_count() {
    let nodes = || vec![zone("a", "z1"), zone("b", "z2"), node("nowhere", json!({}))];
    let world = cluster(nodes(), vec![(pod("one", json!({})), "a")]);
    assert_eq!(
        verdicts(&world, &pod("p", spread(json!({})))),
        [Err(R::Spread), Ok(()), Err(R::SpreadLabel)]
    );
    assert_eq!(
        verdicts(&world, &pod("p", spread(json!({"maxSkew": 2})))),
        [Ok(()), Ok(()), Err(R::SpreadLabel)]
    );
    assert_eq!(
        verdicts(
            &world,
            &pod("p", spread(json!({"whenUnsatisfiable": "ScheduleAnyway"})))
        ),
        [Ok(()), Ok(()), Ok(())]
    );
    let going = pod(
        "one",
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    );
    assert_eq!(
        feasible(&cluster(nodes(), vec![(going, "a")]), "a", &pod("p", spread(json!({})))),
        Ok(()),
        "a pod that goes does not count"
    );
    let other = pod("one", json!({"metadata": {"namespace": "other"}}));
    assert_eq!(
        feasible(&cluster(nodes(), vec![(other, "a")]), "a", &pod("p", spread(json!({})))),
        Ok(()),
        "nor one of another namespace"
    );
}

#[test]
fn min_domains_policies_and_label_keys_change_what_a_spread_counts() {
    let two = || vec![zone("a", "z1"), zone("b", "z2")];
    let both = vec![(pod("one", json!({})), "a"), (pod("two", json!({})), "b")];
    let world = cluster(two(), both);
    assert_eq!(
        verdicts(&world, &pod("p", spread(json!({"minDomains": 3})))),
        [Err(R::Spread), Err(R::Spread)],
        "too few domains: the least is 0"
    );
    assert_eq!(
        verdicts(&world, &pod("p", spread(json!({"minDomains": 2})))),
        [Ok(()), Ok(())]
    );

    // The empty domain z2 is out of reach for the pod: by default it does not count.
    let mut pinned = spread(json!({}));
    merge(&mut pinned, &json!({"spec": {"nodeSelector": {"zone": "z1"}}}));
    let world = cluster(two(), vec![(pod("one", json!({})), "a")]);
    assert_eq!(feasible(&world, "a", &pod("p", pinned.clone())), Ok(()));
    pinned["spec"]["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = json!("Ignore");
    assert_eq!(feasible(&world, "a", &pod("p", pinned)), Err(R::Spread));

    // A tainted empty domain counts by default, and does not if taints are honoured.
    let tainted = node(
        "b",
        json!({"metadata": {"labels": {"zone": "z2"}}, "spec": {"taints": [{"key": "t", "effect": "NoSchedule"}]}}),
    );
    let world = cluster(vec![zone("a", "z1"), tainted], vec![(pod("one", json!({})), "a")]);
    assert_eq!(feasible(&world, "a", &pod("p", spread(json!({})))), Err(R::Spread));
    assert_eq!(
        feasible(&world, "a", &pod("p", spread(json!({"nodeTaintsPolicy": "Honor"})))),
        Ok(())
    );

    // Only pods of the same revision count.
    let old = pod("one", json!({"metadata": {"labels": {"rev": "1"}}}));
    let world = cluster(two(), vec![(old, "a")]);
    let mut new = spread(json!({"matchLabelKeys": ["rev"]}));
    merge(&mut new, &json!({"metadata": {"labels": {"rev": "2"}}}));
    assert_eq!(feasible(&world, "a", &pod("p", new)), Ok(()));
}

fn with_storage(mut world: Cluster, class_mode: &str, claim_more: Value, volume_more: Option<Value>) -> Cluster {
    let class = json!({"metadata": {"name": "ssd"}, "provisioner": "csi", "volumeBindingMode": class_mode});
    world.set_class("ssd", serde_json::from_value(class).ok().map(Arc::new));
    let mut claim = json!({"metadata": {"name": "data", "namespace": "default", "uid": "u"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "ssd", "resources": {"requests": {"storage": "1Gi"}}}});
    merge(&mut claim, &claim_more);
    let claim: k8s_openapi::api::core::v1::PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
    world.set_claim(&sandbox::Name::new("default", "data"), Some(Arc::new(claim)));
    if let Some(more) = volume_more {
        let mut volume = json!({"metadata": {"name": "pv"}, "spec": {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"],
            "storageClassName": "ssd", "csi": {"driver": "csi", "volumeHandle": "h"}}});
        merge(&mut volume, &more);
        world.set_volume("pv", serde_json::from_value(volume).ok().map(Arc::new));
    }
    world
}

fn with_claim(name: &str) -> PodFacts {
    pod(
        name,
        json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}}),
    )
}

fn bound() -> Value {
    json!({"spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}})
}

#[test]
fn claims_must_exist_and_be_bound_or_wait_for_the_pod() {
    let nodes = || cluster(vec![zone("a", "z1")], vec![]);
    assert_eq!(
        feasible(&nodes(), "a", &with_claim("p")),
        Err(R::ClaimMissing("data".into()))
    );
    let immediate = with_storage(nodes(), "Immediate", json!({}), None);
    assert_eq!(feasible(&immediate, "a", &with_claim("p")), Err(R::ClaimUnbound));
    let waiting = with_storage(nodes(), "WaitForFirstConsumer", json!({}), None);
    assert_eq!(feasible(&waiting, "a", &with_claim("p")), Ok(()));
    let going = with_storage(
        nodes(),
        "Immediate",
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        None,
    );
    assert_eq!(
        feasible(&going, "a", &with_claim("p")),
        Err(R::ClaimDeleting("data".into()))
    );
    let lost = with_storage(nodes(), "Immediate", bound(), None);
    assert_eq!(feasible(&lost, "a", &with_claim("p")), Err(R::VolumeMissing));
    let chosen = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "b"}}});
    let elsewhere = with_storage(nodes(), "WaitForFirstConsumer", chosen, None);
    assert_eq!(feasible(&elsewhere, "a", &with_claim("p")), Err(R::NoVolume));
}

#[test]
fn volumes_are_where_their_affinity_or_zone_label_says() {
    let nodes = || cluster(vec![zone("a", "z1"), zone("b", "z2")], vec![]);
    let at = json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z2"]}]}]}}}});
    let world = with_storage(nodes(), "Immediate", bound(), Some(at));
    assert_eq!(verdicts(&world, &with_claim("p")), [Err(R::VolumeAffinity), Ok(())]);
    let labelled = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "z2"}}});
    let world = with_storage(nodes(), "Immediate", bound(), Some(labelled));
    assert_eq!(
        verdicts(&world, &with_claim("p")),
        [Err(R::VolumeZone), Err(R::VolumeZone)],
        "no node has the label"
    );
}

#[test]
fn exclusive_claims_and_attach_limits_keep_pods_away() {
    let there = || cluster(vec![zone("a", "z1"), zone("b", "z2")], vec![(with_claim("there"), "a")]);
    let mut exclusive = bound();
    merge(&mut exclusive, &json!({"spec": {"accessModes": ["ReadWriteOncePod"]}}));
    let world = with_storage(there(), "Immediate", exclusive, Some(json!({})));
    assert_eq!(
        verdicts(&world, &with_claim("p")),
        [Err(R::ExclusiveClaim), Err(R::ExclusiveClaim)]
    );

    let mut world = with_storage(there(), "Immediate", bound(), Some(json!({})));
    for (node, limit) in [("a", 1), ("b", 0)] {
        let csi = json!({"metadata": {"name": node}, "spec": {"drivers": [{"name": "csi", "nodeID": node, "allocatable": {"count": limit}}]}});
        world.set_csi_node(node, serde_json::from_value(csi).ok().map(Arc::new));
    }
    assert_eq!(
        verdicts(&world, &with_claim("p")),
        [Ok(()), Err(R::VolumeLimit)],
        "the same volume counts once"
    );
}

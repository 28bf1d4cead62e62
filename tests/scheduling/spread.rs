//! Topology spread (scheduling §17).

use crate::pods::*;
use crate::world::*;
use karpenter::resources::{Quantity, ResourceList, names};
use karpenter::scheduling::pod::Phase;
use karpenter::scheduling::{CapacityType, Node, NodeObject, Ownership, Pod, Taint};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The usual pool for these: any capacity type.
fn world() -> World {
    World::f().requiring(PAID, "Exists", &[])
}

fn zones(zones: &[&str]) -> World {
    world().requiring(ZONE, "In", zones)
}

/// So many pods with the label and these fragments.
fn batch(prefix: &str, many: usize, fragments: &[Value]) -> Vec<Pod> {
    let mut all = vec![test()];
    all.extend(fragments.to_vec());
    pods(prefix, many, &all)
}

/// How so many spread pods come to lie.
fn lies(mut world: World, many: usize, key: &str, fragments: &[Value]) -> Vec<usize> {
    world.provision(&batch("p", many, fragments));
    world.skew(key)
}

/// Lets the first pool require other values of a label.
fn move_pool(world: &mut World, key: &str, values: &[&str]) {
    world.pool().requirements.remove(key);
    world.require(key, "In", values);
}

const BIG: &[(&str, &str)] = &[("cpu", "1100m")];

#[test]
fn a_key_that_nobody_defines_places_nobody() {
    // TSC-1
    let mut world = world();
    let outcome = world.provision(&[pod("spread", &[test(), spread("unknown", 1)]), pod("plain", &[])]);
    assert_eq!(outcome.on.keys().collect::<Vec<_>>(), ["plain"]);
}

#[test]
fn a_selector_that_selects_nothing_spreads_nothing() {
    // TSC-2, TSC-3, TSC-17, TSC-31
    let nothing = |selector: Value| {
        let mut constraint = json!({"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"});
        constraint["labelSelector"] = selector;
        json!({"spec": {"topologySpreadConstraints": [constraint]}})
    };
    assert_eq!(
        lies(
            world(),
            2,
            ZONE,
            &[nothing(json!({"matchLabels": {"test": "not a/legal value!"}}))]
        ),
        [2]
    );
    assert_eq!(lies(world(), 2, ZONE, &[nothing(Value::Null)]), [2]);
    assert_eq!(lies(world(), 1, ZONE, &[]), [1]);
    assert_eq!(lies(world(), 1, PAID, &[]), [1]);
}

#[test]
fn pods_are_spread_over_the_zones_that_pools_can_reach() {
    // TSC-4, TSC-5, TSC-6, TSC-7, TSC-8, TSC-9, TSC-10
    let by_zone = [spread(ZONE, 1)];
    assert_eq!(lies(world(), 4, ZONE, &by_zone), [1, 1, 2]);
    let expression = json!({"spec": {"topologySpreadConstraints": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "test", "operator": "In", "values": ["test"]}]}}]}});
    assert_eq!(lies(world(), 4, ZONE, &[expression]), [1, 1, 2]);
    assert_eq!(lies(zones(&["z1", "z2", "z3"]), 4, ZONE, &by_zone), [1, 1, 2]);
    assert_eq!(lies(zones(&["z1", "z2"]), 4, ZONE, &by_zone), [2, 2]);
    assert_eq!(lies(world().labelled(ZONE, "z1"), 4, ZONE, &by_zone), [4]);
    assert_eq!(lies(zones(&["z1", "z2"]).labelled(ZONE, "z1"), 4, ZONE, &by_zone), [4]);
    let mut two = zones(&["z1", "z2"]).labelled(ZONE, "z1");
    let mut other = pool("other", cloud_f());
    other.labels.insert(ZONE.to_owned(), "z2".to_owned());
    two.problem.pools.push(other);
    assert_eq!(lies(two, 4, ZONE, &by_zone), [2, 2]);
}

#[test]
fn a_zone_that_is_out_of_reach_holds_the_others_down() {
    // TSC-11, TSC-12, TSC-13, TSC-14, TSC-15
    let wish = |skew: i32| [ask(BIG), spread(ZONE, skew)];
    let mut first = zones(&["z3"]);
    first.provision(&batch("first", 1, &wish(1)));
    move_pool(&mut first, ZONE, &["z1", "z2"]);
    first.provision(&batch("p", 6, &wish(1)));
    assert_eq!(first.skew(ZONE), [1, 2, 2]);
    let mut loose = zones(&["z1"]);
    loose.provision(&batch("one", 1, &wish(5)));
    move_pool(&mut loose, ZONE, &["z2"]);
    loose.provision(&batch("two", 1, &wish(5)));
    move_pool(&mut loose, ZONE, &["z3"]);
    loose.provision(&batch("p", 10, &wish(5)));
    assert_eq!(loose.skew(ZONE), [1, 1, 6]);
    let mut emptied = world();
    emptied.provision(&batch("p", 9, &[spread(ZONE, 1)]));
    assert_eq!(emptied.skew(ZONE), [3, 3, 3]);
    for node in &mut emptied.problem.nodes {
        if node.labels[ZONE] != "z1" {
            Arc::make_mut(node).pods.clear();
        }
    }
    emptied.provision(&batch("q", 3, &[spread(ZONE, 1)]));
    assert_eq!(emptied.skew(ZONE), [1, 2, 3]);
    for fragments in [vec![ask(BIG), spread(ZONE, 1)], vec![ask(BIG)]] {
        let mut world = zones(&["z1"]);
        world.provision(&batch("first", 1, &fragments));
        move_pool(&mut world, ZONE, &["z2", "z3"]);
        world.provision(&batch("p", 10, &wish(1)));
        assert_eq!(world.skew(ZONE), [1, 2, 2]);
    }
}

/// Machines of somebody else with these labels each, and the pods that count or do not: two on the first, one on the second.
fn populated(key: &str, values: [Option<&str>; 3]) -> World {
    let mut world = world();
    for (at, value) in values.iter().enumerate() {
        let name = format!("old-{at}");
        let mut labels = BTreeMap::from([(HOST.to_owned(), name.clone())]);
        labels.extend(value.map(|value| (key.to_owned(), value.to_owned())));
        let labels = Arc::new(labels);
        let little = ResourceList::new().with(names::CPU, Quantity::millis(10));
        world.problem.nodes.push(Arc::new(Node {
            name: name.clone(),
            labels: Arc::clone(&labels),
            ownership: Ownership::Foreign,
            capacity: little.clone(),
            allocatable: little,
            object: Some(NodeObject {
                name,
                labels,
                taints: Vec::new(),
            }),
            ..Node::default()
        }));
    }
    let mut terminating = pod("terminating", &[test()]);
    terminating.standing.deleted = Some(terminating.created);
    let elsewhere = pod("elsewhere", &[test(), in_namespace("other")]);
    let (mut failed, mut succeeded) = (pod("failed", &[test()]), pod("succeeded", &[test()]));
    failed.standing.phase = Phase::Failed;
    succeeded.standing.phase = Phase::Succeeded;
    for ignored in [
        pod("wrong", &[label("test", "other")]),
        elsewhere,
        terminating,
        failed,
        succeeded,
    ] {
        world.put(&ignored, 0);
    }
    world.put(&pod("no-value", &[test()]), 2);
    world.put(&pod("a", &[test()]), 0);
    world.put(&pod("b", &[test()]), 0);
    world.put(&pod("c", &[test()]), 1);
    world
}

#[test]
fn only_bound_and_living_pods_of_the_namespace_on_machines_with_the_label_count() {
    // TSC-16, TSC-30
    let mut by_zone = populated(ZONE, [Some("z1"), Some("z2"), None]);
    let outcome = by_zone.provision(&batch("p", 2, &[spread(ZONE, 1)]));
    let mut chosen: Vec<_> = outcome
        .on
        .values()
        .map(|at| by_zone.label(*at, ZONE).unwrap())
        .collect();
    chosen.sort_unstable();
    // Two, one and none become two, two and one.
    assert!(chosen.len() == 2 && chosen[0] != "z1" && chosen.contains(&"z3"));
    let mut by_kind = populated(PAID, [Some("spot"), Some("on-demand"), None]);
    let outcome = by_kind.provision(&batch("p", 2, &[spread(PAID, 1)]));
    let on_demand = outcome
        .on
        .values()
        .filter(|at| by_kind.label(**at, PAID) == Some("on-demand"))
        .count();
    // Two and one become three and two, in either order.
    assert!(outcome.on.len() == 2 && (1..=2).contains(&on_demand));
}

#[test]
fn pods_that_the_selector_does_not_mean_are_not_spread() {
    // TSC-18, TSC-32
    assert_eq!(world().provision(&pods("p", 5, &[spread(HOST, 1)])).machines(), 1);
    assert_eq!(world().provision(&pods("p", 5, &[spread(PAID, 1)])).machines(), 1);
}

#[test]
fn too_few_domains_count_as_an_empty_one() {
    // TSC-19, TSC-20, TSC-21
    let wish = |many: i32| [spread_with(ZONE, 1, json!({"minDomains": many}))];
    assert_eq!(lies(zones(&["z1", "z2"]), 3, ZONE, &wish(3)), [1, 1]);
    assert_eq!(lies(zones(&["z1", "z2", "z3"]), 11, ZONE, &wish(3)), [3, 4, 4]);
    assert_eq!(lies(zones(&["z1", "z2", "z3"]), 11, ZONE, &wish(2)), [3, 4, 4]);
}

#[test]
fn every_machine_is_a_domain_of_its_own() {
    // TSC-22, TSC-23, TSC-24, TSC-25
    assert_eq!(lies(world(), 4, HOST, &[spread(HOST, 1)]), [1, 1, 1, 1]);
    assert_eq!(lies(world(), 4, HOST, &[spread(HOST, 4)]), [4]);
    let app = |name: &str, more: Vec<Value>| {
        let constraint = json!({"topologyKey": HOST, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": name}}});
        let mut fragments = vec![
            label("app", name),
            json!({"spec": {"topologySpreadConstraints": [constraint]}}),
        ];
        fragments.extend(more);
        pods(name, 2, &fragments)
    };
    let both = [app("one", vec![]), app("two", vec![])].concat();
    assert_eq!(world().provision(&both).machines(), 2);
    let both = [
        app("one", vec![sel(ARCH, "amd64")]),
        app("two", vec![sel(ARCH, "arm64")]),
    ]
    .concat();
    assert_eq!(world().provision(&both).machines(), 4);
}

#[test]
fn capacity_types_are_domains_too() {
    // TSC-26, TSC-27, TSC-28, TSC-29, TSC-33
    assert_eq!(lies(world(), 4, PAID, &[spread(PAID, 1)]), [2, 2]);
    assert_eq!(
        lies(
            World::f().requiring(PAID, "In", &["spot", "on-demand"]),
            4,
            PAID,
            &[spread(PAID, 1)]
        ),
        [2, 2]
    );
    for (wish, expected) in [(spread(PAID, 1), [1, 2]), (soft_spread(PAID, 1), [1, 5])] {
        let mut world = World::f().requiring(PAID, "In", &["spot"]);
        world.provision(&batch("first", 1, &[ask(BIG), spread(PAID, 1)]));
        move_pool(&mut world, PAID, &["on-demand"]);
        world.provision(&batch("p", 5, &[ask(BIG), wish]));
        assert_eq!(world.skew(PAID), expected);
    }
    let mut world = world();
    world.provision(&batch("first", 1, &[sel(PAID, "on-demand"), sel(ZONE, "z1")]));
    let wish = [
        must_all(&[(ZONE, "In", &["z2"]), (PAID, "In", &["spot"])]),
        spread(PAID, 1),
    ];
    world.provision(&batch("p", 5, &wish));
    assert_eq!(world.skew(PAID), [1, 5]);
}

#[test]
fn a_full_machine_of_another_kind_holds_the_rest_down() {
    // TSC-34, TSC-35
    for (key, before, after) in [(PAID, "on-demand", "spot"), (ARCH, "amd64", "arm64")] {
        let mut world = world();
        let first = [sel(TYPE, "single-pod-instance-type"), sel(key, before)];
        world.provision(&batch("first", 1, &first));
        move_pool(&mut world, key, &[after]);
        world.provision(&batch("p", 5, &[ask(&[("cpu", "2")]), spread(key, 1)]));
        assert_eq!(world.skew(key), [1, 2], "{key}");
    }
}

#[test]
fn two_spreads_hold_at_once_pass_after_pass() {
    // TSC-36, TSC-39, TSC-49
    let cases: [(&str, [&[usize]; 4]); 2] = [
        (ZONE, [&[1, 1], &[1, 2, 2], &[3, 3, 4], &[7, 7, 7]]),
        (PAID, [&[1, 1], &[2, 3], &[5, 5], &[10, 11]]),
    ];
    for (key, expected) in cases {
        let mut world = world();
        for (at, many) in [2, 3, 5, 11].into_iter().enumerate() {
            world.provision(&batch(&format!("p{at}"), many, &[spread(key, 1), spread(HOST, 3)]));
            assert_eq!(world.skew(key), expected[at], "{key}, pass {at}");
            assert!(world.skew(HOST).iter().all(|pods| *pods <= 3));
        }
    }
    let mut both = world();
    let bounds = [(1, 1), (3, 2), (5, 4), (11, 7)];
    for (at, many) in [2, 3, 3, 11].into_iter().enumerate() {
        both.provision(&batch(&format!("p{at}"), many, &[spread(PAID, 1), spread(ZONE, 1)]));
        assert!(both.skew(PAID).iter().all(|pods| *pods <= bounds[at].0));
        assert!(both.skew(ZONE).iter().all(|pods| *pods <= bounds[at].1));
    }
}

#[test]
fn a_label_of_several_pools_shares_pods_among_them() {
    // TSC-37
    let key = "capacity.spread.4-1";
    let mut world = World::f()
        .requiring(PAID, "In", &["spot"])
        .requiring(key, "In", &["2", "3", "4", "5"]);
    let mut other = pool("on-demand", cloud_f());
    other.requirements.add(requirement(PAID, "In", &["on-demand"]));
    other.requirements.add(requirement(key, "In", &["1"]));
    world.problem.pools.push(other);
    world.provision(&batch("p", 20, &[spread(key, 1)]));
    assert_eq!(world.skew(key), [4, 4, 4, 4, 4]);
    assert_eq!(world.skew(PAID), [4, 16]);
}

#[test]
fn a_pool_without_room_still_brings_its_domains() {
    // TSC-38
    let mut world = zones(&["z1", "z2"]);
    let mut other = pool("closed", cloud_f());
    other.requirements.add(requirement(ZONE, "In", &["z3"]));
    other.limits = ResourceList::new().with("cpu", Quantity::ZERO);
    world.problem.pools.push(other);
    world.provision(&batch("p", 10, &[spread(ZONE, 1), soft_spread(HOST, 1)]));
    assert_eq!((world.skew(ZONE), world.skew(HOST)), (vec![1, 1], vec![1, 1]));
}

#[test]
fn keys_of_the_pod_narrow_the_selector() {
    // TSC-40, TSC-41
    let wish = spread_with(HOST, 1, json!({"matchLabelKeys": ["test-label"]}));
    let mut revisions = world();
    let of = |value: &str| batch(value, 2, &[label("test-label", value), wish.clone()]);
    revisions.provision(&[of("value-a"), of("value-b")].concat());
    assert_eq!(revisions.skew(HOST), [2, 2]);
    assert_eq!(lies(world(), 4, HOST, std::slice::from_ref(&wish)), [1, 1, 1, 1]);
}

/// A machine of somebody else with little room, a label, and perhaps a taint and another label.
fn foreign(world: &mut World, name: &str, labels: &[(&str, &str)], taints: &[Taint]) {
    let mut own: BTreeMap<String, String> = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    own.insert(HOST.to_owned(), name.to_owned());
    let own = Arc::new(own);
    let little = ResourceList::new()
        .with(names::CPU, Quantity::millis(100))
        .with(names::PODS, Quantity::units(10));
    world.problem.nodes.push(Arc::new(Node {
        name: name.to_owned(),
        labels: Arc::clone(&own),
        taints: taints.to_vec(),
        capacity: little.clone(),
        allocatable: little,
        object: Some(NodeObject {
            name: name.to_owned(),
            labels: own,
            taints: taints.to_vec(),
        }),
        ..Node::default()
    }));
}

const KEY: &str = "fake-label";

#[test]
fn machines_behind_taints_count_unless_taints_are_honoured() {
    // TSC-42, TSC-43, TSC-44, TSC-45
    let wish = |policy: &str| {
        [
            ask(&[("cpu", "1")]),
            spread_with(KEY, 1, json!({"nodeTaintsPolicy": policy})),
        ]
    };
    for (policy, expected) in [("Ignore", 1), ("Honor", 5)] {
        let mut world = world().labelled(KEY, "baz");
        for name in ["foo", "bar"] {
            foreign(
                &mut world,
                name,
                &[(KEY, name)],
                &[Taint::new("taint", "x", "NoSchedule")],
            );
        }
        assert_eq!(lies(world, 5, KEY, &wish(policy)), [expected]);
    }
    for (policy, expected) in [("Ignore", 1), ("Honor", 2)] {
        let mut world = world().requiring(KEY, "In", &["foo"]);
        let mut tainted = pool("tainted", cloud_f());
        tainted.requirements.add(requirement(KEY, "In", &["bar"]));
        tainted.taints = vec![Taint::new("taint", "x", "NoSchedule")];
        world.problem.pools.push(tainted);
        assert_eq!(lies(world, 2, KEY, &wish(policy)), [expected]);
    }
}

#[test]
fn who_honours_taints_counts_only_where_it_may_go() {
    // TSC-46
    let mut world = World::f();
    world.problem.pools = [("nodepool-0", ["foo", "bar"]), ("nodepool-1", ["foo", "baz"])]
        .map(|(name, values)| {
            let mut own = pool(name, cloud_f());
            own.taints = vec![Taint::new(name, "", "NoSchedule")];
            own.requirements.add(requirement(KEY, "In", &values));
            own
        })
        .to_vec();
    let wish = |pool: &str| {
        [
            tolerate(pool, "Exists", "", ""),
            spread_with(KEY, 1, json!({"nodeTaintsPolicy": "Honor"})),
        ]
    };
    let all = [batch("a", 2, &wish("nodepool-0")), batch("b", 4, &wish("nodepool-1"))].concat();
    assert_eq!(world.provision(&all).on.len(), 6);
    assert_eq!(world.skew(KEY), [1, 2, 3]);
}

#[test]
fn a_taint_that_only_asks_to_be_avoided_lets_a_machine_count() {
    // scheduling 17-8
    let mut world = world().labelled(KEY, "baz");
    foreign(
        &mut world,
        "foo",
        &[(KEY, "foo")],
        &[Taint::new("taint", "x", "PreferNoSchedule")],
    );
    let wish = [
        ask(&[("cpu", "1")]),
        spread_with(KEY, 1, json!({"nodeTaintsPolicy": "Honor"})),
    ];
    assert_eq!(lies(world, 5, KEY, &wish), [1]);
}

#[test]
fn machines_that_the_pod_does_not_select_count_unless_affinity_is_honoured() {
    // TSC-47, TSC-48
    for (policy, expected) in [("Ignore", 1), ("Honor", 5)] {
        let mut world = world().labelled(KEY, "baz").labelled("selector", "value");
        for name in ["foo", "bar"] {
            foreign(&mut world, name, &[(KEY, name), ("selector", "mismatch")], &[]);
        }
        let wish = [
            ask(&[("cpu", "1")]),
            sel("selector", "value"),
            spread_with(KEY, 1, json!({"nodeAffinityPolicy": policy})),
        ];
        assert_eq!(lies(world, 5, KEY, &wish), [expected]);
    }
}

#[test]
fn three_spreads_hold_in_the_assorted_cloud() {
    // TSC-50
    let mut world = World::of(cloud_a()).requiring(PAID, "Exists", &[]);
    let spreads = [spread(PAID, 1), spread(ZONE, 2), spread(HOST, 3)];
    let domains = |world: &World, key: &str| {
        let skew = world.skew(key);
        skew.last().unwrap() - if skew.len() < 2 { 0 } else { skew[0] }
    };
    for many in 1..15 {
        let outcome = world.provision(&batch(&format!("p{many}"), many, &spreads));
        assert_eq!(outcome.on.len(), many);
        assert!(domains(&world, PAID) <= 1 && domains(&world, ZONE) <= 2);
        assert!(world.skew(HOST).iter().all(|pods| *pods <= 3));
    }
}

#[test]
fn what_a_pod_may_not_use_does_not_hold_it_down() {
    // TSC-51, TSC-52, TSC-53, TSC-54
    let mut selecting = world();
    let of = |zone: &str, many| batch(zone, many, &[sel(ZONE, zone), spread(ZONE, 1)]);
    selecting.provision(&[of("z1", 5), of("z2", 10)].concat());
    assert_eq!(selecting.skew(ZONE), [5, 10]);
    let of_zones = |zones: &[&str]| [must(ZONE, "In", zones), spread(ZONE, 1)];
    assert_eq!(lies(world(), 10, ZONE, &of_zones(&["z1", "z2"])), [5, 5]);
    let mut several = world();
    several.provision(&batch("a", 6, &of_zones(&["z1", "z2"])));
    assert_eq!(several.skew(ZONE), [3, 3]);
    several.provision(&batch("b", 1, &of_zones(&["z2", "z3"])));
    assert_eq!(several.skew(ZONE), [1, 3, 3]);
    several.provision(&batch("c", 5, &[spread(ZONE, 1)]));
    assert_eq!(several.skew(ZONE), [4, 4, 4]);
    assert_eq!(
        lies(
            world(),
            6,
            ZONE,
            &[prefer(1, ZONE, "In", &["z1", "z2"]), spread(ZONE, 1)]
        ),
        [2, 2, 2]
    );
}

#[test]
fn selected_capacity_types_do_not_hold_each_other_down() {
    // TSC-55, TSC-56
    let mut selecting = world();
    let of = |paid: &str| batch(paid, 5, &[sel(PAID, paid), soft_spread(PAID, 1)]);
    selecting.provision(&[of("spot"), of("on-demand")].concat());
    assert_eq!(selecting.skew(PAID), [5, 5]);
    let mut several = world();
    let wish = |paid: &[&str]| [must(PAID, "In", paid), spread(PAID, 1)];
    several.provision(&batch("a", 3, &wish(&["spot"])));
    assert_eq!(several.skew(PAID), [3]);
    several.provision(&batch("b", 1, &wish(&["on-demand", "spot"])));
    assert_eq!(several.skew(PAID), [1, 3]);
    several.provision(&batch("c", 5, &[spread(PAID, 1)]));
    assert_eq!(several.skew(PAID), [4, 5]);
}

#[test]
fn where_a_volume_is_does_not_change_what_is_counted() {
    // TSC-57
    let mut world = World::f().requiring(PAID, "In", &["on-demand"]);
    let wish = spread_with(ZONE, 1, json!({"minDomains": 3}));
    world.provision(&batch("p", 3, std::slice::from_ref(&wish)));
    assert_eq!(world.skew(ZONE), [1, 1, 1]);
    crate::volumes::bind_claim(&mut world, "data", &[&["z1"]]);
    let machine = world.machine(&pod("with", &[test(), mount("data"), wish])).unwrap();
    assert_eq!(machine.labels[ZONE], "z1");
    assert_eq!(world.skew(ZONE), [1, 1, 2]);
}

#[test]
fn of_equal_domains_one_that_can_be_bought_cheaply_is_taken() {
    // scheduling 17-12
    let priced = Kind {
        offerings: vec![(CapacityType::Spot, "z1", 3.0), (CapacityType::Spot, "z2", 1.0)],
        ..Kind::of("t", 4, 4)
    };
    let mut world = World::of(vec![priced.made()]);
    let machine = world.machine(&pod("p", &[test(), spread(ZONE, 1)])).unwrap();
    assert_eq!(machine.labels[ZONE], "z2");
}

//! Pod affinity and anti-affinity (scheduling §17).

use crate::pods::*;
use crate::world::*;
use karpenter::scheduling::Pod;
use serde_json::{Value, json};

/// The pods that others want to be near to or far from.
const S2: (&str, &str) = ("security", "s2");

fn target(name: &str, fragments: &[Value]) -> Pod {
    let mut all = vec![label(S2.0, S2.1)];
    all.extend(fragments.to_vec());
    pod(name, &all)
}

fn world() -> World {
    World::f().requiring(PAID, "Exists", &[])
}

fn spread_pods(many: usize) -> Vec<Pod> {
    pods("spread", many, &[test(), spread(HOST, 1)])
}

#[test]
fn empty_lists_want_nothing() {
    // AFF-1
    let empty = json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}, "podAntiAffinity": {}}}});
    assert!(world().places(&pod("p", &[empty])));
}

#[test]
fn a_follower_goes_where_its_target_is() {
    // AFF-2, AFF-3
    let mut all = spread_pods(10);
    all.extend([target("target", &[]), pod("follower", &[near(HOST, S2)])]);
    let outcome = world().provision(&all);
    assert_eq!(outcome.on["target"], outcome.on["follower"]);
    let mut by_arch = world();
    let both = [
        target(
            "target",
            &[test(), spread(HOST, 1), ask(&[("cpu", "2")]), sel(ARCH, "arm64")],
        ),
        pod(
            "follower",
            &[test(), spread(HOST, 1), ask(&[("cpu", "1")]), near(ARCH, S2)],
        ),
    ];
    let outcome = by_arch.provision(&both);
    assert_ne!(outcome.on["target"], outcome.on["follower"]);
    assert_eq!(by_arch.label(outcome.on["follower"], ARCH), Some("arm64"));
}

#[test]
fn pods_that_want_each_other_share_a_machine_until_it_is_full() {
    // AFF-4, AFF-5, AFF-6
    let own = |more: Vec<Value>| {
        let mut all = vec![label(S2.0, S2.1), near(HOST, S2)];
        all.extend(more);
        all
    };
    assert_eq!(world().provision(&pods("p", 3, &own(vec![]))).machines(), 1);
    let mut full = world();
    let first = full.provision(&pods("p", 10, &own(vec![])));
    assert_eq!((first.on.len(), first.machines()), (5, 1));
    assert!(full.provision(&pods("q", 10, &own(vec![]))).on.is_empty());
    let mut elsewhere = world();
    assert!(elsewhere.places(&pod("first", &own(vec![must(ZONE, "In", &["z1"])]))));
    assert!(
        elsewhere
            .provision(&pods("p", 10, &own(vec![must(ZONE, "In", &["z2", "z3"])])))
            .on
            .is_empty()
    );
}

#[test]
fn pods_that_want_each_others_zone_share_one() {
    // AFF-7, AFF-8, AFF-9, NB-3
    let own = |more: Vec<Value>| {
        let mut all = vec![label(S2.0, S2.1), near(ZONE, S2)];
        all.extend(more);
        all
    };
    assert_eq!(world().provision(&pods("p", 3, &own(vec![]))).machines(), 1);
    let mut third = world();
    assert_eq!(
        third
            .provision(&pods("p", 3, &own(vec![must(ZONE, "In", &["z3"])])))
            .machines(),
        1
    );
    assert_eq!(third.label(0, ZONE), Some("z3"));
    let mut apart = world();
    let both = [
        pod("a", &own(vec![must(ZONE, "In", &["z2"])])),
        pod("b", &own(vec![must(ZONE, "In", &["z3"])])),
    ];
    let outcome = apart.provision(&both);
    assert_eq!(
        [apart.label(outcome.on["a"], ZONE), apart.label(outcome.on["b"], ZONE)],
        [Some("z2"), Some("z3")]
    );
    let mut in_flight = world();
    in_flight.joining = Joining::InFlight;
    in_flight.provision(&pods("p", 1, &own(vec![])));
    in_flight.provision(&pods("p", 2, &own(vec![])));
    assert_eq!(in_flight.machines(), 1);
}

#[test]
fn preferred_neighbours_keep_nobody_pending() {
    // AFF-10, AFF-11, ANT-5, ANT-9, ANT-10
    let mut all = spread_pods(10);
    all.push(pod("follower", &[prefer_near(50, HOST, S2)]));
    assert_eq!(world().provision(&all).on.len(), 11);
    let mut all = pods("spread", 3, &[test(), spread(ZONE, 1)]);
    all.extend(pods("p", 10, &[prefer_far(50, ZONE, ("test", "test"))]));
    assert_eq!(world().provision(&all).on.len(), 13);
    let in_zones =
        || ["z1", "z2", "z3"].map(|zone| pod(zone, &[ask(&[("cpu", "2")]), sel(ZONE, zone), prefer_far(10, ZONE, S2)]));
    let mut at_once = in_zones().to_vec();
    at_once.push(target("target", &[]));
    assert_eq!(world().provision(&at_once).on.len(), 4);
    let mut running = world();
    running.provision(&in_zones());
    assert!(running.places(&target("target", &[])));
    let mut all = pods("p", 3, &[test(), spread(HOST, 1), prefer_near(50, HOST, S2)]);
    all.push(target("target", &[]));
    let mut spread = world();
    assert_eq!(spread.provision(&all).on.len(), 4);
    assert_eq!(spread.skew(HOST), [1, 1, 1]);
}

#[test]
fn who_wants_to_be_alone_is_alone() {
    // ANT-1, ANT-2, ANT-3, ANT-4
    for _ in 0..10 {
        let outcome = world().provision(&[target("target", &[]), pod("alone", &[far(HOST, S2)])]);
        assert_eq!((outcome.on.len(), outcome.machines()), (2, 2));
    }
    let large = ask(&[("cpu", "2")]);
    let mut everywhere = ["z1", "z2", "z3"]
        .map(|zone| target(zone, &[large.clone(), sel(ZONE, zone)]))
        .to_vec();
    everywhere.push(pod("alone", &[far(ZONE, S2)]));
    let outcome = world().provision(&everywhere);
    assert!(outcome.on.len() == 3 && !outcome.on.contains_key("alone"));
    let outcome = world().provision(&[
        target("target", std::slice::from_ref(&large)),
        pod("alone", &[far(ZONE, S2)]),
    ]);
    assert_eq!(outcome.on.keys().collect::<Vec<_>>(), ["target"]);
    let mut by_arch = world();
    let both = [
        target("target", &[large, sel(ARCH, "arm64")]),
        pod("alone", &[ask(&[("cpu", "1")]), far(ARCH, S2)]),
    ];
    let outcome = by_arch.provision(&both);
    assert_ne!(
        by_arch.label(outcome.on["target"], ARCH),
        by_arch.label(outcome.on["alone"], ARCH)
    );
}

#[test]
fn who_wants_to_be_alone_keeps_others_away() {
    // ANT-6, ANT-7, ANT-8
    let alone = |zone: &str| pod(zone, &[ask(&[("cpu", "2")]), sel(ZONE, zone), far(ZONE, S2)]);
    let everywhere = ["z1", "z2", "z3"].map(alone);
    let mut at_once = everywhere.to_vec();
    at_once.push(target("target", &[]));
    assert!(!world().provision(&at_once).on.contains_key("target"));
    let mut running = world();
    running.provision(&everywhere);
    assert!(!running.places(&target("target", &[])));
    let mut open = world();
    let first = open.provision(&[
        pod("alone", &[ask(&[("cpu", "2")]), far(ZONE, S2)]),
        target("target", &[]),
    ]);
    assert_eq!(first.on.keys().collect::<Vec<_>>(), ["alone"]);
    let machine = open.machine(&target("target", &[])).unwrap();
    assert_ne!(Some(machine.labels[ZONE].as_str()), open.label(0, ZONE));
}

#[test]
fn pods_that_avoid_each_others_zone_come_one_a_pass() {
    // ANT-11
    let mut world = world();
    let own = [test(), far(ZONE, ("test", "test"))];
    for expected in [vec![1], vec![1, 1], vec![1, 1, 1], vec![1, 1, 1]] {
        world.provision(&pods(&format!("p{}", world.machines()), 3, &own));
        assert_eq!(world.skew(ZONE), expected);
    }
}

#[test]
fn followers_wait_until_the_zone_of_their_target_is_known() {
    // AFF-12, AFF-13, AFF-14, AFF-16
    let followers = || pods("follower", 10, &[test(), near(ZONE, S2)]);
    assert!(world().provision(&followers()).on.is_empty());
    assert!(!world().places(&pod("p", &[near(HOST, S2)])));
    let with = |target: Pod| {
        let mut all = followers();
        all.push(target);
        all
    };
    let mut late = world();
    let first = late.provision(&with(target("target", &[test()])));
    assert_eq!(first.on.keys().collect::<Vec<_>>(), ["target"]);
    late.provision(&followers());
    assert_eq!(late.skew(ZONE), [11]);
    let mut fixed = world();
    fixed.provision(&with(target("target", &[test(), must(ZONE, "In", &["z1"])])));
    assert_eq!(fixed.skew(ZONE), [11]);
}

#[test]
fn a_chain_of_followers_is_placed_in_one_pass() {
    // AFF-15
    let link = |name: &str, after: Option<&str>| {
        let mut all = vec![label("type", name)];
        all.extend(after.map(|after| near(HOST, ("type", after))));
        pod(name, &all)
    };
    let chain = [
        link("db", None),
        link("web", Some("db")),
        link("cache", Some("web")),
        link("ui", Some("cache")),
    ];
    for turn in 0..chain.len() {
        let mut turned = chain.to_vec();
        turned.rotate_left(turn);
        let outcome = world().provision(&turned);
        assert_eq!((outcome.on.len(), outcome.machines()), (4, 1));
    }
}

#[test]
fn a_term_means_its_own_namespace_unless_it_says_others() {
    // AFF-17, AFF-18, AFF-19
    let cases = [
        (json!({}), false),
        (json!({"namespaces": ["other"]}), true),
        (json!({"namespaceSelector": {}}), true),
    ];
    for (more, expected) in cases {
        let mut meant = term(HOST, &[S2]);
        for (key, value) in more.as_object().unwrap() {
            meant[key] = value.clone();
        }
        let mut all = spread_pods(10);
        all.extend([
            target("target", &[in_namespace("other")]),
            pod("follower", &[near_by(&meant)]),
        ]);
        let outcome = world().provision(&all);
        let together = outcome.on.get("follower").is_some_and(|at| *at == outcome.on["target"]);
        assert_eq!((together, outcome.on.contains_key("follower")), (expected, expected));
    }
}

//! What a pod wants of labels against what one pool offers (scheduling §5, §6).

use crate::pods::*;
use crate::world::*;
use karpenter::scheduling::{Pod, Preferences};
use serde_json::Value;

/// The usual pool for these: any capacity type.
fn world() -> World {
    World::f().requiring(PAID, "In", &["spot", "on-demand", "reserved"])
}

/// The value that a label of the pod's new machine has.
fn becomes(mut world: World, fragments: &[Value], key: &str) -> Option<String> {
    let machine = world.machine(&pod("p", fragments))?;
    Some(machine.labels.get(key).cloned().unwrap_or_default())
}

fn placed(mut world: World, fragments: &[Value]) -> bool {
    world.places(&pod("p", fragments))
}

fn is(value: &str) -> Option<String> {
    Some(value.to_owned())
}

#[test]
fn selectors_and_affinity_find_what_the_pool_offers_and_nothing_else() {
    // PRV-10, PRV-11, PRV-12, REQ-9, REQ-29
    let known = [
        (POOL, "default"),
        (ZONE, "z1"),
        (TYPE, "default-instance-type"),
        (ARCH, "arm64"),
        (OS, "linux"),
        (PAID, "spot"),
    ];
    for (key, value) in known {
        assert!(placed(world(), &[sel(key, value)]), "{key}={value}");
        assert!(placed(world(), &[must(key, "In", &[value])]), "{key} In {value}");
    }
    for key in [POOL, ZONE, TYPE, ARCH, OS, PAID, "foo"] {
        assert!(!placed(world(), &[sel(key, "unknown")]), "{key}=unknown");
        assert!(!placed(world(), &[must(key, "In", &["unknown"])]), "{key} In unknown");
    }
}

#[test]
fn a_template_label_is_what_pods_can_ask_for() {
    // REQ-1, REQ-2, REQ-3, REQ-4, REQ-5
    let labelled = || world().labelled("test-key", "test-value");
    assert_eq!(becomes(labelled(), &[], "test-key"), is("test-value"));
    assert!(!placed(labelled(), &[sel("test-key", "different-value")]));
    assert!(!placed(world(), &[sel("test-key", "test-value")]));
    let one_of = must("test-key", "In", &["test-value", "another-value"]);
    assert_eq!(becomes(labelled(), &[one_of], "test-key"), is("test-value"));
    assert!(!placed(labelled(), &[must("test-key", "In", &["another-value"])]));
}

#[test]
fn a_zone_is_what_pool_and_pod_have_in_common() {
    // REQ-6, REQ-7, REQ-10, REQ-11, REQ-16, REQ-17, REQ-18, REQ-23, REQ-24
    let in_zones = |zones: &[&str]| world().requiring(ZONE, "In", zones);
    assert_eq!(becomes(in_zones(&["z2"]), &[], ZONE), is("z2"));
    assert_eq!(becomes(in_zones(&["z1", "z2"]), &[sel(ZONE, "z2")], ZONE), is("z2"));
    assert!(!placed(in_zones(&["z1"]), &[sel(ZONE, "z2")]));
    assert_eq!(becomes(world(), &[must(ZONE, "In", &["z3"])], ZONE), is("z3"));
    assert!(!placed(world(), &[must(ZONE, "In", &["unknown"])]));
    assert_eq!(
        becomes(world(), &[must(ZONE, "NotIn", &["z1", "z2", "unknown"])], ZONE),
        is("z3")
    );
    assert!(!placed(world(), &[must(ZONE, "NotIn", &["z1", "z2", "z3", "unknown"])]));
    let all = &["z1", "z2", "z3"];
    let mixed = [sel(ZONE, "z3"), must(ZONE, "In", all), prefer(1, ZONE, "In", all)];
    assert_eq!(becomes(world(), &mixed, ZONE), is("z3"));
    let both = [
        sel(ZONE, "z3"),
        sel(TYPE, "arm-instance-type"),
        must_all(&[
            (ZONE, "In", &["z1", "z3"]),
            (TYPE, "In", &["default-instance-type", "arm-instance-type"]),
        ]),
        prefer_all(1, &[(ZONE, "NotIn", &["unknown"]), (TYPE, "NotIn", &["unknown"])]),
    ];
    assert_eq!(becomes(world(), &both, ZONE), is("z3"));
    assert_eq!(becomes(world(), &both, TYPE), is("arm-instance-type"));
}

#[test]
fn preferences_narrow_where_they_can_and_are_dropped_where_not() {
    // REQ-19, REQ-20, REQ-21, REQ-22, REQ-49, REQ-50
    let required = must(ZONE, "In", &["z1", "z2", "z3", "unknown"]);
    let with = |preference: Value| [required.clone(), preference];
    assert_eq!(
        becomes(world(), &with(prefer(1, ZONE, "In", &["z2", "unknown"])), ZONE),
        is("z2")
    );
    assert!(placed(world(), &with(prefer(1, ZONE, "In", &["unknown"]))));
    assert_eq!(
        becomes(world(), &with(prefer(1, ZONE, "NotIn", &["z1", "z3"])), ZONE),
        is("z2")
    );
    assert!(placed(world(), &with(prefer(1, ZONE, "NotIn", &["z1", "z2", "z3"]))));
    let against = [prefer(1, ZONE, "NotIn", &["z3"]), must(ZONE, "In", &["z3"])];
    assert_eq!(becomes(world(), &against, ZONE), is("z3"));
    let absurd = prefer_all(1, &[(ZONE, "In", &["invalid"]), (ZONE, "NotIn", &["invalid"])]);
    assert!(placed(world(), &[absurd]));
}

#[test]
fn numbers_bound_what_a_machine_may_be() {
    // REQ-12, REQ-13, REQ-14, REQ-15
    for (operator, bound, expected) in [
        ("Gt", "8", "16"),
        ("Lt", "8", "2"),
        ("Gte", "16", "16"),
        ("Lte", "2", "2"),
    ] {
        let world = world().requiring("integer", operator, &[bound]);
        assert_eq!(becomes(world, &[], "integer"), is(expected), "{operator} {bound}");
    }
}

#[test]
fn restricted_labels_cannot_be_asked_for() {
    // REQ-8, REQ-25, REQ-26
    assert!(!placed(world(), &[sel(HOST, "red-node")]));
    assert!(!placed(world(), &[must(HOST, "In", &["test"])]));
    assert!(!placed(world(), &[must("karpenter.sh/test", "In", &["test"])]));
}

#[test]
fn labels_of_kubernetes_domains_are_anybodys() {
    // LAB-3, LAB-4, REQ-27, REQ-28
    for key in [
        "kubernetes.io/test",
        "k8s.io/test",
        "subdomain.kubernetes.io/test",
        "subdomain.k8s.io/test",
    ] {
        let required = world().requiring(key, "In", &["test-value"]);
        assert_eq!(becomes(required, &[], key), is("test-value"));
        let labelled = || world().labelled(key, "test-value");
        assert_eq!(becomes(labelled(), &[sel(key, "test-value")], key), is("test-value"));
    }
}

#[test]
fn a_label_that_nobody_defines_does_not_exist() {
    // REQ-31, REQ-32, REQ-33, REQ-34, REQ-44
    let key = "test-key";
    assert!(!placed(world(), &[must(key, "In", &["test-value"])]));
    assert_ne!(
        becomes(world(), &[must(key, "NotIn", &["test-value"])], key).unwrap(),
        "test-value"
    );
    assert!(!placed(world(), &[must(key, "Exists", &[])]));
    assert_eq!(becomes(world(), &[must(key, "DoesNotExist", &[])], key), is(""));
    let impossible = must_all(&[(ZONE, "In", &["non-existent-zone"]), (ZONE, "Exists", &[])]);
    assert!(!placed(world(), &[impossible]));
}

#[test]
fn a_label_that_the_pool_requires_exists_with_its_value() {
    // REQ-35, REQ-36, REQ-37, REQ-38, REQ-39, REQ-40, REQ-41
    let key = "test-key";
    let defined = || world().requiring(key, "In", &["test-value"]);
    assert_eq!(becomes(defined(), &[], key), is("test-value"));
    assert!(placed(defined(), &[must(key, "In", &["test-value"])]));
    assert!(!placed(defined(), &[must(key, "NotIn", &["test-value"])]));
    assert!(placed(defined(), &[must(key, "Exists", &[])]));
    assert!(!placed(defined(), &[must(key, "DoesNotExist", &[])]));
    assert!(!placed(defined(), &[must(key, "In", &["another-value"])]));
    assert_eq!(
        becomes(defined(), &[must(key, "NotIn", &["another-value"])], key),
        is("test-value")
    );
}

#[test]
fn pods_share_a_machine_as_long_as_one_value_suits_all() {
    // REQ-42, REQ-43
    let key = "test-key";
    let open = || world().requiring(key, "In", &["test-value", "another-value"]);
    let two = |one: Value, other: Value| -> [Pod; 2] { [pod("a", &[one]), pod("b", &[other])] };
    let is = must(key, "In", &["test-value"]);
    let mut together = open();
    let outcome = together.provision(&two(is.clone(), must(key, "NotIn", &["another-value"])));
    assert_eq!((outcome.on.len(), outcome.machines()), (2, 1));
    assert_eq!(together.label(0, key), Some("test-value"));
    let mut apart = open();
    let outcome = apart.provision(&two(is, must(key, "In", &["another-value"])));
    assert_eq!(outcome.machines(), 2);
    let values = [apart.label(outcome.on["a"], key), apart.label(outcome.on["b"], key)];
    assert_eq!(values, [Some("test-value"), Some("another-value")]);
}

#[test]
fn required_terms_are_tried_one_after_the_other_and_the_last_is_never_dropped() {
    // PREF-1, PREF-2, REQ-45, REQ-46
    let z1 = || world().requiring(ZONE, "In", &["z1"]);
    let invalid = must(ZONE, "In", &["invalid"]);
    assert!(!placed(z1(), std::slice::from_ref(&invalid)));
    let four = [
        invalid.clone(),
        invalid,
        must(ZONE, "In", &["z1"]),
        must(ZONE, "In", &["z2"]),
    ];
    assert_eq!(becomes(world(), &four, ZONE), is("z1"));
}

#[test]
fn preferred_terms_are_dropped_from_the_heaviest_on() {
    // PREF-3, PREF-4, REQ-47, REQ-48
    let both = [prefer(1, ZONE, "In", &["invalid"]), prefer(1, TYPE, "In", &["invalid"])];
    assert!(placed(world(), &both));
    let weighed = [
        prefer(100, TYPE, "In", &["test-zone-3"]),
        prefer(50, ZONE, "In", &["z2"]),
        prefer(1, ZONE, "In", &["z1"]),
    ];
    assert_eq!(
        becomes(world().requiring(ZONE, "In", &["z1", "z2"]), &weighed, ZONE),
        is("z2")
    );
}

#[test]
fn a_soft_taint_is_tolerated_last() {
    // PREF-5
    let mut world = World::f();
    world.pool().taints = vec![karpenter::scheduling::Taint::new("foo", "bar", "PreferNoSchedule")];
    let both = [prefer(1, ZONE, "In", &["invalid"]), prefer(1, TYPE, "In", &["invalid"])];
    let machine = world.machine(&pod("p", &both)).unwrap();
    assert_eq!(machine.taints, world.problem.pools[0].taints);
}

#[test]
fn an_impossible_preference_does_not_keep_a_pod_from_a_machine_that_is_planned() {
    // PREF-6, PREF-7
    for key in [ZONE, HOST] {
        let mut world = World::f();
        let preferring = [ask(&[("cpu", "1")]), prefer(1, key, "In", &["value-1"])];
        let outcome = world.provision(&[pod("a", &[ask(&[("cpu", "2")])]), pod("b", &preferring)]);
        assert_eq!((outcome.on.len(), outcome.machines()), (2, 1));
    }
}

#[test]
fn with_the_policy_ignore_preferences_are_not_looked_at() {
    // PREF-8, PREF-9, PREF-10, PREF-11, PREF-12, PREF-13, PREF-14
    let ignoring = || {
        let mut world = World::f();
        world.options.preferences = Preferences::Ignore;
        world
    };
    let preferences = [
        prefer(1, ZONE, "In", &["z2"]),
        prefer_near(1, ZONE, ("test", "test")),
        prefer_near(1, HOST, ("test", "test")),
    ];
    for preference in preferences {
        let mut world = ignoring();
        let two = |name: &str| pod(name, &[test(), ask(&[("cpu", "3")]), sel(ZONE, "z2")]);
        // The claim in z1 has fewer pods when the small one comes: one against two.
        let all = [
            pod("z1", &[ask(&[("cpu", "2")]), sel(ZONE, "z1")]),
            two("z2-a"),
            two("z2-b"),
            pod("small", &[ask(&[("cpu", "1")]), preference]),
        ];
        let outcome = world.provision(&all);
        assert_eq!(outcome.on["small"], outcome.on["z1"]);
    }
    for key in [ZONE, HOST] {
        for soft in [soft_spread(key, 1), prefer_far(1, key, ("test", "test"))] {
            let outcome = ignoring().provision(&pods("p", 5, &[test(), soft]));
            assert_eq!((outcome.on.len(), outcome.machines()), (5, 1));
        }
    }
}

#[test]
fn wishes_that_exclude_each_other_are_met_by_no_machine_not_even_by_one_without_the_label() {
    // scheduling 5-7, 15-2
    let contradictory = [sel("team", "blue"), must("team", "NotIn", &["blue"])];
    assert!(!placed(world(), &contradictory));
    let outcome = world().provision(&[pod("p", &contradictory)]);
    assert!(
        outcome.reason("p").contains("exclude each other"),
        "{}",
        outcome.reason("p")
    );
    // A preference that contradicts the selector is given up.
    let mut both = world().labelled("team", "blue");
    both.problem.pools.push(pool("z-without", cloud_f()));
    let preferring = [sel("team", "blue"), prefer(1, "team", "In", &["red"])];
    assert_eq!(becomes(both, &preferring, POOL), is("default"));
}

#[test]
fn what_one_pod_wants_is_no_label_that_the_next_one_finds() {
    // scheduling 15-2
    let mut world = world();
    world.places(&pod("first", &[]));
    let pool = world.problem.pools.remove(0);
    let both = [
        pod("a", &[ask(&[("cpu", "20m")]), must("team", "NotIn", &["red"])]),
        pod("b", &[ask(&[("cpu", "10m")]), must("team", "In", &["blue"])]),
    ];
    assert_eq!(world.provision(&both).on.keys().collect::<Vec<_>>(), ["a"]);
    world.problem.pools.push(pool);
}

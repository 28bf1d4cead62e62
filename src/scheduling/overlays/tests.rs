//! Overlays by example: the scenarios OV and OVS of docs/scenarios/scheduling.md, which names each.

use super::*;
use crate::resources::{Quantity, names};
use crate::scheduling::{CapacityType, Offering, Overhead};
use serde_json::{Value, json};

const FUSE: &str = "smarter-devices/fuse";
const HUGE: &str = "hugepages-1Gi";

/// A type with these offerings: capacity type, zone, price.
fn kind(name: &str, arch: &str, offerings: &[(CapacityType, &str, f64)]) -> Arc<InstanceType> {
    let all = |of: fn(&(CapacityType, &str, f64)) -> String| {
        let mut values: Vec<String> = offerings.iter().map(of).collect();
        values.dedup();
        values
    };
    let mut requirements: Requirements = [
        Requirement::is(labels::INSTANCE_TYPE, name),
        Requirement::is(labels::ARCH, arch),
    ]
    .into_iter()
    .collect();
    let zones = all(|offering| offering.1.to_owned());
    let kinds = all(|offering| offering.0.as_str().to_owned());
    requirements.add(Requirement::new(labels::ZONE, Operator::In, zones));
    requirements.add(Requirement::new(labels::CAPACITY_TYPE, Operator::In, kinds));
    let offerings = offerings
        .iter()
        .map(|(kind, zone, price)| Offering::new(zone, *kind, *price));
    let capacity = ResourceList::new()
        .with(names::CPU, Quantity::units(2))
        .with(names::MEMORY, Quantity::bytes(8 << 30));
    Arc::new(InstanceType::new(
        name,
        requirements,
        offerings.collect(),
        capacity,
        Overhead::default(),
    ))
}

const ONE: &[(CapacityType, &str, f64)] = &[(CapacityType::Spot, "z1", 1.02)];

fn one_type() -> Vec<Arc<InstanceType>> {
    vec![kind("default-instance-type", "amd64", ONE)]
}

fn pool(name: &str, kinds: &[Arc<InstanceType>]) -> Pool {
    Pool {
        name: name.to_owned(),
        instance_types: kinds.iter().cloned().collect(),
        node_class_label: Some(("karpenter.test.sh/testnodeclass".to_owned(), "default".to_owned())),
        ..Pool::default()
    }
}

/// An overlay of weight 10: its requirements as key, operator and values, and what else its spec says.
#[allow(clippy::needless_pass_by_value, reason = "most are literals")]
fn overlay(name: &str, requirements: &[(&str, &str, &[&str])], more: Value) -> NodeOverlay {
    let requirements: Vec<Value> = requirements
        .iter()
        .map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}))
        .collect();
    let mut spec = json!({"weight": 10, "requirements": requirements});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name}, "spec": spec,
    }))
    .unwrap()
}

fn types_in<'a>(values: &'a [&'a str]) -> (&'a str, &'a str, &'a [&'a str]) {
    (labels::INSTANCE_TYPE, "In", values)
}

fn zones_in<'a>(values: &'a [&'a str]) -> (&'a str, &'a str, &'a [&'a str]) {
    (labels::ZONE, "In", values)
}

const ALL_CAPACITY: (&str, &str, &[&str]) = (labels::CAPACITY_TYPE, "Exists", &[]);
const SPOT: (&str, &str, &[&str]) = (labels::CAPACITY_TYPE, "In", &["spot"]);

fn look(overlays: &[NodeOverlay], pools: &[Pool]) -> Evaluation {
    evaluate(overlays, pools, &WellKnownLabels::default())
}

/// The names of the overlays that clash.
fn conflicts(evaluation: &Evaluation) -> Vec<&str> {
    let all = evaluation.verdicts.iter();
    all.filter(|(_, verdict)| **verdict == OverlayVerdict::Conflict)
        .map(|(name, _)| name.as_str())
        .collect()
}

fn applied(evaluation: &Evaluation, pool: &Pool) -> Vec<Arc<InstanceType>> {
    let types = evaluation
        .overlays
        .applied(&pool.claim_labels(), &pool.instance_types, &WellKnownLabels::default());
    types.to_vec()
}

/// Prices of the first type, in thousandths.
fn prices(evaluation: &Evaluation, pool: &Pool) -> Vec<i64> {
    let thousandths = |offering: &Offering| format!("{:.0}", offering.price * 1000.0).parse().unwrap();
    applied(evaluation, pool)[0].offerings.iter().map(thousandths).collect()
}

fn four_zones() -> Vec<Arc<InstanceType>> {
    let offerings = [
        (CapacityType::Spot, "z1", 1.02),
        (CapacityType::OnDemand, "z2", 2.02),
        (CapacityType::Spot, "z3", 3.02),
        (CapacityType::Reserved, "z4", 4.02),
    ];
    vec![kind("default-instance-type", "amd64", &offerings)]
}

fn cloud_f() -> Vec<Arc<InstanceType>> {
    let named = [
        ("default-instance-type", "amd64"),
        ("small-instance-type", "amd64"),
        ("gpu-vendor-instance-type", "amd64"),
        ("gpu-vendor-b-instance-type", "amd64"),
        ("arm-instance-type", "arm64"),
    ];
    named.map(|(name, arch)| kind(name, arch, ONE)).to_vec()
}

#[test]
fn without_overlays_the_types_are_the_same_objects() {
    // OV-1, OV-62, OVS-1
    let pool = pool("p", &one_type());
    let evaluation = look(&[], std::slice::from_ref(&pool));
    assert!(Arc::ptr_eq(&applied(&evaluation, &pool)[0], &pool.instance_types[0]));
    let empty = Pool {
        instance_types: Arc::new([]),
        ..pool
    };
    assert!(applied(&look(&[], std::slice::from_ref(&empty)), &empty).is_empty());
}

#[test]
fn an_overlay_that_changes_nothing_is_valid() {
    // OV-2
    let evaluation = look(&[overlay("a", &[ALL_CAPACITY], json!({}))], &[pool("p", &one_type())]);
    assert_eq!(evaluation.verdicts["a"], OverlayVerdict::Accepted);
}

#[test]
fn what_makes_no_sense_by_itself_is_told_and_not_applied() {
    // OV-3, OV-4, OV-31, OV-32, OV-52
    let long = "a".repeat(250);
    let pool = pool("p", &one_type());
    for (requirement, more) in [
        ((long.as_str(), "Exists", &[][..]), json!({"price": "5"})),
        (ALL_CAPACITY, json!({"capacity": {"cpu": "4"}})),
        (ALL_CAPACITY, json!({"capacity": {"memory": "4Gi", FUSE: "1"}})),
    ] {
        let evaluation = look(&[overlay("a", &[requirement], more)], std::slice::from_ref(&pool));
        assert!(matches!(&evaluation.verdicts["a"], OverlayVerdict::Invalid(words) if !words.is_empty()));
        assert!(Arc::ptr_eq(&applied(&evaluation, &pool)[0], &pool.instance_types[0]));
    }
}

#[test]
fn of_two_overlays_of_one_weight_that_price_one_offering_the_earlier_name_gives_way() {
    // OV-5, OV-7, OV-8, OV-10, OV-11, OV-12, OV-13, OV-14
    let f = [pool("p", &cloud_f())];
    let four = [pool("p", &four_zones())];
    let arm = (labels::ARCH, "In", &["arm64"][..]);
    let (ds, dg) = (
        ["default-instance-type", "small-instance-type"],
        ["default-instance-type", "gpu-vendor-instance-type"],
    );
    let price = |text: &str| json!({"price": text});
    let adjust = |text: &str| json!({"priceAdjustment": text});
    let cases = [
        (&f, arm, ALL_CAPACITY, price("1.03"), price("23")),
        (&four, zones_in(&["z1", "z4"]), ALL_CAPACITY, price("1"), price("2")),
        (&four, ALL_CAPACITY, SPOT, price("1"), price("2")),
        (&four, zones_in(&["z1", "z4"]), SPOT, price("1"), price("2")),
        (&f, types_in(&ds), types_in(&dg), price("1.03"), price("23")),
        (&f, types_in(&ds), types_in(&dg), adjust("+54"), adjust("-2")),
        (&f, types_in(&ds), types_in(&dg), price("100"), price("100")),
        (&f, types_in(&ds), types_in(&dg), adjust("+100"), adjust("+100")),
    ];
    for (pools, one, other, first, second) in cases {
        let evaluation = look(
            &[
                overlay("overlay-a", &[one], first),
                overlay("overlay-b", &[other], second),
            ],
            pools,
        );
        assert_eq!(conflicts(&evaluation), ["overlay-a"]);
        assert_eq!(evaluation.verdicts["overlay-b"], OverlayVerdict::Accepted);
    }
}

#[test]
fn overlays_that_do_not_meet_or_differ_in_weight_live_together() {
    // OV-6, OV-9, OV-15, OV-16, OV-17, OV-18, OV-22, OV-23, OV-24
    let pools = [pool("p", &cloud_f())];
    let four = [pool("p", &four_zones())];
    let (arm, amd) = (
        (labels::ARCH, "In", &["arm64"][..]),
        (labels::ARCH, "In", &["amd64"][..]),
    );
    let default = ["default-instance-type"];
    let not_default = (labels::INSTANCE_TYPE, "NotIn", &default[..]);
    let price = |n: &str| json!({"price": n});
    let change = |n: &str| json!({"priceAdjustment": n});
    let fuse = |n: &str| json!({"capacity": {FUSE: n}});
    let twenty = |mut more: Value| {
        more["weight"] = json!(20);
        more
    };
    let (typed, all, far) = (types_in(&default), ALL_CAPACITY, zones_in(&["z6", "z4"]));
    let huge = json!({"capacity": {HUGE: "2Gi"}});
    let cases = [
        (&pools, arm, amd, price("1"), price("2")),
        (&four, far, SPOT, price("1"), price("2")),
        (&pools, typed, not_default, price("1"), price("2")),
        (&pools, typed, not_default, change("+1"), change("-2")),
        (&pools, all, all, price("1"), twenty(price("2"))),
        (&pools, all, all, change("+1"), twenty(change("+2"))),
        (&pools, typed, not_default, fuse("1"), fuse("54")),
        (&pools, all, all, fuse("1"), twenty(fuse("54"))),
        (&pools, all, all, fuse("1"), twenty(huge)),
    ];
    for (pools, one, other, first, second) in cases {
        let evaluation = look(&[overlay("a", &[one], first), overlay("b", &[other], second)], pools);
        assert!(conflicts(&evaluation).is_empty());
    }
}

#[test]
fn capacities_of_one_weight_clash_by_resource_and_all_of_that_weight_are_remembered() {
    // OV-19, OV-20, OV-21, OV-56, scheduling 26-6
    let pools = [pool("p", &one_type())];
    let all = |name: &str, resource: &str, amount: &str| {
        overlay(name, &[ALL_CAPACITY], json!({"capacity": {resource: amount}}))
    };
    let evaluation = look(&[all("overlay-a", FUSE, "1"), all("overlay-b", FUSE, "54")], &pools);
    assert_eq!(conflicts(&evaluation), ["overlay-a"]);
    let evaluation = look(&[all("overlay-a", FUSE, "54"), all("overlay-b", FUSE, "54")], &pools);
    assert_eq!(conflicts(&evaluation), ["overlay-a"]);
    let three = [
        all("conflicting-overlay-1", HUGE, "2Gi"),
        all("good-overlay-1", FUSE, "1"),
        all("conflicting-overlay-2", HUGE, "3Gi"),
    ];
    assert_eq!(conflicts(&look(&three, &pools)), ["conflicting-overlay-1"]);
    // X, Y, X in the order of processing: upstream forgets the first X.
    let forgotten = [all("c", HUGE, "2Gi"), all("b", FUSE, "1"), all("a", HUGE, "3Gi")];
    assert_eq!(conflicts(&look(&forgotten, &pools)), ["a"]);
    let both = look(&[all("a", FUSE, "1"), all("b", "example.com/bar", "2")], &pools);
    let made = applied(&both, &pools[0]);
    assert_eq!(made[0].capacity.amount(FUSE), Quantity::units(1));
    assert_eq!(made[0].capacity.amount("example.com/bar"), Quantity::units(2));
}

#[test]
fn a_price_holds_for_the_pool_type_and_offering_that_it_speaks_of() {
    // OV-25 to OV-30, OV-33 to OV-40
    let first = pool("p1", &one_type());
    let mut second = pool("p2", &one_type());
    second.labels.insert("test-label".to_owned(), "test-value".to_owned());
    let pools = [first.clone(), second.clone()];
    let of_pool = |name: &'static str| {
        (
            labels::NODE_POOL,
            "In",
            std::slice::from_ref(Box::leak(Box::new(name))) as &[&str],
        )
    };
    let evaluation = look(&[overlay("a", &[of_pool("p1")], json!({"price": "13234.223"}))], &pools);
    assert_eq!(
        (prices(&evaluation, &first), prices(&evaluation, &second)),
        (vec![13_234_223], vec![1020])
    );
    let two = [
        overlay("a", &[of_pool("p1")], json!({"priceAdjustment": "+1000"})),
        overlay("b", &[of_pool("p2")], json!({"priceAdjustment": "+2500"})),
    ];
    let evaluation = look(&two, &pools);
    assert_eq!(
        (prices(&evaluation, &first), prices(&evaluation, &second)),
        (vec![1_001_020], vec![2_501_020])
    );
    let labelled = [overlay(
        "a",
        &[("test-label", "In", &["test-value"])],
        json!({"price": "5"}),
    )];
    let evaluation = look(&labelled, &pools);
    assert_eq!(
        (prices(&evaluation, &first), prices(&evaluation, &second)),
        (vec![1020], vec![5000])
    );
    let no_such = look(&[overlay("a", &[types_in(&["other"])], json!({"price": "5"}))], &pools);
    assert_eq!(prices(&no_such, &first), [1020]);
    let such = look(
        &[overlay(
            "a",
            &[types_in(&["default-instance-type"])],
            json!({"price": "5"}),
        )],
        &pools,
    );
    assert_eq!(prices(&such, &first), [5000]);
    let four = pool("p", &four_zones());
    let on_demand = (labels::CAPACITY_TYPE, "In", &["on-demand"][..]);
    let evaluation = look(
        &[overlay("a", &[on_demand], json!({"price": "9"}))],
        std::slice::from_ref(&four),
    );
    assert_eq!(prices(&evaluation, &four), [1020, 9000, 3020, 4020]);
    let evaluation = look(
        &[overlay("a", &[zones_in(&["z1"])], json!({"priceAdjustment": "+1000"}))],
        std::slice::from_ref(&four),
    );
    assert_eq!(prices(&evaluation, &four), [1_001_020, 2020, 3020, 4020]);
}

#[test]
fn the_greatest_weight_decides_each_offering() {
    // OV-41 to OV-44
    let four = pool("p", &four_zones());
    let (a, b) = (zones_in(&["z2", "z4"]), SPOT);
    let both = [
        overlay("a", &[a], json!({"priceAdjustment": "+201"})),
        overlay("b", &[b], json!({"priceAdjustment": "-0.5"})),
    ];
    assert_eq!(
        prices(&look(&both, std::slice::from_ref(&four)), &four),
        [520, 203_020, 2520, 205_020]
    );
    let heavy = [
        overlay("a", &[zones_in(&["z2"])], json!({"price": "121.421", "weight": 20})),
        overlay("b", &[a], json!({"price": "165.421"})),
    ];
    assert_eq!(
        prices(&look(&heavy, std::slice::from_ref(&four)), &four),
        [1020, 121_421, 3020, 165_421]
    );
}

#[test]
fn an_overlay_that_clashes_anywhere_is_applied_nowhere() {
    // OV-45 to OV-48, OV-59, OV-60
    let pools = [pool("p1", &cloud_f()), pool("p2", &cloud_f())];
    let a = [
        "default-instance-type",
        "small-instance-type",
        "gpu-vendor-b-instance-type",
    ];
    let b = ["small-instance-type", "gpu-vendor-instance-type"];
    for more in [
        json!({"price": "7"}),
        json!({"priceAdjustment": "+7"}),
        json!({"capacity": {FUSE: "1"}}),
    ] {
        let overlays = [
            overlay("a", &[types_in(&a)], more.clone()),
            overlay("b", &[types_in(&b)], more),
        ];
        let evaluation = look(&overlays, &pools);
        assert_eq!(conflicts(&evaluation), ["a"]);
        for pool in &pools {
            let made = applied(&evaluation, pool);
            let touched = made
                .iter()
                .filter(|kind| kind.capacity_overlaid || kind.offerings[0].price_overlaid);
            let names: Vec<&str> = touched.map(|kind| kind.name.as_str()).collect();
            assert_eq!(names, ["small-instance-type", "gpu-vendor-instance-type"]);
        }
    }
}

#[test]
fn a_capacity_holds_for_the_type_as_a_whole_and_the_first_weight_wins() {
    // OV-49 to OV-51, OV-53 to OV-55, OV-57, OV-58, OV-61
    let kinds = ["z1", "z2", "z4"].map(|zone| {
        let paid = if zone == "z1" {
            CapacityType::Spot
        } else {
            CapacityType::OnDemand
        };
        kind(&format!("in-{zone}"), "amd64", &[(paid, zone, 1.02)])
    });
    let pool = pool("p", &kinds);
    let fuse = json!({"capacity": {FUSE: "1"}});
    let huge = json!({"capacity": {HUGE: "2Gi"}});
    let all = [
        overlay("a", &[zones_in(&["z2", "z4"])], fuse),
        overlay("b", &[SPOT], huge),
    ];
    let evaluation = look(&all, std::slice::from_ref(&pool));
    let made = applied(&evaluation, &pool);
    let has = |at: usize, name: &str| made[at].capacity.get(name).is_some();
    assert_eq!(
        [has(0, HUGE), has(0, FUSE), has(1, FUSE), has(2, FUSE), has(1, HUGE)],
        [true, false, true, true, false]
    );
    assert_eq!(prices(&evaluation, &pool), [1020]);
    let weighed = [
        overlay("a", &[ALL_CAPACITY], json!({"capacity": {FUSE: "5"}})),
        overlay("b", &[ALL_CAPACITY], json!({"capacity": {FUSE: "99"}, "weight": 20})),
    ];
    let evaluation = look(&weighed, std::slice::from_ref(&pool));
    assert!(conflicts(&evaluation).is_empty());
    assert_eq!(
        applied(&evaluation, &pool)[0].allocatable().amount(FUSE),
        Quantity::units(99)
    );
    let both = [
        overlay("a", &[ALL_CAPACITY], json!({"capacity": {FUSE: "1"}})),
        overlay("b", &[ALL_CAPACITY], json!({"priceAdjustment": "+1000.0"})),
    ];
    let evaluation = look(&both, std::slice::from_ref(&pool));
    assert_eq!(prices(&evaluation, &pool), [1_001_020]);
    assert_eq!(applied(&evaluation, &pool)[0].capacity.amount(FUSE), Quantity::units(1));
}

#[test]
fn a_changed_type_is_a_copy_that_says_only_what_the_type_said() {
    // OV-64, OVS-2 to OVS-7, OVS-9
    let original = kind(
        "m5.large",
        "amd64",
        &[(CapacityType::Spot, "z1", 0.096), (CapacityType::OnDemand, "z1", 0.2)],
    );
    let other = kind("m5.xlarge", "amd64", ONE);
    let mut pool = pool("p", &[Arc::clone(&original), other]);
    pool.labels.insert("team".to_owned(), "a".to_owned());
    let spot = [("team", "In", &["a"][..]), SPOT, types_in(&["m5.large"])];
    let overlays = [
        overlay("a", &spot, json!({"priceAdjustment": "+0.01"})),
        overlay(
            "b",
            &[types_in(&["m5.large"])],
            json!({"capacity": {"hugepages-2Mi": "100Mi"}}),
        ),
    ];
    let evaluation = look(&overlays, std::slice::from_ref(&pool));
    let made = applied(&evaluation, &pool);
    assert_eq!(made[0].requirements, original.requirements);
    assert_eq!(prices(&evaluation, &pool), [106, 200]);
    assert!(made[0].offerings[0].price_overlaid && !made[0].offerings[1].price_overlaid);
    assert!(made[0].capacity_overlaid && !original.capacity_overlaid);
    assert!(original.capacity.get("hugepages-2Mi").is_none() && !original.offerings[0].price_overlaid);
    // Memory is what is left beside the huge pages (scheduling 10-2).
    assert_eq!(
        made[0].allocatable().amount(names::MEMORY),
        Quantity::bytes((8 << 30) - (100 << 20))
    );
    assert!(Arc::ptr_eq(&made[1], &pool.instance_types[1]));
}

#[test]
fn only_pools_that_were_looked_at_are_known() {
    // OVS-8
    let evaluation = look(&[], &[pool("p", &one_type())]);
    assert!(evaluation.overlays.knows("p") && !evaluation.overlays.knows("q"));
    assert!(!Overlays::default().knows("p"));
}

#[test]
fn what_overlays_add_to_a_machine_goes_by_its_labels_whatever_zone_it_came_up_in() {
    let pools = [pool("p", &four_zones())];
    let evaluation = look(
        &[overlay("a", &[zones_in(&["z1"])], json!({"capacity": {FUSE: "1"}}))],
        &pools,
    );
    let machine = |kind: &str| {
        BTreeMap::from([
            (labels::NODE_POOL.to_owned(), "p".to_owned()),
            (labels::ZONE.to_owned(), "z3".to_owned()),
            (labels::INSTANCE_TYPE.to_owned(), kind.to_owned()),
        ])
    };
    let well_known = WellKnownLabels::default();
    let added = evaluation
        .overlays
        .added_capacity(&machine("default-instance-type"), &well_known);
    assert_eq!(added.amount(FUSE), Quantity::units(1));
    let typed = look(
        &[overlay("a", &[types_in(&["other"])], json!({"capacity": {FUSE: "1"}}))],
        &pools,
    );
    assert!(
        typed
            .overlays
            .added_capacity(&machine("default-instance-type"), &well_known)
            .is_empty()
    );
}

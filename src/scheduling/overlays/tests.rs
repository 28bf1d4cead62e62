//! Overlays by example: the scenarios OV and OVS of docs/scenarios/scheduling.md, which names each.

mod applied;

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

//! What overlays that hold do to types, offerings and machines.

use super::*;

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

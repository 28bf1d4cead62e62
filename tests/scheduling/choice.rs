//! Which machine: bin packing, compatibility, pools and their weights, `minValues`, the cheapest (scheduling §10, §11, §15, §19, §21).

use crate::pods::*;
use crate::world::*;
use karpenter::resources::{Quantity, ResourceList};
use karpenter::scheduling::{CapacityType, InstanceType, MinValuesPolicy, Requirement, Results, Taint};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const SPOT: CapacityType = CapacityType::Spot;
const ON_DEMAND: CapacityType = CapacityType::OnDemand;

fn kind_for(mut world: World, fragments: &[Value]) -> Option<String> {
    let machine = world.machine(&pod("p", fragments))?;
    machine.labels.get(TYPE).cloned()
}

fn is(value: &str) -> Option<String> {
    Some(value.to_owned())
}

#[test]
fn a_pod_gets_the_smallest_type_that_holds_it() {
    // BP-1, BP-2, BP-3, BP-8, BP-9, BP-11, BP-12
    let small = is("small-instance-type");
    let default = is("default-instance-type");
    assert_eq!(kind_for(World::f(), &[ask(&[("memory", "100M")])]), small);
    assert_eq!(kind_for(World::f(), &[ask(&[("memory", "2000M")])]), small);
    let overhead = json!({"spec": {"overhead": {"cpu": "2"}}});
    assert_eq!(kind_for(World::f(), &[ask(&[("cpu", "1")]), overhead]), default);
    assert!(kind_for(World::f(), &[limit(&[("foo.com/weird-resources", "0")])]).is_some());
    assert_eq!(kind_for(World::f(), &[ask(&[("memory", "2Ti")])]), None);
    let starting = |of: Value| json!({"spec": {"initContainers": [{"name": "i", "resources": {"requests": of}}]}});
    assert_eq!(
        kind_for(World::f(), &[size("1", "1Gi"), starting(json!({"cpu": "2"}))]),
        default
    );
    assert_eq!(
        kind_for(World::f(), &[size("1", "1Gi"), starting(json!({"memory": "1Ti"}))]),
        None
    );
}

#[test]
fn pods_are_packed_tightly() {
    // BP-4, BP-5, BP-6, BP-7, BP-10
    let mut world = World::f();
    let outcome = world.provision(&pods("p", 5, &[ask(&[("memory", "10M")])]));
    assert_eq!(
        (outcome.machines(), world.label(0, TYPE)),
        (1, Some("small-instance-type"))
    );
    let amd64 = sel(ARCH, "amd64");
    let large = pods("large", 40, &[ask(&[("memory", "1.8G")]), amd64.clone()]);
    let mut small = pods("small", 20, &[ask(&[("memory", "400M")]), amd64.clone()]);
    assert_eq!(World::f().provision(&large).machines(), 20);
    small.extend(large);
    let mut world = World::f();
    assert_eq!(world.provision(&small).machines(), 20);
    assert!((0..20).all(|at| world.label(at, TYPE) == Some("default-instance-type")));
    let mut growing = World::of(cloud_n(5));
    growing.provision(&[pod("a", &[ask(&[("cpu", "4500m")])]), pod("b", &[ask(&[("cpu", "1")])])]);
    assert_eq!(growing.machines(), 2);
    assert_ne!(growing.label(0, TYPE), growing.label(1, TYPE));
    let mut tiny = World::f();
    let outcome = tiny.provision(&pods("p", 25, &[ask(&[("cpu", "1m"), ("memory", "1M")]), amd64]));
    assert_eq!((outcome.on.len(), outcome.machines()), (25, 5));
}

#[test]
fn the_cheapest_is_launched_and_all_that_would_do_are_listed() {
    // BP-13
    let priced = |name: &'static str, cores, price| {
        Kind {
            offerings: vec![(ON_DEMAND, "z1", price)],
            ..Kind::of(name, cores, cores)
        }
        .made()
    };
    let mut world = World::of(vec![
        priced("medium", 2, 3.0),
        priced("small", 1, 2.0),
        priced("large", 4, 1.0),
    ]);
    let outcome = world.provision(&[pod("p", &[ask(&[("cpu", "1m"), ("memory", "1Mi")])])]);
    assert_eq!(world.label(0, TYPE), Some("large"));
    assert_eq!(outcome.results.new_claims[0].instance_types.len(), 3);
}

#[test]
fn types_are_told_apart_by_every_label_and_resource() {
    // ITC-1, ITC-2, ITC-3, ITC-4, ITC-5, ITC-6, ITC-7, ITC-8
    assert_eq!(kind_for(World::f(), &[ask(&[("cpu", "512")])]), None);
    let amd = || World::f().requiring(ARCH, "In", &["amd64"]);
    assert_eq!(kind_for(amd(), &[must(TYPE, "In", &["arm-instance-type"])]), None);
    assert_eq!(kind_for(amd(), &[must(OS, "In", &["ios"])]), None);
    assert_eq!(kind_for(amd(), &[limit(&[("cpu", "14")])]), None);
    let either = World::f().requiring(ARCH, "In", &["arm64", "amd64"]);
    let two = |mut world: World, a: Value, b: Value| world.provision(&[pod("a", &[a]), pod("b", &[b])]).machines();
    assert_eq!(two(either, sel(ARCH, "amd64"), sel(ARCH, "arm64")), 2);
    assert_eq!(two(World::f(), sel(OS, "linux"), sel(OS, "windows")), 2);
    let beta = sel("beta.kubernetes.io/instance-type", "small-instance-type");
    assert_eq!(two(World::f(), beta, sel(TYPE, "default-instance-type")), 2);
    assert_eq!(two(World::f(), sel(ZONE, "z1"), sel(ZONE, "z2")), 2);
}

#[test]
fn resources_that_no_type_has_together_cannot_be_had_together() {
    // ITC-9, ITC-10
    let world = || {
        let with = |at: i64, extra: &'static [(&'static str, i64)]| {
            let name = format!("fake-it-{at}");
            Kind {
                pods: 10,
                extra,
                ..Kind::of(&name, at + 1, 2 * (at + 1))
            }
            .made()
        };
        World::of(vec![with(0, &[("gpu1", 25)]), with(1, &[("gpu2", 25)]), with(2, &[])])
    };
    let (one, other) = (limit(&[("gpu1", "1")]), limit(&[("gpu2", "1")]));
    assert_eq!(world().provision(&[pod("a", &[one]), pod("b", &[other])]).machines(), 2);
    assert_eq!(kind_for(world(), &[limit(&[("gpu1", "1"), ("gpu2", "1")])]), None);
}

#[test]
fn labels_that_the_provider_registers_select_types() {
    // ITC-11, ITC-12, ITC-13, ITC-14
    let world = || World::of(cloud_n(5));
    assert_eq!(kind_for(world(), &[sel("size", "large")]), is("fake-it-4"));
    assert_eq!(kind_for(world(), &[sel("size", "small")]), is("fake-it-0"));
    assert_eq!(kind_for(world(), &[sel("size", "large"), sel(TYPE, "fake-it-0")]), None);
    assert_eq!(kind_for(world(), &[sel("size", "small"), sel(TYPE, "fake-it-4")]), None);
    let special = |operator: &str| world().machine(&pod("p", &[must("special", operator, &[])])).unwrap();
    let with = special("Exists");
    assert_eq!(
        (with.labels[TYPE].as_str(), with.labels["special"].as_str()),
        ("fake-it-4", "optional")
    );
    assert!(!special("DoesNotExist").labels.contains_key("special"));
}

fn pools(weights: &[(&str, i32)]) -> World {
    let mut world = World::f();
    world.problem.pools = weights
        .iter()
        .map(|(name, weight)| {
            let mut own = pool(name, cloud_f());
            own.weight = *weight;
            own
        })
        .collect();
    world
}

fn pool_of(world: &mut World, fragments: &[Value]) -> String {
    world.machine(&pod("p", fragments)).unwrap().labels[POOL].clone()
}

#[test]
fn the_pool_is_chosen_by_what_the_pod_wants_then_by_weight_then_by_name() {
    // POOL-1, POOL-2, POOL-3, POOL-4, POOL-5, POOL-8, POOL-9
    assert_eq!(pool_of(&mut pools(&[("a", 0), ("b", 0)]), &[sel(POOL, "a")]), "a");
    let mut labelled = pools(&[("a", 0), ("b", 0)]);
    labelled.pool().labels.insert("foo".to_owned(), "bar".to_owned());
    assert_eq!(pool_of(&mut labelled, &[sel("foo", "bar")]), "a");
    let mut soft = pools(&[("b", 0), ("a", 0)]);
    soft.pool().taints = vec![Taint::new("foo", "bar", "PreferNoSchedule")];
    assert_eq!(pool_of(&mut soft, &[]), "a");
    let weighed = || pools(&[("nil", 0), ("twenty", 20), ("hundred", 100)]);
    let mut world = weighed();
    world.provision(&pods("p", 3, &[]));
    assert!((0..world.machines()).all(|at| world.label(at, POOL) == Some("hundred")));
    assert_eq!(pool_of(&mut weighed(), &[sel(POOL, "nil")]), "nil");
    assert_eq!(pool_of(&mut pools(&[("a", 5), ("c", 5), ("b", 5)]), &[]), "c");
    assert_eq!(pool_of(&mut pools(&[("c", 0), ("a", 0), ("b", 0)]), &[]), "c");
}

fn spot_type(name: &str, cores: i64, gibibytes: i64, offerings: &[(&'static str, f64)]) -> Arc<InstanceType> {
    Kind {
        arch: "arm64",
        systems: &["linux"],
        offerings: offerings.iter().map(|(zone, price)| (SPOT, *zone, *price)).collect(),
        ..Kind::of(name, cores, gibibytes)
    }
    .made()
}

fn least(key: &str, operator: &str, values: &[&str], many: u32) -> Requirement {
    requirement(key, operator, values).with_min_values(Some(many))
}

fn with_least(types: Vec<Arc<InstanceType>>, requirements: &[Requirement], policy: MinValuesPolicy) -> World {
    let mut world = World::of(types);
    world.options.min_values = policy;
    let own = world.pool();
    own.weight = 100;
    for one in requirements {
        own.requirements.add(one.clone());
    }
    world
}

const RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";

#[test]
fn fewer_values_than_wanted_refuse_the_pool_or_lower_the_wish() {
    // MV-1, MV-2, MV-3, MV-4, MV-5, MV-6, MV-7
    use MinValuesPolicy::{BestEffort, Strict};
    let two = || {
        ["instance-type-1", "instance-type-2"]
            .map(|name| spot_type(name, 4, 4, &[("z1", 0.52)]))
            .to_vec()
    };
    let of_types = least(
        TYPE,
        "In",
        &["instance-type-1", "instance-type-2", "instance-type-3"],
        3,
    );
    let wanting = [size("900m", "900Mi")];
    let world = |policy| with_least(two(), std::slice::from_ref(&of_types), policy);
    assert!(!world(Strict).places(&pod("p", &wanting)));
    for other in [None, Some(None), Some(Some(of_types.clone()))] {
        let mut world = world(BestEffort);
        if let Some(requirement) = other {
            let mut second = pool("light", two());
            second.weight = 10;
            if let Some(one) = requirement {
                second.requirements.add(one);
            }
            world.problem.pools.push(second);
        }
        let outcome = world.provision(&[pod("p", &wanting)]);
        let claim = &outcome.results.new_claims[0];
        assert_eq!(
            (claim.pool.as_str(), claim.annotations[RELAXED].as_str()),
            ("default", "true")
        );
        let types = claim.requirements.get(TYPE).unwrap();
        assert_eq!((types.len(), types.min_values()), (2, Some(2)));
        assert_eq!(world.label(0, TYPE), Some("instance-type-1"));
    }
    let zones = least(ZONE, "In", &["z1", "z2", "z3"], 3);
    let one = || vec![spot_type("instance-type-1", 4, 4, &[("z1", 0.52), ("z2", 0.54)])];
    assert!(!with_least(one(), std::slice::from_ref(&zones), Strict).places(&pod("p", &wanting)));
    for requirements in [vec![zones.clone()], vec![zones, of_types]] {
        let plan = with_least(one(), &requirements, BestEffort).plan(&[pod("p", &wanting)]);
        let claim = &plan.new_claims[0];
        let own = claim.requirements.get(ZONE).unwrap();
        assert_eq!((own.len(), own.min_values()), (3, Some(2)));
        assert_eq!(claim.annotations[RELAXED], "true");
        if requirements.len() == 2 {
            let types = claim.requirements.get(TYPE).unwrap();
            assert_eq!(
                (types.single_value(), types.min_values()),
                (Some("instance-type-1"), Some(1))
            );
        }
    }
}

const G: &str = "karpenter/numerical-value";

fn numbered(name: &str, number: &str, gibibytes: i64) -> Arc<InstanceType> {
    let kind = spot_type(name, gibibytes, gibibytes, &[("z1", 0.5)]);
    let mut requirements = kind.requirements.clone();
    requirements.add(Requirement::is(G, number));
    Arc::new(InstanceType::new(
        name,
        requirements,
        kind.offerings.clone(),
        kind.capacity.clone(),
        kind.overhead.clone(),
    ))
}

fn two_pods(world: &World) -> Results {
    world.plan(&pods("p", 2, &[size("900m", "900Mi")]))
}

/// Two claims, each with at least two types: packing both pods would leave only the largest type.
fn apart_with_choice(plan: &Results) -> bool {
    plan.new_claims.len() == 2 && plan.new_claims.iter().all(|claim| claim.instance_types.len() >= 2)
}

#[test]
fn a_claim_keeps_as_many_values_as_are_wanted() {
    // INM-1, INM-2, INM-4, INM-6, INM-7, INM-10, INM-11
    let strict = |types: Vec<Arc<InstanceType>>, requirements: &[Requirement]| {
        with_least(types, requirements, MinValuesPolicy::Strict)
    };
    let named = || {
        vec![
            spot_type("1", 1, 1, &[("z1", 0.52)]),
            spot_type("2", 4, 4, &[("z1", 1.0)]),
        ]
    };
    assert!(apart_with_choice(&two_pods(&strict(
        named(),
        &[least(TYPE, "In", &["1", "2"], 2)]
    ))));
    let gt = || vec![numbered("a", "2", 1), numbered("b", "3", 1), numbered("c", "4", 4)];
    assert!(apart_with_choice(&two_pods(&strict(
        gt(),
        &[least(G, "Gt", &["2"], 2)]
    ))));
    let lt = || vec![numbered("a", "2", 1), numbered("b", "3", 2), numbered("c", "4", 4)];
    assert!(two_pods(&strict(lt(), &[least(G, "Lt", &["4"], 2)])).new_claims.len() == 2);
    let three = || {
        vec![
            spot_type("1", 1, 1, &[("z1", 0.5)]),
            spot_type("2", 4, 4, &[("z1", 1.0)]),
            spot_type("3", 4, 4, &[("z1", 1.2)]),
        ]
    };
    let maximum = [least(TYPE, "In", &["1", "2", "3"], 1), least(TYPE, "NotIn", &["3"], 2)];
    assert!(apart_with_choice(&two_pods(&strict(three(), &maximum))));
    let four = || {
        vec![
            numbered("a", "2", 1),
            numbered("b", "3", 1),
            numbered("c", "4", 4),
            numbered("d", "5", 4),
        ]
    };
    let bounded = [least(G, "Gt", &["2"], 1), least(G, "Lt", &["5"], 2)];
    assert!(apart_with_choice(&two_pods(&strict(four(), &bounded))));
    let more = [least(TYPE, "Exists", &[], 1), least(TYPE, "In", &["1", "2"], 2)];
    assert!(apart_with_choice(&two_pods(&strict(named(), &more))));
    let other = Kind {
        systems: &["linux"],
        offerings: vec![(SPOT, "z1", 1.0)],
        ..Kind::of("2", 4, 4)
    }
    .made();
    let architectures = [least(ARCH, "Exists", &[], 2), least(TYPE, "In", &["1", "2"], 1)];
    let both = vec![spot_type("1", 1, 1, &[("z1", 0.52)]), other];
    assert!(apart_with_choice(&two_pods(&strict(both, &architectures))));
}

#[test]
fn too_few_values_place_nothing() {
    // INM-3, INM-5, INM-8, INM-9
    let strict = |types: Vec<Arc<InstanceType>>, requirements: &[Requirement]| {
        with_least(types, requirements, MinValuesPolicy::Strict)
    };
    let mut world = strict(
        vec![numbered("a", "2", 1), numbered("b", "3", 1)],
        &[least(G, "Exists", &[], 2)],
    );
    let outcome = world.provision(&[pod("p", &[size("900m", "900Mi"), must(G, "Gt", &["2"])])]);
    let words = outcome.reason("p");
    assert!(
        words.contains("minValues requirement is not met for label(s) (label(s)=[karpenter/numerical-value])"),
        "{words}"
    );
    let two = vec![numbered("a", "2", 1), numbered("b", "4", 1)];
    assert_eq!(two_pods(&strict(two, &[least(G, "Lt", &["4"], 2)])).errors.len(), 2);
    let ten = (0..10)
        .map(|at| spot_type(&format!("t{at}"), 1, 1, &[("z1", 0.5)]))
        .collect();
    assert_eq!(
        two_pods(&strict(ten, &[least(TYPE, "Exists", &[], 11)])).errors.len(),
        2
    );
    let named = vec![
        spot_type("1", 1, 1, &[("z1", 0.52)]),
        spot_type("2", 4, 4, &[("z1", 1.0)]),
    ];
    let mut cut = strict(named, &[least(TYPE, "In", &["1", "2"], 2)]);
    cut.options.max_instance_types = 1;
    assert_eq!(two_pods(&cut).errors.len(), 2);
}

/// The assorted cloud, with what pool and pod also want; the launched machine and the plan.
fn assorted(
    of_pool: &[(&str, &str)],
    of_pod: &[(&str, &str)],
    types: Vec<Arc<InstanceType>>,
) -> Option<(World, Results)> {
    let mut world = World::of(types)
        .requiring(PAID, "In", &["spot", "on-demand"])
        .requiring(ARCH, "In", &["arm64", "amd64"]);
    for (key, value) in of_pool {
        world.require(key, "In", &[value]);
    }
    let wishes: Vec<(&str, &str, [&str; 1])> = of_pod.iter().map(|(key, value)| (*key, "In", [*value])).collect();
    let wishes: Vec<(&str, &str, &[&str])> = wishes
        .iter()
        .map(|(key, operator, values)| (*key, *operator, &values[..]))
        .collect();
    let fragments = if wishes.is_empty() {
        vec![]
    } else {
        vec![must_all(&wishes)]
    };
    let outcome = world.provision(&[pod("p", &fragments)]);
    (!outcome.on.is_empty()).then_some((world, outcome.results))
}

#[test]
fn the_cheapest_of_all_that_match_is_launched_and_all_listed_match() {
    // INS-1 to INS-18
    type Wishes<'a> = &'a [(&'a str, &'a str)];
    let cases: &[(Wishes<'_>, Wishes<'_>)] = &[
        (&[], &[]),
        (&[], &[(ARCH, "amd64")]),
        (&[], &[(ARCH, "arm64")]),
        (&[(ARCH, "amd64")], &[]),
        (&[(ARCH, "arm64")], &[]),
        (&[(OS, "windows")], &[]),
        (&[], &[(OS, "windows")]),
        (&[(OS, "linux")], &[]),
        (&[], &[(OS, "linux")]),
        (&[(ZONE, "z2")], &[]),
        (&[], &[(ZONE, "z2")]),
        (&[(PAID, "spot")], &[]),
        (&[], &[(PAID, "spot")]),
        (&[(PAID, "on-demand"), (ZONE, "z1")], &[]),
        (&[], &[(PAID, "spot"), (ZONE, "z1")]),
        (&[(PAID, "spot")], &[(ZONE, "z2")]),
        (
            &[(ARCH, "arm64"), (OS, "windows"), (PAID, "on-demand"), (ZONE, "z1")],
            &[],
        ),
        (&[(ARCH, "amd64"), (OS, "linux")], &[(PAID, "spot"), (ZONE, "z2")]),
        (&[], &[(ARCH, "amd64"), (OS, "linux"), (PAID, "spot"), (ZONE, "z2")]),
    ];
    let all = cloud_a();
    let cheapest = all.iter().map(|kind| kind.offerings[0].price).fold(f64::MAX, f64::min);
    for (of_pool, of_pod) in cases {
        let (world, plan) = assorted(of_pool, of_pod, all.clone()).unwrap();
        let launched = all
            .iter()
            .find(|kind| Some(kind.name.as_str()) == world.label(0, TYPE))
            .unwrap();
        assert!((launched.offerings[0].price - cheapest).abs() < 1e-12);
        for kind in plan.new_claims[0].instance_types.iter() {
            for (key, value) in of_pool.iter().chain(*of_pod) {
                assert!(
                    kind.requirements.get(key).unwrap().has(value),
                    "{} for {key}={value}",
                    kind.name
                );
            }
        }
    }
}

#[test]
fn what_is_not_sold_is_not_launched() {
    // INS-19, INS-20, INS-21
    let without = |zone: Option<&str>| -> Vec<Arc<InstanceType>> {
        let kept = cloud_a().into_iter().filter(|kind| {
            let has = |key: &str, value: &str| kind.requirements.get(key).unwrap().has(value);
            !(has(ARCH, "arm64") && zone.is_none_or(|zone| has(ZONE, zone)))
        });
        kept.collect()
    };
    assert!(assorted(&[], &[(ARCH, "arm64")], without(None)).is_none());
    assert!(assorted(&[], &[(ARCH, "arm64"), (ZONE, "z2")], without(Some("z2"))).is_none());
    assert!(assorted(&[(ARCH, "arm64")], &[(ZONE, "z2")], without(Some("z2"))).is_none());
}

#[test]
fn every_listed_type_holds_all_pods_and_the_types_stay_as_they_were() {
    // INS-22
    let types = cloud_a();
    let before: Vec<ResourceList> = types.iter().map(|kind| kind.capacity.clone()).collect();
    for cpu in ["100m", "1", "2", "2500m", "4", "8", "16"] {
        for memory in ["100Mi", "1Gi", "2Gi", "4Gi", "8Gi", "16Gi", "32Gi"] {
            let plan = World::of(types.clone()).plan(&pods("p", 3, &[size(cpu, memory)]));
            let claim = &plan.new_claims[0];
            assert_eq!(plan.new_claims.len(), 1);
            for kind in claim.instance_types.iter() {
                assert!(claim.requests.fits(kind.allocatable()), "{}", kind.name);
            }
        }
    }
    let after: Vec<ResourceList> = types.iter().map(|kind| kind.capacity.clone()).collect();
    assert_eq!(before, after);
}

#[test]
fn the_price_that_counts_is_the_one_of_what_may_be_bought() {
    // INS-23
    let priced = |name: &'static str, on_demand, spot| {
        Kind {
            offerings: vec![(ON_DEMAND, "z1", on_demand), (SPOT, "z1", spot)],
            ..Kind::of(name, 1, 1)
        }
        .made()
    };
    let world =
        World::of(vec![priced("type1", 1.0, 0.2), priced("type2", 1.3, 0.1)]).requiring(PAID, "In", &["on-demand"]);
    assert_eq!(kind_for(world, &[]), is("type1"));
}

#[test]
fn a_claim_keeps_no_more_types_than_allowed_and_the_cheapest_of_them() {
    // scheduling 21-2
    let mut world = World::of(cloud_n(100));
    world.options.max_instance_types = 7;
    let plan = world.plan(&[pod("p", &[])]);
    let names: BTreeSet<&str> = plan.new_claims[0]
        .instance_types
        .iter()
        .map(|kind| kind.name.as_str())
        .collect();
    assert_eq!(
        names,
        (0..7)
            .map(|at| [
                "fake-it-0",
                "fake-it-1",
                "fake-it-2",
                "fake-it-3",
                "fake-it-4",
                "fake-it-5",
                "fake-it-6"
            ][at])
            .collect()
    );
    assert_eq!(plan.new_claims[0].requests.amount("pods"), Quantity::units(1));
}

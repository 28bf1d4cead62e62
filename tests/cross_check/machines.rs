//! Instance types, NodePools, and the machines that are there before the pass.

use crate::case::{Machine, Themes, object};
use crate::dice::Dice;
use karpenter::resources::{Quantity, ResourceList, names};
use karpenter::scheduling::{
    Availability, CapacityType, InstanceType, Offering, Operator, Overhead, Pool, Requirement, Requirements, Taint,
    labels,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The zones of the case's region.
pub const ZONES: [&str; 3] = ["z1", "z2", "z3"];
/// A label that pools define and nobody registers.
pub const TIER: &str = "example.com/tier";
/// A label of the pools' templates.
pub const TEAM: &str = "example.com/team";
/// A resource that only some types have.
pub const GPU: &str = "example.com/gpu";
const CORES: [i64; 4] = [2, 4, 8, 16];

/// A type by chance; its number makes its name.
pub fn instance_type(dice: &mut Dice, at: usize, price_of_memory: f64) -> Arc<InstanceType> {
    let cores = *dice.pick(&CORES);
    let gibibytes = cores * *dice.pick(&[2, 4]);
    let name = format!("t{at}-{cores}x{gibibytes}");
    let zones = dice.some(&ZONES);
    let both = [CapacityType::Spot, CapacityType::OnDemand];
    let kinds = dice.some(&both);
    let arch = if dice.chance(75) { "amd64" } else { "arm64" };
    let systems: &[&str] = if dice.chance(80) {
        &["linux"]
    } else {
        &["linux", "windows"]
    };
    let mut requirements: Requirements = [
        Requirement::is(labels::INSTANCE_TYPE, name.clone()),
        Requirement::is(labels::ARCH, arch),
        Requirement::is(labels::REGION, "r1"),
        Requirement::is("example.com/size", if cores > 4 { "large" } else { "small" }),
        Requirement::is("example.com/cpus", cores.to_string()),
        Requirement::does_not_exist(labels::WINDOWS_BUILD),
    ]
    .into_iter()
    .collect();
    requirements.add(Requirement::new(labels::OS, Operator::In, systems.iter().copied()));
    requirements.add(Requirement::new(labels::ZONE, Operator::In, zones.iter().copied()));
    let words = kinds.iter().map(|kind| kind.as_str());
    requirements.add(Requirement::new(labels::CAPACITY_TYPE, Operator::In, words));
    let mut offerings = Vec::new();
    for zone in &zones {
        for kind in &kinds {
            #[allow(clippy::cast_precision_loss, reason = "a few cores")]
            let base = cores as f64 + gibibytes as f64 * price_of_memory;
            let dearer = if *kind == CapacityType::Spot { 0.3 } else { 1.0 };
            let mut offering = Offering::new(zone, *kind, base * dearer);
            if dice.chance(15) {
                offering.availability = Availability::Unavailable {
                    reason: "sold out".to_owned(),
                };
            }
            offerings.push(offering);
        }
    }
    let mut capacity = ResourceList::new()
        .with(names::CPU, Quantity::units(cores))
        .with(names::MEMORY, Quantity::bytes(gibibytes << 30))
        .with("ephemeral-storage", Quantity::bytes(40 << 30))
        .with(
            names::PODS,
            Quantity::units(i64::try_from(dice.between(4, 20)).unwrap()),
        );
    if dice.chance(25) {
        capacity.set(GPU, Quantity::units(2));
    }
    let overhead = Overhead {
        kube_reserved: ResourceList::new()
            .with(names::CPU, Quantity::millis(100))
            .with(names::MEMORY, Quantity::bytes(100 << 20)),
        ..Overhead::default()
    };
    Arc::new(InstanceType::new(name, requirements, offerings, capacity, overhead))
}

/// The pools of a case, each with its types.
pub fn pools(dice: &mut Dice, themes: Themes) -> Vec<Pool> {
    let count = dice.between(1, 3);
    (0..count).map(|at| pool(dice, themes, at)).collect()
}

fn pool(dice: &mut Dice, themes: Themes, at: usize) -> Pool {
    let many = dice.between(4, 9);
    let types = (0..many).map(|at| instance_type(dice, at, 0.25)).collect();
    let mut requirements = Requirements::new();
    if dice.chance(30) {
        requirements.add(Requirement::new(labels::ZONE, Operator::In, dice.some(&ZONES)));
    }
    if dice.chance(30) {
        let kind = *dice.pick(&["spot", "on-demand"]);
        requirements.add(Requirement::is(labels::CAPACITY_TYPE, kind));
    }
    if dice.chance(40) {
        requirements.add(Requirement::new(TIER, Operator::In, dice.some(&["gold", "silver"])));
    }
    if dice.chance(15) {
        requirements.add(Requirement::new("example.com/cpus", Operator::Gt, ["3"]));
    }
    if dice.chance(10) {
        let least = Requirement::exists(labels::INSTANCE_TYPE).with_min_values(Some(2));
        requirements.add(least);
    }
    let mut limits = ResourceList::new();
    if dice.chance(20) {
        limits.set(names::CPU, Quantity::units(i64::try_from(dice.between(8, 40)).unwrap()));
    }
    if dice.chance(10) {
        limits.set(
            names::NODES,
            Quantity::units(i64::try_from(dice.between(1, 4)).unwrap()),
        );
    }
    let team = dice.chance(50).then(|| (*dice.pick(&["red", "blue"])).to_owned());
    Pool {
        name: format!("p{at}"),
        weight: i32::try_from(dice.below(3)).unwrap(),
        limits,
        labels: team.into_iter().map(|team| (TEAM.to_owned(), team)).collect(),
        taints: if themes.taints { taints(dice) } else { Vec::new() },
        startup_taints: if dice.chance(20) {
            vec![Taint::new("example.com/starting", "", "NoSchedule")]
        } else {
            Vec::new()
        },
        requirements,
        node_class_label: Some(("example.com/class".to_owned(), "default".to_owned())),
        instance_types: types,
        ..Pool::default()
    }
}

fn taints(dice: &mut Dice) -> Vec<Taint> {
    let mut taints = Vec::new();
    if dice.chance(40) {
        taints.push(Taint::new(
            "example.com/dedicated",
            *dice.pick(&["a", "b"]),
            "NoSchedule",
        ));
    }
    if dice.chance(25) {
        taints.push(Taint::new("example.com/soft", "", "PreferNoSchedule"));
    }
    taints
}

/// A Node as a kubelet would keep it.
pub fn node(
    name: &str,
    labels: &BTreeMap<String, String>,
    taints: &[Taint],
    capacity: &ResourceList,
    allocatable: &ResourceList,
) -> k8s_openapi::api::core::v1::Node {
    let amounts = |list: &ResourceList| -> Map<String, Value> {
        let own = list.iter().filter(|(name, _)| *name != names::NODES);
        own.map(|(name, quantity)| (name.to_owned(), json!(quantity.to_string())))
            .collect()
    };
    let mut labels = labels.clone();
    labels.insert(labels::HOSTNAME.to_owned(), name.to_owned());
    let taints: Vec<Value> = taints
        .iter()
        .map(|taint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect}))
        .collect();
    object(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {
            "capacity": amounts(capacity), "allocatable": amounts(allocatable),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }))
}

/// The machines that are there, or were asked for.
pub fn machines(dice: &mut Dice, themes: Themes, seed: u64, pools: &[Pool]) -> Vec<Machine> {
    if !themes.machines {
        return Vec::new();
    }
    let count = dice.between(1, 4);
    (0..count)
        .map(|at| {
            let name = format!("s{seed}-m{at}");
            if dice.chance(60) {
                ours(dice, &name, pools)
            } else {
                foreign(dice, themes, &name)
            }
        })
        .collect()
}

fn ours(dice: &mut Dice, name: &str, pools: &[Pool]) -> Machine {
    let pool = dice.pick(pools);
    let kind = dice.pick(&pool.instance_types);
    let offering = dice.pick(&kind.offerings);
    let mut all = pool.claim_labels();
    all.insert(labels::INSTANCE_TYPE.to_owned(), kind.name.clone());
    all.insert("karpenter.sh/registered".to_owned(), "true".to_owned());
    all.insert("karpenter.sh/initialized".to_owned(), "true".to_owned());
    for requirement in kind.requirements.iter().filter(|r| !r.is_complement()) {
        let values: Vec<&str> = requirement.values().collect();
        if !values.is_empty() {
            all.insert(requirement.key().to_owned(), (*dice.pick(&values)).to_owned());
        }
    }
    for requirement in offering.requirements.iter() {
        all.insert(requirement.key().to_owned(), requirement.any());
    }
    if let Some(tier) = pool.requirements.get(TIER) {
        all.insert(TIER.to_owned(), tier.any());
    }
    let joined = dice.chance(75);
    Machine {
        node: node(name, &all, &pool.taints, &kind.capacity, kind.allocatable()),
        joined,
        managed: true,
        attaches: (joined && dice.chance(50)).then(|| i32::try_from(dice.between(1, 3)).unwrap()),
    }
}

fn foreign(dice: &mut Dice, themes: Themes, name: &str) -> Machine {
    let cores = *dice.pick(&CORES);
    let capacity = ResourceList::new()
        .with(names::CPU, Quantity::units(cores))
        .with(names::MEMORY, Quantity::bytes((cores * 3) << 30))
        .with("ephemeral-storage", Quantity::bytes(20 << 30))
        .with(
            names::PODS,
            Quantity::units(i64::try_from(dice.between(3, 12)).unwrap()),
        );
    let mut own = BTreeMap::from([
        (labels::ARCH.to_owned(), "amd64".to_owned()),
        (labels::OS.to_owned(), "linux".to_owned()),
    ]);
    if dice.chance(75) {
        own.insert(labels::ZONE.to_owned(), (*dice.pick(&ZONES)).to_owned());
    }
    if dice.chance(40) {
        own.insert(TEAM.to_owned(), (*dice.pick(&["red", "blue"])).to_owned());
    }
    Machine {
        node: node(
            name,
            &own,
            &if themes.taints { taints(dice) } else { Vec::new() },
            &capacity,
            &capacity,
        ),
        joined: true,
        managed: false,
        attaches: dice.chance(50).then(|| i32::try_from(dice.between(1, 3)).unwrap()),
    }
}

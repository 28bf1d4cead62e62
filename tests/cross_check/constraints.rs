//! What limits where a pod can go, drawn at random.

use crate::case::Themes;
use crate::dice::Dice;
use crate::machines::{TEAM, TIER, ZONES};
use karpenter::scheduling::labels;
use serde_json::{Value, json};

/// What selectors can say about the pods of a workload.
pub struct Labelled<'a> {
    pub app: &'a str,
    pub group: &'a str,
    pub seed: u64,
}

/// Adds constraints to a pod's spec.
pub fn add(dice: &mut Dice, themes: Themes, own: &Labelled<'_>, spec: &mut Value) {
    if themes.taints && dice.chance(60) {
        spec["tolerations"] = tolerations(dice);
    }
    if themes.node_affinity {
        node_affinity(dice, themes, spec);
    }
    if themes.spread && dice.chance(70) {
        spread(dice, themes, own, spec);
    }
    if themes.pod_affinity {
        pod_affinity(dice, themes, own, spec);
    }
}

fn tolerations(dice: &mut Dice) -> Value {
    match dice.below(4) {
        0 => json!([{"operator": "Exists"}]),
        1 => json!([{"key": "example.com/dedicated", "operator": "Exists", "effect": "NoSchedule"}]),
        2 => {
            json!([{"key": "example.com/dedicated", "operator": "Equal", "value": *dice.pick(&["a", "b"]), "effect": "NoSchedule"}])
        }
        _ => json!([{"key": "example.com/soft", "operator": "Exists"}]),
    }
}

/// A label with values that some machine has.
fn expression(dice: &mut Dice) -> Value {
    let values = |dice: &mut Dice, all: &[&str]| json!(dice.some(all));
    match dice.below(10) {
        0 | 1 => json!({"key": labels::ZONE, "operator": "In", "values": values(dice, &ZONES)}),
        2 => json!({"key": labels::ZONE, "operator": "NotIn", "values": [dice.pick(&ZONES)]}),
        3 => json!({"key": labels::CAPACITY_TYPE, "operator": "In", "values": values(dice, &["spot", "on-demand"])}),
        4 => {
            json!({"key": "example.com/cpus", "operator": *dice.pick(&["Gt", "Lt"]), "values": [*dice.pick(&["3", "5", "9"])]})
        }
        5 => json!({"key": "example.com/size", "operator": "In", "values": values(dice, &["large", "small"])}),
        6 => json!({"key": TEAM, "operator": *dice.pick(&["In", "NotIn"]), "values": [*dice.pick(&["red", "blue"])]}),
        7 => json!({"key": TEAM, "operator": *dice.pick(&["Exists", "DoesNotExist"])}),
        8 => {
            json!({"key": TIER, "operator": *dice.pick(&["In", "NotIn"]), "values": [*dice.pick(&["gold", "silver"])]})
        }
        _ => json!({"key": labels::ARCH, "operator": "In", "values": values(dice, &["amd64", "arm64"])}),
    }
}

fn term(dice: &mut Dice) -> Value {
    let expressions: Vec<Value> = (0..dice.between(1, 2)).map(|_| expression(dice)).collect();
    json!({"matchExpressions": expressions})
}

fn node_affinity(dice: &mut Dice, themes: Themes, spec: &mut Value) {
    if dice.chance(30) {
        let (key, value) = match dice.below(4) {
            0 => (labels::ZONE, *dice.pick(&ZONES)),
            1 => (labels::ARCH, "amd64"),
            2 => (labels::CAPACITY_TYPE, *dice.pick(&["spot", "on-demand"])),
            _ => (TEAM, *dice.pick(&["red", "blue"])),
        };
        spec["nodeSelector"] = json!({key: value});
    }
    if dice.chance(50) {
        let terms: Vec<Value> = (0..dice.between(1, 3)).map(|_| term(dice)).collect();
        spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": terms});
    }
    if themes.preferences && dice.chance(60) {
        let terms: Vec<Value> = (0..dice.between(1, 2))
            .map(|_| json!({"weight": dice.between(1, 100), "preference": term(dice)}))
            .collect();
        spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = json!(terms);
    }
}

/// A selector for the workload itself, its group, another workload, or everything.
fn selector(dice: &mut Dice, own: &Labelled<'_>) -> Value {
    match dice.below(8) {
        0..=3 => json!({"matchLabels": {"app": own.app}}),
        4 => json!({"matchLabels": {"group": own.group}}),
        5 => {
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": [own.app, format!("w{}", dice.below(4))]}]})
        }
        6 => json!({"matchLabels": {"app": format!("w{}", dice.below(4))}}),
        _ => json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
    }
}

fn topology_key(dice: &mut Dice) -> &'static str {
    dice.pick::<&'static str>(&[
        labels::ZONE,
        labels::ZONE,
        labels::HOSTNAME,
        labels::HOSTNAME,
        labels::CAPACITY_TYPE,
        TIER,
    ])
}

fn spread(dice: &mut Dice, themes: Themes, own: &Labelled<'_>, spec: &mut Value) {
    let mut constraints = Vec::new();
    let mut used = Vec::new();
    for _ in 0..dice.between(1, 2) {
        let key = topology_key(dice);
        if used.contains(&key) {
            continue;
        }
        used.push(key);
        let soft = themes.preferences && dice.chance(30);
        let mut one = json!({
            "topologyKey": key, "maxSkew": dice.between(1, 3), "labelSelector": selector(dice, own),
            "whenUnsatisfiable": if soft { "ScheduleAnyway" } else { "DoNotSchedule" },
        });
        if !soft && dice.chance(25) {
            one["minDomains"] = json!(dice.between(1, 3));
        }
        if dice.chance(25) {
            one["nodeAffinityPolicy"] = json!(*dice.pick(&["Honor", "Ignore"]));
        }
        if dice.chance(25) {
            one["nodeTaintsPolicy"] = json!(*dice.pick(&["Honor", "Ignore"]));
        }
        if dice.chance(20) {
            one["matchLabelKeys"] = json!(["rev"]);
        }
        constraints.push(one);
    }
    spec["topologySpreadConstraints"] = json!(constraints);
}

fn pod_term(dice: &mut Dice, own: &Labelled<'_>) -> Value {
    let mut term = json!({"topologyKey": topology_key(dice), "labelSelector": selector(dice, own)});
    match dice.below(6) {
        0 => term["namespaces"] = json!([format!("s{}-{}", own.seed, dice.pick(&["a", "b"]))]),
        1 => term["namespaceSelector"] = json!({"matchLabels": {"env": *dice.pick(&["prod", "dev"])}}),
        2 => term["namespaceSelector"] = json!({"matchExpressions": [{"key": "env", "operator": "Exists"}]}),
        _ => {}
    }
    term
}

fn pod_affinity(dice: &mut Dice, themes: Themes, own: &Labelled<'_>, spec: &mut Value) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    if dice.chance(30) {
        let count = if dice.chance(25) { 2 } else { 1 };
        let terms: Vec<Value> = (0..count).map(|_| pod_term(dice, own)).collect();
        spec["affinity"]["podAffinity"][REQUIRED] = json!(terms);
    }
    if dice.chance(35) {
        let terms: Vec<Value> = (0..dice.between(1, 2)).map(|_| pod_term(dice, own)).collect();
        spec["affinity"]["podAntiAffinity"][REQUIRED] = json!(terms);
    }
    if themes.preferences && dice.chance(40) {
        let kind = *dice.pick(&["podAffinity", "podAntiAffinity"]);
        spec["affinity"][kind][PREFERRED] =
            json!([{"weight": dice.between(1, 100), "podAffinityTerm": pod_term(dice, own)}]);
    }
}

//! An independent judge of placements, written from Kubernetes' documentation: would the real scheduler accept what was planned?
//!
//! Shares no code with the solver: labels, taints, ports and neighbours are judged here on plain values. What it judges is stated in each
//! function; what depends on the order of placements (a spread among pods that do not carry it themselves) it leaves alone.

use crate::neighbours;
use karpenter::resources::{Quantity, ResourceList};
use karpenter::scheduling::pod::{Expression, NodeTerm};
use karpenter::scheduling::{InstanceType, NewClaim, Offering, Pod, Problem, Results, Spec, Taint, Toleration, labels};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// For each label the values it can have on a machine; a label that is missing does not exist there.
pub type Possible = BTreeMap<String, BTreeSet<String>>;

/// A machine with everything that will be on it.
pub struct Seat<'a> {
    pub name: String,
    /// One entry for each machine that it may turn out to be.
    pub shapes: Vec<Possible>,
    pub taints: &'a [Taint],
    /// Pods that are there already.
    pub there: Vec<&'a Arc<Pod>>,
    /// Pods that the plan puts there.
    pub planned: Vec<&'a Arc<Pod>>,
}

/// Everything that Kubernetes would refuse.
pub fn complaints(problem: &Problem, results: &Results) -> Vec<String> {
    let mut found = Vec::new();
    each_once(problem, results, &mut found);
    let moved: BTreeSet<&str> = problem.pods.iter().map(|pod| &*pod.uid).collect();
    let mut seats = Vec::new();
    for (at, node) in problem.nodes.iter().enumerate() {
        let planned = results
            .existing
            .iter()
            .filter(|place| place.node == at)
            .flat_map(|place| &place.pods)
            .collect();
        let mut own: Possible = node
            .labels
            .iter()
            .map(|(key, value)| (key.clone(), BTreeSet::from([value.clone()])))
            .collect();
        own.entry(labels::HOSTNAME.to_owned())
            .or_insert_with(|| BTreeSet::from([node.name.clone()]));
        let there = node.pods.iter().filter(|pod| !moved.contains(&*pod.uid)).collect();
        let seat = Seat {
            name: node.name.clone(),
            shapes: vec![own],
            taints: &node.taints,
            there,
            planned,
        };
        room(&seat, &node.allocatable, &ResourceList::new(), &mut found);
        seats.push(seat);
    }
    for (at, claim) in results.new_claims.iter().enumerate() {
        let pool = problem
            .pools
            .iter()
            .find(|pool| pool.name == claim.pool)
            .expect("the pool of the claim");
        let seat = Seat {
            name: format!("new claim {at}"),
            shapes: launches(at, claim, problem, &mut found),
            taints: &pool.taints,
            there: Vec::new(),
            planned: claim.pods.iter().collect(),
        };
        for kind in claim.instance_types.iter() {
            room(&seat, kind.allocatable(), &claim.requests, &mut found);
        }
        seats.push(seat);
    }
    for seat in &seats {
        for pod in &seat.planned {
            alone(pod, seat, &mut found);
        }
        ports(seat, &mut found);
    }
    limits(problem, results, &mut found);
    neighbours::complaints(problem, &seats, &mut found);
    found
}

fn each_once(problem: &Problem, results: &Results, found: &mut Vec<String>) {
    let placed = results
        .new_claims
        .iter()
        .flat_map(|c| &c.pods)
        .chain(results.existing.iter().flat_map(|p| &p.pods));
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in placed
        .chain(results.errors.iter().map(|e| &e.pod))
        .chain(&results.undecided)
    {
        *times.entry(&*pod.uid).or_default() += 1;
    }
    for pod in &problem.pods {
        if times.get(&*pod.uid) != Some(&1) {
            found.push(format!("{} is answered {:?} times", pod.key(), times.get(&*pod.uid)));
        }
    }
}

/// The machines that a claim may become: every type with every offering that can be had and that the claim allows.
fn launches(at: usize, claim: &NewClaim, problem: &Problem, found: &mut Vec<String>) -> Vec<Possible> {
    let mut shapes = Vec::new();
    let wanted = claim.requirements.to_specs();
    for kind in claim.instance_types.iter() {
        let mut any = false;
        for offering in kind
            .offerings
            .iter()
            .filter(|offering| offering.availability.is_available())
        {
            if let Some(shape) = launch(at, claim, &wanted, kind, offering, problem) {
                any = true;
                shapes.push(shape);
            }
        }
        if !any {
            found.push(format!("new claim {at} lists {}, which cannot be had", kind.name));
        }
    }
    shapes.sort();
    shapes.dedup();
    shapes
}

fn launch(
    at: usize,
    claim: &NewClaim,
    wanted: &[Spec],
    kind: &InstanceType,
    offering: &Offering,
    problem: &Problem,
) -> Option<Possible> {
    let mut shape: Possible = claim
        .labels
        .iter()
        .map(|(k, v)| (k.clone(), BTreeSet::from([v.clone()])))
        .collect();
    shape.insert(labels::HOSTNAME.to_owned(), BTreeSet::from([format!("new claim {at}")]));
    let of_offering = offering.requirements.to_specs();
    let of_kind = kind.requirements.to_specs();
    let covered: BTreeSet<&str> = of_offering.iter().map(|spec| spec.key.as_str()).collect();
    let own = of_offering
        .iter()
        .chain(of_kind.iter().filter(|spec| !covered.contains(spec.key.as_str())));
    for spec in own.filter(|spec| spec.operator.as_str() == "In") {
        let allowed = |value: &&String| {
            wanted
                .iter()
                .filter(|w| w.key == spec.key)
                .all(|w| admits(w, Some(value)))
        };
        let values: BTreeSet<String> = spec.values.iter().filter(allowed).cloned().collect();
        if values.is_empty() {
            return None;
        }
        shape.insert(spec.key.clone(), values);
    }
    let missing = |w: &&Spec| problem.well_known.contains(&w.key) && !shape.contains_key(&w.key) && !admits(w, None);
    if wanted.iter().any(|w| missing(&w)) {
        None
    } else {
        Some(shape)
    }
}

fn admits(spec: &Spec, value: Option<&str>) -> bool {
    holds(spec.operator.as_str(), &spec.values, value)
}

/// One comparison of a label, as the documentation of node affinity says; Gte and Lte are Karpenter's.
pub fn holds(operator: &str, values: &[String], label: Option<&str>) -> bool {
    let listed = label.is_some_and(|label| values.iter().any(|value| value == label));
    let number = |compare: fn(i64, i64) -> bool| {
        let bound = values.first().and_then(|value| value.parse::<i64>().ok());
        match (label.and_then(|label| label.parse::<i64>().ok()), bound) {
            (Some(label), Some(bound)) => compare(label, bound),
            _ => false,
        }
    };
    match operator {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        "Gt" => number(|label, bound| label > bound),
        "Lt" => number(|label, bound| label < bound),
        "Gte" => number(|label, bound| label >= bound),
        "Lte" => number(|label, bound| label <= bound),
        _ => false,
    }
}

fn old_spelling(key: &str) -> &str {
    match key {
        "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        "beta.kubernetes.io/arch" => "kubernetes.io/arch",
        "beta.kubernetes.io/os" => "kubernetes.io/os",
        "beta.kubernetes.io/instance-type" => "node.kubernetes.io/instance-type",
        other => other,
    }
}

fn satisfied(expression: &Expression, shape: &Possible) -> bool {
    match shape.get(old_spelling(&expression.key)) {
        None => holds(&expression.operator, &expression.values, None),
        Some(possible) => possible
            .iter()
            .all(|v| holds(&expression.operator, &expression.values, Some(v))),
    }
}

/// Whether every machine that the seat may become has labels the pod accepts.
pub fn labels_fit(pod: &Pod, shape: &Possible) -> bool {
    let constraints = &pod.constraints;
    let selected = constraints.node_selector.iter().all(|(key, value)| {
        shape
            .get(old_spelling(key))
            .is_some_and(|possible| possible.iter().all(|v| v == value))
    });
    let term = |term: &NodeTerm| term.expressions.iter().all(|expression| satisfied(expression, shape));
    selected && (constraints.required_terms.is_empty() || constraints.required_terms.iter().any(term))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.is_empty() || toleration.key == taint.key;
    let effect = toleration.effect.is_empty() || toleration.effect == taint.effect;
    let number = |text: &str| text.parse::<i64>().ok();
    let value = match toleration.operator.as_str() {
        "Exists" => true,
        "" | "Equal" => toleration.value == taint.value,
        "Gt" => matches!((number(&taint.value), number(&toleration.value)), (Some(a), Some(b)) if a > b),
        "Lt" => matches!((number(&taint.value), number(&toleration.value)), (Some(a), Some(b)) if a < b),
        _ => false,
    };
    key && effect && value
}

/// What one pod needs of its machine, its neighbours aside.
fn alone(pod: &Pod, seat: &Seat<'_>, found: &mut Vec<String>) {
    if !seat.shapes.iter().all(|shape| labels_fit(pod, shape)) {
        found.push(format!("{}: labels of {} are not what it wants", pod.key(), seat.name));
    }
    let hard = |taint: &&Taint| taint.effect != "PreferNoSchedule";
    for taint in seat.taints.iter().filter(hard) {
        if !pod
            .constraints
            .tolerations
            .iter()
            .any(|toleration| tolerates(toleration, taint))
        {
            found.push(format!(
                "{}: taint {taint} of {} is not tolerated",
                pod.key(),
                seat.name
            ));
        }
    }
}

/// All pods of a machine must find room in it.
fn room(seat: &Seat<'_>, allocatable: &ResourceList, least: &ResourceList, found: &mut Vec<String>) {
    if seat.planned.is_empty() {
        return;
    }
    let mut total: BTreeMap<&str, Quantity> = BTreeMap::new();
    for (name, quantity) in seat
        .there
        .iter()
        .chain(&seat.planned)
        .flat_map(|pod| pod.requests.iter())
    {
        let sum = total.entry(name).or_default();
        *sum = *sum + quantity;
    }
    for (name, wanted) in least.iter().chain(total) {
        if wanted > allocatable.amount(name) {
            let has = allocatable.amount(name);
            found.push(format!("{} has {has} of {name}, its pods ask for {wanted}", seat.name));
        }
    }
}

fn ports(seat: &Seat<'_>, found: &mut Vec<String>) {
    let everywhere = |ip: &str| matches!(ip, "" | "0.0.0.0" | "::");
    let all: Vec<_> = seat
        .there
        .iter()
        .chain(&seat.planned)
        .flat_map(|pod| pod.constraints.ports.iter().map(|p| (pod.key(), p)))
        .collect();
    for (at, (pod, port)) in all.iter().enumerate() {
        for (other_pod, other) in all.iter().skip(at + 1).filter(|(other, _)| other != pod) {
            let address = port.ip == other.ip || everywhere(&port.ip) || everywhere(&other.ip);
            if address && port.port == other.port && port.protocol == other.protocol {
                found.push(format!(
                    "{pod} and {other_pod} both want port {} of {}",
                    port.port, seat.name
                ));
            }
        }
    }
}

/// What the pools' machines have together stays within their limits, whichever types are launched.
fn limits(problem: &Problem, results: &Results, found: &mut Vec<String>) {
    for pool in &problem.pools {
        let claims: Vec<&NewClaim> = results
            .new_claims
            .iter()
            .filter(|claim| claim.pool == pool.name)
            .collect();
        for (name, limit) in pool.limits.iter().filter(|_| !claims.is_empty()) {
            let own = problem.nodes.iter().filter(|node| {
                node.fate == karpenter::scheduling::Fate::Stays
                    && node.labels.get("karpenter.sh/nodepool") == Some(&pool.name)
            });
            let mut sum = own.fold(Quantity::ZERO, |sum, node| sum + node.capacity.amount(name));
            for claim in &claims {
                let most = claim.instance_types.iter().map(|kind| kind.capacity.amount(name)).max();
                sum = sum
                    + if name == "nodes" {
                        Quantity::units(1)
                    } else {
                        most.unwrap_or_default()
                    };
            }
            if sum > limit {
                found.push(format!(
                    "pool {} would have {sum} of {name}, its limit is {limit}",
                    pool.name
                ));
            }
        }
    }
}

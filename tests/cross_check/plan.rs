//! From the solver's answer to machines that really are: one launch of all that each claim allows, and the pods in the order they were placed.

use crate::case::Case;
use crate::dice::Dice;
use crate::machines;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter::scheduling::{InstanceType, NewClaim, Offering, Problem, Results, WellKnownLabels, solve};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A pod and the machine it is planned for.
pub struct Step {
    pub pod: Pod,
    pub node: String,
}

/// What the solver planned.
pub struct Plan {
    /// Machines to make.
    pub nodes: Vec<Node>,
    /// Pods in the order they were placed.
    pub steps: Vec<Step>,
    pub results: Results,
    pub problem: Problem,
}

/// Which pods are where: by the pod's UID the machine, a new claim named after its first pod.
pub fn seats(problem: &Problem, results: &Results) -> BTreeMap<String, String> {
    let mut seats = BTreeMap::new();
    for place in &results.existing {
        let name = &problem.nodes[place.node].name;
        seats.extend(place.pods.iter().map(|pod| (pod.uid.to_string(), name.clone())));
    }
    for claim in &results.new_claims {
        let name = format!("new with {}", claim.pods[0].uid);
        seats.extend(claim.pods.iter().map(|pod| (pod.uid.to_string(), name.clone())));
    }
    seats
}

/// The UIDs of the placed pods in the order they were placed: the solver is stopped after each attempt in turn. What it had decided by then
/// must be part of what it decides in the end.
fn order(case: &Case, problem: &Problem, in_the_end: &BTreeMap<String, String>) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    let mut attempts = 0;
    while order.len() < in_the_end.len() {
        attempts += 1;
        assert!(attempts < 20_000, "the solver does not end");
        let left = Cell::new(attempts);
        let cut = solve(problem, &case.options, &|| {
            left.set(left.get() - 1);
            left.get() >= 0
        });
        for (pod, seat) in seats(problem, &cut) {
            if in_the_end.contains_key(&pod) && !order.contains(&pod) {
                assert_eq!(in_the_end[&pod], seat, "{pod} was moved after it was placed");
                order.push(pod);
            }
        }
    }
    order
}

impl Plan {
    /// The plan for a case.
    pub fn of(case: &Case) -> Self {
        let problem = case.problem();
        let results = solve(&problem, &case.options, &|| true);
        let seats = seats(&problem, &results);
        let mut dice = Dice::new(case.seed, 2);
        let mut names = BTreeMap::new();
        let mut nodes = Vec::new();
        for (at, claim) in results.new_claims.iter().enumerate() {
            let name = format!("s{}-n{at}", case.seed);
            nodes.push(launch(&mut dice, &name, claim, &problem));
            names.insert(format!("new with {}", claim.pods[0].uid), name);
        }
        let by_uid: BTreeMap<&str, &Pod> = case
            .pods
            .iter()
            .map(|pod| (pod.metadata.uid.as_deref().unwrap(), pod))
            .collect();
        let steps = order(case, &problem, &seats)
            .into_iter()
            .map(|uid| Step {
                pod: by_uid[uid.as_str()].clone(),
                node: names.get(&seats[&uid]).unwrap_or(&seats[&uid]).clone(),
            })
            .collect();
        Self {
            nodes,
            steps,
            results,
            problem,
        }
    }
}

/// The Node of one launch that the claim allows, by chance: any of its types in any offering that can be had.
fn launch(dice: &mut Dice, name: &str, claim: &NewClaim, problem: &Problem) -> Node {
    let well_known = &problem.well_known;
    let mut launches: Vec<(&Arc<InstanceType>, &Offering)> = Vec::new();
    for kind in claim.instance_types.iter() {
        let before = launches.len();
        launches.extend(
            kind.available(&claim.requirements, well_known)
                .map(|offering| (kind, offering)),
        );
        assert!(
            launches.len() > before,
            "{name} lists {}, which cannot be had",
            kind.name
        );
    }
    let (kind, offering) = *dice.pick(&launches);
    let pool = problem.pools.iter().find(|pool| pool.name == claim.pool).unwrap();
    let labels = labels(dice, claim, kind, offering, well_known);
    machines::node(name, &labels, &pool.taints, &kind.capacity, kind.allocatable())
}

/// The labels of the launched machine: the claim's, and what type and offering say within what the claim wants.
fn labels(
    dice: &mut Dice,
    claim: &NewClaim,
    kind: &InstanceType,
    offering: &Offering,
    well_known: &WellKnownLabels,
) -> BTreeMap<String, String> {
    let mut labels = claim.labels.clone();
    let own = kind.requirements.and(&offering.requirements).and(&claim.requirements);
    for requirement in own
        .iter()
        .filter(|r| well_known.contains(r.key()) && !r.is_complement())
    {
        let values: Vec<&str> = requirement.values().collect();
        if !values.is_empty() {
            labels.insert(requirement.key().to_owned(), (*dice.pick(&values)).to_owned());
        }
    }
    labels
}

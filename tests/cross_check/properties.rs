//! What holds for every case: the order of the input says nothing, limits are kept, more to choose from never hurts, and a solve that is stopped
//! has an answer.

use crate::case::Case;
use crate::dice::Dice;
use crate::machines;
use crate::plan::seats;
use crate::volumes::{claim_names, is_ephemeral};
use karpenter::resources::{Quantity, ResourceList};
use karpenter::scheduling::{Constraints, Fate, NewClaim, Options, Pod, Problem, Results, solve};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const CASES: std::ops::Range<u64> = 0..150;

/// The same lists in another order.
fn shuffled(problem: &Problem, dice: &mut Dice) -> Problem {
    let mut other = problem.clone();
    dice.shuffle(&mut other.pods);
    dice.shuffle(&mut other.nodes);
    dice.shuffle(&mut other.daemons);
    dice.shuffle(&mut other.pools);
    for pool in &mut other.pools {
        let mut types = pool.instance_types.to_vec();
        dice.shuffle(&mut types);
        pool.instance_types = types.into();
    }
    other
}

/// An answer in full, without the places of the lists it was made from.
fn told(problem: &Problem, results: &Results) -> Vec<String> {
    let claim = |claim: &NewClaim| {
        let types: Vec<&str> = claim.instance_types.iter().map(|kind| kind.name.as_str()).collect();
        let pods: Vec<&str> = claim.pods.iter().map(|pod| &*pod.uid).collect();
        format!(
            "{} {pods:?} {types:?} {} {} {:?}",
            claim.pool,
            claim.requirements,
            claim.requests.to_json(),
            claim.labels
        )
    };
    let mut all: Vec<String> = results.new_claims.iter().map(claim).collect();
    all.extend(
        seats(problem, results)
            .into_iter()
            .map(|(pod, seat)| format!("{pod} on {seat}")),
    );
    all.extend(
        results
            .errors
            .iter()
            .map(|error| format!("{}: {}", error.pod.uid, error.reason)),
    );
    all
}

#[test]
fn the_order_of_the_input_says_nothing() {
    for seed in CASES {
        let case = Case::of(seed);
        let problem = case.problem();
        let expected = told(&problem, &solve(&problem, &case.options, &|| true));
        let mut dice = Dice::new(seed, 3);
        for _ in 0..3 {
            let other = shuffled(&problem, &mut dice);
            assert_eq!(
                told(&other, &solve(&other, &case.options, &|| true)),
                expected,
                "seed {seed}"
            );
        }
    }
}

#[test]
fn what_machines_have_together_stays_within_the_limits_whichever_types_are_launched() {
    let mut limited = 0;
    for seed in CASES {
        let case = Case::of(seed);
        let problem = case.problem();
        let results = solve(&problem, &case.options, &|| true);
        for pool in problem.pools.iter().filter(|pool| !pool.limits.is_empty()) {
            let claims: Vec<&NewClaim> = results
                .new_claims
                .iter()
                .filter(|claim| claim.pool == pool.name)
                .collect();
            let own = problem
                .nodes
                .iter()
                .filter(|node| node.fate == Fate::Stays && node.pool() == Some(&pool.name));
            let there = own.fold(ResourceList::new(), |sum, node| sum.sum(&node.capacity));
            for (name, limit) in pool.limits.iter().filter(|_| !claims.is_empty()) {
                let most = |claim: &&NewClaim| claim.instance_types.iter().map(|kind| kind.capacity.amount(name)).max();
                let planned = claims.iter().map(|claim| {
                    if name == "nodes" {
                        Quantity::units(1)
                    } else {
                        most(claim).unwrap_or_default()
                    }
                });
                let total = planned.fold(there.amount(name), |sum, one| sum + one);
                assert!(
                    total <= limit,
                    "seed {seed}: {} would have {total} of {name}, limit {limit}",
                    pool.name
                );
                limited += 1;
            }
        }
    }
    assert!(limited > 20, "only {limited} limits were looked at");
}

#[test]
fn for_one_pod_another_instance_type_never_takes_its_place_away() {
    let mut placed = 0;
    for seed in CASES {
        let case = Case::of(seed);
        let mut problem = case.problem();
        problem.nodes.clear();
        for pool in &mut problem.pools {
            pool.limits = ResourceList::new();
            pool.requirements = pool
                .requirements
                .iter()
                .map(|own| own.clone().with_min_values(None))
                .collect();
        }
        for pod in std::mem::take(&mut problem.pods) {
            let alone = Pod {
                constraints: Arc::new(Constraints {
                    spread: Vec::new(),
                    affinity: Vec::new(),
                    anti_affinity: Vec::new(),
                    preferred_affinity: Vec::new(),
                    preferred_anti_affinity: Vec::new(),
                    ..Constraints::clone(&pod.constraints)
                }),
                ..Pod::clone(&pod)
            };
            problem.pods = vec![Arc::new(alone)];
            if !solve(&problem, &case.options, &|| true).errors.is_empty() {
                continue;
            }
            placed += 1;
            let mut dice = Dice::new(seed, 4);
            let mut richer = problem.clone();
            for pool in &mut richer.pools {
                let mut types = pool.instance_types.to_vec();
                types.push(machines::instance_type(&mut dice, 99, 0.01));
                pool.instance_types = types.into();
            }
            let errors = solve(&richer, &case.options, &|| true).errors;
            assert!(errors.is_empty(), "seed {seed}: {} lost its place", pod.key());
        }
    }
    assert!(placed > 200, "only {placed} pods were placed alone");
}

#[test]
fn a_solve_that_is_stopped_returns_what_it_has() {
    // A pass has a minute (scheduling §0); what it had decided by then stands, and nobody is said to have failed who was not tried.
    for seed in CASES {
        let case = Case::of(seed);
        let problem = case.problem();
        let in_the_end = seats(&problem, &solve(&problem, &case.options, &|| true));
        let mut before = 0;
        for stop_after in [0, 1, 2, 3, 5, 8, 13, 21, 34] {
            let cut = stopped(&problem, &case.options, stop_after);
            let placed = seats(&problem, &cut);
            assert!(placed.len() >= before && placed.len() <= stop_after);
            before = placed.len();
            assert!(
                placed
                    .iter()
                    .all(|(pod, seat)| in_the_end.get(pod).is_none_or(|end| end == seat))
            );
            let told: BTreeSet<&str> = placed
                .keys()
                .map(String::as_str)
                .chain(cut.errors.iter().map(|error| &*error.pod.uid))
                .chain(cut.undecided.iter().map(|pod| &*pod.uid))
                .collect();
            assert_eq!(told.len(), problem.pods.len());
            if stop_after == 0 {
                assert_eq!(cut.undecided.len() + cut.errors.len(), problem.pods.len());
            }
        }
    }
}

fn stopped(problem: &Problem, options: &Options, after: usize) -> Results {
    let left = Cell::new(after);
    solve(problem, options, &|| {
        let go_on = left.get() > 0;
        left.set(left.get().saturating_sub(1));
        go_on
    })
}

#[test]
fn cases_have_volumes_of_all_kinds_leaving_pods_and_several_affinity_terms() {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in CASES {
        let case = Case::of(seed);
        let mut mounted: BTreeMap<(&Option<String>, String), usize> = BTreeMap::new();
        for pod in &case.pods {
            for name in claim_names(pod) {
                *mounted.entry((&pod.metadata.namespace, name)).or_default() += 1;
            }
            let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
            let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
            let terms = near.and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref());
            *found.entry("several terms").or_default() += usize::from(terms.is_some_and(|terms| terms.len() > 1));
        }
        let leaving = case
            .bound
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_some());
        *found.entry("leaving").or_default() += leaving.count();
        *found.entry("ephemeral").or_default() += case.claims.iter().filter(|claim| is_ephemeral(claim)).count();
        *found.entry("shared").or_default() += mounted.values().filter(|pods| **pods > 1).count();
    }
    assert_eq!(found.len(), 4);
    assert!(found.values().all(|times| *times >= 5), "{found:?}");
}

#[test]
fn the_same_seed_gives_the_same_case() {
    let text = |seed: u64| {
        let case = Case::of(seed);
        let pods: BTreeMap<_, _> = case
            .pods
            .iter()
            .map(|pod| (&pod.metadata.name, serde_json::to_string(pod).unwrap()))
            .collect();
        format!("{pods:?} {:?}", case.pools)
    };
    assert_eq!(text(11), text(11));
    assert_ne!(text(11), text(12));
}

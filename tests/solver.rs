//! What-ifs of a prepared cluster: the answers are those of a solve made for the question alone, and a question's cost does not grow with the
//! cluster (scheduling §24).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "../benches/solve/catalog.rs"]
#[allow(dead_code, reason = "benches use more of it")]
mod catalog;
#[path = "../benches/solve/fleet.rs"]
mod fleet;
#[path = "solver/odd.rs"]
mod odd;

use karpenter::scheduling::{Base, Options, Pod, PreferencePolicy, Problem, WhatIf, what_if};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::sync::{Arc, Mutex, PoisonError};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What is allocated is counted for the process: tests of this file run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

/// An answer as one value, everything in it.
fn written(answer: &WhatIf) -> Value {
    let uids = |pods: &[Arc<Pod>]| pods.iter().map(|pod| pod.uid.clone()).collect::<Vec<_>>();
    let results = &answer.results;
    let claims = results.new_claims.iter().map(|claim| {
        let types: Vec<&str> = claim.instance_types.iter().map(|kind| kind.name.as_str()).collect();
        json!({
            "pool": claim.pool, "pods": uids(&claim.pods), "requirements": claim.requirements.to_string(), "types": types,
            "requests": claim.requests, "labels": claim.labels, "annotations": claim.annotations,
        })
    });
    let errors = results.errors.iter();
    json!({
        "claims": claims.collect::<Vec<_>>(),
        "existing": results.existing.iter().map(|place| json!([place.node, place.name, uids(&place.pods)])).collect::<Vec<_>>(),
        "errors": errors.map(|error| json!([error.pod.uid, error.reason.to_string()])).collect::<Vec<_>>(),
        "undecided": uids(&results.undecided),
        "uncertain": answer.uncertain.iter().map(|(pod, node)| json!([pod.uid, node])).collect::<Vec<_>>(),
        "unusable": results.unusable_pools.iter().map(|pool| &pool.name).collect::<Vec<_>>(),
    })
}

fn leaving_pods(problem: &Problem, leaving: &[usize]) -> Vec<Arc<Pod>> {
    let nodes = leaving.iter().filter_map(|at| problem.nodes.get(*at));
    let pods = nodes.flat_map(|node| node.pods.iter().filter(|pod| pod.standing.is_reschedulable()));
    pods.cloned().collect()
}

#[test]
fn a_prepared_cluster_answers_as_a_solve_for_the_question_alone() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut placed, mut opened, mut failed) = (0, 0, 0);
    for seed in 0..400 {
        let mut draws = odd::Draws::new(seed);
        let problem = odd::cluster(&mut draws);
        let preferences = [PreferencePolicy::Respect, PreferencePolicy::Ignore][draws.below(2)];
        let options = Options {
            preferences,
            ..Options::default()
        };
        let base = Base::new(&problem, &options);
        let mut probe = base.probe();
        for question in 0..6 {
            let leaving: Vec<usize> = (0..problem.nodes.len()).filter(|_| draws.below(4) == 0).collect();
            let mut moved = leaving_pods(&problem, &leaving);
            moved.retain(|_| draws.below(8) > 0);
            moved.reverse();
            let answer = probe.ask(&leaving, &moved, &|| true);
            let expected = what_if(&problem, &leaving, &moved, &options, &|| true);
            assert_eq!(
                written(&answer),
                written(&expected),
                "seed {seed}, question {question}: {leaving:?}"
            );
            placed += answer.results.existing.len();
            opened += answer.results.new_claims.len();
            failed += answer.results.errors.len();
        }
    }
    // All three kinds of answers were there in numbers.
    assert!(
        placed > 500 && opened > 500 && failed > 200,
        "{placed} {opened} {failed}"
    );
}

/// The bytes that each question about one of the first machines allocates, after each was asked once.
fn bytes_per_question(nodes: usize) -> Vec<usize> {
    let problem = fleet::fleet(catalog::fake(40), nodes);
    let base = Base::new(&problem, &Options::default());
    let mut probe = base.probe();
    let mut ask = |at: usize| {
        let moved = leaving_pods(&problem, &[at]);
        let region = Region::new(ALLOCATOR);
        let answer = probe.ask(&[at], &moved, &|| true);
        let bytes = region.change().bytes_allocated;
        assert_eq!(answer.results.errors.len() + answer.results.undecided.len(), 0);
        bytes
    };
    (0..100).map(&mut ask).count();
    (0..100).map(&mut ask).collect()
}

#[test]
fn a_question_allocates_the_same_at_200_and_at_2000_machines() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (few, many) = (bytes_per_question(200), bytes_per_question(2_000));
    assert_eq!(few, many);
    assert!(few.iter().all(|bytes| (1..200_000).contains(bytes)), "{few:?}");
}

#[test]
fn several_machines_at_once_are_one_question() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let problem = fleet::fleet(catalog::fake(40), 60);
    let base = Base::new(&problem, &Options::default());
    let mut probe = base.probe();
    let leaving: Vec<usize> = (0..20).collect();
    let moved = leaving_pods(&problem, &leaving);
    let answer = probe.ask(&leaving, &moved, &|| true);
    let expected = what_if(&problem, &leaving, &moved, &Options::default(), &|| true);
    assert_eq!(written(&answer), written(&expected));
    let nobody = |pod: &Arc<Pod>| !moved.iter().any(|moved| moved.uid == pod.uid);
    assert!(
        !answer
            .results
            .existing
            .iter()
            .any(|place| place.pods.iter().any(nobody) || place.node < 20)
    );
    // Another worker gets the same, and so does who stops at once.
    assert_eq!(
        written(&base.probe().ask(&leaving, &moved, &|| true)),
        written(&expected)
    );
    assert_eq!(
        probe.ask(&leaving, &moved, &|| false).results.undecided.len(),
        moved.len()
    );
    assert_eq!(written(&probe.ask(&leaving, &moved, &|| true)), written(&expected));
}

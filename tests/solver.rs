//! What solves and what-ifs cost, and what they may not cost more than: nodes and price as recorded, memory, allocations; and what-ifs of a
//! prepared cluster answer as a solve made for the question alone (scheduling §24).

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
#[path = "../benches/solve/recorded.rs"]
mod recorded;
#[path = "../benches/solve/workload.rs"]
#[allow(dead_code, reason = "benches use more of it")]
mod workload;

use karpenter::scheduling::{Base, Options, Pod, PreferencePolicy, Prepared, Problem, Results, WhatIf, solve, what_if};
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
    let uids = |pods: &[Arc<Pod>]| pods.iter().map(|pod| pod.uid.to_string()).collect::<Vec<_>>();
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
        "errors": errors.map(|error| json!([&*error.pod.uid, error.reason.to_string()])).collect::<Vec<_>>(),
        "undecided": uids(&results.undecided),
        "uncertain": answer.uncertain.iter().map(|(pod, node)| json!([&*pod.uid, node])).collect::<Vec<_>>(),
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

fn solved(problem: &Problem) -> Results {
    solve(problem, &Options::default(), &|| true)
}

#[test]
fn nodes_and_price_do_not_rise_above_what_is_recorded() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let fake = || catalog::fake(400);
    let cases = [
        ("diverse-100", workload::problem(fake(), workload::diverse(100))),
        ("diverse-1000", workload::problem(fake(), workload::diverse(1_000))),
        (
            "rackspace-1000",
            workload::problem(catalog::rackspace(), workload::diverse(1_000)),
        ),
    ];
    for (case, problem) in cases {
        let recorded = recorded::of(case).unwrap();
        let results = solved(&problem);
        assert_eq!(results.errors.len() + results.undecided.len(), 0, "{case}");
        assert_eq!(recorded.complaint(&results, &problem), None, "{case}");
        // The record can fail.
        let less = recorded::Record {
            nodes: recorded.nodes - 1,
            ..recorded
        };
        assert!(less.complaint(&results, &problem).is_some());
    }
}

#[test]
fn the_order_of_pods_types_and_offerings_changes_no_answer() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = |problem: &Problem| {
        let results = solved(problem);
        written(&WhatIf {
            results,
            uncertain: Vec::new(),
        })
    };
    let problem = workload::problem(catalog::rackspace(), workload::diverse(300));
    let expected = answer(&problem);
    let mut draws = odd::Draws::new(1);
    for _ in 0..3 {
        let mut other = problem.clone();
        shuffle(&mut other.pods, &mut draws);
        let mut types: Vec<_> = other.pools[0].instance_types.iter().cloned().collect();
        for kind in &mut types {
            shuffle(&mut Arc::make_mut(kind).offerings, &mut draws);
        }
        shuffle(&mut types, &mut draws);
        other.pools[0].instance_types = types.into();
        assert_eq!(answer(&other), expected);
    }
}

fn shuffle<T>(list: &mut [T], draws: &mut odd::Draws) {
    (1..list.len()).rev().for_each(|at| list.swap(at, draws.below(at + 1)));
}

/// The most memory the process has held since the last reset, in bytes.
fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

#[test]
#[cfg(target_os = "linux")]
fn a_solve_of_ten_thousand_pods_stays_below_100_mb() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let problem = workload::problem(catalog::fake(400), workload::diverse(10_000));
    // The pods as they come from the API count, what other tests of this process have left does not.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = peak_bytes();
    let region = Region::new(ALLOCATOR);
    let results = solved(&problem);
    let peak = peak_bytes();
    assert_eq!(results.new_claims.len(), 2_000);
    println!("peak {} MB, before {} MB", peak / 1_000_000, before / 1_000_000);
    assert!(
        peak - before < 60_000_000,
        "the solve alone added {} bytes",
        peak - before
    );
    assert!(peak < 100_000_000, "{peak} bytes");
    // Everything ever allocated, not only what is held at one time: the loop itself allocates next to nothing.
    let allocated = region.change().bytes_allocated;
    assert!(allocated < 100_000_000, "{allocated} bytes");
}

#[test]
fn asking_a_claim_allocates_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Pods that no claim takes together: each of them asks all claims that are there.
    let count = |pods: usize| {
        let problem = workload::problem(catalog::fake(20), workload::apart(pods));
        let mut prepared = Prepared::new(&problem, &Options::default());
        let region = Region::new(ALLOCATOR);
        let rounds = prepared.run(&|| true);
        let allocations = region.change().allocations;
        assert_eq!(prepared.finish(&rounds).new_claims.len(), pods);
        allocations
    };
    let (few, many) = (count(100), count(400));
    // Sixteen times as many questions, four times as many claims.
    assert!(many <= 5 * few, "{few} allocations at 100 pods, {many} at 400");
}

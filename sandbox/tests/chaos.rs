//! Bad days by seed: the operator lives through them, and each replays.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

use sandbox::chaos::{Plan, Seeds, Times, Verbosity, run_seed, run_seed_twice, run_seeds};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// As in the `sandbox` binary: a sixth of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Those of `make test`; others are run by `make chaos SEEDS=A..B`.
const SEEDS: (u64, u64) = (1, 500);
/// Seeds beyond them that failed once: a pool that won again before its first server was seen (four), a lease that ran out while the operator was asked
/// to stop, a node whose claim was gone and whose labels were wiped, a class that a read of the past did not show, a stateful pod on a user's dead node.
/// Tests of their own names hold what was mended. 840, 2686 and 4986 have other days now than when they failed: two operators share a lease in them; and
/// where spells overlap each ends by itself now. 633 has shown since that a Node left behind by a dead server keeps its place in a NodePool's limits.
const ONCE_FAILED: [u64; 8] = [633, 840, 1167, 2087, 2686, 4986, 5667, 9472];

/// What is logged is kept by thread, but whether a line is worth making is remembered for the whole process (tracing's callsites): a run without a
/// log beside one with a log can cost that one a line. So the tests take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn bad_days_break_nothing() {
    let _alone = alone();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut failed = Vec::new();
    let seeds = Seeds::new(SEEDS.0, SEEDS.1);
    run_seeds(&seeds, threads, Verbosity::Deeds, Times::Once, |outcome| {
        if !outcome.is_well() {
            failed.push(outcome.to_string());
        }
    })
    .unwrap();
    assert!(failed.is_empty(), "{} failed\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn bad_days_that_broke_something_once_do_so_no_more() {
    let _alone = alone();
    let outcomes = ONCE_FAILED.map(|seed| run_seed(seed, Verbosity::Deeds).unwrap());
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.is_well()).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Few seeds in whose days everything happens that happens in those of `make test`: again and again the one that adds most.
fn seeds_of_every_kind() -> Vec<u64> {
    let mut plans: Vec<(u64, BTreeSet<String>)> = (SEEDS.0..=SEEDS.1)
        .map(|seed| (seed, Plan::draw(seed).kinds()))
        .collect();
    let mut chosen = Vec::new();
    loop {
        // of those that add as much the first
        plans.sort_by_key(|(seed, kinds)| (std::cmp::Reverse(kinds.len()), *seed));
        let Some((seed, new)) = plans.first().filter(|(_, kinds)| !kinds.is_empty()).cloned() else {
            return chosen;
        };
        for (_, kinds) in &mut plans {
            kinds.retain(|kind| !new.contains(kind));
        }
        chosen.push(seed);
    }
}

#[test]
fn a_seed_of_every_kind_replays_to_the_same_log() {
    let _alone = alone();
    let seeds = seeds_of_every_kind();
    assert!(seeds.len() > 4, "{seeds:?}");
    for seed in seeds {
        let outcome = run_seed_twice(seed, Verbosity::Everything).unwrap();
        assert_eq!(outcome.violations, Vec::<String>::new(), "seed {seed}");
        assert!(outcome.log.len() > 500, "seed {seed} tells {} lines", outcome.log.len());
    }
}

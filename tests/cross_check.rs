//! The solver's plans held against the in-process world's own filters, case by case from seeds.
//!
//! `tests/cp_cross_check.rs` takes the same cases to the real kube-scheduler; this one needs no control plane, so it runs many more. A seed that
//! fails is shown with `SEEDS=17..18 cargo test --test cross_check -- --nocapture`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]
#![allow(dead_code, reason = "the other file that shares these modules uses the rest")]

#[path = "cross_check/binder.rs"]
mod binder;
#[path = "cross_check/case.rs"]
mod case;
#[path = "cross_check/constraints.rs"]
mod constraints;
#[path = "cross_check/dice.rs"]
mod dice;
#[path = "cross_check/known.rs"]
mod known;
#[path = "cross_check/machines.rs"]
mod machines;
#[path = "cross_check/plan.rs"]
mod plan;
#[path = "cross_check/properties.rs"]
mod properties;
#[path = "cross_check/seeds.rs"]
mod seeds;
#[path = "cross_check/volumes.rs"]
mod volumes;
#[path = "cross_check/workloads.rs"]
mod workloads;

use case::Case;
use plan::Plan;

/// Cases tried unless `SEEDS` says otherwise.
const CASES: u64 = 300;

#[test]
fn the_binder_accepts_every_placement_that_the_solver_plans() {
    let (mut placed, mut refused) = (0, 0);
    let mut findings = binder::Findings::default();
    let asked = seeds::asked(0..CASES);
    let many = asked.clone().count() >= 100;
    for seed in asked {
        let case = Case::of(seed);
        let plan = Plan::of(&case);
        placed += plan.steps.len();
        refused += plan.results.errors.len();
        binder::judge(&case, &plan, &mut findings);
    }
    let known: usize = findings.known.values().sum();
    println!(
        "{placed} pods placed, {refused} not; refused by known rules: {:?}",
        findings.known
    );
    assert!(
        !many || placed > refused,
        "cases in which nothing can be placed show nothing"
    );
    assert!(
        known * 20 < placed,
        "what is known to differ is the rule, not the exception"
    );
    assert!(
        findings.defects.is_empty(),
        "{} of {placed} placements are not possible:\n{}",
        findings.defects.len(),
        findings.defects.join("\n")
    );
}

//! Fixed solves whose instructions are counted: a slow-down is seen on any machine, however busy.
//!
//! `benches/instructions/run` runs it under callgrind, which counts from the entry of `counted` to its return: preparation, solve and answer. The
//! argument names the case.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "this is bench code; a broken workload must stop it"
)]

#[path = "solve/catalog.rs"]
#[allow(dead_code, reason = "other benches use more of it")]
mod catalog;
#[path = "solve/workload.rs"]
#[allow(dead_code, reason = "other benches use more of it")]
mod workload;

use karpenter::scheduling::{Options, Problem, Results, solve};
use std::hint::black_box;
use std::process::ExitCode;

/// What is counted; callgrind finds it by its name.
#[inline(never)]
fn counted(problem: &Problem) -> Results {
    black_box(solve(black_box(problem), &Options::default(), &|| true))
}

fn main() -> ExitCode {
    // Cargo's own arguments begin with a dash.
    let case = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let problem = match case.as_deref() {
        Some("diverse-1000") => workload::problem(catalog::fake(400), workload::diverse(1_000)),
        Some("preferences-500") => workload::problem(catalog::fake(400), workload::preferring(500)),
        _ => {
            eprintln!("diverse-1000 or preferences-500");
            return ExitCode::from(2);
        }
    };
    let results = counted(&problem);
    eprintln!(
        "{} claims, {} not placed",
        results.new_claims.len(),
        results.errors.len()
    );
    ExitCode::SUCCESS
}

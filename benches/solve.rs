//! How fast the solver is: upstream's own scheduling benchmark, and the same mix of pods on the Rackspace catalogue.
//!
//! `make bench-solve JSON=FILE` writes one object a line: case, pods, types, seconds, prepare_seconds, pods_per_s, nodes, price_per_h, peak_bytes,
//! allocations. Only the solve is timed as `seconds`, as upstream does; the preparation and the writing of the claims apart. Without JSON the
//! lines are printed. `CASE=text` runs the cases whose name contains the text. It ends non-zero when nodes or price are above
//! `solve/recorded.json`, or the solve of 10,000 pods takes 100 MB.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is bench code; a broken workload must stop it"
)]

#[path = "solve/catalog.rs"]
mod catalog;
#[path = "solve/recorded.rs"]
mod recorded;
#[path = "solve/workload.rs"]
#[allow(dead_code, reason = "other benches use more of it")]
mod workload;

use karpenter::scheduling::{Options, PreferencePolicy, Prepared, Problem};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::fs;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What the process may hold at most while 10,000 pods are placed.
const MOST_BYTES: u64 = 100_000_000;

/// A question and how it is asked; made when it is its turn, so that one case's pods do not count for another's memory.
struct Case {
    name: String,
    problem: Box<dyn Fn() -> Problem>,
    options: Options,
}

fn case(name: String, options: Options, problem: impl Fn() -> Problem + 'static) -> Case {
    Case {
        name,
        problem: Box::new(problem),
        options,
    }
}

fn cases() -> Vec<Case> {
    let mut result = Vec::new();
    for pods in [1, 100, 500, 1_000, 2_000, 5_000, 10_000, 20_000] {
        result.push(case(format!("diverse-{pods}"), Options::default(), move || {
            workload::problem(catalog::fake(400), workload::diverse(pods))
        }));
    }
    for (name, preferences) in [
        ("respected", PreferencePolicy::Respect),
        ("ignored", PreferencePolicy::Ignore),
    ] {
        let options = Options {
            preferences,
            ..Options::default()
        };
        result.push(case(format!("preferences-{name}-4000"), options, || {
            workload::problem(catalog::fake(400), workload::preferring(4_000))
        }));
    }
    for pods in [100, 1_000, 10_000, 20_000] {
        result.push(case(format!("rackspace-{pods}"), Options::default(), move || {
            workload::problem(catalog::rackspace(), workload::diverse(pods))
        }));
    }
    result
}

/// The most memory the process has held since the last reset, where the system tells.
fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}

fn reset_peak() {
    // Where the system has no such file, the peak is that of the whole process.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

#[allow(clippy::disallowed_methods)] // a benchmark measures real time
fn measured(case: &Case) -> (Value, Option<String>) {
    let problem = (case.problem)();
    reset_peak();
    let region = Region::new(ALLOCATOR);
    let started = Instant::now();
    let mut prepared = Prepared::new(&problem, &case.options);
    let prepare_seconds = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let rounds = prepared.run(&|| true);
    let seconds = started.elapsed().as_secs_f64();
    let used = region.change();
    let peak = peak_bytes();
    let started = Instant::now();
    let results = prepared.finish(&rounds);
    let finish_seconds = started.elapsed().as_secs_f64();
    let pods = problem.pods.len();
    let mut complaint = recorded::of(&case.name)
        .unwrap_or_else(|| panic!("nothing is recorded of {}", case.name))
        .complaint(&results, &problem);
    if let ("diverse-10000", Some(peak @ MOST_BYTES..)) = (case.name.as_str(), peak) {
        complaint.get_or_insert_with(|| format!("{peak} bytes at the peak"));
    }
    let line = json!({
        "case": case.name,
        "pods": pods,
        "types": problem.pools.iter().map(|pool| pool.instance_types.len()).sum::<usize>(),
        "seconds": seconds,
        "prepare_seconds": prepare_seconds,
        "finish_seconds": finish_seconds,
        "pods_per_s": f64::from(u32::try_from(pods).unwrap_or(u32::MAX)) / seconds,
        "nodes": results.new_claims.len(),
        "unplaced": results.errors.len() + results.undecided.len(),
        "price_per_h": recorded::price(&results, &problem),
        "peak_bytes": peak,
        "allocations": used.allocations,
        "allocated_bytes": used.bytes_allocated,
    });
    (line, complaint)
}

fn main() -> std::io::Result<ExitCode> {
    let only = std::env::var("CASE").unwrap_or_default();
    let target = std::env::var("JSON").ok().filter(|path| !path.is_empty());
    let mut out: Box<dyn Write> = match target {
        Some(path) => Box::new(fs::File::create(path)?),
        None => Box::new(std::io::stdout()),
    };
    let mut code = ExitCode::SUCCESS;
    for case in cases().iter().filter(|case| case.name.contains(&only)) {
        let (line, complaint) = measured(case);
        writeln!(out, "{line}")?;
        out.flush()?;
        if let Some(complaint) = complaint {
            eprintln!("{}: {complaint}", case.name);
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

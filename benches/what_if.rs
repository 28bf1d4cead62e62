//! What a question costs that disruption asks: where would the pods of a machine go, and would a cheaper machine do.
//!
//! `cargo bench --bench what_if` prepares clusters of 200 and of 2,000 machines with fifteen pods each and asks about every machine alone, and
//! about ten at once. One object a line: case, nodes, pods, prepare_seconds, median_us, p99_us, allocated_bytes (per question, median).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "this is bench code; a broken workload must stop it"
)]

#[path = "solve/catalog.rs"]
#[allow(dead_code, reason = "other benches use more of it")]
mod catalog;
#[path = "solve/fleet.rs"]
mod fleet;

use karpenter::scheduling::{Base, Options, Pod, Problem};
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The machines of each question.
fn questions(nodes: usize, at_once: usize) -> Vec<Vec<usize>> {
    let first = (0..nodes).step_by(at_once);
    first
        .map(|first| (first..nodes.min(first + at_once)).collect())
        .collect()
}

fn pods_of(problem: &Problem, nodes: &[usize]) -> Vec<Arc<Pod>> {
    nodes
        .iter()
        .flat_map(|at| problem.nodes[*at].pods.iter().cloned())
        .collect()
}

fn at<T: Copy + Default>(sorted: &[T], part: usize, of: usize) -> T {
    sorted.get(sorted.len() * part / of).copied().unwrap_or_default()
}

#[allow(clippy::disallowed_methods)] // a benchmark measures real time
fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout();
    for nodes in [200, 2_000] {
        let problem = fleet::fleet(catalog::fake(400), nodes);
        let started = Instant::now();
        let base = Base::new(&problem, &Options::default());
        let prepare = started.elapsed().as_secs_f64();
        let mut probe = base.probe();
        for at_once in [1, 10] {
            let (mut times, mut bytes) = (Vec::new(), Vec::new());
            let (mut opened, mut unplaced) = (0, 0);
            for leaving in questions(nodes, at_once) {
                let moved = pods_of(&problem, &leaving);
                let region = Region::new(ALLOCATOR);
                let started = Instant::now();
                let answer = probe.ask(&leaving, &moved, &|| true);
                times.push(started.elapsed().as_secs_f64() * 1e6);
                bytes.push(region.change().bytes_allocated);
                opened += answer.results.new_claims.len();
                unplaced += answer.results.errors.len();
            }
            times.sort_by(f64::total_cmp);
            bytes.sort_unstable();
            writeln!(
                out,
                "{}",
                json!({
                    "case": format!("what-if-{nodes}-{at_once}"),
                    "nodes": nodes,
                    "pods": nodes * fleet::PODS_PER_NODE,
                    "prepare_seconds": prepare,
                    "median_us": at(&times, 1, 2),
                    "p99_us": at(&times, 99, 100),
                    "allocated_bytes": at(&bytes, 1, 2),
                    "new_claims": opened,
                    "unplaced": unplaced,
                })
            )?;
        }
    }
    Ok(())
}

//! What the innermost question of a solve allocates: whether a planned claim takes a pod. Pods of which no two go together ask every claim that
//! is there, so 1,600 pods ask more than a million times; the allocations that are shown grow with the claims opened, not with the questions.

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

use karpenter::scheduling::{Options, Prepared};

#[global_allocator]
static ALLOCATOR: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

#[divan::bench(args = [100, 400, 1_600], sample_count = 5)]
fn pods_that_ask_every_claim(bencher: divan::Bencher, pods: usize) {
    let problem = workload::problem(catalog::fake(20), workload::apart(pods));
    bencher
        .with_inputs(|| Prepared::new(&problem, &Options::default()))
        .bench_local_refs(|prepared| prepared.run(&|| true));
}

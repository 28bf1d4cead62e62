//! The solver's plans taken to the real kube-scheduler.
//!
//! Each case is a whole cluster made from a seed. The solver plans it, exactly the machines of the plan are made, and the pods, created behind a
//! scheduling gate, are released one at a time in the order they were planned, each with its machine as `status.nominatedNodeName`: kube-scheduler
//! tries that machine first and binds there if every filter passes. So a plan is checked pod by pod, without adding anything to a pod that would
//! change what is checked. Each verdict is also held against the filters of the in-process world.
//!
//! `make cross-check SEEDS=0..1000` runs any others.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]
#![allow(dead_code, reason = "the other file that shares these modules uses the rest")]

mod support;

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
#[path = "cross_check/real.rs"]
mod real;
#[path = "cross_check/seeds.rs"]
mod seeds;
#[path = "cross_check/volumes.rs"]
mod volumes;
#[path = "cross_check/workloads.rs"]
mod workloads;

use binder::World;
use case::Case;
use plan::{Plan, Step};
use real::{Outcome, Real};
use std::collections::BTreeMap;
use support::controlplane::{ControlPlane, Options, Part};

/// Cases tried unless `SEEDS` says otherwise.
const CASES: u64 = 60;

/// What came of all cases.
#[derive(Default)]
struct Tally {
    cases: usize,
    bound: usize,
    at_second_try: usize,
    unplaced: usize,
    known: BTreeMap<&'static str, usize>,
    found: Vec<String>,
}

/// Whether the rest of a case can still be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    AsPlanned,
    /// A pod is not where it is planned, for a reason that is known.
    Otherwise,
}

impl Tally {
    /// Releases a planned pod. A pod that does not go where it is planned gets a second chance: the first may have been decided on a view of the
    /// cluster that was not yet complete.
    async fn release(&mut self, real: &Real, case: &Case, plan: &Plan, step: &Step, world: &mut World) -> Rest {
        let name = step.pod.metadata.name.clone().unwrap();
        let expected = world.place(&step.pod, &step.node);
        let mut outcome = real.release(step).await;
        if outcome != Outcome::Bound(step.node.clone()) {
            real.put_back(step).await;
            outcome = real.release(step).await;
            self.at_second_try += 1;
        }
        let seed = case.seed;
        let planned = outcome == Outcome::Bound(step.node.clone());
        let reason = expected.as_ref().err().filter(|_| !planned);
        if let Some(rule) = reason.and_then(|reason| known::rule(case, plan, step, reason)) {
            *self.known.entry(rule).or_default() += 1;
            return Rest::Otherwise;
        }
        match (planned, expected) {
            (true, Ok(())) => self.bound += 1,
            (true, Err(reason)) => self.found.push(format!(
                "seed {seed}: {name} is bound to {}, the in-process world says: {reason}",
                step.node
            )),
            (false, expected) => {
                self.found.push(format!(
                    "seed {seed}: {name} is planned for {}, kube-scheduler: {outcome}; the in-process world says: {expected:?}",
                    step.node
                ));
                real.force(step).await;
            }
        }
        Rest::AsPlanned
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_scheduler_binds_every_pod_where_the_solver_planned_it() {
    // No kubelets and no node lifecycle: machines stay as they are made, and nobody but the scheduler decides.
    let options = Options::default()
        .flag(
            Part::ApiServer,
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        )
        .flag(
            Part::ControllerManager,
            "--controllers=persistentvolume-binder-controller,ephemeral-volume-controller",
        )
        .flag(Part::ControllerManager, "--pvclaimbinder-sync-period=1s");
    let plane = ControlPlane::start_with(options).await;
    let real = Real::start(plane.client().await).await;
    let mut tally = Tally::default();
    for seed in seeds::asked(0..CASES) {
        let case = Case::of(seed);
        let plan = Plan::of(&case);
        let mut world = World::of(&case, &plan);
        real.set_up(&case, &plan).await;
        for step in &plan.steps {
            if tally.release(&real, &case, &plan, step, &mut world).await == Rest::Otherwise {
                break;
            }
        }
        real.clear(&case).await;
        tally.cases += 1;
        tally.unplaced += plan.results.errors.len();
    }
    println!(
        "{} cases: {} pods bound where planned, {} tried twice; {} not placed by the plan; known to differ: {:?}; {} disagreements",
        tally.cases,
        tally.bound,
        tally.at_second_try,
        tally.unplaced,
        tally.known,
        tally.found.len()
    );
    let known: usize = tally.known.values().sum();
    assert!(
        known * 20 < tally.bound,
        "what is known to differ is the rule, not the exception"
    );
    assert!(
        tally.bound > tally.unplaced,
        "cases in which nothing can be placed show nothing"
    );
    assert!(tally.found.is_empty(), "{}", tally.found.join("\n"));
}

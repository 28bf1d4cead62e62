//! The loop: pods in order of size, each placed or put back until a whole round brings nothing (scheduling §14).

use super::pass::Pass;
use super::pod::Pod;
use super::problem::Problem;
use super::results::{DeviceClaims, Options, PodError, Reason, Results};
use crate::resources::names;
use std::cmp::{Ordering, Reverse};
use std::collections::VecDeque;
use std::sync::Arc;

/// Places the pods of a problem.
///
/// `keep_going` is asked before each attempt; once it says no, what was decided so far is the answer and the rest is `undecided`
/// (scheduling 14-3). The same problem gives the same answer whatever the order of its lists.
pub fn solve(problem: &Problem, options: &Options, keep_going: &dyn Fn() -> bool) -> Results {
    let mut errors = Vec::new();
    let mut pods = Vec::with_capacity(problem.pods.len());
    for pod in &problem.pods {
        match refusal(pod, problem, options) {
            Some(reason) => errors.push(PodError {
                pod: Arc::clone(pod),
                reason,
            }),
            None => pods.push(Arc::clone(pod)),
        }
    }
    let mut pass = Pass::prepare(problem, *options, &pods, std::iter::empty());
    let rounds = pass.run(keep_going);
    let mut results = pass.finish(&rounds);
    results.errors.extend(errors);
    results.errors.sort_by(|a, b| by_name(&a.pod, &b.pod));
    results
}

/// A problem prepared for solving; for measuring, and for asking what the preparation costs.
#[derive(Debug)]
pub struct Prepared<'a>(Pass<'a>);

impl<'a> Prepared<'a> {
    /// Prepares a problem whose pods are all in order.
    pub fn new(problem: &'a Problem, options: &Options) -> Self {
        Self(Pass::prepare(problem, *options, &problem.pods, std::iter::empty()))
    }

    /// Only the solve; the answer comes from [`finish`](Self::finish).
    pub fn run(&mut self, keep_going: &dyn Fn() -> bool) -> Rounds {
        self.0.run(keep_going)
    }

    /// The answer.
    pub fn finish(mut self, rounds: &Rounds) -> Results {
        self.0.finish(rounds)
    }
}

/// Why a pod is not even tried: device claims (scheduling 4-7), or volumes that cannot be looked up.
///
/// Differs: upstream tries the latter without their volumes (scheduling 2-5).
pub(super) fn refusal(pod: &Pod, problem: &Problem, options: &Options) -> Option<Reason> {
    if pod.constraints.resource_claims && options.device_claims == DeviceClaims::Refuse {
        return Some(Reason::DeviceClaims);
    }
    let error = problem.volumes.alternatives(pod).err()?;
    Some(Reason::Volumes(error.to_string()))
}

pub(super) fn by_name(a: &Pod, b: &Pod) -> Ordering {
    (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid))
}

/// How the loop ended: pods that failed, pods it did not come to.
#[derive(Debug, Default, Clone)]
pub struct Rounds {
    pub(super) failed: Vec<usize>,
    pub(super) undecided: Vec<usize>,
}

enum Attempt {
    Placed,
    Failed,
    Stopped,
}

impl Pass<'_> {
    /// Runs the loop (scheduling 14-3).
    pub(super) fn run(&mut self, keep_going: &dyn Fn() -> bool) -> Rounds {
        let order = self.queue_order();
        let mut queue: VecDeque<usize> = (0..order.len()).collect();
        // The length of the queue when a pod was last put back; zero: never.
        let mut put_back = vec![0_usize; order.len()];
        let mut rounds = Rounds::default();
        while let Some(turn) = queue.front().copied() {
            // A whole round without progress (scheduling 14-2).
            if put_back.get(turn) == Some(&queue.len()) {
                break;
            }
            queue.pop_front();
            let Some(pod) = order.get(turn).copied() else { continue };
            match self.attempt(pod, keep_going) {
                Attempt::Placed => {}
                Attempt::Failed => {
                    queue.push_back(turn);
                    if let Some(length) = put_back.get_mut(turn) {
                        *length = queue.len();
                    }
                }
                Attempt::Stopped => {
                    queue.push_front(turn);
                    break;
                }
            }
        }
        for turn in queue {
            let Some(pod) = order.get(turn).copied() else { continue };
            if put_back.get(turn).is_some_and(|length| *length > 0) {
                rounds.failed.push(pod);
            } else {
                rounds.undecided.push(pod);
            }
        }
        rounds
    }

    /// First-fit decreasing: the largest first, by cpu, then memory; then the oldest (scheduling 14-1).
    fn queue_order(&self) -> Vec<usize> {
        let size = |shape: usize, name: &str| {
            let place = self.places.find(name)?;
            self.shapes.get(shape)?.requests.get(place).copied()
        };
        let keyed = self.asked.iter().filter_map(|at| {
            let (pod, shape) = (self.pods.get(*at)?, *self.shape_of.get(*at)?);
            let amounts = (
                size(shape, names::CPU).unwrap_or(0),
                size(shape, names::MEMORY).unwrap_or(0),
            );
            Some((Reverse(amounts), pod.created, pod.uid.as_str(), *at))
        });
        let mut keyed: Vec<_> = keyed.collect();
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, _, _, at)| at).collect()
    }

    /// One attempt with all its relaxations (scheduling 14-4). A shape that failed and saw no placement since fails again.
    fn attempt(&mut self, pod: usize, keep_going: &dyn Fn() -> bool) -> Attempt {
        let Some(shape) = self.shape_of.get(pod).copied() else {
            return Attempt::Failed;
        };
        if !keep_going() {
            return Attempt::Stopped;
        }
        if self
            .shapes
            .get(shape)
            .is_some_and(|own| own.failed_at == Some(self.placements))
        {
            return Attempt::Failed;
        }
        let mut steps = 0;
        while self.variant(shape, steps).is_some() {
            if steps > 0 && !keep_going() {
                return Attempt::Stopped;
            }
            if self.place(pod, shape, steps) {
                self.placements += 1;
                return Attempt::Placed;
            }
            steps += 1;
        }
        if let Some(own) = self.shapes.get_mut(shape) {
            own.failed_at = Some(self.placements);
        }
        Attempt::Failed
    }
}

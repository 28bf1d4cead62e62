//! The loop: pods in order of size, each placed or put back until a whole round brings nothing (scheduling §14).

use super::pass::Pass;
use super::pod::Pod;
use super::problem::Problem;
use super::results::{DeviceClaims, Options, PodError, Reason, Results};
use crate::resources::names;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Places the pods of a problem.
///
/// `keep_going` is asked before each attempt; once it says no, what was decided so far is the answer and the rest is `undecided`
/// (scheduling 14-3). The same problem gives the same answer whatever the order of its lists.
pub fn solve(problem: &Problem, options: &Options, keep_going: &dyn Fn() -> bool) -> Results {
    solve_promised(problem, options, &Promises::new(), keep_going)
}

/// Which machine an earlier pass has meant for a pod: the machine's place in [`Problem::nodes`], by the pod's UID.
pub type Promises = BTreeMap<Arc<str>, usize>;

/// As [`solve`], but pods come first to the machines that they were promised.
///
/// Differs: upstream packs all pods anew in each pass. What it then finds need not be what the machines on their way were bought for, and a pod that
/// no longer fits beside others gets one more machine although its own is coming (scheduling 14-1, 15-1).
pub fn solve_promised(
    problem: &Problem,
    options: &Options,
    promises: &Promises,
    keep_going: &dyn Fn() -> bool,
) -> Results {
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
    pass.promise(promises);
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

    /// Notes which pods go first to which machines.
    fn promise(&mut self, promises: &Promises) {
        let staying = self.existing.iter().enumerate();
        let staying: BTreeMap<usize, usize> = staying.map(|(at, machine)| (machine.node, at)).collect();
        let promised = self.asked.iter().filter_map(|pod| {
            let node = promises.get(self.pods.get(*pod)?.uid.as_ref())?;
            Some((*pod, *staying.get(node)?))
        });
        self.promised = promised.collect();
    }

    /// First-fit decreasing: the largest first, by cpu, then memory; then the oldest (scheduling 14-1). Pods with a promise come before all others.
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
            let waits = !self.promised.contains_key(at);
            Some((waits, Reverse(amounts), pod.created, &*pod.uid, *at))
        });
        let mut keyed: Vec<_> = keyed.collect();
        keyed.sort_unstable();
        keyed.into_iter().map(|(.., at)| at).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::{Quantity, ResourceList};
    use crate::scheduling::Node;

    fn amounts(millis: i64, pods: i64) -> ResourceList {
        let cpu = ResourceList::new().with(names::CPU, Quantity::millis(millis));
        cpu.with("pods", Quantity::units(pods))
    }

    fn node(name: &str, millis: i64, pods: Vec<Arc<Pod>>) -> Arc<Node> {
        Arc::new(Node {
            name: name.to_owned(),
            capacity: amounts(millis, 10),
            allocatable: amounts(millis, 10),
            pods,
            ..Node::default()
        })
    }

    fn pod(name: &str, millis: i64) -> Arc<Pod> {
        Arc::new(Pod {
            uid: name.into(),
            name: name.into(),
            requests: Arc::new(amounts(millis, 1)),
            ..Pod::default()
        })
    }

    /// The machine of each pod that got one.
    fn placed(problem: &Problem, promises: &[(&str, usize)]) -> BTreeMap<String, String> {
        let promises = promises.iter().map(|(pod, node)| (Arc::from(*pod), *node)).collect();
        let results = solve_promised(problem, &Options::default(), &promises, &|| true);
        let places = results.existing.iter();
        places
            .flat_map(|place| place.pods.iter().map(|pod| (pod.name.to_string(), place.name.clone())))
            .collect()
    }

    #[test]
    fn pods_that_wait_for_their_machines_are_not_packed_anew() {
        // the largest alone would take the larger machine, which was bought for the two others
        let problem = Problem {
            nodes: vec![node("a", 3000, Vec::new()), node("b", 2000, Vec::new())],
            pods: vec![pod("large", 2000), pod("one", 1500), pod("two", 1500)],
            ..Problem::default()
        };
        assert_eq!(placed(&problem, &[]).len(), 2);
        let kept = placed(&problem, &[("large", 1), ("one", 0), ("two", 0)]);
        let kept: Vec<(&str, &str)> = kept.iter().map(|(pod, node)| (pod.as_str(), node.as_str())).collect();
        assert_eq!(kept, [("large", "b"), ("one", "a"), ("two", "a")]);
    }

    #[test]
    fn a_promise_that_cannot_be_kept_is_none() {
        let problem = Problem {
            nodes: vec![node("a", 1000, vec![pod("somebody", 900)]), node("b", 1000, Vec::new())],
            pods: vec![pod("late", 500)],
            ..Problem::default()
        };
        for promise in [0, 1, 7] {
            assert_eq!(placed(&problem, &[("late", promise)])["late"], "b", "{promise}");
        }
    }
}

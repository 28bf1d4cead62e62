//! Many what-ifs about one cluster (scheduling §24): prepared once, asked often.
//!
//! A [`Base`] is the pass over a cluster with nothing moved: machines, rules with their counts, and the shapes of all pods that could have to
//! move. A [`Probe`] is one worker's copy of what a question changes. A question takes the machines away, lifts their pods, runs the loop, and
//! takes back what it changed: its cost depends on what moves, not on the size of the cluster. The answer is that of
//! [`what_if`](super::what_if), which defines it. Called by disruption; a base is shared by as many probes as there are workers.

use super::pass::Pass;
use super::pod::Pod;
use super::problem::{Fate, Problem};
use super::results::{Options, PodError, Ties};
use super::solve::{by_name, refusal};
use super::what_if::{self, WhatIf, what_if};
use super::{amounts, bits};
use crate::resources::names;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// A pod that may be asked to move.
#[derive(Debug, Clone, Copy)]
struct Home {
    /// Place among the pods of the pass.
    pod: usize,
    /// Place of its node in the problem.
    node: usize,
}

/// A cluster prepared for what-ifs.
#[derive(Debug)]
pub struct Base<'p> {
    pass: Pass<'p>,
    homes: FxHashMap<&'p str, Home>,
    /// Pods that are placed in any case, by UID.
    pending: FxHashSet<&'p str>,
    /// Pods of machines that are being deleted in any case, by UID.
    deleted: FxHashSet<&'p str>,
    /// Errors of pods that are not even tried.
    refused: Vec<PodError>,
    /// For each node its place among the machines of the pass.
    machines: FxHashMap<usize, usize>,
}

impl<'p> Base<'p> {
    /// Prepares the problem: its own pods are placed with every question, and pods bound to machines that stay can be asked for.
    pub fn new(problem: &'p Problem, options: &Options) -> Self {
        let (mut pods, mut refused) = (Vec::with_capacity(problem.pods.len()), Vec::new());
        for pod in &problem.pods {
            match refusal(pod, problem, options) {
                Some(reason) => refused.push(PodError {
                    pod: Arc::clone(pod),
                    reason,
                }),
                None => pods.push(Arc::clone(pod)),
            }
        }
        let pending: FxHashSet<&str> = problem.pods.iter().map(|pod| &*pod.uid).collect();
        let staying = || {
            problem
                .nodes
                .iter()
                .enumerate()
                .filter(|(_, node)| node.fate == Fate::Stays)
        };
        let movable = || {
            let bound = staying().flat_map(|(at, node)| node.pods.iter().map(move |pod| (at, pod)));
            bound.filter(|(_, pod)| pod.standing.is_reschedulable() && !pending.contains(&*pod.uid))
        };
        let mut pass = Pass::prepare(problem, *options, &pods, movable().map(|(_, pod)| pod));
        for shape in 0..pass.shapes.len() {
            let mut steps = 0;
            while pass.variant(shape, steps).is_some() {
                steps += 1;
            }
        }
        for shape in 0..pass.shapes.len() {
            pass.note_groups(shape);
        }
        let node_of: FxHashMap<&str, usize> = movable().map(|(at, pod)| (&*pod.uid, at)).collect();
        let mut homes = FxHashMap::default();
        for (at, pod) in pass.pods.iter().enumerate() {
            if let Some((uid, node)) = node_of.get_key_value(&*pod.uid) {
                homes.insert(*uid, Home { pod: at, node: *node });
            }
        }
        let machines = pass.existing.iter().enumerate().map(|(at, machine)| (machine.node, at));
        Self {
            machines: machines.collect(),
            homes,
            deleted: what_if::deleted(problem),
            pending,
            refused,
            pass,
        }
    }

    /// A worker's own means to ask.
    pub fn probe(&self) -> Probe<'_, 'p> {
        let mut pass = self.pass.clone();
        pass.topology.mark();
        let words = bits::words(pass.existing.len());
        pass.gone.resize(words, 0);
        let memories = pass.shapes.iter_mut().flat_map(|shape| &mut shape.memories);
        memories.for_each(|memory| memory.nodes.reserve_exact(words));
        Probe { base: self, pass }
    }
}

/// Asks questions about a [`Base`], one after the other.
#[derive(Debug)]
pub struct Probe<'b, 'p> {
    base: &'b Base<'p>,
    pass: Pass<'p>,
}

impl Probe<'_, '_> {
    /// Where the pods of the machines at these places of the problem would go if they went, as [`what_if`](super::what_if) says; `moved` are
    /// those of their pods that have to move. The problem's own pods are placed with them (scheduling 24-2).
    pub fn ask(&mut self, leaving: &[usize], moved: &[Arc<Pod>], keep_going: &dyn Fn() -> bool) -> WhatIf {
        let base = self.base;
        let problem = base.pass.problem;
        let known = moved.iter().filter(|pod| !base.pending.contains(&*pod.uid));
        let (mut movers, mut errors) = (Vec::with_capacity(moved.len()), base.refused.clone());
        for pod in known {
            if let Some(reason) = refusal(pod, problem, &base.pass.options) {
                let pod = Arc::clone(pod);
                errors.push(PodError { pod, reason });
            } else if let Some(home) = base.homes.get(&*pod.uid) {
                movers.push(*home);
            } else {
                return what_if(problem, leaving, moved, &base.pass.options, keep_going);
            }
        }
        // Where groups depend on whose pod is asked first, nothing can be prepared: recorded answers, and scheduling 17-6.
        if base.pass.options.ties == Ties::ByName || base.pass.topology.first_matters {
            return what_if(problem, leaving, moved, &base.pass.options, keep_going);
        }
        self.take_away(leaving, &mut movers);
        let rounds = self.pass.run(keep_going);
        let mut results = self.pass.finish(&rounds);
        self.take_back();
        results.errors.append(&mut errors);
        results.errors.sort_by(|a, b| by_name(&a.pod, &b.pod));
        let uncertain = what_if::uncertain(problem, &results, &base.deleted);
        WhatIf { results, uncertain }
    }

    fn take_away(&mut self, leaving: &[usize], movers: &mut Vec<Home>) {
        let problem = self.pass.problem;
        let mut gone: Vec<usize> = leaving.to_vec();
        gone.sort_unstable();
        gone.dedup();
        gone.retain(|at| problem.nodes.get(*at).is_some_and(|node| node.fate == Fate::Stays));
        movers.sort_unstable_by_key(|home| home.pod);
        movers.dedup_by_key(|home| home.pod);
        self.pass.asked.extend(movers.iter().map(|home| home.pod));
        for at in &gone {
            if let Some(machine) = self.base.machines.get(at) {
                bits::add(&mut self.pass.gone, *machine);
            }
            self.give_back(*at);
        }
        for home in movers.iter() {
            self.lift(*home, &gone);
        }
        for at in &gone {
            self.pass.topology.leave(*at, &gone, &mut self.pass.symbols);
        }
        for pod in &self.pass.asked {
            let shape = self
                .pass
                .shape_of
                .get(*pod)
                .and_then(|shape| self.pass.shapes.get_mut(*shape));
            if let Some(shape) = shape {
                shape.failed_at = None;
            }
        }
    }

    /// The capacity of a machine that is gone counts no longer against its pool's limits (scheduling 20-1).
    fn give_back(&mut self, at: usize) {
        let problem = self.pass.problem;
        let Some(node) = problem.nodes.get(at) else { return };
        let Pass { templates, places, .. } = &mut self.pass;
        let own = templates.iter_mut().find(|template| {
            problem
                .pools
                .get(template.pool)
                .is_some_and(|pool| node.pool() == Some(pool.name.as_str()))
        });
        let Some(template) = own else { return };
        let capacity = places.known_amounts(&node.capacity);
        amounts::give(&mut template.limits.left, &capacity);
        let machine = node.capacity.amount(names::NODES).nanos();
        template.limits.machines = template.limits.machines.map(|left| left.saturating_add(machine));
    }

    /// A pod is not counted where it is (scheduling 17-9, 17-10).
    fn lift(&mut self, home: Home, gone: &[usize]) {
        let Pass {
            pods,
            shape_of,
            shapes,
            topology,
            symbols,
            problem,
            ..
        } = &mut self.pass;
        let shape = shape_of.get(home.pod).and_then(|shape| shapes.get(*shape));
        let (Some(pod), Some(shape)) = (pods.get(home.pod), shape) else {
            return;
        };
        if problem.nodes.get(home.node).is_none_or(|node| node.object.is_none()) {
            return;
        }
        let counted: &[usize] = if pod.standing.is_active() {
            &shape.counted_by
        } else {
            &[]
        };
        let imposed = shape.variants.first().map_or(&[][..], |variant| &variant.imposed);
        for id in counted.iter().chain(imposed) {
            topology.lift(*id, home.node, gone, symbols);
        }
    }

    fn take_back(&mut self) {
        let (pass, base) = (&mut self.pass, &self.base.pass);
        pass.topology.take_back();
        for at in pass.taken.drain(..) {
            if let (Some(own), Some(before)) = (pass.existing.get_mut(at), base.existing.get(at)) {
                own.clone_from(before);
            }
        }
        for (own, before) in pass.templates.iter_mut().zip(&base.templates) {
            own.limits.clone_from(&before.limits);
        }
        pass.asked.truncate(base.asked.len());
        pass.gone.fill(0);
        pass.planned.clear();
        pass.line.clear();
        pass.seats.clear();
        pass.placements = 0;
        pass.epoch = pass.epoch.wrapping_add(1);
    }
}

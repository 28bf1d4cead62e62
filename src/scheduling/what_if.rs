//! What would become of pods if machines went away (scheduling §24): disruption's question.
//!
//! Asks the solver over the same problem with some machines leaving, everything prepared anew: the definition of the answer, for a single
//! question. Whoever asks many about one cluster prepares a [`Base`](super::Base) once, which answers the same. Relies on [`solve`].

use super::pod::Pod;
use super::problem::{Fate, Node, Ownership, Problem, Readiness};
use super::results::{ExistingPlacement, Options, Results};
use super::solve::solve;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The answer to a what-if.
#[derive(Debug, Clone, Default)]
pub struct WhatIf {
    /// Where the pods would go.
    pub results: Results,
    /// Pods that would count on a machine of ours that is not initialised and may never be, with its name; those of machines that are being
    /// deleted anyway are not among them (scheduling 24-5).
    pub uncertain: Vec<(Arc<Pod>, String)>,
}

/// Where the pods of the machines at these places would go if they went. `moved` are the pods of those machines that have to move
/// ([`pdb::is_currently_reschedulable`](super::pdb::is_currently_reschedulable)); the problem's own pods are placed with them (scheduling 24-2).
pub fn what_if(
    problem: &Problem,
    leaving: &[usize],
    moved: &[Arc<Pod>],
    options: &Options,
    keep_going: &dyn Fn() -> bool,
) -> WhatIf {
    let mut asked = problem.clone();
    for at in leaving {
        if let Some(node) = asked.nodes.get_mut(*at) {
            *node = Arc::new(Node {
                fate: Fate::Leaves,
                ..Node::clone(node)
            });
        }
    }
    let known: BTreeSet<&str> = problem.pods.iter().map(|pod| &*pod.uid).collect();
    asked
        .pods
        .extend(moved.iter().filter(|pod| !known.contains(&*pod.uid)).cloned());
    let results = solve(&asked, options, keep_going);
    let uncertain = uncertain(problem, &results, &deleted(problem));
    WhatIf { results, uncertain }
}

/// The UIDs of the pods of machines that are being deleted anyway.
pub(super) fn deleted(problem: &Problem) -> FxHashSet<&str> {
    let leaving = problem.nodes.iter().filter(|node| node.fate == Fate::Leaves);
    leaving.flat_map(|node| node.pods.iter().map(|pod| &*pod.uid)).collect()
}

/// The placements that cannot be counted on (scheduling 24-5).
pub(super) fn uncertain(problem: &Problem, results: &Results, deleted: &FxHashSet<&str>) -> Vec<(Arc<Pod>, String)> {
    let not_sure = |place: &&ExistingPlacement| {
        problem
            .nodes
            .get(place.node)
            .is_some_and(|node| node.ownership == Ownership::Managed && node.readiness == Readiness::ComingUp)
    };
    let uncertain = results.existing.iter().filter(not_sure).flat_map(|place| {
        let counted = place.pods.iter().filter(|pod| !deleted.contains(&*pod.uid));
        counted.map(|pod| (Arc::clone(pod), place.name.clone()))
    });
    uncertain.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::{Quantity, ResourceList};
    use crate::scheduling::Reason;

    fn pod(name: &str, millis: i64) -> Arc<Pod> {
        let requests = ResourceList::new()
            .with("cpu", Quantity::millis(millis))
            .with("pods", Quantity::units(1));
        Arc::new(Pod {
            uid: name.into(),
            name: name.into(),
            requests: Arc::new(requests),
            ..Pod::default()
        })
    }

    fn node(name: &str, cores: i64, pods: Vec<Arc<Pod>>) -> Arc<Node> {
        let has = ResourceList::new()
            .with("cpu", Quantity::units(cores))
            .with("pods", Quantity::units(10));
        Arc::new(Node {
            name: name.to_owned(),
            capacity: has.clone(),
            allocatable: has,
            pods,
            ..Node::default()
        })
    }

    #[test]
    fn pods_of_a_leaving_machine_go_where_there_is_room() {
        let (a, b) = (pod("a", 500), pod("b", 500));
        let mut problem = Problem {
            nodes: vec![node("one", 1, vec![Arc::clone(&a)]), node("two", 1, vec![b])],
            ..Problem::default()
        };
        let ask = |problem: &Problem| what_if(problem, &[0], &[Arc::clone(&a)], &Options::default(), &|| true).results;
        let answer = ask(&problem);
        assert_eq!(
            answer
                .existing
                .iter()
                .map(|place| place.name.as_str())
                .collect::<Vec<_>>(),
            ["two"]
        );
        problem.nodes[1] = node("two", 1, vec![pod("b", 600)]);
        let answer = ask(&problem);
        assert_eq!(
            answer.errors.iter().map(|error| &error.reason).collect::<Vec<_>>(),
            [&Reason::NoPools]
        );
    }
}

//! Why our answer may differ from a recorded one: by rule, seen in the scenario itself, never by its name.

use crate::scenario::Scenario;
use karpenter::scheduling::taints::tolerates_all;
use karpenter::scheduling::{Fate, Node, Pod, Preferences, Toleration, Undefined};
use std::sync::Arc;

/// The first of the accidents that ours does not repeat in either mode and that this scenario has.
pub fn in_both_modes(scenario: &Scenario) -> Option<&'static str> {
    let problem = &scenario.problem;
    if problem
        .pods
        .iter()
        .any(|pod| problem.volumes.alternatives(pod).is_err())
    {
        return Some("2-5");
    }
    let staying = || problem.nodes.iter().filter(|node| node.fate == Fate::Stays);
    let pair = |daemon: &Pod| staying().any(|node| counted(daemon, node) != counted_by_upstream(daemon, node));
    problem.daemons.iter().any(|daemon| pair(daemon)).then_some("12-4")
}

fn fits_first_term(daemon: &Pod, node: &Node) -> bool {
    let wanted = daemon.constraints.node_requirements(Preferences::Ignore);
    node.requirements().compatible(&wanted, Undefined::Strict).is_ok()
}

fn counted_by_upstream(daemon: &Pod, node: &Node) -> bool {
    tolerates_all(&node.taints, &daemon.constraints.tolerations) && fits_first_term(daemon, node)
}

fn counted(daemon: &Pod, node: &Node) -> bool {
    let mut tolerations = daemon.constraints.tolerations.clone();
    tolerations.push(Toleration::prefer_no_schedule());
    let mut left = daemon.clone();
    let mut any_term = fits_first_term(&left, node);
    while !any_term && left.constraints.required_terms.len() > 1 {
        Arc::make_mut(&mut left.constraints).required_terms.remove(0);
        any_term = fits_first_term(&left, node);
    }
    any_term && tolerates_all(&node.taints, &tolerations)
}

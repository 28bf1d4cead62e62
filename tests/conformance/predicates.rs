//! Why our answer may differ from a recorded one: by rule, seen in the scenario itself, never by its name.

use crate::answer::Answer;
use crate::scenario::{Scenario, pod_name};
use karpenter::scheduling::pod::{Spread, WhenUnsatisfiable};
use karpenter::scheduling::taints::tolerates_all;
use karpenter::scheduling::{Fate, Node, Operator, Pod, Preferences, Toleration, Undefined};
use std::collections::BTreeMap;
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

/// The first accident or free choice that this scenario has and that the product decides in its own way.
pub fn in_product(scenario: &Scenario) -> Option<&'static str> {
    let problem = &scenario.problem;
    let pods = || problem.pods.iter().map(|pod| &pod.constraints);
    let spreads = || pods().flat_map(|constraints| &constraints.spread);
    let open = |key: &str| key != "kubernetes.io/hostname";
    let affinities = || pods().flat_map(|c| c.affinity.iter().chain(c.preferred_affinity.iter().map(|p| &p.term)));
    let excluding = problem.pools.iter().any(|pool| {
        pool.requirements
            .iter()
            .any(|r| r.operator() == Operator::NotIn && spreads().any(|s| s.topology_key == r.key()))
    });
    let ports = pods().filter(|constraints| !constraints.ports.is_empty()).count() > 1;
    let soft = problem
        .pools
        .iter()
        .any(|pool| pool.taints.iter().any(|taint| taint.effect == "PreferNoSchedule"));
    let many_terms = problem
        .daemons
        .iter()
        .any(|daemon| daemon.constraints.required_terms.len() > 1);
    let rules = [
        (excluding, "17-4"),
        (spreads().any(|spread| open(&spread.topology_key)), "17-12"),
        (affinities().any(|term| open(&term.topology_key)), "17-13"),
        (ports, "9-5"),
        (!problem.daemons.is_empty() && (soft || many_terms), "12-2"),
        (
            problem.pools.iter().any(|pool| pool.limits.get("nodes").is_some()),
            "20-4",
        ),
        (
            shared_groups(&spreads().collect::<Vec<_>>()) || (soft && spreads().next().is_some()),
            "17-3",
        ),
        (
            problem.pools.iter().any(|pool| pool.requirements.has_min_values()),
            "15-3",
        ),
        (problem.pods.len() > 12, "15-1"),
    ];
    rules.iter().find(|(holds, _)| *holds).map(|(_, rule)| *rule)
}

/// Whether two spreads differ only in what upstream overlooks.
fn shared_groups(spreads: &[&Spread]) -> bool {
    spreads.iter().enumerate().any(|(at, one)| {
        spreads.iter().skip(at + 1).any(|other| {
            one.topology_key == other.topology_key && one.selector == other.selector && one.max_skew == other.max_skew
        })
    })
}

/// Pods that upstream put on a new node on which their own hard spread by hostname was already full: a relaxed pod brings a group that has
/// counted nobody (17-3, 17-10). Kubernetes would not bind them there.
pub fn broken_spreads(answer: &Answer, scenario: &Scenario) -> usize {
    let named: BTreeMap<String, &Pod> = scenario
        .problem
        .pods
        .iter()
        .map(|pod| (pod_name(pod), pod.as_ref()))
        .collect();
    let size = |pod: &Pod| (pod.requests.amount("cpu"), pod.requests.amount("memory"));
    let mut broken = 0;
    for claim in &answer.node_claims {
        let mut pods: Vec<&Pod> = claim.pods.iter().filter_map(|name| named.get(name).copied()).collect();
        pods.sort_by(|a, b| {
            size(b)
                .cmp(&size(a))
                .then(a.created.cmp(&b.created))
                .then(a.uid.cmp(&b.uid))
        });
        for (at, pod) in pods.iter().enumerate() {
            let hard = pod.constraints.spread.iter().filter(|spread| {
                spread.topology_key == "kubernetes.io/hostname"
                    && spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule
            });
            let full = |spread: &Spread| {
                let counted = pods.iter().take(at + 1).filter(|other| {
                    other.namespace == pod.namespace
                        && spread
                            .selector
                            .as_ref()
                            .is_some_and(|selector| selector.matches(&other.labels))
                });
                counted.count() > usize::try_from(spread.max_skew).unwrap_or(0)
            };
            broken += usize::from(hard.into_iter().any(full));
        }
    }
    broken
}

//! Where a plan is known to know less than the scheduler will: by rule, seen in case and plan, never by seed.
//!
//! Each is Karpenter's own behaviour that recorded answers demand, and is told to users in docs/scheduling.md. Everything else is a defect.

use crate::case::Case;
use crate::plan::{Plan, Step};
use crate::volumes::claim_names;
use karpenter::scheduling::pod::{NodePolicy, PodTerm, Spread, WhenUnsatisfiable};
use karpenter::scheduling::{InstanceType, NewClaim, Pod, Problem, labels};
use std::sync::Arc;

/// The rule by which a refused placement was to be expected.
pub fn rule(case: &Case, plan: &Plan, step: &Step, refusal: &str) -> Option<&'static str> {
    let uid = step.pod.metadata.uid.as_deref()?;
    let pod = plan.problem.pods.iter().find(|pod| &*pod.uid == uid)?;
    if refusal.contains("pod topology spread constraints") {
        return spread(plan, pod);
    }
    if refusal.contains("pod affinity rules") {
        if first_elsewhere(&plan.problem, pod) {
            return Some("17-13");
        }
        if near_an_open_claim(plan, pod) {
            return Some("17-16");
        }
        if one_term_after_the_other(case, plan, pod) {
            return Some("17-11");
        }
        return meets_one_that_leaves(case, plan, pod, &pod.constraints.affinity).then_some("17-9");
    }
    if refusal.contains("pod anti-affinity rules") && !refusal.contains("existing pods") {
        return meets_one_that_leaves(case, plan, pod, &pod.constraints.anti_affinity).then_some("17-9");
    }
    if refusal.contains("volume node affinity conflict") {
        return shares_a_waiting_claim(case, step).then_some("18-3");
    }
    if refusal.contains("node affinity/selector") {
        return presence_is_lost(pod).then_some("5-7");
    }
    let ports_clash = refusal.contains("free ports") && a_daemon_comes(case, pod);
    ports_clash.then_some("12-6")
}

/// Pods that are bound before the pass and go on, and those that the plan places.
fn others(case: &Case, plan: &Plan, pod: &Pod) -> Vec<Arc<Pod>> {
    let bound = case.bound.iter().map(|bound| Arc::new(Pod::from_api(bound)));
    let planned = plan.problem.pods.iter().cloned();
    let all = bound.filter(|bound| !bound.standing.is_terminal()).chain(planned);
    all.filter(|other| other.uid != pod.uid).collect()
}

/// Each required affinity term is met by itself, in a plan by several pods together; the scheduler looks for one pod that meets all (17-11).
fn one_term_after_the_other(case: &Case, plan: &Plan, pod: &Pod) -> bool {
    let terms = &pod.constraints.affinity;
    let met = |other: &Arc<Pod>| {
        terms
            .iter()
            .filter(|term| selects(&plan.problem, term, pod, other))
            .count()
    };
    let in_part = |other: &Arc<Pod>| (1..terms.len()).contains(&met(other));
    others(case, plan, pod).iter().any(in_part)
}

/// A pod that was asked to go is not counted any more; the scheduler counts it until it is gone (17-9).
fn meets_one_that_leaves(case: &Case, plan: &Plan, pod: &Pod, terms: &[PodTerm]) -> bool {
    let others = others(case, plan, pod);
    let mut leaving = others.iter().filter(|other| other.standing.deleted.is_some());
    leaving.any(|other| terms.iter().any(|term| selects(&plan.problem, term, pod, other)))
}

/// The first pod of a claim that waits decides where its volume is made; a plan is made before (18-3).
fn shares_a_waiting_claim(case: &Case, step: &Step) -> bool {
    let namespace = &step.pod.metadata.namespace;
    let same = |name: &String, other: &k8s_openapi::api::core::v1::Pod| {
        other.metadata.uid != step.pod.metadata.uid
            && other.metadata.namespace == *namespace
            && claim_names(other).contains(name)
    };
    claim_names(&step.pod).iter().any(|name| {
        let waits = case.claims.iter().any(|claim| {
            let spec = claim.spec.as_ref();
            claim.metadata.name.as_ref() == Some(name)
                && claim.metadata.namespace == *namespace
                && spec.is_some_and(|spec| spec.volume_name.is_none())
        });
        waits && case.pods.iter().any(|other| same(name, other))
    })
}

/// `Exists` and `NotIn` of one label together are a `NotIn`, which a machine without the label satisfies too (5-7); even a preferred one.
fn presence_is_lost(pod: &Pod) -> bool {
    let preferred = pod.constraints.preferred_terms.iter().map(|term| &term.term);
    let preferred: Vec<_> = preferred.flat_map(|term| &term.expressions).collect();
    pod.constraints.required_terms.iter().any(|term| {
        let mut needs = term
            .expressions
            .iter()
            .filter(|one| ["Exists", "Gt", "Lt"].contains(&one.operator.as_str()));
        needs.any(|one| {
            let mut all = term.expressions.iter().chain(preferred.iter().copied());
            all.any(|other| other.key == one.key && other.operator == "NotIn")
        })
    })
}

/// A daemon that is not yet on an existing machine takes its host port there when it comes; only new machines are planned with it (12-6).
fn a_daemon_comes(case: &Case, pod: &Pod) -> bool {
    let daemons = case.daemon_sets.iter().filter_map(|set| Pod::for_daemon_set(set, None));
    let theirs: Vec<_> = daemons.flat_map(|daemon| daemon.constraints.ports.clone()).collect();
    pod.constraints
        .ports
        .iter()
        .any(|own| theirs.iter().any(|other| own.conflicts(other)))
}

/// The first of its kind in its own part of the topology is let in, although others that it wants to be near are elsewhere (17-13).
fn first_elsewhere(problem: &Problem, pod: &Pod) -> bool {
    let names = |key: &str| {
        let terms = pod.constraints.required_terms.iter().flat_map(|term| &term.expressions);
        pod.constraints.node_selector.contains_key(key) || terms.into_iter().any(|expression| expression.key == key)
    };
    let affinity = pod.constraints.affinity.iter();
    affinity
        .clone()
        .any(|term| names(&term.topology_key) && selects(problem, term, pod, pod))
}

/// Whom a pod wants to be near is on a claim whose domain was still open, so nobody counted it (17-16).
fn near_an_open_claim(plan: &Plan, pod: &Pod) -> bool {
    pod.constraints.affinity.iter().any(|term| {
        let mut claims = plan.results.new_claims.iter();
        claims.any(|claim| {
            let selected = |other: &Arc<Pod>| other.uid != pod.uid && selects(&plan.problem, term, pod, other);
            claim.pods.iter().any(selected) && was_open(plan, claim, &term.topology_key)
        })
    })
}

fn selects(problem: &Problem, term: &PodTerm, carrier: &Pod, other: &Pod) -> bool {
    let by_label = |selector: &karpenter::scheduling::Selector| {
        let own = problem.namespaces.get(&*other.namespace);
        own.is_some_and(|own| selector.matches(own))
    };
    let named = || term.namespaces.iter().any(|name| **name == *other.namespace);
    let meant = match &term.namespace_selector {
        Some(selector) => by_label(selector) || named(),
        None if term.namespaces.is_empty() => other.namespace == carrier.namespace,
        None => named(),
    };
    meant
        && term
            .selector
            .as_ref()
            .is_some_and(|selector| selector.matches(&other.labels))
}

fn spread(plan: &Plan, pod: &Arc<Pod>) -> Option<&'static str> {
    let hard = pod
        .constraints
        .spread
        .iter()
        .filter(|spread| spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule);
    hard.into_iter().find_map(|spread| {
        if one_key_of_several(pod) {
            return Some("17-9");
        }
        if narrows(pod, &spread.topology_key) && (spread.node_affinity == NodePolicy::Ignore || several_terms(pod)) {
            return Some("17-12");
        }
        counted_on_open_claim(plan, pod, spread)
            .or_else(|| domain_to_come(plan, spread))
            .or_else(|| domain_of_any_value(plan, spread))
            .or_else(|| by_one_term(pod, spread))
    })
}

/// Nodes that lack the key of one of several spreads take no part in any of them; each spread of a plan counts by itself (17-9).
fn one_key_of_several(pod: &Pod) -> bool {
    let keys = pod.constraints.spread.iter().map(|spread| spread.topology_key.as_str());
    keys.filter(|key| *key != labels::HOSTNAME).count() > 1
}

/// Terms are tried one after the other, and those that were given up no longer say which nodes count; the scheduler counts by all of them (17-8).
fn by_one_term(pod: &Pod, spread: &Spread) -> Option<&'static str> {
    (several_terms(pod) && spread.node_affinity == NodePolicy::Honor).then_some("17-8")
}

fn several_terms(pod: &Pod) -> bool {
    pod.constraints.required_terms.len() > 1
}

/// The emptiest domain is looked for among those that the pod may use; the scheduler looks among those that the policy or another of its terms
/// lets in (17-12).
fn narrows(pod: &Pod, key: &str) -> bool {
    let selected = pod.constraints.node_selector.contains_key(key);
    let terms = pod.constraints.required_terms.iter().flat_map(|term| &term.expressions);
    selected || terms.into_iter().any(|expression| expression.key == key)
}

/// A pod on a claim whose domain is open is not counted in any (17-15, 17-16); and one on a claim that does not say what the spread's node filter
/// asks is not counted at all (17-8).
fn counted_on_open_claim(plan: &Plan, pod: &Pod, spread: &Spread) -> Option<&'static str> {
    let counted = |other: &Pod| {
        other.namespace == pod.namespace
            && spread
                .selector
                .as_ref()
                .is_some_and(|selector| selector.matches(&other.labels))
    };
    for claim in &plan.results.new_claims {
        if !claim.pods.iter().any(|other| counted(other)) {
            continue;
        }
        if spread.topology_key != labels::HOSTNAME && was_open(plan, claim, &spread.topology_key) {
            return Some("17-16");
        }
        let asked = pod.constraints.required_terms.iter().flat_map(|term| &term.expressions);
        let mut asked = asked.map(|e| &e.key).chain(pod.constraints.node_selector.keys());
        if spread.node_affinity == NodePolicy::Honor && asked.any(|key| single(claim, key).is_none()) {
            return Some("17-8");
        }
    }
    None
}

/// A machine that was asked for and has no Node yet brings a domain that no pool offers; only its Node makes it known (17-7).
fn domain_to_come(plan: &Plan, spread: &Spread) -> Option<&'static str> {
    let key = &spread.topology_key;
    let offered = |value: &str| {
        plan.problem.pools.iter().any(|pool| {
            let own = pool.claim_requirements();
            let sold = |kind: &Arc<InstanceType>| kind.requirements.get(key).is_some_and(|sold| sold.has(value));
            own.get_or_any(key).has(value) && (pool.instance_types.iter().any(sold) || own.contains(key))
        })
    };
    let to_come = plan.problem.nodes.iter().filter(|node| node.object.is_none());
    let mut domains = to_come.filter_map(|node| node.labels.get(key));
    domains.any(|domain| !offered(domain)).then_some("17-7")
}

/// A NodePool that allows any value of a label brings no domain of it; the machine that is launched then has some value (17-4).
fn domain_of_any_value(plan: &Plan, spread: &Spread) -> Option<&'static str> {
    let key = &spread.topology_key;
    let listed = |value: &str| {
        plan.problem.pools.iter().any(|pool| {
            let own = pool.claim_requirements();
            let kinds = pool.instance_types.iter().map(|kind| &kind.requirements);
            let mut all = kinds.chain([&own]).filter_map(|requirements| requirements.get(key));
            all.any(|requirement| !requirement.is_complement() && requirement.has(value))
        })
    };
    let made = plan
        .nodes
        .iter()
        .filter_map(|node| node.metadata.labels.as_ref()?.get(key));
    let mut strange = made.filter(|value| !listed(value));
    strange.next().map(|_| "17-4")
}

fn single<'a>(claim: &'a NewClaim, key: &str) -> Option<&'a str> {
    claim.requirements.get(key)?.single_value()
}

/// Whether the domain of a claim was open when its first pods came: its pool does not fix it.
fn was_open(plan: &Plan, claim: &NewClaim, key: &str) -> bool {
    let pool = claim.pool_in(&plan.problem.pools).unwrap();
    let own = pool.claim_requirements();
    own.get(key).is_none_or(|own| own.single_value().is_none())
}

//! Anti-affinity, affinity and spread, judged on the finished plan.

use crate::feasibility::{Possible, Seat, labels_fit};
use karpenter::scheduling::pod::{PodTerm, WhenUnsatisfiable};
use karpenter::scheduling::{Pod, Problem, Selector};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The values of a key that a seat may have; none when a machine of it may lack the label.
fn domains(seat: &Seat<'_>, key: &str) -> Option<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for shape in &seat.shapes {
        all.extend(shape.get(key)?.iter().cloned());
    }
    (!all.is_empty()).then_some(all)
}

struct Placed<'a> {
    pod: &'a Arc<Pod>,
    seat: usize,
    planned: bool,
}

fn selects(term: &PodTerm, carrier: &Pod, other: &Pod, problem: &Problem) -> bool {
    let by_label = |selector: &Selector| {
        problem
            .namespaces
            .get(&*other.namespace)
            .is_some_and(|own| selector.matches(own))
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

/// Everything about neighbours that Kubernetes would refuse.
pub fn complaints(problem: &Problem, seats: &[Seat<'_>], found: &mut Vec<String>) {
    let mut all: Vec<Placed<'_>> = Vec::new();
    for (at, seat) in seats.iter().enumerate() {
        let active = seat.there.iter().filter(|pod| pod.standing.is_active());
        all.extend(active.map(|pod| Placed {
            pod,
            seat: at,
            planned: false,
        }));
        all.extend(seat.planned.iter().map(|pod| Placed {
            pod,
            seat: at,
            planned: true,
        }));
    }
    for one in &all {
        for term in &one.pod.constraints.anti_affinity {
            apart(one, term, &all, problem, seats, found);
        }
        for term in one.pod.constraints.affinity.iter().filter(|_| one.planned) {
            near(one, term, &all, problem, seats, found);
        }
    }
    spread(&all, seats, found);
}

/// No pod that the term selects may be in a domain that the carrier's machine may have.
fn apart(
    one: &Placed<'_>,
    term: &PodTerm,
    all: &[Placed<'_>],
    problem: &Problem,
    seats: &[Seat<'_>],
    found: &mut Vec<String>,
) {
    let Some(own) = domains(&seats[one.seat], &term.topology_key) else {
        return;
    };
    for other in all
        .iter()
        .filter(|other| other.pod.uid != one.pod.uid && (one.planned || other.planned))
    {
        let together = domains(&seats[other.seat], &term.topology_key).is_some_and(|theirs| !own.is_disjoint(&theirs));
        // Two pods on one seat are together whatever it becomes; on open seats they only may be.
        let surely = one.seat == other.seat || own.len() == 1;
        if together && surely && selects(term, one.pod, other.pod, problem) {
            found.push(format!(
                "{} does not want {} in its {}",
                one.pod.key(),
                other.pod.key(),
                term.topology_key
            ));
        }
    }
}

/// A pod that the term selects must be in the carrier's domain, or the carrier is the first of its kind.
fn near(
    one: &Placed<'_>,
    term: &PodTerm,
    all: &[Placed<'_>],
    problem: &Problem,
    seats: &[Seat<'_>],
    found: &mut Vec<String>,
) {
    let own = domains(&seats[one.seat], &term.topology_key);
    let others: Vec<&Placed<'_>> = all
        .iter()
        .filter(|other| other.pod.uid != one.pod.uid && selects(term, one.pod, other.pod, problem))
        .collect();
    let joined = others.iter().any(|other| {
        other.seat == one.seat || (own.is_some() && own == domains(&seats[other.seat], &term.topology_key))
    });
    let first = selects(term, one.pod, one.pod, problem)
        && (others.iter().all(|other| other.planned)
            || others.iter().all(|other| !could_join(one, other, term, seats)));
    if !joined && !first {
        found.push(format!(
            "{} is not near what it wants by {}",
            one.pod.key(),
            term.topology_key
        ));
    }
}

/// Whether the pod's own labels let it into the other's domain.
fn could_join(one: &Placed<'_>, other: &Placed<'_>, term: &PodTerm, seats: &[Seat<'_>]) -> bool {
    let Some(theirs) = domains(&seats[other.seat], &term.topology_key) else {
        return false;
    };
    let shape: Possible = BTreeMap::from([(term.topology_key.clone(), theirs)]);
    let only_key = |key: &String| *key == term.topology_key;
    let mut pod = Pod::clone(one.pod);
    let constraints = Arc::make_mut(&mut pod.constraints);
    constraints.node_selector.retain(|key, _| only_key(key));
    for required in &mut constraints.required_terms {
        required.expressions.retain(|expression| only_key(&expression.key));
    }
    labels_fit(&pod, &shape)
}

/// Where every pod that a hard spread counts carries that spread itself, the finished plan must be within its skew.
fn spread(all: &[Placed<'_>], seats: &[Seat<'_>], found: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for one in all.iter().filter(|one| one.planned) {
        let hard = one
            .pod
            .constraints
            .spread
            .iter()
            .filter(|s| s.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule);
        for rule in hard.filter(|rule| rule.match_label_keys.is_empty()) {
            let Some(selector) = &rule.selector else { continue };
            if !seen.insert((one.pod.namespace.clone(), rule.clone())) {
                continue;
            }
            let counted: Vec<&Placed<'_>> = all
                .iter()
                .filter(|other| other.pod.namespace == one.pod.namespace && selector.matches(&other.pod.labels))
                .collect();
            let same = |other: &&&Placed<'_>| {
                other.planned
                    && other.pod.constraints.spread.contains(rule)
                    && other.pod.constraints.node_selector == one.pod.constraints.node_selector
                    && other.pod.constraints.required_terms == one.pod.constraints.required_terms
            };
            if counted.iter().filter(same).count() != counted.len() {
                continue;
            }
            let mut pods: BTreeMap<String, i32> = BTreeMap::new();
            for seat in seats
                .iter()
                .filter(|seat| seat.shapes.iter().all(|shape| labels_fit(one.pod, shape)))
            {
                let own = domains(seat, &rule.topology_key).filter(|own| own.len() == 1);
                for domain in own.into_iter().flatten() {
                    pods.entry(domain).or_default();
                }
            }
            for other in &counted {
                let own = domains(&seats[other.seat], &rule.topology_key).filter(|own| own.len() == 1);
                for domain in own.into_iter().flatten() {
                    *pods.entry(domain).or_default() += 1;
                }
            }
            let least = if rule.topology_key == "kubernetes.io/hostname" {
                0
            } else {
                pods.values().min().copied().unwrap_or(0)
            };
            let most = pods.values().max().copied().unwrap_or(0);
            if most - least > rule.max_skew {
                found.push(format!(
                    "{} is spread {most} to {least} by {}",
                    one.pod.key(),
                    rule.topology_key
                ));
            }
        }
    }
}

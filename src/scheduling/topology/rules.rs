//! The rules that a pod's constraints bring (scheduling 17-8, 17-10).

use super::group::{Filter, Kind, Rule};
use crate::scheduling::pod::{Constraints, NodePolicy, PodTerm, Preferences, Spread, WhenUnsatisfiable};
use crate::scheduling::requirements::Requirements;
use crate::scheduling::results::Ties;
use crate::scheduling::symbols::Symbols;
use crate::scheduling::taints::Toleration;
use std::collections::{BTreeMap, BTreeSet};

type Labels = BTreeMap<String, String>;

/// Whose rules are made.
pub(in crate::scheduling) struct Carrier<'a> {
    pub(in crate::scheduling) namespace: &'a str,
    pub(in crate::scheduling) labels: &'a Labels,
    pub(in crate::scheduling) constraints: &'a Constraints,
    pub(in crate::scheduling) ties: Ties,
}

/// The rules a pod must obey.
pub(in crate::scheduling) fn own_rules(
    carrier: &Carrier<'_>,
    preferences: Preferences,
    namespaces: &BTreeMap<String, Labels>,
    symbols: &mut Symbols,
) -> Vec<Rule> {
    let constraints = carrier.constraints;
    let respected = preferences == Preferences::Respect;
    let mut rules = Vec::new();
    for spread in &constraints.spread {
        if respected || spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule {
            rules.push(spread_rule(carrier, spread, symbols));
        }
    }
    let soft_near = constraints
        .preferred_affinity
        .iter()
        .map(|p| &p.term)
        .filter(|_| respected);
    let soft_far = constraints
        .preferred_anti_affinity
        .iter()
        .map(|p| &p.term)
        .filter(|_| respected);
    for term in constraints.affinity.iter().chain(soft_near) {
        rules.push(term_rule(Kind::Affinity, carrier.namespace, term, namespaces, symbols));
    }
    for term in constraints.anti_affinity.iter().chain(soft_far) {
        rules.push(term_rule(
            Kind::AntiAffinity,
            carrier.namespace,
            term,
            namespaces,
            symbols,
        ));
    }
    rules
}

/// The rules that a pod imposes on others: its required anti-affinity, seen from their side.
pub(in crate::scheduling) fn imposed_rules(
    namespace: &str,
    constraints: &Constraints,
    namespaces: &BTreeMap<String, Labels>,
    symbols: &mut Symbols,
) -> Vec<Rule> {
    let terms = constraints.anti_affinity.iter();
    terms
        .map(|term| term_rule(Kind::InverseAntiAffinity, namespace, term, namespaces, symbols))
        .collect()
}

fn spread_rule(carrier: &Carrier<'_>, spread: &Spread, symbols: &mut Symbols) -> Rule {
    let mut selector = spread.selector.clone();
    for key in &spread.match_label_keys {
        // Differs: a copy is extended, never the pod's own selector; without selector there is nothing to extend (scheduling 17-10).
        if let (Some(own), Some(value)) = (&selector, carrier.labels.get(key)) {
            selector = Some(own.with_label(key, value));
        }
    }
    Rule {
        kind: Kind::Spread,
        key: symbols.key(&spread.topology_key),
        namespaces: BTreeSet::from([carrier.namespace.to_owned()]),
        selector,
        max_skew: spread.max_skew,
        min_domains: spread.min_domains,
        filter: filter(carrier, spread, symbols),
        brought_with: match carrier.ties {
            Ties::Product => Vec::new(),
            Ties::ByName => carrier.constraints.tolerations.clone(),
        },
    }
}

/// Which nodes count for a spread (scheduling 17-8).
///
/// Differs: a taint that only asks to be avoided lets a node count, as with the scheduler; upstream leaves it out.
fn filter(carrier: &Carrier<'_>, spread: &Spread, symbols: &mut Symbols) -> Filter {
    let constraints = carrier.constraints;
    let selector = Requirements::from_labels(&constraints.node_selector);
    let wishes = if spread.node_affinity == NodePolicy::Ignore {
        Vec::new()
    } else if constraints.required_terms.is_empty() {
        if selector.is_empty() {
            Vec::new()
        } else {
            vec![symbols.wish(&selector)]
        }
    } else {
        let terms = constraints.required_terms.iter();
        terms
            .map(|term| symbols.wish(&selector.and(&term.requirements())))
            .collect()
    };
    let tolerations = (spread.node_taints == NodePolicy::Honor).then(|| {
        let soft = (carrier.ties == Ties::Product).then(Toleration::prefer_no_schedule);
        constraints.tolerations.iter().cloned().chain(soft).collect()
    });
    Filter { wishes, tolerations }
}

fn term_rule(
    kind: Kind,
    own_namespace: &str,
    term: &PodTerm,
    namespaces: &BTreeMap<String, Labels>,
    symbols: &mut Symbols,
) -> Rule {
    let mut meant: BTreeSet<String> = term.namespaces.iter().cloned().collect();
    match &term.namespace_selector {
        Some(selector) => {
            meant.extend(
                namespaces
                    .iter()
                    .filter(|(_, labels)| selector.matches(labels))
                    .map(|(name, _)| name.clone()),
            );
        }
        None if meant.is_empty() => {
            meant.insert(own_namespace.to_owned());
        }
        None => {}
    }
    Rule {
        kind,
        key: symbols.key(&term.topology_key),
        namespaces: meant,
        selector: term.selector.clone(),
        max_skew: 0,
        min_domains: None,
        filter: Filter::default(),
        brought_with: Vec::new(),
    }
}

//! One topology rule and the pods counted by it, per domain (scheduling 17-1).

use crate::scheduling::pod::Selector;
use crate::scheduling::symbols::{Key, Set, Symbols, Value, Wish};
use crate::scheduling::taints::{self, Taint, Toleration};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a rule asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::scheduling) enum Kind {
    Spread,
    Affinity,
    AntiAffinity,
    /// Seen from the other side: pods that carry the anti-affinity are counted, pods that it selects are kept away (scheduling 17-1).
    InverseAntiAffinity,
}

impl Kind {
    /// Whether a pod on a claim whose domain is still open counts in all domains it may have (scheduling 17-15, 17-16).
    pub(in crate::scheduling) const fn counts_open_claims(self) -> bool {
        matches!(self, Self::AntiAffinity | Self::InverseAntiAffinity)
    }

    /// As messages call it.
    pub(in crate::scheduling) const fn as_str(self) -> &'static str {
        match self {
            Self::Spread => "topology spread",
            Self::Affinity => "pod affinity",
            Self::AntiAffinity | Self::InverseAntiAffinity => "pod anti-affinity",
        }
    }
}

/// Which nodes count for a spread (scheduling 17-8). Empty vectors accept every node.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::scheduling) struct Filter {
    /// A node must satisfy one of these; none means no check.
    pub(in crate::scheduling) wishes: Vec<Wish>,
    /// A node's taints must be tolerated by these; none means no check.
    pub(in crate::scheduling) tolerations: Option<Vec<Toleration>>,
}

impl Filter {
    /// Whether a node with these taints and labels counts. Undefined labels never do where they are asked for.
    pub(in crate::scheduling) fn passes(
        &self,
        taints: &[Taint],
        set: Set,
        host: Option<Value>,
        symbols: &mut Symbols,
    ) -> bool {
        let tolerated = self
            .tolerations
            .as_ref()
            .is_none_or(|own| taints::tolerates_all(taints, own));
        tolerated
            && (self.wishes.is_empty()
                || self.wishes.iter().any(|wish| {
                    let host_fits = wish.host.is_none_or(|req| match host {
                        Some(host) => symbols.has(req, host),
                        None => symbols.terms(req).complement && !symbols.terms(req).values.is_empty(),
                    });
                    host_fits && symbols.compatible_strictly(set, wish.set)
                }))
    }
}

/// What makes two rules one group: everything.
///
/// Differs: upstream overlooks the values in the filter and `minDomains`, and tells spreads apart by tolerations that they do not look at
/// (scheduling 17-3).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::scheduling) struct Rule {
    pub(in crate::scheduling) kind: Kind,
    pub(in crate::scheduling) key: Key,
    pub(in crate::scheduling) namespaces: BTreeSet<String>,
    pub(in crate::scheduling) selector: Option<Selector>,
    /// 0 where it has no meaning.
    pub(in crate::scheduling) max_skew: i32,
    pub(in crate::scheduling) min_domains: Option<i32>,
    pub(in crate::scheduling) filter: Filter,
    /// For comparison with recorded answers only: the tolerations of the pod that brought it.
    pub(in crate::scheduling) brought_with: Vec<Toleration>,
}

impl Rule {
    /// Whether the rule's pods include one with these labels in this namespace (scheduling 17-2).
    pub(in crate::scheduling) fn selects(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        self.namespaces.contains(namespace) && self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    /// Whether its domains are only those that the pod which brings it has access to (scheduling 17-6).
    pub(in crate::scheduling) const fn looks_at_taints(&self) -> bool {
        !matches!(self.kind, Kind::Spread) || self.filter.tolerations.is_some()
    }
}

/// Domains beyond which a group keeps an index of them.
const FEW: usize = 16;

/// No domain.
const NOWHERE: u32 = u32::MAX;

/// A rule and its counts.
///
/// The domains of hostname rules are the machines and claims on which something was counted: a machine without is known by being there, and
/// no choice asks for it (scheduling 17-17).
#[derive(Debug, Clone)]
pub(in crate::scheduling) struct Group {
    pub(in crate::scheduling) rule: Arc<Rule>,
    /// Known domains and the pods counted in each; first those that machines could have.
    domains: Vec<(Value, i32)>,
    /// How many of them machines could have.
    possible: usize,
    /// For each value its place among the domains, once there are more than a few.
    places: Vec<u32>,
    /// Known domains with at least one pod.
    pub(in crate::scheduling) populated: usize,
}

impl Group {
    /// A group with the domains that machines could have (scheduling 17-6).
    pub(in crate::scheduling) fn new(rule: Arc<Rule>, possible: impl Iterator<Item = Value>) -> Self {
        let mut group = Self {
            rule,
            domains: Vec::new(),
            possible: 0,
            places: Vec::new(),
            populated: 0,
        };
        possible.for_each(|domain| group.register(domain));
        group.possible = group.domains.len();
        group
    }

    fn place(&self, domain: Value) -> Option<usize> {
        if self.places.is_empty() {
            return self.domains.iter().position(|(known, _)| *known == domain);
        }
        let place = *self.places.get(domain.index())?;
        (place != NOWHERE).then_some(place as usize)
    }

    /// The known domains with the pods counted in each.
    pub(in crate::scheduling) fn known(&self) -> impl Iterator<Item = (Value, i32)> {
        self.domains.iter().copied()
    }

    /// The pods counted in a domain; none when the domain is not known.
    pub(in crate::scheduling) fn count(&self, domain: Value) -> Option<i32> {
        let (_, pods) = self.domains.get(self.place(domain)?)?;
        Some(*pods)
    }

    /// Whether a domain is known although machines to come could not have it.
    pub(in crate::scheduling) fn has_more_than_possible(&self) -> bool {
        self.domains.len() > self.possible
    }

    /// Makes a domain known (scheduling 17-17).
    pub(in crate::scheduling) fn register(&mut self, domain: Value) {
        self.registered(domain);
    }

    fn registered(&mut self, domain: Value) -> usize {
        if let Some(place) = self.place(domain) {
            return place;
        }
        let place = self.domains.len();
        self.domains.push((domain, 0));
        if !self.places.is_empty() {
            self.index(place);
        } else if place >= FEW {
            (0..=place).for_each(|place| self.index(place));
        }
        place
    }

    fn index(&mut self, place: usize) {
        let Some((domain, _)) = self.domains.get(place) else {
            return;
        };
        if domain.index() >= self.places.len() {
            self.places.resize(domain.index() + 1, NOWHERE);
        }
        if let Some(entry) = self.places.get_mut(domain.index()) {
            *entry = u32::try_from(place).unwrap_or(NOWHERE);
        }
    }

    /// Counts pods in a domain, which becomes known.
    pub(in crate::scheduling) fn record(&mut self, domain: Value, pods: i32) {
        let place = self.registered(domain);
        if let Some((_, count)) = self.domains.get_mut(place) {
            self.populated += usize::from(*count == 0 && pods > 0);
            *count = count.saturating_add(pods);
        }
    }

    /// Takes a pod out of a domain's count; says whether none is left there.
    pub(in crate::scheduling) fn take(&mut self, domain: Value) -> bool {
        let Some((_, count)) = self.place(domain).and_then(|place| self.domains.get_mut(place)) else {
            return false;
        };
        let emptied = *count == 1;
        *count -= i32::from(*count > 0);
        self.populated -= usize::from(emptied);
        emptied
    }

    /// Makes a domain unknown, unless machines could have it.
    pub(in crate::scheduling) fn forget(&mut self, domain: Value) {
        let Some(place) = self.place(domain).filter(|place| *place >= self.possible) else {
            return;
        };
        let (_, count) = self.domains.swap_remove(place);
        self.populated -= usize::from(count > 0);
        if let Some(entry) = self.places.get_mut(domain.index()) {
            *entry = NOWHERE;
            self.index(place);
        }
    }

    /// Sets a domain back to what it was; none: not known.
    pub(in crate::scheduling) fn restore(&mut self, domain: Value, before: Option<i32>) {
        let Some(before) = before else {
            self.forget(domain);
            return;
        };
        let place = self.registered(domain);
        if let Some((_, count)) = self.domains.get_mut(place) {
            self.populated -= usize::from(*count > 0);
            self.populated += usize::from(before > 0);
            *count = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::symbols::Symbols;
    use proptest::prelude::*;

    fn group(possible: &[Value], symbols: &mut Symbols) -> Group {
        let rule = Rule {
            kind: Kind::Spread,
            key: symbols.key("zone"),
            namespaces: BTreeSet::new(),
            selector: None,
            max_skew: 1,
            min_domains: None,
            filter: Filter::default(),
            brought_with: Vec::new(),
        };
        Group::new(Arc::new(rule), possible.iter().copied())
    }

    proptest! {
        #[test]
        fn counts_are_what_a_map_would_hold_and_can_be_set_back(
            steps in proptest::collection::vec((0_usize..3, 0_usize..40), 0..120), half in 0_usize..120,
        ) {
            let mut symbols = Symbols::new(Arc::default());
            let key = symbols.key("zone");
            let values: Vec<Value> = (0..40).map(|n| symbols.value(key, &n.to_string())).collect();
            let mut group = group(&values[..3], &mut symbols);
            let mut expected: BTreeMap<Value, i32> = values[..3].iter().map(|value| (*value, 0)).collect();
            let mut saved = (expected.clone(), Vec::new());
            for (at, (what, which)) in steps.into_iter().enumerate() {
                if at == half {
                    saved = (expected.clone(), Vec::new());
                }
                let domain = values[which];
                saved.1.push((domain, group.count(domain)));
                match what {
                    0 => {
                        group.record(domain, 1);
                        *expected.entry(domain).or_insert(0) += 1;
                    }
                    1 => {
                        let emptied = group.take(domain);
                        let count = expected.get_mut(&domain);
                        prop_assert_eq!(emptied, count.as_deref() == Some(&1));
                        if let Some(count) = count {
                            *count -= i32::from(*count > 0);
                        }
                    }
                    _ => {
                        group.forget(domain);
                        if which >= 3 {
                            expected.remove(&domain);
                        }
                    }
                }
                prop_assert_eq!(&group.known().collect::<BTreeMap<_, _>>(), &expected);
                prop_assert_eq!(group.populated, expected.values().filter(|count| **count > 0).count());
                prop_assert!(values.iter().all(|value| group.count(*value) == expected.get(value).copied()));
            }
            for (domain, before) in saved.1.into_iter().rev() {
                group.restore(domain, before);
            }
            prop_assert_eq!(group.known().collect::<BTreeMap<_, _>>(), saved.0);
        }
    }
}

//! One topology rule and the pods counted by it, per domain (scheduling 17-1).

use crate::scheduling::pod::Selector;
use crate::scheduling::symbols::{Key, Set, Symbols, Value, Wish};
use crate::scheduling::taints::{self, Taint, Toleration};
use std::collections::{BTreeMap, BTreeSet};

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
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels)) && self.namespaces.contains(namespace)
    }
}

/// A domain that is not known to a group.
const UNKNOWN: i32 = -1;

/// A rule and its counts.
#[derive(Debug, Clone)]
pub(in crate::scheduling) struct Group {
    pub(in crate::scheduling) rule: Rule,
    /// Known domains, in the order they became known.
    pub(in crate::scheduling) domains: Vec<Value>,
    counts: Vec<i32>,
    /// Known domains with at least one pod.
    pub(in crate::scheduling) populated: usize,
}

impl Group {
    pub(in crate::scheduling) const fn new(rule: Rule) -> Self {
        Self {
            rule,
            domains: Vec::new(),
            counts: Vec::new(),
            populated: 0,
        }
    }

    /// The pods counted in a domain; none when the domain is not known.
    pub(in crate::scheduling) fn count(&self, domain: Value) -> Option<i32> {
        self.counts
            .get(domain.index())
            .copied()
            .filter(|count| *count != UNKNOWN)
    }

    /// Makes a domain known (scheduling 17-17).
    pub(in crate::scheduling) fn register(&mut self, domain: Value) {
        let at = domain.index();
        if at >= self.counts.len() {
            self.counts.resize(at + 1, UNKNOWN);
        }
        if let Some(count) = self.counts.get_mut(at).filter(|count| **count == UNKNOWN) {
            *count = 0;
            self.domains.push(domain);
        }
    }

    /// Counts pods in a domain.
    pub(in crate::scheduling) fn record(&mut self, domain: Value, pods: i32) {
        self.register(domain);
        if let Some(count) = self.counts.get_mut(domain.index()) {
            self.populated += usize::from(*count == 0 && pods > 0);
            *count = count.saturating_add(pods);
        }
    }
}

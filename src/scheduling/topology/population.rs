//! The pods that are bound already, grouped by what selectors can see of them (scheduling 17-9).

use super::group::{Group, Kind, Rule};
use super::universe::Universe;
use crate::scheduling::problem::{Fate, Node, NodeObject};
use crate::scheduling::symbols::{Key, Set, Symbols, Value};
use crate::scheduling::taints::Toleration;
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bound pods that no selector can tell apart.
#[derive(Debug)]
struct Crowd {
    namespace: String,
    labels: BTreeMap<String, String>,
    /// Place of a node, and how many of them are there.
    nodes: Vec<(usize, i32)>,
}

/// What topology sees of a node.
#[derive(Debug)]
struct Place {
    /// The Node object, its labels as a set, and its hostname label.
    object: Option<(Arc<Node>, Set, Option<Value>)>,
    fate: Fate,
}

impl Place {
    fn object(&self) -> Option<(&NodeObject, Set, Option<Value>)> {
        let (node, set, host) = self.object.as_ref()?;
        Some((node.object.as_ref()?, *set, *host))
    }
}

/// Labels in the order of their keys.
type Labels<'a> = Vec<(&'a str, &'a str)>;

/// Everything that is there before the pass begins.
#[derive(Debug, Default)]
pub(in crate::scheduling) struct Population {
    crowds: Vec<Crowd>,
    places: Vec<Place>,
}

impl Population {
    /// Counts the bound pods of the nodes; those of `excluded` (by UID) are being placed anew. `seen` says which labels any selector looks at.
    pub(in crate::scheduling) fn of(
        nodes: &[Arc<Node>],
        excluded: &FxHashSet<&str>,
        seen: &BTreeSet<String>,
        symbols: &mut Symbols,
    ) -> Self {
        // By namespace and the labels that matter: how many there are on each node.
        let mut crowds: BTreeMap<(&str, Labels<'_>), BTreeMap<usize, i32>> = BTreeMap::new();
        let mut places = Vec::with_capacity(nodes.len());
        for (at, node) in nodes.iter().enumerate() {
            let object = node.object.as_ref().map(|object| {
                let wish = symbols.wish(&crate::scheduling::Requirements::from_labels(&*object.labels));
                let host = wish.host.and_then(|req| symbols.terms(req).single());
                (Arc::clone(node), wish.set, host)
            });
            places.push(Place {
                object,
                fate: node.fate,
            });
            let counted = node
                .pods
                .iter()
                .filter(|pod| pod.standing.is_active() && !excluded.contains(&*pod.uid));
            for pod in counted.filter(|_| node.object.is_some()) {
                let labels: Labels<'_> = pod
                    .labels
                    .iter()
                    .filter(|(k, _)| seen.contains(*k))
                    .map(|(k, v)| (k.as_str(), v.as_str()))
                    .collect();
                *crowds
                    .entry((&pod.namespace, labels))
                    .or_default()
                    .entry(at)
                    .or_default() += 1;
            }
        }
        let owned = |labels: Labels<'_>| labels.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let crowds = crowds.into_iter().map(|((namespace, labels), nodes)| Crowd {
            namespace: namespace.to_owned(),
            labels: owned(labels),
            nodes: nodes.into_iter().collect(),
        });
        Self {
            crowds: crowds.collect(),
            places,
        }
    }

    /// The domain of a node for counting: its label; for the hostname its name where the label is missing (scheduling 17-9).
    fn domain(&self, at: usize, key: Key, symbols: &mut Symbols) -> Option<Value> {
        let (object, set, host) = self.places.get(at)?.object()?;
        if key == symbols.hostname() {
            return Some(host.unwrap_or_else(|| symbols.value(key, &object.name)));
        }
        let req = symbols.get(set, key)?;
        symbols.terms(req).single()
    }

    /// The label of a node, without the fallback for the hostname.
    pub(in crate::scheduling) fn label(&self, at: usize, key: Key, symbols: &Symbols) -> Option<Value> {
        let (_, set, host) = self.places.get(at)?.object()?;
        if key == symbols.hostname() {
            host
        } else {
            symbols.terms(symbols.get(set, key)?).single()
        }
    }

    /// A new group with its domains and with the bound pods counted (scheduling 17-6, 17-7, 17-9). `tolerations` are those of the pod that
    /// brings the rule.
    pub(in crate::scheduling) fn group(
        &self,
        rule: &Arc<Rule>,
        tolerations: &[Toleration],
        universe: &Universe,
        symbols: &mut Symbols,
    ) -> Group {
        let looked_at = match rule.kind {
            Kind::Spread => rule.filter.tolerations.as_deref(),
            _ => Some(tolerations),
        };
        let mut group = Group::new(Arc::clone(rule), universe.domains(rule.key, looked_at));
        // An inverse group knows only the domains that machines could have: upstream looks at no node when it makes one.
        if rule.kind == Kind::InverseAntiAffinity {
            return group;
        }
        if rule.key != symbols.hostname() {
            for at in 0..self.places.len() {
                if let Some(domain) = self.shown(at, rule, symbols) {
                    group.register(domain);
                }
            }
        }
        self.count(&mut group, symbols);
        group
    }

    /// The domain that a staying node makes known to a rule that is not about hostnames (scheduling 17-7).
    fn shown(&self, at: usize, rule: &Rule, symbols: &mut Symbols) -> Option<Value> {
        let place = self.places.get(at).filter(|place| place.fate == Fate::Stays)?;
        let (object, set, host) = place.object()?;
        let domain = self.label(at, rule.key, symbols)?;
        rule.filter.passes(&object.taints, set, host, symbols).then_some(domain)
    }

    /// Whether a staying node other than those gone makes the domain known to the rule.
    pub(in crate::scheduling) fn still_shown(
        &self,
        domain: Value,
        rule: &Rule,
        gone: &[usize],
        symbols: &mut Symbols,
    ) -> bool {
        (0..self.places.len()).any(|at| {
            self.label(at, rule.key, symbols) == Some(domain)
                && !gone.contains(&at)
                && self.shown(at, rule, symbols).is_some()
        })
    }

    fn count(&self, group: &mut Group, symbols: &mut Symbols) {
        let rule = Arc::clone(&group.rule);
        for crowd in self
            .crowds
            .iter()
            .filter(|crowd| rule.selects(&crowd.namespace, &crowd.labels))
        {
            for (at, pods) in &crowd.nodes {
                if let Some(domain) = self.counted_in(*at, &rule, symbols) {
                    group.record(domain, *pods);
                }
            }
        }
    }

    /// The domain in which a rule counts a node's pods; none when the node does not count (scheduling 17-8, 17-9).
    pub(in crate::scheduling) fn counted_in(&self, at: usize, rule: &Rule, symbols: &mut Symbols) -> Option<Value> {
        let (object, set, host) = self.places.get(at)?.object()?;
        let passes = rule.filter.passes(&object.taints, set, host, symbols);
        passes.then(|| self.domain(at, rule.key, symbols)).flatten()
    }
}

//! The pods that are bound already, grouped by what selectors can see of them (scheduling 17-9).

use super::group::{Group, Kind, Rule};
use super::universe::Universe;
use crate::scheduling::problem::{Fate, Node, NodeObject};
use crate::scheduling::symbols::{Key, Set, Symbols, Value};
use crate::scheduling::taints::Toleration;
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
        excluded: &BTreeSet<&str>,
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
                .filter(|pod| pod.standing.is_active() && !excluded.contains(pod.uid.as_str()));
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
        rule: Rule,
        tolerations: &[Toleration],
        universe: &Universe,
        symbols: &mut Symbols,
    ) -> Group {
        let looks_at_taints = rule.kind != Kind::Spread || rule.filter.tolerations.is_some();
        let mut group = Group::new(rule);
        for domain in universe.domains(group.rule.key, looks_at_taints.then_some(tolerations)) {
            group.register(domain);
        }
        // An inverse group knows only the domains that machines could have: upstream looks at no node when it makes one.
        if group.rule.kind == Kind::InverseAntiAffinity {
            return group;
        }
        for (at, place) in self
            .places
            .iter()
            .enumerate()
            .filter(|(_, place)| place.fate == Fate::Stays)
        {
            let Some((object, set, host)) = place.object() else {
                continue;
            };
            if let Some(domain) = self.label(at, group.rule.key, symbols)
                && group.rule.filter.passes(&object.taints, set, host, symbols)
            {
                group.register(domain);
            }
        }
        self.count(&mut group, symbols);
        group
    }

    fn count(&self, group: &mut Group, symbols: &mut Symbols) {
        for crowd in &self.crowds {
            if !group.rule.selects(&crowd.namespace, &crowd.labels) {
                continue;
            }
            for (at, pods) in &crowd.nodes {
                let Some((object, set, host)) = self.places.get(*at).and_then(Place::object) else {
                    continue;
                };
                if group.rule.filter.passes(&object.taints, set, host, symbols)
                    && let Some(domain) = self.domain(*at, group.rule.key, symbols)
                {
                    group.record(domain, *pods);
                }
            }
        }
    }
}

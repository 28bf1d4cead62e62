//! Pods grouped by shape: what cannot be told apart is worked out once (architecture §5).
//!
//! Two pods have one shape when their namespace, the labels any selector looks at, their requests, constraints and device claims are equal.
//! A [`Variant`] is a shape after some steps of relaxation; what is found out about a variant and a candidate that can never change in this
//! pass is remembered in its [`Memory`].

use super::amounts::{Amounts, Places};
use super::labels;
use super::pod::{Constraints, Pod, PodTerm, Preferences, Selector};
use super::problem::{Node, Problem};
use super::requirements::Requirement;
use super::results::Ties;
use super::symbols::{Key, Symbols, Wish};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Number of a topology group.
pub(super) type GroupId = usize;

/// Interchangeable pods.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    /// Any of them.
    pub(super) pod: Arc<Pod>,
    pub(super) requests: Amounts,
    /// What the volumes leave; a single empty wish when there is no constraint (scheduling 15-2.6).
    pub(super) alternatives: Vec<Wish>,
    /// The claims it would attach, by driver.
    pub(super) attachments: BTreeMap<String, BTreeSet<String>>,
    pub(super) variants: Vec<Arc<Variant>>,
    pub(super) memories: Vec<Memory>,
    /// Nothing is left to relax after the last variant.
    pub(super) exhausted: bool,
    /// Groups that count such a pod, in the order they came to be.
    pub(super) counted_by: Vec<GroupId>,
    /// Inverse groups that keep such a pod away.
    pub(super) kept_away_by: Vec<GroupId>,
    /// Groups looked at so far for the two lists above.
    pub(super) groups_seen: usize,
    /// The number of placements when it last failed; until another pod is placed it need not be tried again.
    pub(super) failed_at: Option<u64>,
}

/// A shape after some steps of relaxation.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) constraints: Arc<Constraints>,
    /// What it wants of a node's labels, preferences included where they are respected (scheduling 13-7).
    pub(super) wish: Wish,
    /// The same without preferences.
    pub(super) strict: Wish,
    /// The rules it must obey, and whether each counts the pod itself.
    pub(super) groups: Vec<(GroupId, bool)>,
    /// Its required anti-affinity, seen from the other side.
    pub(super) imposed: Vec<GroupId>,
}

/// The labels of nodes that the pods ask for, preferences and alternatives included.
pub(super) fn asked_labels(shapes: &[Shape], symbols: &mut Symbols) -> BTreeSet<Key> {
    let mut asked = BTreeSet::new();
    for constraints in shapes.iter().map(|shape| &shape.pod.constraints) {
        let preferred = constraints.preferred_terms.iter().map(|preference| &preference.term);
        let terms = constraints.required_terms.iter().chain(preferred);
        let of_terms = terms.flat_map(|term| term.expressions.iter().map(|expression| &expression.key));
        for key in constraints.node_selector.keys().chain(of_terms) {
            asked.insert(symbols.key(labels::normalised(key)));
        }
    }
    asked
}

/// Candidates that can never take a variant in this pass.
#[derive(Debug, Default, Clone)]
pub(super) struct Memory {
    /// The what-if that this is about.
    pub(super) epoch: u32,
    pub(super) nodes: Vec<u64>,
    pub(super) claims: Vec<u64>,
    pub(super) templates: Vec<u64>,
}

#[derive(PartialEq, Eq, Hash)]
struct Likeness<'a> {
    namespace: &'a str,
    labels: Vec<(&'a str, &'a str)>,
    requests: Vec<(&'a str, i128)>,
    constraints: &'a Constraints,
    /// Only where volumes are mounted: the names of generic ephemeral claims contain the pod's.
    volumes_of: Option<&'a str>,
}

/// The labels that some selector of the pods or of bound pods looks at, or that a spread adds to its selector.
pub(super) fn selected_labels<'a>(
    pods: impl Iterator<Item = &'a Arc<Pod>>,
    nodes: &'a [Arc<Node>],
) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let bound = nodes.iter().flat_map(|node| &node.pods);
    let bound = bound.filter(|pod| !pod.constraints.anti_affinity.is_empty());
    let mut looked_at: FxHashSet<*const Constraints> = FxHashSet::default();
    for constraints in pods.chain(bound).map(|pod| &pod.constraints) {
        // Siblings share their constraints.
        if looked_at.insert(Arc::as_ptr(constraints)) {
            note_selected(&mut seen, constraints);
        }
    }
    seen
}

fn note_selected(seen: &mut BTreeSet<String>, constraints: &Constraints) {
    for spread in &constraints.spread {
        note(seen, spread.selector.iter().flat_map(Selector::keys));
        note(seen, spread.match_label_keys.iter().map(String::as_str));
    }
    let soft = constraints
        .preferred_affinity
        .iter()
        .chain(&constraints.preferred_anti_affinity)
        .map(|p| &p.term);
    let terms: Vec<&PodTerm> = constraints
        .affinity
        .iter()
        .chain(&constraints.anti_affinity)
        .chain(soft)
        .collect();
    for term in terms {
        note(seen, term.selector.iter().flat_map(Selector::keys));
    }
}

fn note<'a>(seen: &mut BTreeSet<String>, keys: impl Iterator<Item = &'a str>) {
    for key in keys {
        if !seen.contains(key) {
            seen.insert(key.to_owned());
        }
    }
}

/// The shapes of the pods, and for each pod the number of its shape. Shapes are numbered by the order of their first pod.
pub(super) fn group<'a>(
    pods: &'a [Arc<Pod>],
    seen: &'a BTreeSet<String>,
    problem: &Problem,
    places: &Places,
    symbols: &mut Symbols,
) -> (Vec<Shape>, Vec<usize>) {
    let mut index: FxHashMap<Likeness<'a>, usize> = FxHashMap::default();
    let mut shapes = Vec::new();
    let mut shape_of = Vec::with_capacity(pods.len());
    for pod in pods {
        let labels = pod.labels.iter().filter(|(key, _)| seen.contains(*key));
        let likeness = Likeness {
            namespace: &pod.namespace,
            labels: labels.map(|(key, value)| (key.as_str(), value.as_str())).collect(),
            requests: pod
                .requests
                .iter()
                .map(|(name, quantity)| (name, quantity.nanos()))
                .collect(),
            constraints: &pod.constraints,
            volumes_of: (!pod.constraints.volume_claims.is_empty()).then_some(&*pod.name),
        };
        let number = *index.entry(likeness).or_insert_with(|| {
            shapes.push(shape(pod, problem, places, symbols));
            shapes.len() - 1
        });
        shape_of.push(number);
    }
    (shapes, shape_of)
}

/// Pods whose volumes cannot be looked up are left out before (scheduling 2-5), so failures here mean "no constraint".
fn shape(pod: &Arc<Pod>, problem: &Problem, places: &Places, symbols: &mut Symbols) -> Shape {
    let alternatives = problem.volumes.alternatives(pod).unwrap_or_default();
    let mut alternatives: Vec<Wish> = alternatives.iter().map(|one| symbols.wish(one)).collect();
    if alternatives.is_empty() {
        alternatives.push(Wish::ANY);
    }
    Shape {
        pod: Arc::clone(pod),
        requests: places.asked_amounts(&pod.requests),
        alternatives,
        attachments: problem.volumes.attachments(pod).unwrap_or_default(),
        variants: Vec::new(),
        memories: Vec::new(),
        exhausted: false,
        counted_by: Vec::new(),
        kept_away_by: Vec::new(),
        groups_seen: 0,
        failed_at: None,
    }
}

/// A label that no machine has, wanted where a pod's own requirements exclude each other.
const NOWHERE: &str = "karpenter.sh/nowhere";

/// What constraints want of a node's labels: with preferences as the policy says, and strictly (scheduling 13-7).
///
/// Differs: requirements that exclude each other are satisfied by no machine; upstream takes them for a label that shall not be there and finds
/// it missing, where the scheduler will never bind the pod (scheduling 5-7).
pub(super) fn wishes(
    constraints: &Constraints,
    policy: Preferences,
    ties: Ties,
    symbols: &mut Symbols,
) -> (Wish, Wish) {
    let mut wish_with = |preferences: Preferences| {
        let mut wanted = constraints.node_requirements(preferences);
        if ties == Ties::Product && !constraints.contradictions(preferences).is_empty() {
            wanted.add(Requirement::exists(NOWHERE));
        }
        symbols.wish(&wanted)
    };
    let strict = wish_with(Preferences::Ignore);
    let wish = match policy {
        Preferences::Ignore => strict,
        Preferences::Respect => wish_with(Preferences::Respect),
    };
    (wish, strict)
}

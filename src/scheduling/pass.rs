//! Everything a pass works with, prepared from its problem (scheduling §13).

use super::amounts::{self, Places};
use super::ask::Buffers;
use super::columns::Columns;
use super::existing::{self, Existing};
use super::finish::Kinds;
use super::line::Line;
use super::planned::Planned;
use super::pod::{Constraints, Pod};
use super::preferences::SoftTaints;
use super::problem::Problem;
use super::record::Seat;
use super::results::{Options, UnusablePool};
use super::roster::Roster;
use super::shapes::{self, GroupId, Memory, Shape, Variant};
use super::symbols::Symbols;
use super::taints::PREFER_NO_SCHEDULE;
use super::templates::{self, Template};
use super::topology::group::Kind;
use super::topology::population::Population;
use super::topology::rules::{self, Carrier};
use super::topology::universe::Universe;
use super::topology::{Registry, group::Rule};
use crate::resources::ResourceList;
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The state of one pass.
#[derive(Debug, Clone)]
pub(super) struct Pass<'a> {
    pub(super) problem: &'a Problem,
    pub(super) options: Options,
    pub(super) places: Places,
    pub(super) symbols: Symbols,
    pub(super) templates: Vec<Template>,
    pub(super) unusable: Vec<UnusablePool>,
    pub(super) existing: Vec<Existing>,
    pub(super) roster: Roster,
    /// Machines, as numbered in `existing`, that are not there in a what-if.
    pub(super) gone: Vec<u64>,
    /// Pods that an earlier pass has promised a machine, by their places here and in `existing`.
    pub(super) promised: BTreeMap<usize, usize>,
    /// Machines that took a pod, in the order they did.
    pub(super) taken: Vec<usize>,
    pub(super) planned: Vec<Planned>,
    pub(super) line: Line,
    pub(super) topology: Registry,
    /// All pods that the pass knows, in the order that groups are made for them.
    pub(super) pods: Vec<Arc<Pod>>,
    /// Those to place.
    pub(super) asked: Vec<usize>,
    pub(super) shapes: Vec<Shape>,
    pub(super) shape_of: Vec<usize>,
    pub(super) soft_taints: SoftTaints,
    /// Pods placed so far; tells whether a failure may have become a success.
    pub(super) placements: u64,
    /// Each placement with the shape of its pod, in order.
    pub(super) seats: Vec<(usize, Seat)>,
    pub(super) buffers: Buffers,
    /// Number of the what-if; what shapes remember of an earlier one is void.
    pub(super) epoch: u32,
    /// The kinds of claims finished so far.
    pub(super) kinds: Kinds,
}

impl<'a> Pass<'a> {
    /// Prepares a pass over the pods given (a subset of the problem's). Those `movable` are bound and stay where they are, but what-ifs may ask
    /// for them.
    pub(super) fn prepare(
        problem: &'a Problem,
        options: Options,
        pods: &[Arc<Pod>],
        movable: impl Iterator<Item = &'a Arc<Pod>>,
    ) -> Self {
        let mut symbols = Symbols::new(Arc::clone(&problem.well_known));
        let excluded: FxHashSet<&str> = pods.iter().map(|pod| &*pod.uid).collect();
        let movable = movable.filter(|pod| !excluded.contains(&*pod.uid)).cloned();
        let movable: Vec<Arc<Pod>> = movable.collect();
        let places = places(problem, &movable);
        let (usable, unusable, universe) = pools(problem, &options, &places, &mut symbols);
        let existing = existing::candidates(problem, &options, &places, &mut symbols);
        let seen = shapes::selected_labels(pods.iter().chain(&movable), &problem.nodes);
        let population = Population::of(&problem.nodes, &excluded, &seen, &mut symbols);
        let (pods, asked) = in_order(pods, movable);
        let (shapes, shape_of) = shapes::group(&pods, &seen, problem, &places, &mut symbols);
        let asked_labels = shapes::asked_labels(&shapes, &mut symbols);
        let mut taints = problem.pools.iter().flat_map(|pool| &pool.taints);
        let soft = taints.any(|taint| taint.effect == PREFER_NO_SCHEDULE);
        let mut pass = Self {
            roster: Roster::new(&existing, &problem.nodes, &asked_labels, &symbols),
            gone: Vec::new(),
            promised: BTreeMap::new(),
            taken: Vec::new(),
            problem,
            options,
            places,
            symbols,
            templates: usable,
            unusable,
            existing,
            planned: Vec::new(),
            line: Line::default(),
            topology: Registry::new(universe, population),
            pods,
            asked,
            shapes,
            shape_of,
            soft_taints: if soft { SoftTaints::Exist } else { SoftTaints::None },
            placements: 0,
            seats: Vec::new(),
            buffers: Buffers::default(),
            epoch: 1,
            kinds: Kinds::default(),
        };
        pass.watch_bound_pods(&excluded);
        for shape in 0..pass.shapes.len() {
            pass.variant(shape, 0);
        }
        pass
    }

    /// Inverse groups of the required anti-affinity of pods that stay where they are (scheduling 17-10).
    fn watch_bound_pods(&mut self, excluded: &FxHashSet<&str>) {
        let problem = self.problem;
        let known = problem
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.object.is_some());
        let mut carriers: Vec<(usize, &Pod)> = known
            .flat_map(|(at, node)| node.pods.iter().map(move |pod| (at, pod.as_ref())))
            .filter(|(_, pod)| !pod.constraints.anti_affinity.is_empty() && !excluded.contains(&*pod.uid))
            .collect();
        // The tolerations that a group takes over are those of its first pod, whatever the order of the machines.
        carriers.sort_by(|(_, a), (_, b)| order_of(a).cmp(&order_of(b)));
        for (at, pod) in carriers {
            for id in self.imposed(&pod.namespace, &pod.constraints) {
                self.topology.record_bound(id, at, &self.symbols);
            }
        }
    }

    /// The inverse groups of a pod's required anti-affinity.
    fn imposed(&mut self, namespace: &str, constraints: &Constraints) -> Vec<GroupId> {
        let rules = rules::imposed_rules(namespace, constraints, &self.problem.namespaces, &mut self.symbols);
        let groups = rules.into_iter().map(|rule| self.group(rule, constraints));
        groups.collect()
    }

    /// The group of a rule, made and filled when new (scheduling 17-3).
    fn group(&mut self, rule: Rule, constraints: &Constraints) -> GroupId {
        let (id, new) = self.topology.group(rule, &constraints.tolerations, &mut self.symbols);
        if new {
            self.catch_up(id);
        }
        id
    }

    /// A shape after so many steps of relaxation; none when there are not so many (scheduling 14-4, 17-10).
    pub(super) fn variant(&mut self, shape: usize, steps: usize) -> Option<Arc<Variant>> {
        let own = self.shapes.get(shape)?;
        if let Some(variant) = own.variants.get(steps) {
            return Some(Arc::clone(variant));
        }
        if own.exhausted {
            return None;
        }
        let pod = Arc::clone(&own.pod);
        let constraints = match own.variants.last() {
            None => Some(Arc::clone(&pod.constraints)),
            Some(last) => super::preferences::relaxed(&last.constraints, self.soft_taints).map(Arc::new),
        };
        let Some(constraints) = constraints else {
            self.shapes.get_mut(shape)?.exhausted = true;
            return None;
        };
        let policy = self.options.preferences;
        let (wish, strict) = shapes::wishes(&constraints, policy, self.options.ties, &mut self.symbols);
        let carrier = Carrier {
            namespace: &pod.namespace,
            labels: &pod.labels,
            constraints: &constraints,
            ties: self.options.ties,
        };
        let own_rules = rules::own_rules(&carrier, policy, &self.problem.namespaces, &mut self.symbols);
        let imposed = self.imposed(&pod.namespace, &constraints);
        let mut groups: Vec<(GroupId, bool)> = Vec::new();
        for rule in own_rules {
            let counts_itself = rule.selects(&pod.namespace, &pod.labels);
            let id = self.group(rule, &constraints);
            if !groups.iter().any(|(known, _)| *known == id) {
                groups.push((id, counts_itself));
            }
        }
        let variant = Arc::new(Variant {
            constraints,
            wish,
            strict,
            groups,
            imposed,
        });
        let own = self.shapes.get_mut(shape)?;
        own.variants.push(Arc::clone(&variant));
        own.memories.push(Memory::default());
        Some(variant)
    }

    /// Brings the shape's lists of groups up to date with the groups that came to be meanwhile.
    pub(super) fn note_groups(&mut self, shape: usize) {
        let Some(own) = self.shapes.get_mut(shape) else { return };
        for (id, group) in self.topology.groups.iter().enumerate().skip(own.groups_seen) {
            if group.rule.selects(&own.pod.namespace, &own.pod.labels) {
                let list = if group.rule.kind == Kind::InverseAntiAffinity {
                    &mut own.kept_away_by
                } else {
                    &mut own.counted_by
                };
                list.push(id);
            }
        }
        own.groups_seen = self.topology.groups.len();
    }
}

/// The pools that can be used as templates, the others, and the domains that machines could have.
fn pools(
    problem: &Problem,
    options: &Options,
    places: &Places,
    symbols: &mut Symbols,
) -> (Vec<Template>, Vec<UnusablePool>, Universe) {
    let mut made = Vec::new();
    for at in templates::ordered(&problem.pools) {
        let pool = problem.pools.get(at).filter(|pool| !pool.instance_types.is_empty());
        if let Some(pool) = pool {
            made.push((at, pool, Columns::new(&pool.instance_types, symbols, places)));
        }
    }
    let universe = Universe::of(made.iter().map(|(_, pool, columns)| (*pool, columns)), symbols);
    let (mut usable, mut unusable) = (Vec::new(), Vec::new());
    for (at, pool, columns) in made {
        match templates::template(at, pool, columns, problem, options, places, symbols) {
            Ok(template) => usable.push(template),
            Err(reason) => unusable.push(reason),
        }
    }
    (usable, unusable, universe)
}

/// All pods in the order that groups are made for them, and which of them are to be placed. Groups take the tolerations of the pod that
/// brings them first (scheduling 17-6): pending pods by name, then bound ones.
fn in_order(pods: &[Arc<Pod>], movable: Vec<Arc<Pod>>) -> (Vec<Arc<Pod>>, Vec<usize>) {
    let stay = movable.into_iter().map(|pod| (pod, false));
    let mut all: Vec<(Arc<Pod>, bool)> = pods.iter().map(|pod| (Arc::clone(pod), true)).chain(stay).collect();
    all.sort_by(|(a, _), (b, _)| order_of(a).cmp(&order_of(b)));
    let asked = all
        .iter()
        .enumerate()
        .filter(|(_, (_, asked))| *asked)
        .map(|(at, _)| at);
    let asked = asked.collect();
    (all.into_iter().map(|(pod, _)| pod).collect(), asked)
}

fn order_of(pod: &Pod) -> (bool, &str, &str, &str) {
    (pod.standing.node.is_some(), &pod.namespace, &pod.name, &pod.uid)
}

/// A place for each resource that machines have or pools limit, as far as it matters, and one for all that pods ask for in vain.
fn places(problem: &Problem, movable: &[Arc<Pod>]) -> Places {
    let mut places = Places::default();
    let nodes = problem.nodes.iter().map(|node| &node.allocatable);
    let limits = problem.pools.iter().map(|pool| &pool.limits);
    for (name, _) in nodes.chain(limits).flat_map(ResourceList::iter) {
        places.place(name);
    }
    let types = problem.pools.iter().flat_map(|pool| pool.instance_types.iter());
    let sold: BTreeSet<&str> = types
        .flat_map(|kind| kind.capacity.iter().map(|(name, _)| name))
        .collect();
    let pods = problem.pods.iter().chain(&problem.daemons).chain(movable);
    for (name, _) in pods.flat_map(|pod| pod.requests.iter()) {
        if places.find(name).is_none() {
            places.place(if sold.contains(name) { name } else { amounts::NOBODYS });
        }
    }
    places
}

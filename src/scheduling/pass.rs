//! Everything a pass works with, prepared from its problem (scheduling §13).

use super::amounts::Places;
use super::ask::Buffers;
use super::columns::Columns;
use super::existing::{self, Existing};
use super::line::Line;
use super::planned::Planned;
use super::pod::Pod;
use super::preferences::SoftTaints;
use super::problem::Problem;
use super::record::Seat;
use super::results::{Options, UnusablePool};
use super::shapes::{self, GroupId, Memory, Shape, Variant};
use super::symbols::Symbols;
use super::taints::PREFER_NO_SCHEDULE;
use super::templates::{self, Template};
use super::topology::group::{Group, Kind, Rule};
use super::topology::population::Population;
use super::topology::rules::{self, Carrier};
use super::topology::universe::Universe;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The topology groups of a pass and where new ones come from.
#[derive(Debug)]
pub(super) struct Topology {
    pub(super) groups: Vec<Group>,
    index: FxHashMap<Rule, GroupId>,
    universe: Universe,
    population: Population,
}

/// The state of one pass.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    pub(super) problem: &'a Problem,
    pub(super) options: Options,
    pub(super) symbols: Symbols,
    pub(super) templates: Vec<Template>,
    pub(super) unusable: Vec<UnusablePool>,
    pub(super) existing: Vec<Existing>,
    pub(super) planned: Vec<Planned>,
    pub(super) line: Line,
    pub(super) topology: Topology,
    /// The pods to place, in the order that groups are made for them.
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) shapes: Vec<Shape>,
    pub(super) shape_of: Vec<usize>,
    pub(super) soft_taints: SoftTaints,
    /// Pods placed so far; tells whether a failure may have become a success.
    pub(super) placements: u64,
    /// Each placement with the shape of its pod, in order.
    pub(super) seats: Vec<(usize, Seat)>,
    pub(super) buffers: Buffers,
}

impl<'a> Pass<'a> {
    /// Prepares a pass over the pods given (a subset of the problem's).
    pub(super) fn prepare(problem: &'a Problem, options: Options, mut pods: Vec<Arc<Pod>>) -> Self {
        // Groups take the tolerations of the pod that brings them first (scheduling 17-6): pending pods by name, then bound ones.
        pods.sort_by(|a, b| order_of(a).cmp(&order_of(b)));
        let mut symbols = Symbols::new(Arc::clone(&problem.well_known));
        let places = places(problem);
        let order = templates::ordered(&problem.pools);
        let mut made = Vec::new();
        for at in order {
            let Some(pool) = problem.pools.get(at).filter(|pool| !pool.instance_types.is_empty()) else {
                continue;
            };
            made.push((at, pool, Columns::new(&pool.instance_types, &mut symbols, &places)));
        }
        let universe = Universe::of(made.iter().map(|(_, pool, columns)| (*pool, columns)), &mut symbols);
        let (mut usable, mut unusable) = (Vec::new(), Vec::new());
        for (at, pool, columns) in made {
            match templates::template(at, pool, columns, problem, &options, &places, &mut symbols) {
                Ok(template) => usable.push(template),
                Err(reason) => unusable.push(reason),
            }
        }
        let existing = existing::candidates(problem, &options, &places, &mut symbols);
        let seen = shapes::selected_labels(problem);
        let excluded: BTreeSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
        let population = Population::of(&problem.nodes, &excluded, &seen, &mut symbols);
        let (shapes, shape_of) = shapes::group(&pods, &seen, problem, &places, &mut symbols);
        let mut taints = problem.pools.iter().flat_map(|pool| &pool.taints);
        let soft = taints.any(|taint| taint.effect == PREFER_NO_SCHEDULE);
        let topology = Topology {
            groups: Vec::new(),
            index: FxHashMap::default(),
            universe,
            population,
        };
        let mut pass = Self {
            problem,
            options,
            symbols,
            templates: usable,
            unusable,
            existing,
            planned: Vec::new(),
            line: Line::default(),
            topology,
            pods: Vec::new(),
            shapes,
            shape_of,
            soft_taints: if soft { SoftTaints::Exist } else { SoftTaints::None },
            placements: 0,
            seats: Vec::new(),
            buffers: Buffers::default(),
        };
        pass.watch_bound_pods(&excluded);
        drop(excluded);
        pass.pods = pods;
        for shape in 0..pass.shapes.len() {
            pass.variant(shape, 0);
        }
        pass.register_hostnames();
        pass
    }

    /// Inverse groups of the required anti-affinity of pods that stay where they are (scheduling 17-10).
    fn watch_bound_pods(&mut self, excluded: &BTreeSet<&str>) {
        let problem = self.problem;
        for (at, node) in problem
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.object.is_some())
        {
            let carriers = node.pods.iter().filter(|pod| !pod.constraints.anti_affinity.is_empty());
            for pod in carriers.filter(|pod| !excluded.contains(pod.uid.as_str())) {
                let imposed =
                    rules::imposed_rules(&pod.namespace, &pod.constraints, &problem.namespaces, &mut self.symbols);
                for rule in imposed {
                    let key = rule.key;
                    let id = self.group(rule, &pod.constraints.tolerations);
                    let domain = self.topology.population.label(at, key, &self.symbols);
                    if let (Some(domain), Some(group)) = (domain, self.topology.groups.get_mut(id)) {
                        group.record(domain, 1);
                    }
                }
            }
        }
    }

    /// Existing machines' hostnames are domains of the hostname rules known by now (scheduling 13-5).
    fn register_hostnames(&mut self) {
        let hostname = self.symbols.hostname();
        for group in self
            .topology
            .groups
            .iter_mut()
            .filter(|group| group.rule.key == hostname)
        {
            self.existing.iter().for_each(|machine| group.register(machine.host));
        }
    }

    /// The group of a rule, made and filled when new (scheduling 17-3).
    fn group(&mut self, rule: Rule, tolerations: &[super::taints::Toleration]) -> GroupId {
        if let Some(id) = self.topology.index.get(&rule) {
            return *id;
        }
        let id = self.topology.groups.len();
        let Topology {
            universe, population, ..
        } = &self.topology;
        let group = population.group(rule.clone(), tolerations, universe, &mut self.symbols);
        self.topology.groups.push(group);
        self.topology.index.insert(rule, id);
        self.catch_up(id);
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
        let (wish, strict) = shapes::wishes(&constraints, policy, &mut self.symbols);
        let carrier = Carrier {
            namespace: &pod.namespace,
            labels: &pod.labels,
            constraints: &constraints,
            ties: self.options.ties,
        };
        let namespaces = &self.problem.namespaces;
        let own_rules = rules::own_rules(&carrier, policy, namespaces, &mut self.symbols);
        let imposed = rules::imposed_rules(&pod.namespace, &constraints, namespaces, &mut self.symbols);
        let imposed = imposed
            .into_iter()
            .map(|rule| self.group(rule, &constraints.tolerations))
            .collect();
        let mut groups: Vec<(GroupId, bool)> = Vec::new();
        for rule in own_rules {
            let counts_itself = rule.selects(&pod.namespace, &pod.labels);
            let id = self.group(rule, &constraints.tolerations);
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

fn order_of(pod: &Pod) -> (bool, &str, &str, &str) {
    (pod.standing.node.is_some(), &pod.namespace, &pod.name, &pod.uid)
}

/// A place for each resource that a pod can ask for, a machine can have or a pool can limit.
fn places(problem: &Problem) -> Places {
    let mut places = Places::default();
    let pods = problem.pods.iter().chain(&problem.daemons).map(|pod| &*pod.requests);
    let nodes = problem.nodes.iter().map(|node| &node.allocatable);
    let limits = problem.pools.iter().map(|pool| &pool.limits);
    for list in pods.chain(nodes).chain(limits) {
        for (name, _) in list.iter() {
            places.place(name);
        }
    }
    places
}

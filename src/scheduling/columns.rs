//! The instance types of a pool as columns (architecture §5): for each requirement on a key the types that can satisfy it, for each resource
//! the types by size, for each way of buying the types that can be bought that way.
//!
//! Decides which types satisfy a set of requirements, which are large enough, and in which order of price they come. Built once per pool and
//! pass; everything asked twice is remembered.

use super::amounts::{Amounts, Places};
use super::bits;
use super::instance_type::InstanceType;
use super::labels;
use super::requirements::Requirements;
use super::results::Ties;
use super::symbols::{Key, Req, Set, Symbols, Unknown};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Types by what they require of one key.
#[derive(Debug, Clone, Default)]
struct KeyColumn {
    defined: Vec<u64>,
    by_requirement: Vec<(Req, Vec<u64>)>,
}

/// Types by how much they have of one resource.
#[derive(Debug, Clone, Default)]
struct SizeColumn {
    /// Distinct sizes, ascending.
    sizes: Vec<i128>,
    /// For each size the types that have at least it.
    at_least: Vec<u64>,
}

/// One way of buying: what it requires, the types that can be bought so, and at what price.
#[derive(Debug, Clone)]
struct Way {
    set: Set,
    capacity_types: Vec<Arc<str>>,
    types: Vec<u64>,
    prices: Vec<(usize, f64)>,
}

/// Types in order of price under some requirements, each with its price.
pub(super) type PriceOrder = Arc<[(u32, f64)]>;

/// The instance types of a pool.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    pub(super) types: Arc<[Arc<InstanceType>]>,
    names: Vec<Arc<str>>,
    words: usize,
    sets: Vec<Set>,
    keys: FxHashMap<Key, KeyColumn>,
    sizes: Vec<SizeColumn>,
    /// Types of which no allocatable amount is negative; nothing fits into others (scheduling 8-4).
    sound: Vec<u64>,
    /// For each resource the types by how much they have of it, the largest first.
    capacities: Vec<Vec<(usize, i128)>>,
    /// The types by name.
    alphabetical: Vec<usize>,
    ways: Vec<Way>,
    by_requirement: FxHashMap<Req, Arc<[u64]>>,
    by_set: FxHashMap<Set, Arc<[u64]>>,
    orders: FxHashMap<Set, PriceOrder>,
}

impl Columns {
    /// Columns over the types; `places` must already name every resource that a pod or a limit can ask for.
    pub(super) fn new(types: &Arc<[Arc<InstanceType>]>, symbols: &mut Symbols, places: &Places) -> Self {
        let mut result = Self {
            types: Arc::clone(types),
            names: types.iter().map(|kind| Arc::from(kind.name.as_str())).collect(),
            words: bits::words(types.len()),
            sets: Vec::with_capacity(types.len()),
            keys: FxHashMap::default(),
            sizes: Vec::new(),
            sound: Vec::new(),
            capacities: Vec::new(),
            alphabetical: Vec::new(),
            ways: Vec::new(),
            by_requirement: FxHashMap::default(),
            by_set: FxHashMap::default(),
            orders: FxHashMap::default(),
        };
        result.sound.resize(result.words, 0);
        let mut ways = Vec::new();
        for (at, kind) in types.iter().enumerate() {
            result.add_requirements(at, kind, symbols);
            result.add_offerings(at, kind, &mut ways, symbols);
            if kind.allocatable().iter().all(|(_, quantity)| !quantity.is_negative()) {
                bits::insert(&mut result.sound, at);
            }
        }
        let allocatable: Vec<_> = types
            .iter()
            .map(|kind| places.known_amounts(kind.allocatable()))
            .collect();
        result.sizes = (0..places.len())
            .map(|place| size_column(&allocatable, place))
            .collect();
        let capacities: Vec<_> = types.iter().map(|kind| places.known_amounts(&kind.capacity)).collect();
        result.capacities = (0..places.len())
            .map(|place| largest_first(&capacities, place))
            .collect();
        result.alphabetical = (0..types.len()).collect();
        result
            .alphabetical
            .sort_by(|a, b| result.names.get(*a).cmp(&result.names.get(*b)));
        result
    }

    fn add_requirements(&mut self, at: usize, kind: &InstanceType, symbols: &mut Symbols) {
        let set = symbols.wish(&kind.requirements).set;
        self.sets.push(set);
        for (key, req) in symbols.entries(set) {
            let column = self.keys.entry(*key).or_default();
            column.defined.resize(self.words, 0);
            bits::insert(&mut column.defined, at);
            let place = column
                .by_requirement
                .iter()
                .position(|(own, _)| own == req)
                .unwrap_or_else(|| {
                    column.by_requirement.push((*req, vec![0; self.words]));
                    column.by_requirement.len() - 1
                });
            if let Some((_, types)) = column.by_requirement.get_mut(place) {
                bits::insert(types, at);
            }
        }
    }

    /// `ways` are the requirements seen so far, each with the place of its way: types are sold in few ways.
    fn add_offerings<'t>(
        &mut self,
        at: usize,
        kind: &'t InstanceType,
        ways: &mut Vec<(&'t Requirements, usize)>,
        symbols: &mut Symbols,
    ) {
        for offering in kind
            .offerings
            .iter()
            .filter(|offering| offering.availability.is_available())
        {
            let seen = ways.iter().find(|(way, _)| *way == &offering.requirements);
            let place = if let Some((_, place)) = seen {
                *place
            } else {
                let place = self.way(&offering.requirements, symbols);
                ways.push((&offering.requirements, place));
                place
            };
            if let Some(way) = self.ways.get_mut(place) {
                bits::insert(&mut way.types, at);
                way.prices.push((at, offering.price));
            }
        }
    }

    /// The way of buying with these requirements, made when new.
    fn way(&mut self, requirements: &Requirements, symbols: &mut Symbols) -> usize {
        let set = symbols.wish(requirements).set;
        if let Some(place) = self.ways.iter().position(|way| way.set == set) {
            return place;
        }
        let kind = requirements.get(labels::CAPACITY_TYPE);
        self.ways.push(Way {
            set,
            capacity_types: kind.into_iter().flat_map(|kind| kind.values().map(Arc::from)).collect(),
            types: vec![0; self.words],
            prices: Vec::new(),
        });
        self.ways.len() - 1
    }

    /// Words of a set of types.
    pub(super) const fn words(&self) -> usize {
        self.words
    }

    /// The types whose own requirement on the key, if any, can be satisfied together with this one.
    fn meeting(&mut self, key: Key, req: Req, symbols: &mut Symbols) -> Arc<[u64]> {
        if let Some(known) = self.by_requirement.get(&req) {
            return Arc::clone(known);
        }
        let mut result = bits::full(self.types.len());
        if let Some(column) = self.keys.get(&key) {
            for (own, undefined) in result.iter_mut().zip(&column.defined) {
                *own &= !undefined;
            }
            for (own, types) in &column.by_requirement {
                if symbols.meet(*own, req).is_some() {
                    bits::join(&mut result, types);
                }
            }
        }
        let result: Arc<[u64]> = result.into();
        self.by_requirement.insert(req, Arc::clone(&result));
        result
    }

    /// The types whose labels can satisfy the set (scheduling 10-3).
    pub(super) fn matching(&mut self, set: Set, symbols: &mut Symbols) -> Vec<u64> {
        let mut result = bits::full(self.types.len());
        for (key, req) in symbols.entries(set).to_vec() {
            let meeting = self.meeting(key, req, symbols);
            bits::keep(&mut result, &meeting);
        }
        result
    }

    /// The types with an available offering under the set (scheduling 10-4).
    pub(super) fn buyable(&self, set: Set, symbols: &mut Symbols) -> Vec<u64> {
        let mut result = vec![0; self.words];
        for way in &self.ways {
            if symbols.combine(set, way.set, Unknown::AllowWellKnown).is_some() {
                bits::join(&mut result, &way.types);
            }
        }
        result
    }

    /// The capacity types of what can be bought of these types under the set (scheduling 21-3).
    pub(super) fn capacity_types(&self, set: Set, types: &[u64], symbols: &mut Symbols) -> BTreeSet<Arc<str>> {
        let mut result = BTreeSet::new();
        for way in self.ways.iter().filter(|way| bits::meet(&way.types, types)) {
            if symbols.combine(set, way.set, Unknown::AllowWellKnown).is_some() {
                result.extend(way.capacity_types.iter().cloned());
            }
        }
        result
    }

    /// The types that satisfy the set and have an available offering under it.
    pub(super) fn launchable(&mut self, set: Set, symbols: &mut Symbols) -> Arc<[u64]> {
        if let Some(known) = self.by_set.get(&set) {
            return Arc::clone(known);
        }
        let mut result = self.matching(set, symbols);
        bits::keep(&mut result, &self.buyable(set, symbols));
        let result: Arc<[u64]> = result.into();
        self.by_set.insert(set, Arc::clone(&result));
        result
    }

    /// Leaves the types that are large enough for the amounts; says whether any is left.
    pub(super) fn keep_large_enough(&self, types: &mut [u64], amounts: &[i128]) -> bool {
        let mut left = bits::keep(types, &self.sound);
        for (column, wanted) in self.sizes.iter().zip(amounts).filter(|(_, wanted)| **wanted > 0) {
            let place = column.sizes.partition_point(|size| size < wanted);
            let enough = column.at_least.get(place * self.words..(place + 1) * self.words);
            let Some(enough) = enough.filter(|enough| !enough.is_empty()) else {
                types.fill(0);
                return false;
            };
            left = bits::keep(types, enough);
        }
        left
    }

    /// The types by their capacity of a resource, the largest first, with what they have.
    pub(super) fn largest_first(&self, place: usize) -> impl Iterator<Item = (usize, i128)> {
        self.capacities.get(place).into_iter().flatten().copied()
    }

    /// The names of these types, sorted.
    pub(super) fn sorted_names(&self, types: &[u64]) -> impl Iterator<Item = Arc<str>> {
        let sorted = self.alphabetical.iter().filter(|at| bits::contains(types, **at));
        sorted.filter_map(|at| self.names.get(*at).cloned())
    }

    /// The distinct values that these types' own requirements list for a key (scheduling 19-2).
    pub(super) fn distinct_values(&self, key: Key, types: &[u64], symbols: &Symbols) -> usize {
        let Some(column) = self.keys.get(&key) else { return 0 };
        let mut seen = Vec::new();
        for (req, own) in &column.by_requirement {
            if bits::meet(own, types) {
                symbols
                    .terms(*req)
                    .concrete()
                    .iter()
                    .for_each(|value| bits::insert(&mut seen, value.index()));
            }
        }
        bits::count(&seen)
    }

    /// All types that can be bought under the set, by price (scheduling 10-5). Equal prices: by name, or as listed (architecture §7.15).
    ///
    /// Differs: upstream leaves the order of equal prices to chance.
    pub(super) fn order(&mut self, set: Set, ties: Ties, symbols: &mut Symbols) -> PriceOrder {
        if let Some(known) = self.orders.get(&set) {
            return Arc::clone(known);
        }
        let mut least = vec![f64::INFINITY; self.types.len()];
        for way in &self.ways {
            if symbols.combine(set, way.set, Unknown::AllowWellKnown).is_some() {
                for (at, price) in &way.prices {
                    if let Some(least) = least.get_mut(*at) {
                        *least = least.min(*price);
                    }
                }
            }
        }
        let mut order: Vec<(u32, f64)> = (0..).zip(least).filter(|(_, price)| price.is_finite()).collect();
        let name = |at: u32| self.types.get(at as usize).map(|kind| kind.name.as_str());
        order.sort_by(|a, b| {
            let by_tie = || match ties {
                Ties::Product => name(a.0).cmp(&name(b.0)),
                Ties::ByName => a.0.cmp(&b.0),
            };
            a.1.total_cmp(&b.1).then_with(by_tie)
        });
        let order: PriceOrder = order.into();
        self.orders.insert(set, Arc::clone(&order));
        order
    }

    /// The sets that types require, for the universe of topology domains.
    pub(super) fn type_sets(&self) -> &[Set] {
        &self.sets
    }
}

fn largest_first(capacities: &[Amounts], place: usize) -> Vec<(usize, i128)> {
    let amounts = capacities
        .iter()
        .map(|amounts| amounts.get(place).copied().unwrap_or(0));
    let mut result: Vec<(usize, i128)> = amounts.enumerate().collect();
    result.sort_by_key(|(_, amount)| std::cmp::Reverse(*amount));
    result
}

fn size_column(allocatable: &[Amounts], place: usize) -> SizeColumn {
    let amount = |at: usize| {
        allocatable
            .get(at)
            .and_then(|amounts| amounts.get(place))
            .copied()
            .unwrap_or(0)
    };
    let mut order: Vec<usize> = (0..allocatable.len()).collect();
    order.sort_unstable_by_key(|at| amount(*at));
    let mut sizes: Vec<i128> = order.iter().map(|at| amount(*at)).collect();
    sizes.dedup();
    let words = bits::words(allocatable.len());
    let mut at_least = vec![0; sizes.len() * words];
    // From the largest down, each set is the one before and the types of its own size.
    let mut enough = vec![0; words];
    for (place, size) in sizes.iter().enumerate().rev() {
        while let Some(at) = order.pop_if(|at| amount(*at) >= *size) {
            bits::add(&mut enough, at);
        }
        if let Some(own) = at_least.get_mut(place * words..(place + 1) * words) {
            own.copy_from_slice(&enough);
        }
    }
    SizeColumn { sizes, at_least }
}

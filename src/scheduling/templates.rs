//! What a NodePool brings into a pass: its types as columns, its daemons, its limits (scheduling §11, §12, §20).

use super::amounts::{self, Amounts, Places};
use super::bits;
use super::columns::Columns;
use super::pod::{Constraints, Pod, Preferences};
use super::ports::HostPort;
use super::problem::{Fate, Pool, Problem};
use super::results::{DeviceClaims, MinValuesPolicy, Options, UnusablePool};
use super::symbols::{Key, Set, Symbols, Unknown, Wish};
use super::taints::{self, Toleration};
use crate::resources::{ResourceList, names};
use std::sync::Arc;

/// A pool that can open claims.
#[derive(Debug, Clone)]
pub(super) struct Template {
    /// Place in the problem's pools.
    pub(super) pool: usize,
    pub(super) set: Set,
    pub(super) columns: Columns,
    /// The types that the pool's own requirements leave (scheduling 11-4).
    pub(super) types: Vec<u64>,
    pub(super) overhead: Amounts,
    pub(super) overhead_list: ResourceList,
    pub(super) daemon_ports: Vec<HostPort>,
    pub(super) limits: Limits,
}

/// What is left of a pool's limits.
#[derive(Debug, Clone, Default)]
pub(super) struct Limits {
    /// Resource place and what is left.
    pub(super) left: Vec<(usize, i128)>,
    /// Machines left, in nanos.
    pub(super) machines: Option<i128>,
}

const ONE: i128 = 1_000_000_000;

impl Limits {
    fn of(pool: &Pool, problem: &Problem, places: &Places) -> Self {
        let mut left = pool.limits.clone();
        let own = problem
            .nodes
            .iter()
            .filter(|n| n.fate == Fate::Stays && n.pool() == Some(pool.name.as_str()));
        for node in own {
            left = left.minus(&node.capacity);
        }
        Self {
            machines: left.get(names::NODES).map(crate::resources::Quantity::nanos),
            left: left
                .iter()
                .filter(|(name, _)| *name != names::NODES)
                .filter_map(|(name, quantity)| Some((places.find(name)?, quantity.nanos())))
                .collect(),
        }
    }

    /// No machine may be added (scheduling 15-3.1).
    pub(super) fn is_exhausted(&self) -> bool {
        self.machines == Some(0)
    }

    /// Leaves the types whose capacity is within what is left (scheduling 20-2).
    pub(super) fn keep_affordable(&self, types: &mut [u64], columns: &Columns) {
        if self.machines.is_some_and(|left| left < 0) {
            types.fill(0);
        }
        for (place, left) in &self.left {
            let too_large = columns.largest_first(*place).take_while(|(_, amount)| amount > left);
            too_large.for_each(|(at, _)| bits::remove(types, at));
        }
    }

    /// Takes the largest of the types off (scheduling 20-3).
    ///
    /// Differs: the machine itself is taken off too, which makes the limit exact within a pass (scheduling 20-4).
    pub(super) fn take(&mut self, types: &[u64], columns: &Columns) {
        for (place, left) in &mut self.left {
            let mut largest = columns.largest_first(*place);
            let largest = largest.find(|(at, _)| bits::contains(types, *at));
            *left = left.saturating_sub(largest.map_or(0, |(_, amount)| amount));
        }
        self.machines = self.machines.map(|left| left - ONE);
    }
}

/// The pools in the order they are tried (scheduling 11-1).
pub(super) fn ordered(pools: &[Pool]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pools.len()).collect();
    let rank = |at: usize| pools.get(at).map(|pool| (pool.weight, pool.name.as_str()));
    order.sort_by(|a, b| rank(*b).cmp(&rank(*a)));
    order
}

/// Whether the types left have enough distinct values for each key; those that have not, with what was found (scheduling 19-2).
pub(super) fn short_of_values(
    wanted: &[(Key, u32)],
    types: &[u64],
    columns: &Columns,
    symbols: &Symbols,
) -> Vec<(Key, u32)> {
    let found = wanted
        .iter()
        .map(|(key, least)| (*key, *least, columns.distinct_values(*key, types, symbols)));
    found
        .filter(|(_, least, found)| *found < *least as usize)
        .map(|(key, _, found)| (key, u32::try_from(found).unwrap_or(u32::MAX)))
        .collect()
}

/// The keys of a set with their `minValues`.
pub(super) fn min_values(set: Set, symbols: &Symbols) -> Vec<(Key, u32)> {
    symbols
        .entries(set)
        .iter()
        .filter_map(|(key, req)| Some((*key, symbols.terms(*req).min_values?)))
        .collect()
}

/// One pool as a template, or why it cannot be used (scheduling 11-4).
pub(super) fn template(
    at: usize,
    pool: &Pool,
    columns: Columns,
    problem: &Problem,
    options: &Options,
    places: &Places,
    symbols: &mut Symbols,
) -> Result<Template, UnusablePool> {
    let mut columns = columns;
    let set = symbols.wish(&pool.claim_requirements()).set;
    let types = columns.launchable(set, symbols).to_vec();
    let min_values = min_values(set, symbols);
    let short = !short_of_values(&min_values, &types, &columns, symbols).is_empty();
    let due_to_min_values = short && options.min_values == MinValuesPolicy::Strict;
    if bits::is_empty(&types) || due_to_min_values {
        let due_to_min_values = due_to_min_values && !bits::is_empty(&types);
        return Err(UnusablePool {
            name: pool.name.clone(),
            due_to_min_values,
        });
    }
    let daemons: Vec<&Arc<Pod>> = counted_daemons(problem, options)
        .filter(|daemon| {
            daemon_suits(&daemon.constraints, &pool.taints, symbols, |wish, symbols| {
                wish.host
                    .is_none_or(|req| symbols.terms(req).complement && !symbols.terms(req).values.is_empty())
                    && symbols.combine(set, wish.set, Unknown::AllowWellKnown).is_some()
            })
        })
        .collect();
    let mut overhead_list = amounts::sum(daemons.iter().map(|daemon| &*daemon.requests));
    if daemons.is_empty() {
        overhead_list.set(names::PODS, crate::resources::Quantity::ZERO);
    }
    Ok(Template {
        pool: at,
        set,
        columns,
        types,
        overhead: places.asked_amounts(&overhead_list),
        overhead_list,
        daemon_ports: daemons
            .iter()
            .flat_map(|daemon| daemon.constraints.ports.iter().cloned())
            .collect(),
        limits: Limits::of(pool, problem, places),
    })
}

/// The daemons that count at all (scheduling 12-5).
pub(super) fn counted_daemons<'a>(problem: &'a Problem, options: &Options) -> impl Iterator<Item = &'a Arc<Pod>> {
    let refuse = options.device_claims == DeviceClaims::Refuse;
    problem
        .daemons
        .iter()
        .filter(move |daemon| !(refuse && daemon.constraints.resource_claims))
}

/// Whether a daemon runs on such a machine: PreferNoSchedule never keeps it away, and any of its required terms will do (scheduling 12-2).
///
/// Differs: the daemon is not changed by being asked, so no answer depends on the order of pools; and existing machines are asked in the same
/// way (scheduling 12-2, 12-4).
pub(super) fn daemon_suits(
    constraints: &Constraints,
    machine_taints: &[taints::Taint],
    symbols: &mut Symbols,
    mut compatible: impl FnMut(Wish, &mut Symbols) -> bool,
) -> bool {
    let mut tolerations = constraints.tolerations.clone();
    tolerations.push(Toleration::prefer_no_schedule());
    if !taints::tolerates_all(machine_taints, &tolerations) {
        return false;
    }
    let mut left = constraints.clone();
    loop {
        let wish = symbols.wish(&left.node_requirements(Preferences::Ignore));
        if compatible(wish, symbols) {
            return true;
        }
        if left.required_terms.len() <= 1 {
            return false;
        }
        left.required_terms.remove(0);
    }
}

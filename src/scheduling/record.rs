//! What a placement changes for those that come after it: the counts of the rules (scheduling 17-15, 17-17).

use super::bits;
use super::pass::Pass;
use super::problem::Problem;
use super::results::Ties;
use super::shapes::{GroupId, Variant};
use super::symbols::{Set, Symbols, Value};
use super::taints::Taint;
use super::topology::Registry;
use super::topology::group::Group;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where a pod was placed, as rules see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seat {
    /// The requirements of machine or claim at that time.
    pub(super) set: Set,
    pub(super) host: Value,
    pub(super) whose: Whose,
}

/// Whose taints a seat has.
#[derive(Debug, Clone, Copy)]
pub(super) enum Whose {
    /// Those of the machine at this place of the problem.
    Machine(usize),
    /// Those of the pool at this place of the problem.
    Pool(usize),
}

impl Whose {
    fn taints(self, problem: &Problem) -> &[Taint] {
        match self {
            Self::Machine(at) => problem.nodes.get(at).map_or(&[], |node| &node.taints),
            Self::Pool(at) => problem.pools.get(at).map_or(&[], |pool| &pool.taints),
        }
    }
}

impl Pass<'_> {
    /// Records a placement in the groups that count the pod, and in those it imposes.
    pub(super) fn record(&mut self, shape: usize, variant: &Variant, seat: Seat) {
        let Self {
            problem,
            shapes,
            symbols,
            topology,
            ..
        } = self;
        let Some(own) = shapes.get(shape) else { return };
        for id in &own.counted_by {
            let Some(rule) = topology.groups.get(*id).map(|group| &group.rule) else {
                continue;
            };
            let taints = seat.whose.taints(problem);
            if rule.filter.passes(taints, seat.set, Some(seat.host), symbols) {
                count(topology, *id, seat, symbols);
            }
        }
        for id in &variant.imposed {
            count(topology, *id, seat, symbols);
        }
        self.seats.push((shape, seat));
    }

    /// A group that comes to be in the middle of a pass counts what was placed before.
    ///
    /// Differs: upstream's counts only what was bound before the pass, so a relaxed pod may break its own spread (scheduling 17-10).
    pub(super) fn catch_up(&mut self, id: GroupId) {
        if self.options.ties == Ties::ByName || self.seats.is_empty() {
            return;
        }
        let Self {
            problem,
            shapes,
            symbols,
            topology,
            seats,
            ..
        } = self;
        let Some(rule) = topology.groups.get(id).map(|group| Arc::clone(&group.rule)) else {
            return;
        };
        for (shape, seat) in seats.iter() {
            let Some(own) = shapes.get(*shape) else { continue };
            if rule.selects(&own.pod.namespace, &own.pod.labels)
                && rule
                    .filter
                    .passes(seat.whose.taints(problem), seat.set, Some(seat.host), symbols)
            {
                count(topology, id, *seat, symbols);
            }
        }
    }

    /// The domains of a group with their counts. All machines and claims are domains of rules about hostnames (scheduling 13-5, 17-17).
    pub(super) fn known_domains(&self, group: &Group) -> Vec<(Value, i32)> {
        let mut known: BTreeMap<Value, i32> = group.known().collect();
        if group.rule.key == self.symbols.hostname() {
            let there = self.existing.iter().enumerate();
            let there = there.filter(|(at, _)| !bits::contains(&self.gone, *at));
            let hosts = there.map(|(_, machine)| machine.host);
            for host in hosts.chain(self.planned.iter().map(|claim| claim.host)) {
                known.entry(host).or_insert(0);
            }
        }
        known.into_iter().collect()
    }
}

fn count(topology: &mut Registry, id: GroupId, seat: Seat, symbols: &Symbols) {
    let Some(rule) = topology.groups.get(id).map(|group| &group.rule) else {
        return;
    };
    if rule.key == symbols.hostname() {
        topology.record(id, seat.host);
    } else if let Some(req) = symbols.get(seat.set, rule.key) {
        let values = symbols.terms(req).concrete();
        if rule.kind.counts_open_claims() || values.len() == 1 {
            for value in values {
                topology.record(id, *value);
            }
        }
    }
}

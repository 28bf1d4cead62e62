//! What a placement changes for those that come after it: the counts of the rules (scheduling 17-15, 17-17).

use super::pass::{Pass, Topology};
use super::problem::Problem;
use super::results::Ties;
use super::shapes::{GroupId, Variant};
use super::symbols::{Set, Symbols, Value};
use super::taints::Taint;
use super::topology::group::Group;

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
    /// A planned claim's hostname becomes a domain of all hostname rules.
    pub(super) fn register_host(&mut self, host: Value) {
        let hostname = self.symbols.hostname();
        for group in self
            .topology
            .groups
            .iter_mut()
            .filter(|group| group.rule.key == hostname)
        {
            group.register(host);
        }
    }

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
            if let Some(group) = topology.groups.get_mut(*id)
                && group
                    .rule
                    .filter
                    .passes(seat.whose.taints(problem), seat.set, Some(seat.host), symbols)
            {
                count(group, seat, symbols);
            }
        }
        for id in &variant.imposed {
            topology
                .groups
                .get_mut(*id)
                .into_iter()
                .for_each(|group| count(group, seat, symbols));
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
            existing,
            planned,
            ..
        } = self;
        let Topology { groups, .. } = topology;
        let Some(group) = groups.get_mut(id) else { return };
        if group.rule.key == symbols.hostname() {
            existing
                .iter()
                .map(|machine| machine.host)
                .for_each(|host| group.register(host));
            planned
                .iter()
                .map(|claim| claim.host)
                .for_each(|host| group.register(host));
        }
        for (shape, seat) in seats.iter() {
            let Some(own) = shapes.get(*shape) else { continue };
            if group.rule.selects(&own.pod.namespace, &own.pod.labels)
                && group
                    .rule
                    .filter
                    .passes(seat.whose.taints(problem), seat.set, Some(seat.host), symbols)
            {
                count(group, *seat, symbols);
            }
        }
    }
}

fn count(group: &mut Group, seat: Seat, symbols: &Symbols) {
    if group.rule.key == symbols.hostname() {
        group.record(seat.host, 1);
    } else if let Some(req) = symbols.get(seat.set, group.rule.key) {
        let values = symbols.terms(req).concrete();
        if group.rule.kind.counts_open_claims() || values.len() == 1 {
            for value in values {
                group.record(*value, 1);
            }
        }
    }
}

//! How many nodes of each pool may still be disrupted for a reason (disruption 4.5).
//!
//! The budgets say how many at once; what is going or not ready uses them up, whatever the cause (disruption 4.7). Called by the disruption loop
//! for each method, and by validation.

use super::budgets::{BudgetError, allowed_for};
use super::candidate::counts;
use crate::api::NodeClassKind;
use crate::api::nodepool::DisruptionReason;
use crate::cluster::Snapshot;
use crate::cluster::entries::PoolEntry;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a pool's budgets allow now.
#[derive(Debug, Clone)]
pub struct Allowance {
    /// The pool.
    pub pool: Arc<PoolEntry>,
    /// Its nodes.
    pub nodes: usize,
    /// What its budgets allow, before anything is taken off.
    pub budget: i64,
    /// Nodes that are going or not ready.
    pub disrupting: i64,
    /// Why its budgets cannot be read, if so; they allow nothing then.
    pub error: Option<BudgetError>,
    left: i64,
}

impl Allowance {
    /// How many more may go.
    pub const fn left(&self) -> i64 {
        self.left
    }

    /// Whether its owner should know that nothing may go (disruption 4.6).
    pub const fn blocks(&self) -> bool {
        self.nodes > 0 && self.budget == 0
    }
}

/// What the budgets of all pools of ours allow for one reason.
#[derive(Debug, Clone, Default)]
pub struct Allowances(BTreeMap<String, Allowance>);

impl Allowances {
    /// Counts the nodes of a snapshot against the budgets of its pools.
    pub fn count(snapshot: &Snapshot, kinds: &[NodeClassKind], reason: &DisruptionReason, now: DateTime<Utc>) -> Self {
        let mut numbers: BTreeMap<&str, (usize, i64)> = BTreeMap::new();
        for machine in snapshot.machines.values().filter(|machine| counts(machine)) {
            let Some(pool) = machine.nodepool() else { continue };
            let (nodes, disrupting) = numbers.entry(pool).or_default();
            *nodes += 1;
            let ready = machine.node.as_ref().is_some_and(|node| node.is_ready());
            if !ready || machine.is_marked_for_deletion() {
                *disrupting += 1;
            }
        }
        let pools = snapshot.objects.pools.values().filter(|pool| pool.is_managed(kinds));
        let allowances = pools.map(|pool| {
            let (nodes, disrupting) = numbers.get(pool.name()).copied().unwrap_or_default();
            let budget = allowed_for(&pool.spec.disruption.budgets, reason, nodes, now);
            let error = budget.clone().err();
            let budget = budget.unwrap_or(0);
            let allowance = Allowance {
                pool: Arc::clone(pool),
                nodes,
                budget,
                disrupting,
                error,
                left: budget.saturating_sub(disrupting).max(0),
            };
            (pool.name().to_owned(), allowance)
        });
        Self(allowances.collect())
    }

    /// Takes one node of the pool, if that is allowed.
    pub fn take(&mut self, pool: &str) -> bool {
        match self.0.get_mut(pool) {
            Some(allowance) if allowance.left > 0 => {
                allowance.left -= 1;
                true
            }
            _ => false,
        }
    }

    /// By pool, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Allowance> {
        self.0.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Mark;
    use crate::disruption::fixture::Fixture;
    use crate::disruption::method::Method;
    use serde_json::json;

    fn allowance(nodes: &str, build: impl FnOnce(&mut Fixture)) -> Allowance {
        let mut fixture = Fixture::new();
        let budget = json!({ "spec": { "disruption": { "budgets": [{ "nodes": nodes }] } } });
        fixture.pool("default", &budget);
        for index in 0..10 {
            fixture.machine(&format!("n{index}"));
        }
        build(&mut fixture);
        fixture.allowances(Method::Emptiness).iter().next().unwrap().clone()
    }

    #[test]
    fn nodes_that_are_not_ours_or_not_initialized_do_not_count() {
        let counted = allowance("100%", |f| {
            f.foreign_node("x");
            f.machine_with("young", &json!({}));
            f.node_with(
                "young",
                &json!({ "metadata": { "labels": { "karpenter.sh/initialized": null } } }),
            );
            let terminating = json!({ "status": { "conditions": [{ "type": "InstanceTerminating", "status": "True", "lastTransitionTime": "2026-03-02T09:00:00Z" }] } });
            f.machine_with("leaving", &terminating);
        });
        assert_eq!((counted.nodes, counted.budget, counted.left()), (10, 10, 10));
    }

    #[test]
    fn what_is_going_or_not_ready_uses_the_budget_up() {
        let counted = allowance("100%", |f| {
            f.machine_with(
                "n0",
                &json!({ "metadata": { "deletionTimestamp": "2026-03-02T09:00:00Z" } }),
            );
            f.mark("n1", Mark::ForDeletion);
            f.node_with(
                "n2",
                &json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } }),
            );
        });
        assert_eq!((counted.budget, counted.disrupting, counted.left()), (10, 3, 7));
    }

    #[test]
    fn the_rest_is_never_negative() {
        let counted = allowance("10%", |f| {
            for index in 0..10 {
                f.mark(&format!("n{index}"), Mark::ForDeletion);
            }
        });
        assert_eq!((counted.budget, counted.left()), (1, 0));
    }

    #[test]
    fn a_budget_of_nothing_blocks_and_one_that_cannot_be_read_too() {
        assert!(allowance("0", |_| {}).blocks());
        let broken = allowance("many", |_| {});
        assert!(broken.blocks() && broken.error.is_some());
        assert!(!allowance("10%", |_| {}).blocks());
    }
}

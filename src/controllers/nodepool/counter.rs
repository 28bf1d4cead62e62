//! `nodepool.counter`: what the nodes of each pool add up to, in its status (lifecycle 12.2).

use super::health::save_status;
use crate::api::NodePool;
use crate::cluster::{Key, PoolTotals};
use crate::controllers::Kit;
use crate::k8s::queue::{Next, ReconcileError, Reconciler};
use crate::resources::{Quantity, names};
use async_trait::async_trait;
use std::time::Duration;

/// How often the sum is written again (lifecycle 12.2).
const AGAIN: Duration = Duration::from_secs(5);
/// How often it is tried before the lists are in (lifecycle 12.2).
const NOT_SYNCED: Duration = Duration::from_secs(1);
/// What is always shown, zero if there is none (surface §1.4).
const ALWAYS: [&str; 5] = [
    names::CPU,
    names::MEMORY,
    names::PODS,
    names::EPHEMERAL_STORAGE,
    names::NODES,
];

/// The controller.
#[derive(Debug)]
pub struct Counter {
    kit: Kit,
}

impl Counter {
    /// The controller.
    pub fn new(kit: Kit) -> Self {
        Self { kit }
    }
}

/// The pool with the sums in its status.
fn counted(pool: &NodePool, totals: &PoolTotals) -> NodePool {
    let mut counted = pool.clone();
    let status = counted.status.get_or_insert_default();
    let mut resources = totals.resources.clone();
    for name in ALWAYS {
        if resources.get(name).is_none() {
            resources.set(name, Quantity::ZERO);
        }
    }
    status.nodes = resources.get(names::NODES).map_or(0, Quantity::value);
    status.resources = resources.to_api();
    counted
}

#[async_trait]
impl Reconciler for Counter {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        if !snapshot.complete {
            return Ok(Next::After(NOT_SYNCED));
        }
        let kinds = self.kit.provider.node_class_kinds();
        let Some(pool) = snapshot.pool(&key.name).filter(|pool| pool.is_managed(kinds)) else {
            return Ok(Next::Done);
        };
        let totals = snapshot.totals().remove(pool.name()).unwrap_or_default();
        save_status(&self.kit, pool, &counted(&pool.facts, &totals)).await?;
        Ok(Next::After(AGAIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_pool_shows_zeros() {
        let counted = counted(&NodePool::default(), &PoolTotals::default());
        let status = counted.status.unwrap();
        assert_eq!(status.nodes, 0);
        assert_eq!(status.resources.len(), ALWAYS.len());
        assert!(status.resources.values().all(|quantity| quantity.0 == "0"));
    }
}

//! What asks for a pass (scheduling 1-1, 1-2).

use super::batcher::Batcher;
use crate::api::labels::{disrupted_taint, same_taint};
use crate::cluster::Key;
use crate::controllers::Kit;
use crate::k8s::queue::{Next, ReconcileError, Reconciler};
use async_trait::async_trait;
use std::time::Duration;

/// How often what still waits asks again.
const AGAIN: Duration = Duration::from_secs(10);

/// `provisioner.trigger.pod`.
#[derive(Debug)]
pub struct PodTrigger {
    kit: Kit,
    batcher: Batcher,
}

impl PodTrigger {
    /// The controller.
    pub fn new(kit: Kit, batcher: Batcher) -> Self {
        Self { kit, batcher }
    }
}

#[async_trait]
impl Reconciler for PodTrigger {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        match snapshot.pod(&key.scope, &key.name) {
            Some(pod) if pod.is_provisionable() => {
                self.batcher.trigger(pod.uid());
                Ok(Next::After(AGAIN))
            }
            _ => Ok(Next::Done),
        }
    }
}

/// `provisioner.trigger.node`: pods of a node that goes get their new place before they are evicted.
#[derive(Debug)]
pub struct NodeTrigger {
    kit: Kit,
    batcher: Batcher,
}

impl NodeTrigger {
    /// The controller.
    pub fn new(kit: Kit, batcher: Batcher) -> Self {
        Self { kit, batcher }
    }
}

#[async_trait]
impl Reconciler for NodeTrigger {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let disrupted = disrupted_taint();
        match snapshot.node(&key.name) {
            Some(node) if node.taints.iter().any(|taint| same_taint(taint, &disrupted)) => {
                self.batcher.trigger(node.uid());
                Ok(Next::After(AGAIN))
            }
            _ => Ok(Next::Done),
        }
    }
}

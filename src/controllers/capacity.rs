//! Controller `instancetype.capacity`: learns from each registered node what its flavour really offers.
//!
//! [`measurement`] decides which node measures what. Triggered by changes of Nodes; the first list after a start replays all running nodes, which
//! rebuilds the measurements. The type is the claim's, never the Node's label, which the cloud controller overwrites (architecture §7.14).

use crate::capacity::Observation;
use crate::cloud::spot::SpotProvider;
use crate::cluster::{Key, StateNode};
use crate::k8s::cluster_task::ClusterHandle;
use crate::k8s::queue::{Next, ReconcileError, Reconciler};
use crate::resources::ResourceList;
use crate::telemetry::Structured;
use async_trait::async_trait;
use std::sync::Arc;

/// What a node shows of its flavour.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measurement<'a> {
    /// The flavour.
    pub flavour: &'a str,
    /// What the node has.
    pub capacity: &'a ResourceList,
    /// What it offers to pods.
    pub allocatable: &'a ResourceList,
}

/// What a machine measures: only one that is ours, has its node, and has registered.
pub fn measurement(machine: &StateNode) -> Option<Measurement<'_>> {
    let node = machine.node.as_deref()?;
    let flavour = machine.claim.as_deref()?.facts.instance_type()?;
    machine.is_registered().then_some(Measurement {
        flavour,
        capacity: &node.facts.capacity,
        allocatable: &node.facts.allocatable,
    })
}

/// The controller.
pub struct Capacity {
    provider: Arc<SpotProvider>,
    cluster: ClusterHandle,
}

impl Capacity {
    /// A controller that tells this provider what nodes show.
    pub fn new(provider: Arc<SpotProvider>, cluster: ClusterHandle) -> Self {
        Self { provider, cluster }
    }
}

#[async_trait]
impl Reconciler for Capacity {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let snapshot = self.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let Some(machine) = snapshot.machine_of_node(&key.name) else {
            return Ok(Next::Done);
        };
        if let Some(seen) = measurement(machine) {
            let stock = self.provider.stock();
            if stock.observe_node(seen.flavour, seen.capacity, seen.allocatable) == Observation::Changed {
                tracing::info!(
                    server_class = seen.flavour,
                    node = %key.name,
                    allocatable = ?Structured(seen.allocatable.to_value()),
                    "measured a server class"
                );
            }
        }
        Ok(Next::Done)
    }
}

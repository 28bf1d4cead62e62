//! `node.hydration`: gives registered Nodes the label of their claim's NodeClass, which makes them managed (lifecycle 10.2, surface T20), and the claim's labels
//! that the platform took off them (architecture §7.5).

use crate::cluster::Key;
use crate::controllers::Kit;
use crate::k8s::queue::{Next, ReconcileError, Reconciler};
use crate::k8s::write::{Lock, Target};
use crate::k8s::write_as_expected;
use crate::lifecycle::registration::lost_labels;
use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

/// The controller.
#[derive(Debug)]
pub struct NodeHydration {
    kit: Kit,
}

impl NodeHydration {
    /// The controller.
    pub fn new(kit: Kit) -> Self {
        Self { kit }
    }
}

#[async_trait]
impl Reconciler for NodeHydration {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let Some(node) = snapshot.node(&key.name) else {
            return Ok(Next::Done);
        };
        let Some(claim) = snapshot
            .machine_of_node(&key.name)
            .and_then(|machine| machine.claim.as_ref())
        else {
            return Ok(Next::Done);
        };
        let reference = &claim.spec.node_class_ref;
        // Before registration the labels come with everything else (lifecycle 4.4).
        if !node.is_registered() || node.is_deleting() {
            return Ok(Next::Done);
        }
        let claimed = claim.facts.metadata.labels.clone().unwrap_or_default();
        let mut wanted = lost_labels(&node.labels, &claimed);
        if node.label(&reference.label_key()) != Some(&reference.name) {
            wanted.insert(reference.label_key(), reference.name.clone());
        }
        if wanted.is_empty() {
            return Ok(Next::Done);
        }
        let patch = json!({ "metadata": { "labels": wanted } });
        write_as_expected(
            self.kit
                .writer
                .patch::<Node>(&Target::of(&node.meta), patch, Lock::None)
                .await,
        )?;
        Ok(Next::Done)
    }
}

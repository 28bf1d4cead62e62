//! `nodeclaim.hydration`: gives claims the label of their NodeClass (lifecycle 10.2).

use crate::api::NodeClaim;
use crate::cluster::Key;
use crate::controllers::Kit;
use crate::k8s::queue::{Next, ReconcileError, Reconciler};
use crate::k8s::write::{Lock, Target};
use crate::k8s::write_as_expected;
use async_trait::async_trait;
use serde_json::json;

/// The controller.
#[derive(Debug)]
pub struct ClaimHydration {
    kit: Kit,
}

impl ClaimHydration {
    /// The controller.
    pub fn new(kit: Kit) -> Self {
        Self { kit }
    }
}

#[async_trait]
impl Reconciler for ClaimHydration {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let kinds = self.kit.provider.node_class_kinds();
        let Some(claim) = snapshot.claim(&key.name).filter(|claim| claim.is_managed(kinds)) else {
            return Ok(Next::Done);
        };
        let reference = &claim.spec.node_class_ref;
        if claim.label(&reference.label_key()) == Some(&reference.name) {
            return Ok(Next::Done);
        }
        let patch = json!({ "metadata": { "labels": { reference.label_key(): reference.name } } });
        write_as_expected(
            self.kit
                .writer
                .patch::<NodeClaim>(&Target::of(&claim.meta), patch, Lock::None)
                .await,
        )?;
        Ok(Next::Done)
    }
}

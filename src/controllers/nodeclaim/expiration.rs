//! `nodeclaim.expiration`: deletes claims that have lived long enough (lifecycle 10.1).

use crate::api::NodeClaim;
use crate::cluster::Key;
use crate::controllers::Kit;
use crate::k8s::queue::{Next, ReconcileError, Reconciler};
use crate::k8s::write::{DeleteHow, Target};
use crate::lifecycle::expiration::{Expiration, verdict};
use async_trait::async_trait;

/// The controller.
#[derive(Debug)]
pub struct Expirer {
    kit: Kit,
}

impl Expirer {
    /// The controller.
    pub fn new(kit: Kit) -> Self {
        Self { kit }
    }
}

#[async_trait]
impl Reconciler for Expirer {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let kinds = self.kit.provider.node_class_kinds();
        let Some(claim) = snapshot.claim(&key.name).filter(|claim| claim.is_managed(kinds)) else {
            return Ok(Next::Done);
        };
        let Some(created) = claim.meta.created.filter(|_| !claim.facts.is_deleting()) else {
            return Ok(Next::Done);
        };
        let life = claim
            .spec
            .expire_after
            .value()
            .map(crate::api::GoDuration::as_time_delta);
        let now = self.kit.now();
        match verdict(created, life, now) {
            Expiration::Never => Ok(Next::Done),
            Expiration::At(then) => Ok(Next::After(
                then.signed_duration_since(now).to_std().unwrap_or_default(),
            )),
            Expiration::Expired => {
                tracing::debug!(NodeClaim = claim.name(), "deleting expired nodeclaim");
                self.kit
                    .writer
                    .delete::<NodeClaim>(&Target::of(&claim.meta), DeleteHow::default())
                    .await?;
                let labels = [
                    "expired",
                    claim.nodepool().unwrap_or_default(),
                    claim.capacity_type().unwrap_or_default(),
                ];
                self.kit.metrics.nodeclaims.disrupted.increment(labels);
                Ok(Next::Done)
            }
        }
    }
}

//! `nodelink`: gives a claim the provider ID that its node got from the cloud controller.
//!
//! The order's first name says nothing about the server, which is only known once it is there; the platform's labels say which claim it was
//! ordered for. A second server for one claim never becomes its node (architecture §7.21): once a claim has the ID of a server, it keeps it.

use crate::api::NodeClaim;
use crate::cluster::entries::{ClaimEntry, NodeEntry};
use crate::cluster::{Key, Snapshot};
use crate::controllers::Kit;
use crate::k8s::queue::{Next, ReconcileError, Reconciler};
use crate::k8s::write::{Lock, Target};
use crate::k8s::write_as_expected;
use async_trait::async_trait;
use serde_json::json;
use std::sync::Arc;

/// The controller.
#[derive(Debug)]
pub struct Link {
    kit: Kit,
}

impl Link {
    /// The controller.
    pub fn new(kit: Kit) -> Self {
        Self { kit }
    }
}

/// The claim with this UID.
fn claim_by_uid<'a>(snapshot: &'a Snapshot, uid: &str) -> Option<&'a Arc<ClaimEntry>> {
    snapshot.objects.claims.values().find(|claim| claim.uid() == uid)
}

/// The provider ID that the claim shall have, if that is not so yet: the node has one, the claim is alive and has not been linked to a server.
fn wanted<'n>(snapshot: &Snapshot, claim: &ClaimEntry, node: &'n NodeEntry) -> Option<&'n str> {
    let id = node.provider_id.as_deref()?;
    if claim.facts.is_deleting() || node.is_deleting() || claim.provider_id() == Some(id) {
        return None;
    }
    // linked: a Node has the claim's ID, or had it when the claim registered
    let linked = claim.node_name().is_some()
        || claim.provider_id().is_some_and(|own| {
            snapshot
                .objects
                .nodes
                .values()
                .any(|other| other.provider_id.as_deref() == Some(own))
        });
    (!linked).then_some(id)
}

#[async_trait]
impl Reconciler for Link {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let Some(node) = snapshot.node(&key.name) else {
            return Ok(Next::Done);
        };
        let Some(uid) = self.kit.provider.claim_of_node(&node.labels) else {
            return Ok(Next::Done);
        };
        let Some(claim) = claim_by_uid(&snapshot, &uid) else {
            return Ok(Next::Done);
        };
        let Some(id) = wanted(&snapshot, claim, node) else {
            return Ok(Next::Done);
        };
        let patch = json!({ "status": { "providerID": id } });
        let written = self
            .kit
            .writer
            .patch_status::<NodeClaim>(&Target::of(&claim.meta), patch, Lock::Version)
            .await;
        if write_as_expected(written)?.is_some() {
            tracing::info!(
                node = node.name(),
                nodeClaim = claim.name(),
                providerID = id,
                "rewrote NodeClaim providerID"
            );
        }
        Ok(Next::Done)
    }
}

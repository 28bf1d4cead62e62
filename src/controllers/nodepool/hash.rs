//! `nodepool.hash`: writes the hash of each pool's template, and re-stamps claims whose hash is of another version (lifecycle 12.1).
//!
//! The version names our own hash (architecture §7.1): on an upgrade from the Go provider every claim is stamped anew instead of drifting
//! (surface T1, architecture §7.22).

use crate::api::hash::VERSION;
use crate::api::labels::{NODEPOOL_HASH_ANNOTATION, NODEPOOL_HASH_VERSION_ANNOTATION};
use crate::api::{Conditioned, NodeClaim, NodePool, conditions};
use crate::cluster::Key;
use crate::controllers::Kit;
use crate::k8s::queue::{Next, ReconcileError, Reconciler};
use crate::k8s::write::{Lock, Target};
use crate::k8s::write_as_expected;
use async_trait::async_trait;
use serde_json::{Value, json};

/// The controller.
#[derive(Debug)]
pub struct Hash {
    kit: Kit,
}

impl Hash {
    /// The controller.
    pub fn new(kit: Kit) -> Self {
        Self { kit }
    }
}

/// The annotations that stamp a claim anew, if it carries another version. A claim that has drifted keeps its hash, so that an upgrade neither
/// causes drift nor hides it.
fn restamp(claim: &NodeClaim, hash: &str) -> Option<Value> {
    if claim.annotation(NODEPOOL_HASH_VERSION_ANNOTATION) == Some(VERSION) {
        return None;
    }
    let mut annotations = json!({ NODEPOOL_HASH_VERSION_ANNOTATION: VERSION });
    if claim.condition(conditions::DRIFTED).is_none() {
        annotations[NODEPOOL_HASH_ANNOTATION] = json!(hash);
    }
    Some(json!({ "metadata": { "annotations": annotations } }))
}

#[async_trait]
impl Reconciler for Hash {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        // Claims that are not listed yet would never be stamped.
        if !snapshot.complete {
            return Ok(Next::Again);
        }
        let kinds = self.kit.provider.node_class_kinds();
        let Some(pool) = snapshot.pool(&key.name).filter(|pool| pool.is_managed(kinds)) else {
            return Ok(Next::Done);
        };
        let hash = pool.facts.hash();
        let annotation = |key: &str| {
            pool.metadata
                .annotations
                .as_ref()
                .and_then(|all| all.get(key))
                .map(String::as_str)
        };
        if annotation(NODEPOOL_HASH_VERSION_ANNOTATION) != Some(VERSION) {
            let claims = snapshot.objects.claims.values();
            for claim in claims.filter(|claim| claim.nodepool() == Some(pool.name()) && claim.is_managed(kinds)) {
                if let Some(patch) = restamp(&claim.facts, &hash) {
                    let target = Target::of(&claim.meta);
                    write_as_expected(self.kit.writer.patch::<NodeClaim>(&target, patch, Lock::Version).await)?;
                }
            }
        }
        if annotation(NODEPOOL_HASH_ANNOTATION) != Some(&hash)
            || annotation(NODEPOOL_HASH_VERSION_ANNOTATION) != Some(VERSION)
        {
            let annotations = json!({ NODEPOOL_HASH_ANNOTATION: hash, NODEPOOL_HASH_VERSION_ANNOTATION: VERSION });
            let patch = json!({ "metadata": { "annotations": annotations } });
            write_as_expected(
                self.kit
                    .writer
                    .patch::<NodePool>(&Target::of(&pool.meta), patch, Lock::Version)
                    .await,
            )?;
        }
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(version: &str) -> NodeClaim {
        let mut claim = NodeClaim::default();
        claim.metadata.annotations = Some([(NODEPOOL_HASH_VERSION_ANNOTATION.to_owned(), version.to_owned())].into());
        claim
    }

    #[test]
    fn a_claim_of_the_go_provider_is_stamped_anew() {
        let patch = restamp(&claim("v3"), "123").unwrap();
        assert_eq!(patch["metadata"]["annotations"][NODEPOOL_HASH_ANNOTATION], "123");
        assert_eq!(restamp(&claim(VERSION), "123"), None);
    }

    #[test]
    fn a_drifted_claim_keeps_its_hash() {
        let mut drifted = claim("v3");
        drifted.set_true(conditions::DRIFTED, chrono::DateTime::UNIX_EPOCH);
        let patch = restamp(&drifted, "123").unwrap();
        assert!(patch["metadata"]["annotations"].get(NODEPOOL_HASH_ANNOTATION).is_none());
    }
}

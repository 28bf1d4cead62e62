//! `nodepool.validation`: whether a pool makes sense, beyond what the schema can say (lifecycle 12.4, surface §1.6).

use super::health::save_status;
use crate::api::{Conditioned, conditions, validation};
use crate::cluster::Key;
use crate::controllers::Kit;
use crate::k8s::queue::{Next, ReconcileError, Reconciler};
use crate::telemetry::Structured;
use async_trait::async_trait;
use serde_json::json;

/// The controller.
#[derive(Debug)]
pub struct Validation {
    kit: Kit,
}

impl Validation {
    /// The controller.
    pub fn new(kit: Kit) -> Self {
        Self { kit }
    }
}

#[async_trait]
impl Reconciler for Validation {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let Some(pool) = snapshot.pool(&key.name) else {
            return Ok(Next::Done);
        };
        if !pool.is_managed(self.kit.provider.node_class_kinds()) {
            return Ok(Next::Done);
        }
        let (mut wanted, now) = (pool.facts.clone(), self.kit.now());
        let findings = validation::validate_nodepool(&pool.facts);
        for unknown in &findings.warnings {
            tracing::error!(
                NodePool = pool.name(),
                key = unknown.key,
                "valid-values" = ?Structured(json!(unknown.valid)),
                "invalid-values" = ?Structured(json!(unknown.values)),
                "please correct found invalid values, proceeding with valid values"
            );
        }
        if findings.is_valid() {
            wanted.set_true(conditions::VALIDATION_SUCCEEDED, now);
        } else {
            wanted.set_false(
                conditions::VALIDATION_SUCCEEDED,
                validation::NODEPOOL_REASON,
                &findings.message(),
                now,
            );
        }
        save_status(&self.kit, pool, &wanted).await?;
        Ok(Next::Done)
    }
}

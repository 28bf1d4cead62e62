//! `nodepool.registrationhealth`: whether the machines of a pool become nodes (lifecycle 12.5 to 12.7).
//!
//! The windows are kept here, by NodePool UID; the lifecycle controller tells outcomes, the reconcile seeds and resets them.

use crate::api::{Conditioned, NodeClaim, NodePool, conditions};
use crate::cluster::entries::PoolEntry;
use crate::cluster::{Key, Snapshot};
use crate::controllers::Kit;
use crate::k8s::merge::merge_patch;
use crate::k8s::queue::{Next, ReconcileError, Reconciler};
use crate::k8s::write::{Lock, Target};
use crate::k8s::write_as_expected;
use crate::lifecycle::health::{Health, Outcome, Window};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const HEALTHY: &str = conditions::NODE_REGISTRATION_HEALTHY;

/// The windows of all pools, and the controller that keeps them honest.
#[derive(Debug)]
pub struct RegistrationHealth {
    kit: Kit,
    windows: Mutex<BTreeMap<Arc<str>, Window>>,
}

impl RegistrationHealth {
    /// No outcomes yet.
    pub fn new(kit: Kit) -> Self {
        Self {
            kit,
            windows: Mutex::default(),
        }
    }

    /// A claim became a node (lifecycle 12.5).
    pub async fn succeeded(
        &self,
        snapshot: &Snapshot,
        claim: &NodeClaim,
        now: DateTime<Utc>,
    ) -> Result<(), ReconcileError> {
        let Some(pool) = owner_of(snapshot, claim) else {
            return Ok(());
        };
        if self.window(pool).health_after(Outcome::Success) == Health::Healthy {
            let mut wanted = pool.facts.clone();
            wanted.set_true(HEALTHY, now);
            save_status(&self.kit, pool, &wanted).await?;
        }
        self.change(pool, |window| window.record(Outcome::Success));
        Ok(())
    }

    /// A claim did not (lifecycle 12.6). `forced` makes the pool unhealthy at once (architecture §7.3).
    pub async fn failed(
        &self,
        snapshot: &Snapshot,
        claim: &NodeClaim,
        forced: Option<Health>,
        now: DateTime<Utc>,
    ) -> Result<(), ReconcileError> {
        let Some(pool) = owner_of(snapshot, claim) else {
            return Ok(());
        };
        let health = forced.unwrap_or_else(|| self.window(pool).health_after(Outcome::Failure));
        if health == Health::Unhealthy && !pool.facts.is_false(HEALTHY) {
            let launched = claim.condition(conditions::LAUNCHED);
            let (reason, message) = match launched {
                Some(launched) if !launched.is_true() => (launched.reason.clone(), launched.message.clone()),
                _ => ("RegistrationFailed".to_owned(), "Failed to register node".to_owned()),
            };
            let mut wanted = pool.facts.clone();
            wanted.set_false(HEALTHY, &reason, &message, now);
            save_status(&self.kit, pool, &wanted).await?;
        }
        self.change(pool, |window| match forced {
            Some(health) => *window = Window::forced(health),
            None => window.record(Outcome::Failure),
        });
        Ok(())
    }

    fn window(&self, pool: &PoolEntry) -> Window {
        self.lock().get(&pool.meta.uid).cloned().unwrap_or_default()
    }

    fn change(&self, pool: &PoolEntry, work: impl FnOnce(&mut Window)) {
        work(self.lock().entry(Arc::clone(&pool.meta.uid)).or_default());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Window>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seeds the window after a start, and resets it when the pool or its class has changed (lifecycle 12.7).
    fn settle(&self, pool: &PoolEntry, class_generation: i64, now: DateTime<Utc>) -> NodePool {
        let mut wanted = pool.facts.clone();
        let known = pool.facts.condition(HEALTHY).cloned();
        if self.window(pool).health() == Health::Unknown {
            let seed = match &known {
                Some(known) if known.is_true() => Health::Healthy,
                Some(known) if known.is_false() => Health::Unhealthy,
                _ => Health::Unknown,
            };
            self.change(pool, |window| *window = Window::forced(seed));
        }
        let observed = pool
            .status
            .as_ref()
            .and_then(|status| status.node_class_observed_generation);
        let own = pool.metadata.generation.unwrap_or_default();
        let fresh = known
            .as_ref()
            .is_some_and(|known| known.observed_generation.unwrap_or_default() == own);
        if !fresh || observed != Some(class_generation) {
            wanted.set_awaiting(HEALTHY, now);
            self.change(pool, |window| *window = Window::default());
        }
        wanted.status.get_or_insert_default().node_class_observed_generation = Some(class_generation);
        wanted
    }
}

/// The claim's pool, if the claim was made by this very pool: a pool of the same name that was made anew does not count (lifecycle 12.5).
fn owner_of<'a>(snapshot: &'a Snapshot, claim: &NodeClaim) -> Option<&'a Arc<PoolEntry>> {
    let pool = snapshot.pool(claim.nodepool()?)?;
    let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
    owners
        .iter()
        .any(|owner| owner.kind == "NodePool" && owner.uid == *pool.meta.uid)
        .then_some(pool)
}

/// Writes the part of a pool's status that differs, under a lock. A pool that is gone needs nothing.
pub(super) async fn save_status(kit: &Kit, pool: &PoolEntry, wanted: &NodePool) -> Result<(), ReconcileError> {
    // mostly nothing has moved: the counter asks every five seconds
    if wanted.status == pool.facts.status {
        return Ok(());
    }
    let status = |pool: &NodePool| -> Result<serde_json::Value, ReconcileError> {
        Ok(
            json!({ "status": serde_json::to_value(pool.status.clone().unwrap_or_default()).map_err(ReconcileError::new)? }),
        )
    };
    if let Some(patch) = merge_patch(&status(&pool.facts)?, &status(wanted)?) {
        write_as_expected(
            kit.writer
                .patch_status::<NodePool>(&Target::of(&pool.meta), patch, Lock::Version)
                .await,
        )?;
    }
    Ok(())
}

#[async_trait]
impl Reconciler for RegistrationHealth {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let Some(pool) = snapshot.pool(&key.name) else {
            let alive: Vec<Arc<str>> = snapshot
                .objects
                .pools
                .values()
                .map(|pool| Arc::clone(&pool.meta.uid))
                .collect();
            self.lock().retain(|uid, _| alive.contains(uid));
            return Ok(Next::Done);
        };
        if !pool.is_managed(self.kit.provider.node_class_kinds()) {
            return Ok(Next::Done);
        }
        let Some(class) = super::readiness::class_of(&snapshot, &pool.facts) else {
            return Ok(Next::Done);
        };
        let wanted = self.settle(pool, class.generation, self.kit.now());
        save_status(&self.kit, pool, &wanted).await?;
        Ok(Next::Done)
    }
}

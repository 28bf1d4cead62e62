//! `nodeclaim.disruption`: marks claims that may be consolidated and claims that have drifted (lifecycle 11). Nothing here deletes; the
//! disruption controller acts on the marks.

use super::save::save;
use crate::api::{Conditioned, GoDuration, NodeClaim, conditions, time};
use crate::cloud::error::Remedy;
use crate::cluster::entries::PoolEntry;
use crate::cluster::{Key, Snapshot};
use crate::controllers::Kit;
use crate::k8s::queue::{Next, ReconcileError, Reconciler};
use crate::lifecycle::consolidatable::{self, Consolidatable, Quiet};
use crate::lifecycle::drift;
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often drift is looked for without a change (lifecycle 11.4).
const LOOK_AGAIN: Duration = Duration::from_mins(5);

/// The controller.
#[derive(Debug)]
pub struct Marks {
    kit: Kit,
    /// When the type of each claim, by its UID, was last found among those sold.
    sold: Mutex<BTreeMap<String, DateTime<Utc>>>,
}

#[async_trait]
impl Reconciler for Marks {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let kinds = self.kit.provider.node_class_kinds();
        let entry = snapshot.claim(&key.name).filter(|claim| claim.is_managed(kinds));
        self.forget(&snapshot);
        let Some(entry) = entry.filter(|claim| !claim.facts.is_deleting()) else {
            return Ok(Next::Done);
        };
        let Some(pool) = entry.nodepool().and_then(|name| snapshot.pool(name)) else {
            return Ok(Next::Done);
        };
        let now = self.kit.now();
        let mut claim = entry.facts.clone();
        let drift = self.drift(pool, &mut claim, now).await;
        let quiet = if pool.is_static() {
            Next::Done
        } else {
            quiet(pool, &mut claim, now)
        };
        save(&self.kit, &entry.facts, &claim).await?;
        Ok(drift?.sooner(quiet))
    }
}

impl Marks {
    /// The controller.
    pub fn new(kit: Kit) -> Self {
        Self {
            kit,
            sold: Mutex::default(),
        }
    }

    /// Sets or takes away Drifted (lifecycle 11.4).
    async fn drift(&self, pool: &PoolEntry, claim: &mut NodeClaim, now: DateTime<Utc>) -> Result<Next, ReconcileError> {
        let name = claim.metadata.name.clone();
        if !claim.is_true(conditions::LAUNCHED) {
            if clear(claim, conditions::DRIFTED)? {
                tracing::debug!(NodeClaim = name, "removing drift status condition, isn't launched");
            }
            return Ok(Next::Done);
        }
        let reason = match drift::reason(pool, claim) {
            Some(reason) => Some(reason.to_owned()),
            None if !self.is_sold(pool, claim, now).await? => Some(drift::INSTANCE_TYPE_NOT_FOUND.to_owned()),
            None => match self.kit.provider.drifted(claim).await {
                Ok(reason) => reason.filter(|reason| !reason.is_empty()),
                // the condition stays as it was
                Err(error) if error.remedy() == Remedy::AlreadyDone => return Ok(Next::After(LOOK_AGAIN)),
                Err(error) => return Err(ReconcileError::new(error)),
            },
        };
        match reason {
            Some(reason) => {
                if !claim.is_true(conditions::DRIFTED) {
                    tracing::debug!(NodeClaim = name, reason, "marking drifted");
                }
                claim.set_true_because(conditions::DRIFTED, &reason, &reason, now);
            }
            None => {
                if clear(claim, conditions::DRIFTED)? {
                    tracing::debug!(NodeClaim = name, "removing drifted status condition, not drifted");
                }
            }
        }
        Ok(Next::After(LOOK_AGAIN))
    }
}

impl Marks {
    /// Whether what the claim was launched as is still sold (lifecycle 11.5); asked for rarely, since offers change rarely.
    async fn is_sold(&self, pool: &PoolEntry, claim: &NodeClaim, now: DateTime<Utc>) -> Result<bool, ReconcileError> {
        let found = self.found().get(claim.uid()).copied();
        if !drift::type_is_due(time::created(&claim.metadata), found, now) {
            // what was not found a moment ago is not found yet
            return Ok(!is_missing(claim));
        }
        let types = self.kit.provider.instance_types(&pool.facts).await;
        let is_sold = drift::is_sold(claim, &types.map_err(ReconcileError::new)?);
        if is_sold {
            self.found().insert(claim.uid().to_owned(), now);
        }
        Ok(is_sold)
    }

    /// Forgets claims that are gone, once there are more than twice as many as there are claims.
    fn forget(&self, snapshot: &Snapshot) {
        let claims = &snapshot.objects.claims;
        let mut found = self.found();
        if found.len() > claims.len().saturating_mul(2) {
            let live: BTreeSet<&str> = claims.values().map(|claim| claim.uid()).collect();
            found.retain(|uid, _| live.contains(uid.as_str()));
        }
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<String, DateTime<Utc>>> {
        self.sold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the claim is marked because its type is not sold.
fn is_missing(claim: &NodeClaim) -> bool {
    claim
        .condition(conditions::DRIFTED)
        .is_some_and(|condition| condition.is_true() && condition.reason == drift::INSTANCE_TYPE_NOT_FOUND)
}

/// Sets or takes away Consolidatable (lifecycle 11.3).
fn quiet(pool: &PoolEntry, claim: &mut NodeClaim, now: DateTime<Utc>) -> Next {
    let initialized = claim
        .condition(conditions::INITIALIZED)
        .filter(|condition| condition.is_true())
        .map(|condition| condition.last_transition_time);
    let quiet = Quiet {
        after: pool
            .spec
            .disruption
            .consolidate_after
            .value()
            .map(GoDuration::as_time_delta),
        initialized,
        last_pod_event: claim.last_pod_event(),
    };
    let name = claim.metadata.name.clone();
    let mut take_away = |why: &str| {
        if clear(claim, conditions::CONSOLIDATABLE).is_ok_and(|cleared| cleared) {
            tracing::debug!(NodeClaim = name, "removing consolidatable status condition{why}");
        }
    };
    match consolidatable::verdict(&quiet, now) {
        Consolidatable::Disabled => take_away(", consolidation is disabled"),
        Consolidatable::NotInitialized => take_away(", isn't initialized"),
        Consolidatable::From(end) => {
            take_away("");
            return Next::After(end.signed_duration_since(now).to_std().unwrap_or_default());
        }
        Consolidatable::Now => {
            if !claim.is_true(conditions::CONSOLIDATABLE) {
                tracing::debug!(NodeClaim = claim.metadata.name, "marking consolidatable");
            }
            claim.set_true(conditions::CONSOLIDATABLE, now);
        }
    }
    Next::Done
}

fn clear(claim: &mut NodeClaim, type_: &str) -> Result<bool, ReconcileError> {
    claim.clear_condition(type_).map_err(ReconcileError::new)
}

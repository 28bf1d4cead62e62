//! `nodeclaim.consistency`: tells when a node is not what its claim says it is (lifecycle 8). Nothing follows from it but an Event and a condition.

use super::lifecycle::nodes_of;
use super::save::save;
use crate::api::{Conditioned, NodeClaim, conditions};
use crate::cluster::entries::{ClaimEntry, NodeEntry};
use crate::cluster::{Key, Snapshot};
use crate::controllers::Kit;
use crate::k8s::events::{Event, EventType, Involved};
use crate::k8s::queue::{Next, ReconcileError, Reconciler};
use crate::lifecycle::consistency::{PERIOD, Shortfall, not_before, shortfalls};
use crate::resources::ResourceList;
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The controller.
#[derive(Debug)]
pub struct Consistency {
    kit: Kit,
    /// When each claim, by UID, was last looked at.
    looked: Mutex<BTreeMap<Arc<str>, DateTime<Utc>>>,
}

impl Consistency {
    /// The controller.
    pub fn new(kit: Kit) -> Self {
        Self {
            kit,
            looked: Mutex::default(),
        }
    }

    fn looked(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, DateTime<Utc>>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets claims that are gone, once there are more than twice as many as there are claims.
    fn forget(&self, snapshot: &Snapshot) {
        let mut looked = self.looked();
        if looked.len() > snapshot.objects.claims.len().saturating_mul(2) {
            let claims = snapshot.objects.claims.values();
            let live: std::collections::BTreeSet<&str> = claims.map(|claim| claim.uid()).collect();
            looked.retain(|uid, _| live.contains(&**uid));
        }
    }

    async fn look(&self, claim: &ClaimEntry, node: &NodeEntry, now: DateTime<Utc>) -> Result<(), ReconcileError> {
        let status = claim.facts.status.clone().unwrap_or_default();
        let found = shortfalls(
            &ResourceList::from_api(&claim.spec.resources.requests),
            &ResourceList::from_api(&status.capacity),
            &node.facts.capacity,
        );
        for shortfall in &found {
            tracing::info!(NodeClaim = claim.name(), issue = %shortfall, "failed consistency check");
            self.kit.recorder.publish(failed(claim, shortfall));
        }
        let mut wanted = claim.facts.clone();
        let type_ = conditions::CONSISTENT_STATE_FOUND;
        if found.is_empty() {
            wanted.set_true(type_, now);
        } else {
            wanted.set_false(type_, "ConsistencyCheckFailed", "Consistency Check Failed", now);
        }
        save(&self.kit, &claim.facts, &wanted).await
    }
}

#[async_trait]
impl Reconciler for Consistency {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        self.forget(&snapshot);
        let kinds = self.kit.provider.node_class_kinds();
        let Some(claim) = snapshot.claim(&key.name).filter(|claim| claim.is_managed(kinds)) else {
            return Ok(Next::Done);
        };
        // Differs: upstream calls a claim consistent before there is anything to compare.
        if claim.facts.is_deleting() || !claim.facts.is_true(conditions::INITIALIZED) {
            return Ok(Next::Done);
        }
        let nodes = nodes_of(&snapshot, &claim.facts);
        let [node] = nodes.as_slice() else {
            return Ok(Next::Done);
        };
        let now = self.kit.now();
        let last = self.looked().get(&claim.meta.uid).copied();
        if let Some(next) = not_before(last, now) {
            return Ok(Next::After(
                next.signed_duration_since(now).to_std().unwrap_or_default(),
            ));
        }
        self.look(claim, node, now).await?;
        self.looked().insert(Arc::clone(&claim.meta.uid), now);
        Ok(Next::After(PERIOD.to_std().unwrap_or_default()))
    }
}

/// surface §4.2: FailedConsistencyCheck.
fn failed(claim: &ClaimEntry, shortfall: &Shortfall) -> Event {
    let text = shortfall.to_string();
    Event::new(
        EventType::Warning,
        "FailedConsistencyCheck",
        Involved::entry::<NodeClaim>(&claim.meta),
        text.clone(),
    )
    .deduped_by([claim.uid().to_owned(), text])
}

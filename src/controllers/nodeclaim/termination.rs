//! The end of a claim: its Node goes first, then its machine, and only then the finalizer (lifecycle 7).
//!
//! ```text
//! deleting ─▶ termination time ─▶ Nodes deleted and gone ─▶ machine asked to go ─▶ machine gone ─▶ finalizer removed
//! ```
//!
//! Run by [`Lifecycle`](super::Lifecycle) under the claim's key. The machine is deleted by the claim's identity, whether or not a provider ID was
//! ever recorded, and the finalizer stays until a complete answer says that it is gone (architecture §6): a server that is left over costs money
//! for ever.

use super::lifecycle::nodes_of;
use super::machine::Orders;
use crate::api::{Conditioned, NodeClaim, conditions, labels, time};
use crate::cloud::Deletion;
use crate::cluster::Snapshot;
use crate::cluster::entries::ClaimEntry;
use crate::controllers::Kit;
use crate::k8s::events::{Event, EventType, Involved};
use crate::k8s::queue::{Next, ReconcileError};
use crate::k8s::write::{DeleteHow, Lock, Target};
use crate::k8s::write_as_expected;
use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::Node;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// How often a machine that is going is asked for (lifecycle 7.4).
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Ends claims.
#[derive(Debug)]
pub(super) struct Termination {
    kit: Kit,
    orders: Arc<Orders>,
}

impl Termination {
    pub(super) fn new(kit: Kit, orders: Arc<Orders>) -> Self {
        Self { kit, orders }
    }

    /// One pass over a claim that is being deleted.
    pub(super) async fn finalize(&self, snapshot: &Snapshot, entry: &Arc<ClaimEntry>) -> Result<Next, ReconcileError> {
        if !entry.has_termination_finalizer() {
            self.orders.forget(entry.uid());
            return Ok(Next::Done);
        }
        if self.announce(entry).await? {
            // the annotated claim comes back as a change
            return Ok(Next::Done);
        }
        if entry.facts.is_true(conditions::REGISTERED) && self.delete_nodes(snapshot, entry).await? {
            // the Node's end wakes this claim (lifecycle 7.3)
            return Ok(Next::Done);
        }
        self.end_machine(entry).await
    }

    /// Writes the termination time, once (lifecycle 7.2); says whether it did.
    async fn announce(&self, entry: &ClaimEntry) -> Result<bool, ReconcileError> {
        let Some(end) = termination_time(&entry.facts) else {
            return Ok(false);
        };
        let end = time::to_rfc3339(end);
        let key = labels::TERMINATION_TIMESTAMP_ANNOTATION;
        let patch = json!({ "metadata": { "annotations": { key: end } } });
        let written = self
            .kit
            .writer
            .patch::<NodeClaim>(&Target::of(&entry.meta), patch, Lock::Version)
            .await;
        if write_as_expected(written)?.is_some() {
            tracing::info!(
                NodeClaim = entry.name(),
                Node = entry.node_name(),
                "provider-id" = entry.provider_id(),
                "karpenter.sh/nodeclaim-termination-timestamp" = end,
                "annotated nodeclaim"
            );
            self.kit
                .recorder
                .publish(expiring(Involved::entry::<NodeClaim>(&entry.meta), &end));
        }
        Ok(true)
    }

    /// Deletes the claim's Nodes; says whether there is any.
    async fn delete_nodes(&self, snapshot: &Snapshot, entry: &ClaimEntry) -> Result<bool, ReconcileError> {
        let nodes = nodes_of(snapshot, &entry.facts);
        for node in nodes.iter().filter(|node| !node.is_deleting()) {
            self.kit
                .writer
                .delete::<Node>(&Target::of(&node.meta), DeleteHow::default())
                .await?;
        }
        Ok(!nodes.is_empty())
    }

    async fn end_machine(&self, entry: &ClaimEntry) -> Result<Next, ReconcileError> {
        let deletion = self
            .kit
            .provider
            .delete(&self.orders.identity(&entry.facts))
            .await
            .map_err(ReconcileError::new)?;
        let now = self.kit.now();
        let asked_since = entry
            .facts
            .condition(conditions::INSTANCE_TERMINATING)
            .map(|c| c.last_transition_time);
        if asked_since.is_none() && entry.provider_id().is_some() {
            let mut claim = entry.facts.clone();
            claim.set_true(conditions::INSTANCE_TERMINATING, now);
            super::save::save(&self.kit, &entry.facts, &claim).await?;
            // the changed claim comes back; its machine is asked for again then
            return Ok(Next::After(if deletion == Deletion::Gone {
                Duration::ZERO
            } else {
                ASK_AGAIN
            }));
        }
        if deletion == Deletion::InProgress {
            return Ok(Next::After(ASK_AGAIN));
        }
        let present = entry.metadata.finalizers.clone().unwrap_or_default();
        let target = Target::of(&entry.meta);
        self.kit
            .writer
            .remove_finalizer::<NodeClaim>(&target, &present, labels::TERMINATION_FINALIZER)
            .await?;
        self.record(entry, asked_since, now);
        self.orders.forget(entry.uid());
        Ok(Next::Done)
    }

    fn record(&self, entry: &ClaimEntry, asked_since: Option<DateTime<Utc>>, now: DateTime<Utc>) {
        let pool = entry.nodepool().unwrap_or_default();
        let metrics = &self.kit.metrics.nodeclaims;
        let seconds = |since: DateTime<Utc>| now.signed_duration_since(since).as_seconds_f64().max(0.0);
        if let Some(since) = asked_since {
            metrics.instance_termination_seconds.observe([pool], seconds(since));
        }
        if let Some(since) = entry.meta.deleting {
            metrics.termination_seconds.observe([pool], seconds(since));
        }
        metrics
            .terminated
            .increment([pool, entry.capacity_type().unwrap_or_default()]);
        tracing::info!(
            NodeClaim = entry.name(),
            "provider-id" = entry.provider_id(),
            Node = entry.node_name(),
            "deleted nodeclaim"
        );
    }
}

/// When the claim's pods will be removed by force, if that is to be written now: a grace period is set and no time has been written (lifecycle 7.2).
fn termination_time(claim: &NodeClaim) -> Option<DateTime<Utc>> {
    if claim.annotation(labels::TERMINATION_TIMESTAMP_ANNOTATION).is_some() {
        return None;
    }
    let grace = claim.spec.termination_grace_period.as_ref()?.value().as_time_delta();
    time::deleting_since(&claim.metadata)?.checked_add_signed(grace)
}

/// surface §4.2: TerminationGracePeriodExpiring.
pub(crate) fn expiring(involved: Involved, end: &str) -> Event {
    let name = involved.name.clone();
    let message = format!("All pods will be deleted by {end}");
    Event::new(EventType::Warning, "TerminationGracePeriodExpiring", involved, message).deduped_by([name])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claim(grace: Option<&str>, annotation: Option<&str>) -> NodeClaim {
        let mut object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": { "name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "nodeClassRef": { "group": "g", "kind": "k", "name": "n" }, "requirements": [] },
        });
        if let Some(grace) = grace {
            object["spec"]["terminationGracePeriod"] = json!(grace);
        }
        if let Some(annotation) = annotation {
            object["metadata"]["annotations"] = json!({ labels::TERMINATION_TIMESTAMP_ANNOTATION: annotation });
        }
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn the_termination_time_is_written_once_and_only_with_a_grace_period() {
        assert_eq!(termination_time(&claim(None, None)), None);
        let end = "2026-01-01T00:10:00Z".parse().unwrap();
        assert_eq!(termination_time(&claim(Some("10m"), None)), Some(end));
        assert_eq!(
            termination_time(&claim(Some("10m"), Some("2025-01-01T00:00:00Z"))),
            None
        );
    }
}

//! `node.termination`: a Node that is being deleted is drained, its volumes detached, its machine ended, and only then let go (lifecycle 13).
//!
//! ```text
//! claim deleted too ─▶ taint ─▶ drain ─▶ volumes ─▶ machine gone ─▶ finalizer removed
//!        └ not Ready and no machine: let go at once
//! ```
//!
//! Each pass looks at everything anew, so it does not matter at which point a former process stopped. What is decided is in `lifecycle`; the
//! claim's conditions tell how far it is.

use super::events;
use crate::api::{Conditioned, NodeClaim, conditions, labels, time};
use crate::cloud::{CreateOutcome, Deletion, MachineIdentity, MachineState};
use crate::cluster::entries::{ClaimEntry, NodeEntry, PodEntry};
use crate::cluster::{Key, Snapshot};
use crate::controllers::Kit;
use crate::controllers::eviction::Evictions;
use crate::controllers::nodeclaim::machine::Orders;
use crate::controllers::nodeclaim::save::save;
use crate::controllers::nodeclaim::termination::expiring;
use crate::k8s::events::Involved;
use crate::k8s::queue::{Next, ReconcileError, Reconciler};
use crate::k8s::write::{DeleteHow, Lock, Target};
use crate::k8s::write_as_expected;
use crate::lifecycle::detachment::{self, Detachment};
use crate::lifecycle::drain::{ForcedDeletion, next_pass};
use crate::lifecycle::farewell;
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource as _;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How often pods and volumes are looked at again (lifecycle 13.7, 13.8).
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How often a machine that is going is asked for (lifecycle 13.9).
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// The controller.
#[derive(Debug)]
pub struct NodeTermination {
    kit: Kit,
    orders: Arc<Orders>,
    evictions: Evictions,
}

/// One Node in one pass.
struct Pass<'a> {
    snapshot: &'a Snapshot,
    node: &'a Arc<NodeEntry>,
    pods: Vec<Arc<PodEntry>>,
    /// The claim as it shall be; what differs from the read one is saved at the end.
    claim: Option<NodeClaim>,
    /// By when everything must be gone, if that is bounded.
    termination: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
}

#[async_trait]
impl Reconciler for NodeTermination {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let Some(node) = snapshot.node(&key.name) else {
            return Ok(Next::Done);
        };
        let machine = snapshot.machine_of_node(node.name());
        let claim = machine.and_then(|machine| machine.claim.as_ref());
        if !node.is_deleting() || !node.has_termination_finalizer() || !self.is_managed(node, claim) {
            return Ok(Next::Done);
        }
        if let Some(claim) = claim.filter(|claim| !claim.facts.is_deleting()) {
            // they share their fate (lifecycle 13.2)
            self.kit
                .writer
                .delete::<NodeClaim>(&Target::of(&claim.meta), DeleteHow::default())
                .await?;
        }
        if !node.is_ready() && self.has_no_machine(node, claim).await? {
            return self.let_go(node, claim).await;
        }
        let termination = termination_time(claim)?;
        if let Some(end) = termination {
            let involved = Involved::entry::<Node>(&node.meta);
            self.kit.recorder.publish(expiring(involved, &time::to_rfc3339(end)));
        }
        if self.prepare(node).await? {
            // the changed node comes back
            return Ok(Next::Done);
        }
        let mut pass = Pass {
            snapshot: &snapshot,
            node,
            pods: pods_of(&snapshot, node),
            claim: claim.map(|claim| claim.facts.clone()),
            termination,
            now: self.kit.now(),
        };
        let wish = self.stages(&mut pass).await;
        self.save(claim, &pass).await?;
        match wish? {
            Some(next) => Ok(next),
            None => self.let_go(node, claim).await,
        }
    }
}

impl NodeTermination {
    /// The controller; `evictions` is the queue that asks pods to leave.
    pub fn new(kit: Kit, orders: Arc<Orders>, evictions: Evictions) -> Self {
        Self { kit, orders, evictions }
    }

    /// Whether the Node is ours (lifecycle 0.4).
    ///
    /// Differs: a claim of ours proves it too, and so does a claim that is gone if the Node names it as its owner and came from the pool that was ordered
    /// for it. Upstream knows only the label, and that can be wiped while the Node goes (architecture §7.5); nobody would then end its machine.
    fn is_managed(&self, node: &NodeEntry, claim: Option<&Arc<ClaimEntry>>) -> bool {
        let kinds = self.kit.provider.node_class_kinds();
        let ordered_for = self.kit.provider.claim_of_node(&node.labels);
        claim.is_some_and(|claim| claim.is_managed(kinds))
            || kinds.iter().any(|kind| node.label(&kind.label_key()).is_some())
            || ordered_for.is_some_and(|uid| belongs_to(node, &uid))
    }

    /// Whether a complete answer says that there is no machine behind the Node (lifecycle 13.3). A machine that was taken is gone as well.
    async fn has_no_machine(&self, node: &NodeEntry, claim: Option<&Arc<ClaimEntry>>) -> Result<bool, ReconcileError> {
        let Some(identity) = self.identity(node, claim) else {
            return Ok(false);
        };
        let state = self.kit.provider.get(&identity).await.map_err(ReconcileError::new)?;
        Ok(matches!(state, MachineState::Absent | MachineState::Taken))
    }

    /// The machine behind the Node: the claim's, or what the platform wrote on the Node.
    fn identity(&self, node: &NodeEntry, claim: Option<&Arc<ClaimEntry>>) -> Option<MachineIdentity> {
        if let Some(claim) = claim {
            return Some(self.orders.identity(&claim.facts));
        }
        Some(MachineIdentity {
            claim_uid: self.kit.provider.claim_of_node(&node.labels)?,
            provider_id: node.provider_id.as_deref().map(str::to_owned),
            capacity_type: node.label(labels::CAPACITY_TYPE).and_then(|word| word.parse().ok()),
            create_outcome: CreateOutcome::Known,
            ..MachineIdentity::default()
        })
    }

    /// Taints the Node and takes it from load balancers, in one patch (lifecycle 13.5); says whether that was needed.
    async fn prepare(&self, node: &NodeEntry) -> Result<bool, ReconcileError> {
        let mut patch = Map::new();
        let taints = farewell::tainted(&node.taints);
        if let Some(taints) = &taints {
            patch.insert("spec".to_owned(), json!({ "taints": taints }));
        }
        if node.label(labels::EXCLUDE_FROM_LOAD_BALANCERS).is_none() {
            let value = labels::EXCLUDE_FROM_LOAD_BALANCERS_VALUE;
            let excluded = json!({ "labels": { labels::EXCLUDE_FROM_LOAD_BALANCERS: value } });
            patch.insert("metadata".to_owned(), excluded);
        }
        if patch.is_empty() {
            return Ok(false);
        }
        let target = Target::of(&node.meta);
        let written = self
            .kit
            .writer
            .patch::<Node>(&target, Value::Object(patch), Lock::Version)
            .await;
        if write_as_expected(written)?.is_some() && taints.is_some() {
            events::log_taint(node);
        }
        Ok(true)
    }

    /// Drain, volumes, machine: the first that has to wait ends the pass; `None` when all are through (lifecycle 13.6).
    async fn stages(&self, pass: &mut Pass<'_>) -> Result<Option<Next>, ReconcileError> {
        if let Some(next) = self.drain(pass).await? {
            return Ok(Some(next));
        }
        if let Some(next) = self.detach(pass) {
            return Ok(Some(next));
        }
        self.end_machine(pass).await
    }

    async fn drain(&self, pass: &mut Pass<'_>) -> Result<Option<Next>, ReconcileError> {
        let now = pass.now;
        if let Some(claim) = pass.claim.as_mut()
            && claim.condition(conditions::DRAINED).is_none()
        {
            claim.set_unknown(conditions::DRAINED, "Draining", "Draining", now);
        }
        for event in pass.pods.iter().filter_map(|pod| events::protection(pod, now)) {
            self.kit.recorder.publish(event);
        }
        let drain = next_pass(&pass.pods, pass.termination, now);
        for forced in &drain.force {
            self.force(forced, pass.termination).await?;
        }
        for eviction in drain.evict {
            self.evictions.add(eviction);
        }
        if drain.waiting > 0 {
            let involved = Involved::entry::<Node>(&pass.node.meta);
            self.kit.recorder.publish(events::pods_waiting(involved, drain.waiting));
            return Ok(Some(Next::After(LOOK_AGAIN)));
        }
        let drained = pass
            .claim
            .as_ref()
            .and_then(|claim| claim.condition(conditions::DRAINED));
        if !farewell::may_go_on(drained, now) {
            return Ok(Some(Next::After(LOOK_AGAIN)));
        }
        if let Some(claim) = pass.claim.as_mut() {
            claim.set_true(conditions::DRAINED, now);
        }
        Ok(None)
    }

    /// Deletes a pod whose time is over, with what is left of its grace period (lifecycle 14.4).
    async fn force(&self, forced: &ForcedDeletion, end: Option<DateTime<Utc>>) -> Result<(), ReconcileError> {
        let target = Target {
            namespace: Some(forced.pod.namespace().to_owned()),
            name: forced.pod.name.to_string(),
            uid: forced.uid.to_string(),
            version: String::new(),
        };
        let how = DeleteHow {
            grace_seconds: u32::try_from(forced.granted_seconds).ok(),
            ..DeleteHow::default()
        };
        let end = end.map(time::to_rfc3339).unwrap_or_default();
        tracing::debug!(
            namespace = forced.pod.namespace(),
            name = &*forced.pod.name,
            "pod.terminationGracePeriodSeconds" = forced.own_seconds,
            "delete.gracePeriodSeconds" = forced.granted_seconds,
            "nodeclaim.terminationTime" = end,
            "deleting pod"
        );
        match self.kit.writer.delete::<Pod>(&target, how).await {
            Ok(_) => {
                self.kit.recorder.publish(events::pod_forced(forced, &end));
                Ok(())
            }
            // the name belongs to another pod by now
            Err(error) if error.is_conflict() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn detach(&self, pass: &mut Pass<'_>) -> Option<Next> {
        let (now, node) = (pass.now, pass.node);
        let pending = detachment::pending(pass.snapshot, node.name(), &pass.pods, now);
        let names: Vec<&str> = pending.iter().map(|attachment| attachment.name()).collect();
        match detachment::verdict(names.len(), pass.termination, now) {
            Detachment::Done => {
                if let Some(claim) = pass.claim.as_mut() {
                    claim.set_true(conditions::VOLUMES_DETACHED, now);
                }
                None
            }
            Detachment::Waiting => {
                let involved = Involved::entry::<Node>(&node.meta);
                self.kit.recorder.publish(events::volumes_attached(involved, &names));
                let reason = "AwaitingVolumeDetachment";
                if let Some(claim) = pass.claim.as_mut() {
                    claim.set_unknown(conditions::VOLUMES_DETACHED, reason, reason, now);
                }
                Some(Next::After(LOOK_AGAIN))
            }
            Detachment::GivenUp => {
                let reason = "TerminationGracePeriodElapsed";
                if let Some(claim) = pass.claim.as_mut() {
                    claim.set_false(conditions::VOLUMES_DETACHED, reason, reason, now);
                }
                None
            }
        }
    }

    /// Ends the claim's machine; without a claim there is none to end (lifecycle 13.9, 13.11).
    async fn end_machine(&self, pass: &mut Pass<'_>) -> Result<Option<Next>, ReconcileError> {
        let Some(claim) = pass.claim.as_mut() else {
            return Ok(None);
        };
        let deletion = self
            .kit
            .provider
            .delete(&self.orders.identity(claim))
            .await
            .map_err(ReconcileError::new)?;
        claim.set_true(conditions::INSTANCE_TERMINATING, pass.now);
        Ok((deletion == Deletion::InProgress).then_some(Next::After(ASK_AGAIN)))
    }

    /// Saves what the stages found on the claim, also when one of them failed (lifecycle 13.6).
    async fn save(&self, before: Option<&Arc<ClaimEntry>>, pass: &Pass<'_>) -> Result<(), ReconcileError> {
        let (Some(before), Some(after)) = (before, &pass.claim) else {
            return Ok(());
        };
        save(&self.kit, &before.facts, after).await?;
        if after.is_true(conditions::DRAINED) && !before.facts.is_true(conditions::DRAINED) {
            let pool = pass.node.label(labels::NODEPOOL).unwrap_or_default();
            self.kit.metrics.nodes.drained.increment([pool]);
        }
        Ok(())
    }

    async fn let_go(&self, node: &NodeEntry, claim: Option<&Arc<ClaimEntry>>) -> Result<Next, ReconcileError> {
        self.kit
            .writer
            .remove_finalizer::<Node>(&Target::of(&node.meta), &node.finalizers, labels::TERMINATION_FINALIZER)
            .await?;
        let (now, pool) = (self.kit.now(), node.label(labels::NODEPOOL).unwrap_or_default());
        let since = |start: DateTime<Utc>| now.signed_duration_since(start).as_seconds_f64().max(0.0);
        let metrics = &self.kit.metrics.nodes;
        metrics.terminated.increment([pool]);
        if let Some(deleting) = node.meta.deleting {
            metrics.termination_seconds.observe([pool], since(deleting), now);
        }
        if let Some(created) = node.meta.created {
            metrics.lifetime_seconds.observe([pool], since(created));
        }
        tracing::info!(
            Node = node.name(),
            NodeClaim = claim.map(|claim| claim.name()),
            "deleted node"
        );
        Ok(Next::Done)
    }
}

/// By when the claim's pods must be gone (lifecycle 13.4); a text that is no time is an error that somebody must correct.
fn termination_time(claim: Option<&Arc<ClaimEntry>>) -> Result<Option<DateTime<Utc>>, ReconcileError> {
    let Some(claim) = claim else { return Ok(None) };
    let Some(text) = claim.annotation(labels::TERMINATION_TIMESTAMP_ANNOTATION) else {
        return Ok(None);
    };
    match time::parse_rfc3339(text) {
        Some(end) => Ok(Some(end)),
        None => Err(ReconcileError::new(format!(
            "annotation {} of NodeClaim {} is {text:?}, which is not a time such as 2026-01-31T12:00:00Z",
            labels::TERMINATION_TIMESTAMP_ANNOTATION,
            claim.name()
        ))),
    }
}

/// The pods on the Node that have not ended.
fn pods_of(snapshot: &Snapshot, node: &NodeEntry) -> Vec<Arc<PodEntry>> {
    let machine = snapshot.machine_of_node(node.name());
    if let Some(machine) = machine.filter(|machine| machine.node.is_some()) {
        return machine.pods.to_vec();
    }
    // a second server of a claim is no machine of its own
    let here = snapshot
        .objects
        .pods
        .values()
        .filter(|pod| pod.node() == Some(node.name()) && !pod.is_terminal());
    here.map(Arc::clone).collect()
}

/// Whether the Node names the claim of this UID as its owner.
fn belongs_to(node: &NodeEntry, uid: &str) -> bool {
    let is_it = |owner: &OwnerReference| owner.kind == NodeClaim::kind(&()) && owner.uid == uid;
    node.owners.iter().any(is_it)
}

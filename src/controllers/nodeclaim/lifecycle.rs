//! `nodeclaim.lifecycle`: from the finalizer to the initialized node, and the end of claims that do not get there (lifecycle 2).
//!
//! ```text
//! finalizer ─▶ launch ─▶ registration ─▶ initialization ─▶ liveness ─▶ save
//!                 └────────── any may end the claim: machine first, then the claim
//! ```
//!
//! One waiting claim never holds up another: each is a key of its own, and the provider answers without waiting (architecture §3.4). A claim that
//! is being deleted is handed to [`Termination`] under the same key, so the two never work on one claim at once.

use super::machine::Orders;
use super::save::save;
use super::termination::Termination;
use crate::api::{Conditioned, NodeClaim, conditions, labels};
use crate::cloud::Deletion;
use crate::cluster::entries::{ClaimEntry, NodeEntry};
use crate::cluster::{Key, Snapshot};
use crate::controllers::Kit;
use crate::controllers::nodepool::health::RegistrationHealth;
use crate::k8s::queue::{Next, ReconcileError, Reconciler};
use crate::k8s::write::{DeleteHow, Target};
use crate::lifecycle::health::Health;
use crate::lifecycle::liveness::{self, Liveness, LivenessView};
use crate::resources::ResourceList;
use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use std::sync::Arc;

/// The controller.
#[derive(Debug)]
pub struct Lifecycle {
    pub(super) kit: Kit,
    pub(super) orders: Arc<Orders>,
    pub(super) health: Arc<RegistrationHealth>,
    termination: Termination,
}

/// One claim in one pass.
pub(super) struct Pass<'a> {
    /// The claim as it shall be; compared with the read one at the end.
    pub(super) claim: NodeClaim,
    /// All nodes with the claim's provider ID.
    pub(super) nodes: Vec<&'a Arc<NodeEntry>>,
    /// The node that is joined with the claim.
    pub(super) node: Option<&'a Arc<NodeEntry>>,
    pub(super) snapshot: &'a Snapshot,
    pub(super) created: DateTime<Utc>,
    pub(super) now: DateTime<Utc>,
}

impl Pass<'_> {
    /// Whether the kubelet of the claim's own node reports, ready or not. Once the claim has registered, the node of another server is not its own.
    pub(super) fn node_is_heard(&self) -> bool {
        let joined = self.node.filter(|_| !self.claim.is_true(conditions::REGISTERED));
        let own = self.nodes.first().copied().or(joined);
        let heard = |node: &Arc<NodeEntry>| node.condition("Ready").is_some_and(|ready| ready.status != "Unknown");
        own.is_some_and(heard)
    }

    pub(super) fn allocatable(&self) -> ResourceList {
        self.claim
            .status
            .as_ref()
            .map(|status| ResourceList::from_api(&status.allocatable))
            .unwrap_or_default()
    }

    /// A wish to look again at an instant.
    pub(super) fn at(&self, until: DateTime<Utc>) -> Next {
        Next::After(until.signed_duration_since(self.now).to_std().unwrap_or_default())
    }
}

/// How a step went.
pub(super) enum Step {
    /// Well; look again then.
    Next(Next),
    /// It failed and is tried again; what it wrote on the claim is saved all the same.
    Failed(ReconcileError),
    /// The claim ends.
    End(Ended),
}

/// Why a claim ends.
pub(super) struct Ended {
    /// Value of the `reason` label of `karpenter_nodeclaims_disrupted_total`.
    pub(super) reason: &'static str,
    /// What this says of the NodePool, if anything: a failure that counts as one, or unhealthy at once.
    pub(super) unhealthy: Option<Unhealthy>,
}

/// How bad an end is for the health of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unhealthy {
    /// One failure of the last four (lifecycle 12.6).
    OneFailure,
    /// Unhealthy at once (architecture §7.3).
    AtOnce,
}

#[async_trait]
impl Reconciler for Lifecycle {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let Some(entry) = snapshot.claim(&key.name) else {
            return Ok(Next::Done);
        };
        if !entry.is_managed(self.kit.provider.node_class_kinds()) {
            return Ok(Next::Done);
        }
        if entry.facts.is_deleting() {
            return self.termination.finalize(&snapshot, entry).await;
        }
        if !entry.has_termination_finalizer() {
            // Before anything is launched (lifecycle 2.3); the written claim comes back as a change.
            let present = entry.metadata.finalizers.clone().unwrap_or_default();
            let target = Target::of(&entry.meta);
            self.kit
                .writer
                .add_finalizer::<NodeClaim>(&target, &present, labels::TERMINATION_FINALIZER)
                .await?;
            return Ok(Next::Done);
        }
        self.advance(&snapshot, entry).await
    }
}

impl Lifecycle {
    /// The controller of these parts.
    pub fn new(kit: Kit, orders: Arc<Orders>, health: Arc<RegistrationHealth>) -> Self {
        let termination = Termination::new(kit.clone(), Arc::clone(&orders));
        Self {
            kit,
            orders,
            health,
            termination,
        }
    }

    async fn advance(&self, snapshot: &Snapshot, entry: &Arc<ClaimEntry>) -> Result<Next, ReconcileError> {
        let now = self.kit.now();
        let mut pass = Pass {
            claim: entry.facts.clone(),
            nodes: nodes_of(snapshot, entry),
            node: snapshot
                .machine_of_claim(entry.name())
                .and_then(|machine| machine.node.as_ref()),
            snapshot,
            created: entry.meta.created.unwrap_or(now),
            now,
        };
        pass.claim.initialize_conditions(now);
        let outcome = self.steps(&mut pass).await;
        save(&self.kit, &entry.facts, &pass.claim).await?;
        match outcome? {
            Step::Next(next) => Ok(next),
            Step::Failed(error) => Err(error),
            Step::End(ended) => self.end(&pass, &ended).await,
        }
    }

    async fn steps(&self, pass: &mut Pass<'_>) -> Result<Step, ReconcileError> {
        let mut next = Next::Done;
        let mut failed = None;
        match self.launch(pass).await? {
            Step::Next(wish) => next = next.sooner(wish),
            Step::Failed(error) => failed = Some(error),
            end @ Step::End(_) => return Ok(end),
        }
        next = next.sooner(self.register(pass).await?);
        next = next.sooner(self.initialize(pass).await?);
        match self.liveness(pass) {
            Step::Next(wish) => next = next.sooner(wish),
            other => return Ok(other),
        }
        Ok(failed.map_or(Step::Next(next), Step::Failed))
    }

    fn liveness(&self, pass: &Pass<'_>) -> Step {
        let since = |type_: &str| {
            pass.claim
                .condition(type_)
                .map(|condition| condition.last_transition_time)
        };
        let provider = &self.kit.provider;
        let timeout = |limit: std::time::Duration| TimeDelta::from_std(limit).unwrap_or(TimeDelta::MAX);
        let view = LivenessView {
            created: pass.created,
            launched: since(conditions::LAUNCHED).filter(|_| pass.claim.is_true(conditions::LAUNCHED)),
            registered: pass.claim.is_true(conditions::REGISTERED),
            registration_refused: since(conditions::REGISTERED).filter(|_| pass.claim.is_false(conditions::REGISTERED)),
            launch_timeout: timeout(provider.launch_timeout(&pass.claim)),
            registration_timeout: timeout(provider.registration_timeout(&pass.claim)),
        };
        match liveness::verdict(&view, pass.now) {
            Liveness::Alive => Step::Next(Next::Done),
            Liveness::Until(then) => Step::Next(pass.at(then)),
            Liveness::LaunchTimedOut => Step::End(self.launch_timed_out(pass)),
            Liveness::RegistrationTimedOut => {
                tracing::debug!(
                    NodeClaim = pass.claim.metadata.name,
                    timeout = ?provider.registration_timeout(&pass.claim),
                    reason = "registration_timeout",
                    "terminating due to timeout"
                );
                Step::End(Ended {
                    reason: "registration_timeout",
                    unhealthy: Some(Unhealthy::OneFailure),
                })
            }
        }
    }

    /// The class did not deliver: it cools down, so that the next claim tries another (architecture §7.3).
    pub(super) fn launch_timed_out(&self, pass: &Pass<'_>) -> Ended {
        let provider = &self.kit.provider;
        tracing::debug!(
            NodeClaim = pass.claim.metadata.name,
            timeout = ?provider.launch_timeout(&pass.claim),
            reason = "launch_timeout",
            "terminating due to timeout"
        );
        let capacity_type = pass.claim.capacity_type().and_then(|word| word.parse().ok());
        if let (Some(type_), Some(capacity_type)) = (pass.claim.instance_type(), capacity_type) {
            provider.did_not_deliver(type_, capacity_type);
        }
        Ended {
            reason: "launch_timeout",
            unhealthy: Some(Unhealthy::AtOnce),
        }
    }

    /// Machine first, then the claim: a machine left alone would be won again and billed for nobody (architecture §7.21).
    async fn end(&self, pass: &Pass<'_>, ended: &Ended) -> Result<Next, ReconcileError> {
        let claim = &pass.claim;
        // Whether it is gone already is the finalizer's question; here it only has to be on its way.
        let (Deletion::Gone | Deletion::InProgress) = self
            .kit
            .provider
            .delete(&self.orders.identity(claim))
            .await
            .map_err(ReconcileError::new)?;
        if let Some(how) = ended.unhealthy {
            let forced = (how == Unhealthy::AtOnce).then_some(Health::Unhealthy);
            self.health.failed(pass.snapshot, claim, forced, pass.now).await?;
        }
        self.kit
            .writer
            .delete::<NodeClaim>(&Target::object(claim), DeleteHow::default())
            .await?;
        let labels = [
            ended.reason,
            claim.nodepool().unwrap_or_default(),
            claim.capacity_type().unwrap_or_default(),
        ];
        self.kit.metrics.nodeclaims.disrupted.increment(labels);
        Ok(Next::Done)
    }
}

/// All nodes that carry the claim's provider ID (lifecycle 4.2).
pub(super) fn nodes_of<'a>(snapshot: &'a Snapshot, claim: &NodeClaim) -> Vec<&'a Arc<NodeEntry>> {
    let Some(id) = claim.provider_id() else {
        return Vec::new();
    };
    snapshot
        .objects
        .nodes
        .values()
        .filter(|node| node.provider_id.as_deref() == Some(id))
        .collect()
}

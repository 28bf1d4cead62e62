//! `disruption.queue`: carries commands out (disruption 11).

use super::commands::Commands;
use super::events;
use super::marking::{self, Marking};
use super::pass::{Nodes, reason_label};
use crate::api::{Conditioned, NodeClaim, conditions};
use crate::cluster::{MachineId, Mark, Snapshot};
use crate::controllers::Kit;
use crate::disruption::candidate::Candidate;
use crate::disruption::command::Command;
use crate::disruption::execution::{Readiness, Step, next};
use crate::k8s::queue::{Next, ReconcileError, Reconciler};
use crate::k8s::write::{DeleteHow, Target};
use async_trait::async_trait;
use std::time::Duration;

/// How often replacements are looked at (disruption 11.3).
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The controller; its keys are numbers of commands.
#[derive(Debug)]
pub struct Execution {
    kit: Kit,
    commands: Commands,
}

#[async_trait]
impl Reconciler for Execution {
    type Key = u64;

    async fn reconcile(&self, key: &u64) -> Result<Next, ReconcileError> {
        let Some(mut command) = self.commands.get(*key) else {
            return Ok(Next::Done);
        };
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let readiness = self.look_at_replacements(&snapshot, &mut command);
        self.commands.replace(*key, command.clone());
        let age = self.kit.now().signed_duration_since(command.created);
        match next(&readiness, age, self.commands.busy().len()) {
            Step::Wait => Ok(Next::After(LOOK_AGAIN)),
            Step::Delete => {
                for candidate in &command.candidates {
                    self.delete(&snapshot, &command, candidate).await?;
                }
                self.commands.remove(*key);
                tracing::debug!(command = %command, "command succeeded");
                Ok(Next::Done)
            }
            Step::GiveUp => {
                self.give_up(&command, &readiness).await?;
                self.commands.remove(*key);
                Ok(Next::Done)
            }
        }
    }
}

impl Execution {
    /// The controller.
    pub fn new(kit: Kit, commands: Commands) -> Self {
        Self { kit, commands }
    }

    /// How the replacements are; one that was ever seen initialized stays so (disruption 11.2).
    fn look_at_replacements(&self, snapshot: &Snapshot, command: &mut Command) -> Vec<Readiness> {
        let reason = command.method.reason();
        let mut readiness = Vec::new();
        for replacement in &mut command.replacements {
            let claim = snapshot.claim(&replacement.claim);
            let initialized = claim.is_some_and(|claim| claim.facts.is_true(conditions::INITIALIZED));
            replacement.was_initialized |= initialized;
            readiness.push(match claim {
                _ if replacement.was_initialized => Readiness::Initialized,
                Some(claim) => {
                    events::launching(&self.kit.recorder, claim, reason.as_str());
                    Readiness::Waiting
                }
                None => Readiness::Lost,
            });
        }
        readiness
    }

    /// Deletes a candidate's claim; what follows is the claim's finalizer's business.
    async fn delete(
        &self,
        snapshot: &Snapshot,
        command: &Command,
        candidate: &Candidate,
    ) -> Result<(), ReconcileError> {
        let present = snapshot
            .claim(candidate.claim.name())
            .filter(|claim| claim.meta.uid == candidate.claim.meta.uid);
        // gone, or deleted by an earlier attempt
        let Some(claim) = present.filter(|claim| !claim.facts.is_deleting()) else {
            return Ok(());
        };
        self.kit
            .writer
            .delete::<NodeClaim>(&Target::of(&claim.meta), DeleteHow::default())
            .await?;
        let reason = command.method.reason();
        events::terminating(&self.kit.recorder, &candidate.node, claim, reason.as_str());
        let labels = [
            reason_label(command.method),
            claim.nodepool().unwrap_or_default().to_owned(),
            claim.capacity_type().unwrap_or_default().to_owned(),
        ];
        self.kit
            .metrics
            .nodeclaims
            .disrupted
            .increment([&labels[0], &labels[1], &labels[2]]);
        Ok(())
    }

    /// The nodes stay: their marks are taken back (disruption 11.6).
    async fn give_up(&self, command: &Command, readiness: &[Readiness]) -> Result<(), ReconcileError> {
        let late = readiness
            .iter()
            .filter(|readiness| **readiness != Readiness::Initialized)
            .count();
        for candidate in &command.candidates {
            marking::node(&self.kit, candidate.node.name(), Marking::TakeBack).await?;
            marking::claim(&self.kit, candidate.claim.name(), Marking::TakeBack).await?;
        }
        let machines: Vec<MachineId> = command.machines().cloned().collect();
        self.kit
            .cluster
            .mark(machines, Mark::Not)
            .await
            .map_err(ReconcileError::new)?;
        let decision = command.decision().as_str();
        let labels = [decision, &reason_label(command.method), decision];
        let late = u32::try_from(late).unwrap_or(u32::MAX);
        self.kit.metrics.disruption.queue_failures.add(labels, f64::from(late));
        let nodes = Nodes::of(command);
        tracing::error!(
            command = %command,
            decision,
            "disrupted-node-count" = command.candidates.len(),
            "replacement-node-count" = command.replacements.len(),
            "pod-count" = command.pod_count(),
            "disrupted-nodes" = ?nodes.disrupted,
            "replacement-nodes" = ?nodes.replacements,
            error = why(readiness),
            "failed terminating nodes while executing a disruption command"
        );
        Ok(())
    }
}

/// Why the nodes stay.
fn why(readiness: &[Readiness]) -> &'static str {
    if readiness.contains(&Readiness::Lost) {
        "a replacement went before it was initialized"
    } else {
        "the command took too long"
    }
}

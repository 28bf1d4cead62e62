//! `disruption`: one pass chooses at most one command and starts it (disruption 1).
//!
//! The wait before validation blocks the loop, as a command that is not validated yet must not compete with another one. No claim that is still
//! waiting for its machine stops the loop (architecture §3.4): what is not initialized is no candidate, that is all.

use super::commands::Commands;
use super::events;
use super::marking::{self, Marking};
use super::view::{View, look};
use crate::cluster::{MachineId, Mark};
use crate::controllers::Kit;
use crate::disruption::allowance::Allowances;
use crate::disruption::candidate::Candidate;
use crate::disruption::command::Command;
use crate::disruption::leftover::{Leftover, leftovers};
use crate::disruption::method::{Method, ORDER};
use crate::disruption::rest::{Verdict, may_rest};
use crate::disruption::validate;
use crate::k8s::queue::{Next, Queue, ReconcileError};
use crate::telemetry::Structured;
use futures::future::join_all;
use serde_json::json;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often the loop looks when nobody wakes it (disruption 1.1).
pub const PERIOD: Duration = Duration::from_secs(10);

/// The loop.
#[derive(Debug)]
pub struct Loop {
    kit: Kit,
    commands: Commands,
    queue: Queue<u64>,
    stop: CancellationToken,
    last: Mutex<Option<Verdict>>,
}

/// How an attempt of a method ended.
enum Attempt {
    /// A command was started.
    Started,
    /// Nothing to do, for the time that the verdict holds.
    Nothing(Verdict),
}

impl Loop {
    /// A loop that enters its commands into `commands` and `queue`; `stop` ends a wait in its middle.
    pub fn new(kit: Kit, commands: Commands, queue: Queue<u64>, stop: CancellationToken) -> Self {
        Self {
            kit,
            commands,
            queue,
            stop,
            last: Mutex::default(),
        }
    }

    /// One pass.
    pub async fn run(&self) -> Result<Next, ReconcileError> {
        self.kit.cluster.completed().await.map_err(ReconcileError::new)?;
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        for leftover in leftovers(&snapshot, &self.commands.busy()) {
            self.undo(&leftover).await?;
        }
        if may_rest(self.verdict().as_ref(), snapshot.revision, self.kit.now()) {
            return Ok(Next::Done);
        }
        let mut verdict: Option<Verdict> = None;
        for method in ORDER {
            let started = Instant::now();
            let attempt = self.attempt(*method).await;
            let labels = [reason_label(*method), method.consolidation_type().to_owned()];
            self.kit
                .metrics
                .disruption
                .evaluation_seconds
                .observe([&labels[0], &labels[1]], started.elapsed().as_secs_f64());
            match attempt? {
                Attempt::Started => return Ok(Next::Again),
                Attempt::Nothing(found) => {
                    let lasting = found.lasting && verdict.as_ref().is_none_or(|before| before.lasting);
                    let revision = verdict.map_or(found.revision, |before| before.revision);
                    verdict = Some(Verdict {
                        revision,
                        lasting,
                        ..found
                    });
                }
            }
        }
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = verdict;
        Ok(Next::Done)
    }

    fn verdict(&self) -> Option<Verdict> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes back what a half-done command left behind (disruption 1.4).
    async fn undo(&self, leftover: &Leftover) -> Result<(), ReconcileError> {
        if let Some(node) = &leftover.tainted {
            marking::node(&self.kit, node.name(), Marking::TakeBack).await?;
        }
        if let Some(claim) = &leftover.reasoned {
            marking::claim(&self.kit, claim.name(), Marking::TakeBack).await?;
        }
        Ok(())
    }

    async fn attempt(&self, method: Method) -> Result<Attempt, ReconcileError> {
        let view = look(&self.kit, &self.commands, method).await?;
        let eligible = u32::try_from(view.candidates.len()).unwrap_or(u32::MAX);
        self.kit
            .metrics
            .disruption
            .eligible_nodes
            .set([&reason_label(method)], f64::from(eligible));
        self.show(method, &view.allowances);
        let verdict = |lasting| Verdict {
            revision: view.revision,
            at: self.kit.now(),
            lasting,
        };
        let View {
            candidates,
            mut allowances,
            passing,
            ..
        } = view;
        let choice = method.choose(candidates, &mut allowances);
        if choice.candidates.is_empty() {
            return Ok(Attempt::Nothing(verdict(!passing && !choice.constrained)));
        }
        let Some(validated) = self.validate(method, &choice.candidates).await? else {
            return Ok(Attempt::Nothing(verdict(false)));
        };
        let command = Command {
            id: self.commands.name(self.kit.now()),
            method,
            candidates: validated,
            replacements: Vec::new(),
            created: self.kit.now(),
        };
        self.start(command).await?;
        Ok(Attempt::Started)
    }

    /// Shows what budgets allow, and tells of those that allow nothing or cannot be read (disruption 1.3, 4.6).
    fn show(&self, method: Method, allowances: &Allowances) {
        let reason = method.reason();
        let metrics = &self.kit.metrics.nodepools;
        for allowance in allowances.iter() {
            let labels = [allowance.pool.name(), reason.as_str()];
            metrics.allowed_disruptions.set(labels, number(allowance.budget));
            metrics
                .nodes_consuming_budgets
                .set(labels, number(allowance.disrupting));
            if let Some(error) = &allowance.error {
                tracing::error!(nodepool = allowance.pool.name(), %error, "detected disruption budget errors");
            }
            if allowance.blocks() {
                self.kit
                    .recorder
                    .publish(events::blocking_budget(&allowance.pool, reason.as_str()));
            }
        }
    }

    /// Looks again after a while (disruption 10); `None` when nothing of the choice is left, or the process stops.
    async fn validate(&self, method: Method, chosen: &[Candidate]) -> Result<Option<Vec<Candidate>>, ReconcileError> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => return Ok(None),
            () = tokio::time::sleep(validate::PAUSE) => {}
        }
        let view = look(&self.kit, &self.commands, method).await?;
        let mut allowances = view.allowances;
        let verdict = match method {
            Method::Emptiness => validate::emptiness(chosen, view.candidates, &mut allowances),
        };
        let dropped = u32::try_from(verdict.dropped).unwrap_or(u32::MAX);
        self.kit
            .metrics
            .disruption
            .failed_validations
            .add([method.consolidation_type()], f64::from(dropped));
        match verdict.kept {
            Ok(kept) => Ok(Some(kept)),
            Err(failure) => {
                tracing::debug!(
                    reason = failure.as_str(),
                    "abandoning empty node consolidation attempt due to pod churn, command is no longer valid"
                );
                Ok(None)
            }
        }
    }

    /// Marks the candidates and hands the command to the queue (disruption 9). Without replacements it goes on with those that could be marked.
    async fn start(&self, mut command: Command) -> Result<(), ReconcileError> {
        let Some(number) = self.commands.enter(command.clone()) else {
            return Ok(());
        };
        let reason = command.method.reason();
        let marks = command.candidates.iter().map(|candidate| async {
            marking::node(&self.kit, candidate.node.name(), Marking::Put(reason.as_str())).await?;
            marking::claim(&self.kit, candidate.claim.name(), Marking::Put(reason.as_str())).await
        });
        let outcomes = join_all(marks).await;
        let mut failed = None;
        let mut marked = Vec::new();
        for (candidate, outcome) in command.candidates.drain(..).zip(outcomes) {
            match outcome {
                Ok(()) => marked.push(candidate),
                Err(error) => failed = Some(error),
            }
        }
        command.candidates = marked;
        if let Some(error) = failed.filter(|_| command.candidates.is_empty() || !command.replacements.is_empty()) {
            // the next pass takes back what was put
            self.commands.remove(number);
            return Err(error);
        }
        let machines: Vec<MachineId> = command.machines().cloned().collect();
        self.commands.replace(number, command.clone());
        self.kit
            .cluster
            .mark(machines, Mark::ForDeletion)
            .await
            .map_err(ReconcileError::new)?;
        self.record(&command);
        self.queue.add(number);
        Ok(())
    }

    fn record(&self, command: &Command) {
        let (decision, kind) = (command.decision().as_str(), command.method.consolidation_type());
        let reason = reason_label(command.method);
        let metrics = &self.kit.metrics.disruption;
        metrics.decisions.increment([decision, &reason, kind]);
        for pool in command.pools() {
            metrics.decisions_by_nodepool.increment([pool, decision, &reason, kind]);
        }
        let nodes = Nodes::of(command);
        tracing::info!(
            command = %command,
            decision,
            "disrupted-node-count" = command.candidates.len(),
            "replacement-node-count" = command.replacements.len(),
            "pod-count" = command.pod_count(),
            "disrupted-nodes" = ?nodes.disrupted,
            "replacement-nodes" = ?nodes.replacements,
            "disrupting node(s)"
        );
    }
}

/// The nodes of a command as log lines list them (surface §8.2).
pub(super) struct Nodes {
    pub(super) disrupted: Structured,
    pub(super) replacements: Structured,
}

impl Nodes {
    pub(super) fn of(command: &Command) -> Self {
        let disrupted = command.candidates.iter().map(|candidate| {
            json!({
                "Node": { "name": candidate.node.name() },
                "NodeClaim": { "name": candidate.claim.name() },
                "instance-type": candidate.claim.instance_type(),
                "capacity-type": candidate.claim.capacity_type(),
            })
        });
        let replacements = command
            .replacements
            .iter()
            .map(|replacement| json!({ "NodeClaim": { "name": replacement.claim.to_string() } }));
        Self {
            disrupted: Structured(disrupted.collect()),
            replacements: Structured(replacements.collect()),
        }
    }
}

/// The reason as the metrics of disruption show it (surface T9).
pub(super) fn reason_label(method: Method) -> String {
    method.reason().as_str().to_lowercase()
}

/// A count of nodes; an unlimited budget fits as well.
fn number(count: i64) -> f64 {
    i32::try_from(count).map_or(f64::from(i32::MAX), f64::from)
}

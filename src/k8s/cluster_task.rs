//! The one owner of the cluster state: applies what watches and writers tell, wakes triggers, hands out snapshots.
//!
//! ```text
//! hub ──observe──▶ ┐                                       ┌─▶ triggers (per change) ──▶ keys into queues
//! writer ─assume─▶ ├─ bounded inbox ─▶ batch ─▶ Cluster ───┤
//! anyone ─snapshot▶ ┘                                       └─▶ Arc<Snapshot>, after all that was queued before the question
//! ```
//!
//! A burst of events is applied in batches and costs one snapshot when somebody asks, not one per event (architecture §3.1). Relies on its inbox
//! being the only way to the state. The wiring makes the task, registers triggers and runs it; everybody else holds a [`ClusterHandle`].

use super::metrics::BorderMetrics;
use crate::clock::SharedClock;
use crate::cluster::{Assumption, Change, Cluster, Delta, Doubt, MachineId, Mark, Plan, Snapshot};
use chrono::{DateTime, Utc};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

/// Messages that may wait; more make the sender wait.
const INBOX: usize = 1024;
/// Messages applied between two looks at the triggers and the askers.
const BATCH: usize = 512;
/// How often old assumptions are looked for.
const DOUBT_EVERY: Duration = Duration::from_secs(5);

/// What the task can be told.
#[derive(Debug)]
enum ToCluster {
    Observed(Delta),
    Assumed(Assumption),
    Planned(Vec<Plan>),
    Nominated(MachineId, DateTime<Utc>),
    Marked(Vec<MachineId>, Mark),
    Begin,
    Snapshot(oneshot::Sender<Arc<Snapshot>>),
}

/// The cluster task has ended: the process is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the cluster state is closed, the process is ending")]
pub struct Closed;

/// The way to the cluster state; cheap to clone.
#[derive(Debug, Clone)]
pub struct ClusterHandle {
    inbox: mpsc::Sender<ToCluster>,
    revision: watch::Receiver<u64>,
    complete: watch::Receiver<bool>,
    metrics: BorderMetrics,
}

impl ClusterHandle {
    /// Tells what a watch observed; waits while the inbox is full.
    pub async fn observe(&self, delta: Delta) -> Result<(), Closed> {
        self.send(ToCluster::Observed(delta)).await
    }

    /// Tells what one of our own writes lets us know. Whoever asks for a snapshot afterwards sees it.
    pub async fn assume(&self, assumption: Assumption) -> Result<(), Closed> {
        self.send(ToCluster::Assumed(assumption)).await
    }

    /// Writes plans into the ledger (architecture §3.3). Claims that they name must have been assumed before.
    pub async fn plan(&self, plans: Vec<Plan>) -> Result<(), Closed> {
        self.send(ToCluster::Planned(plans)).await
    }

    /// Protects a machine from disruption until then (lifecycle 16.6).
    pub async fn nominate(&self, machine: MachineId, until: DateTime<Utc>) -> Result<(), Closed> {
        self.send(ToCluster::Nominated(machine, until)).await
    }

    /// Marks machines for deletion, or takes the mark back.
    pub async fn mark(&self, machines: Vec<MachineId>, mark: Mark) -> Result<(), Closed> {
        self.send(ToCluster::Marked(machines, mark)).await
    }

    /// Ends the silence of a quiet task: every object that is known appears to the triggers, and from now on they hear every change.
    pub async fn begin(&self) -> Result<(), Closed> {
        self.send(ToCluster::Begin).await
    }

    /// Everything as it is after all that was told before.
    pub async fn snapshot(&self) -> Result<Arc<Snapshot>, Closed> {
        let (reply, answer) = oneshot::channel();
        self.send(ToCluster::Snapshot(reply)).await?;
        answer.await.map_err(|_| Closed)
    }

    /// Moves whenever the state has changed: what sleeps until there is something to look at waits on it.
    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.clone()
    }

    /// Whether every initial list is in.
    pub fn is_complete(&self) -> bool {
        *self.complete.borrow()
    }

    /// Waits until every initial list is in.
    pub async fn completed(&self) -> Result<(), Closed> {
        let mut complete = self.complete.clone();
        complete
            .wait_for(|complete| *complete)
            .await
            .map(|_| ())
            .map_err(|_| Closed)
    }

    async fn send(&self, message: ToCluster) -> Result<(), Closed> {
        match self.inbox.try_send(message) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Closed),
            Err(mpsc::error::TrySendError::Full(message)) => {
                self.metrics.inbox_full.inc();
                self.inbox.send(message).await.map_err(|_| Closed)
            }
        }
    }
}

/// Called for each change after the batch that brought it; pushes keys into queues and never waits.
pub type Trigger = Box<dyn FnMut(&Change, &Cluster) + Send>;

/// The task; made by [`ClusterTask::new`], run by the wiring.
pub struct ClusterTask {
    cluster: Cluster,
    clock: SharedClock,
    inbox: mpsc::Receiver<ToCluster>,
    revision: watch::Sender<u64>,
    complete: watch::Sender<bool>,
    doubts: mpsc::Sender<Doubt>,
    triggers: Vec<Trigger>,
    voice: Voice,
}

/// Whether triggers are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Voice {
    Heard,
    Quiet,
}

impl fmt::Debug for ClusterTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterTask")
            .field("triggers", &self.triggers.len())
            .finish_non_exhaustive()
    }
}

/// What [`ClusterTask::new`] makes.
#[derive(Debug)]
pub struct NewClusterTask {
    /// To be given triggers and run.
    pub task: ClusterTask,
    /// For everybody.
    pub handle: ClusterHandle,
    /// For the hub: assumptions that somebody should read.
    pub doubts: mpsc::Receiver<Doubt>,
}

impl ClusterTask {
    /// A task around an empty state.
    #[allow(clippy::new_ret_no_self)] // the task comes with the two ends of its channels
    pub fn new(cluster: Cluster, clock: SharedClock, metrics: BorderMetrics) -> NewClusterTask {
        let (sender, inbox) = mpsc::channel(INBOX);
        let (revision, revisions) = watch::channel(0);
        let (complete, completed) = watch::channel(cluster.is_complete());
        let (doubts, doubted) = mpsc::channel(256);
        let handle = ClusterHandle {
            inbox: sender,
            revision: revisions,
            complete: completed,
            metrics,
        };
        let task = Self {
            cluster,
            clock,
            inbox,
            revision,
            complete,
            doubts,
            triggers: Vec::new(),
            voice: Voice::Heard,
        };
        NewClusterTask {
            task,
            handle,
            doubts: doubted,
        }
    }

    /// Has the state kept without a word to the triggers until [`ClusterHandle::begin`]: what a replica does that keeps its caches warm and does not
    /// lead. Queues would fill with the keys of everything that ever was.
    pub fn quiet(mut self) -> Self {
        self.voice = Voice::Quiet;
        self
    }

    /// Registers a trigger; all are called for each change, in the order of registration.
    pub fn on_change(&mut self, trigger: impl FnMut(&Change, &Cluster) + Send + 'static) {
        self.triggers.push(Box::new(trigger));
    }

    /// Works until `stop`, or until nobody holds a handle any more.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut doubt = tokio::time::interval(DOUBT_EVERY);
        doubt.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                count = self.inbox.recv_many(&mut batch, BATCH) => {
                    if count == 0 {
                        return;
                    }
                    self.apply(&mut batch);
                }
                _ = doubt.tick() => self.look_for_doubts(),
            }
        }
    }

    fn apply(&mut self, batch: &mut Vec<ToCluster>) {
        let now = self.clock.now();
        let mut changes = Vec::new();
        let mut askers = Vec::new();
        for message in batch.drain(..) {
            match message {
                ToCluster::Observed(delta) => changes.extend(self.cluster.observe(delta, now)),
                ToCluster::Assumed(assumption) => changes.extend(self.cluster.assume(assumption, now)),
                ToCluster::Planned(plans) => self.cluster.plan(plans),
                ToCluster::Nominated(machine, until) => self.cluster.nominate(machine, until),
                ToCluster::Marked(machines, mark) => self.cluster.mark(machines, mark),
                ToCluster::Begin if self.voice == Voice::Quiet => {
                    self.voice = Voice::Heard;
                    changes = self.cluster.everything();
                }
                ToCluster::Begin => {}
                ToCluster::Snapshot(reply) => askers.push(reply),
            }
        }
        let heard = changes.iter().filter(|_| self.voice == Voice::Heard);
        for change in heard {
            for trigger in &mut self.triggers {
                trigger(change, &self.cluster);
            }
        }
        if !askers.is_empty() {
            let snapshot = self.cluster.snapshot();
            for asker in askers {
                // The asker may have gone away; that is its business.
                let _ = asker.send(Arc::clone(&snapshot));
            }
        }
        self.publish();
    }

    fn publish(&self) {
        let revision = self.cluster.revision();
        self.revision
            .send_if_modified(|known| std::mem::replace(known, revision) != revision);
        let complete = self.cluster.is_complete();
        self.complete
            .send_if_modified(|known| std::mem::replace(known, complete) != complete);
    }

    fn look_for_doubts(&mut self) {
        for doubt in self.cluster.doubts(self.clock.now()) {
            tracing::debug!(kind = doubt.kind.as_str(), key = %doubt.key, "no watch has confirmed our write; reading the object");
            // If the readers are behind, the doubt comes up again.
            let _ = self.doubts.try_send(doubt);
        }
    }
}

#[cfg(test)]
#[path = "cluster_task_tests.rs"]
mod tests;

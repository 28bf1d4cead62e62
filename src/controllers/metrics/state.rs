//! How the cluster state itself is: whether it is complete, and how many machines are in it (surface §5.4). Always shown.

use super::differences::{Follower, seconds};
use crate::clock::SharedClock;
use crate::cluster::Snapshot;
use crate::k8s::cluster_task::ClusterHandle;
use crate::k8s::hub::HubHandle;
use crate::telemetry::ClusterMetrics;
use chrono::{DateTime, Utc};
use std::time::Duration;

/// How often the figures of an incomplete state are brought up to date.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// From here on it is told that the state is still incomplete, and how often (surface §8.2).
const TELL_AFTER: Duration = Duration::from_secs(30);
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Counts the machines: claims, Nodes, and both in one.
#[derive(Debug)]
pub struct State {
    metrics: ClusterMetrics,
}

impl State {
    /// The controller.
    pub fn new(metrics: ClusterMetrics) -> Self {
        Self { metrics }
    }
}

impl Follower for State {
    #[allow(clippy::cast_precision_loss)] // a count of machines
    fn follow(&self, snapshot: &Snapshot, _now: DateTime<Utc>) {
        self.metrics.node_count.set([], snapshot.machines.len() as f64);
    }
}

/// Shows whether the initial lists are in, and says in the log which are missing, until they are in. Called when this replica begins to list: one that only
/// stands by waits for nothing.
pub async fn watch_sync(cluster: ClusterHandle, hub: HubHandle, metrics: ClusterMetrics, clock: SharedClock) {
    let began = clock.now();
    metrics.synced.set([], 0.0);
    metrics.unsynced_seconds.set([], 0.0);
    let started = tokio::time::Instant::now();
    let mut told = TELL_AFTER.saturating_sub(TELL_EVERY);
    loop {
        tokio::select! {
            biased;
            complete = cluster.completed() => {
                if complete.is_ok() {
                    metrics.synced.set([], 1.0);
                    metrics.unsynced_seconds.set([], 0.0);
                }
                return;
            }
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        metrics.unsynced_seconds.set([], seconds(began, clock.now()));
        let waited = started.elapsed();
        if waited >= told.saturating_add(TELL_EVERY) {
            told = waited;
            let kinds = hub.unlisted().join(", ");
            tracing::error!(duration = ?waited, kinds, "cluster is waiting on sync for extended duration");
        }
    }
}

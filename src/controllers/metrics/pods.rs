//! `metrics.pod`: where every pod is, and how long it took to get there (surface §5.3).
//!
//! A pod's start is measured only if this process saw it waiting, so a restart does not count pods that have run for weeks. [`SeenPods`] takes that
//! down in the cluster task, as soon as the pod appears; how long it took then follows from the pod's own conditions, however late they are looked at.

use super::differences::{Difference, Follower, differences, seconds};
use crate::api::labels;
use crate::cluster::entries::{NodeEntry, NodeFacts, PodEntry, PodFacts};
use crate::cluster::{Change, Cluster, Entries, Kind, Snapshot, Uid, What};
use crate::scheduling::pod::Phase;
use crate::telemetry::{NodeOfPods, PodMetrics, PodOwner, PodState};
use chrono::{DateTime, Utc};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Pods that were seen waiting; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct SeenPods(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    /// Seen pending, not known to be Ready.
    unstarted: BTreeSet<Uid>,
    /// Seen pending without a node.
    unbound: BTreeSet<Uid>,
}

impl Waiting {
    fn forget(&mut self, uid: &str) {
        self.unstarted.remove(uid);
        self.unbound.remove(uid);
    }
}

impl SeenPods {
    /// To be called for each change in the cluster task.
    pub fn trigger(&self) -> impl FnMut(&Change, &Cluster) + Send + 'static {
        let seen = self.clone();
        move |change, cluster| {
            if change.kind != Kind::Pod {
                return;
            }
            if change.what == What::Gone {
                // it may have come and gone between two looks: then nobody else would forget it
                seen.lock().forget(&change.uid);
            } else if let Some(pod) = cluster.pod(&change.key) {
                seen.look_at(pod);
            }
        }
    }

    fn look_at(&self, pod: &PodEntry) {
        if pod.pod.standing.phase != Phase::Pending {
            return;
        }
        let mut waiting = self.lock();
        waiting.unstarted.insert(Arc::clone(&pod.meta.uid));
        if pod.node().is_none() {
            waiting.unbound.insert(Arc::clone(&pod.meta.uid));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Each UID is right by itself, whatever a panicking thread was doing to another.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The controller.
#[derive(Debug)]
pub struct PodFollower {
    metrics: PodMetrics,
    seen: SeenPods,
    shown: Mutex<(Entries<PodFacts>, Entries<NodeFacts>)>,
}

impl PodFollower {
    /// The controller.
    pub fn new(metrics: PodMetrics, seen: SeenPods) -> Self {
        Self {
            metrics,
            seen,
            shown: Mutex::default(),
        }
    }

    fn show(&self, pod: &PodEntry) {
        let key = &pod.meta.key;
        let state = PodState {
            owner: pod.owners.first().map(|owner| PodOwner {
                api_version: Arc::clone(&owner.api_version),
                kind: Arc::clone(&owner.kind),
                name: Arc::clone(&owner.name),
            }),
            node: pod.pod.standing.node.clone().filter(|name| !name.is_empty()),
            phase: phase(pod.pod.standing.phase),
            scheduled: pod.scheduled.is_some_and(|scheduled| scheduled.state),
            ready: pod.ready.is_some_and(|ready| ready.state),
        };
        self.metrics.state.show(&key.scope, &key.name, state);
        self.seen.look_at(pod);
        self.measure(pod);
    }

    fn measure(&self, pod: &PodEntry) {
        // a start is the end of what is remembered of a pod
        self.binding(pod);
        self.start(pod);
    }

    /// How long the pod takes to be Ready.
    fn start(&self, pod: &PodEntry) {
        let (uid, labels) = (&*pod.meta.uid, labels_of(pod));
        if !self.seen.lock().unstarted.contains(uid) {
            return;
        }
        let created = pod.meta.created;
        let placed = self.metrics.decisions.placed(uid);
        let ready = pod.ready.filter(|ready| ready.state).map(|ready| ready.since);
        if ready.is_none() && !pod.is_terminal() {
            if let Some(created) = created {
                self.metrics.unstarted_seconds.set_since(uid, labels, created);
            }
            if let Some(placed) = placed {
                self.metrics
                    .provisioning_unstarted_seconds
                    .set_since(uid, labels, placed);
            }
            return;
        }
        if let Some(Some(ready)) = ready {
            if let Some(created) = created {
                self.metrics.startup_seconds.observe([], seconds(created, ready), ready);
            }
            if let Some(placed) = placed {
                self.metrics
                    .provisioning_startup_seconds
                    .observe([], seconds(placed, ready));
            }
        }
        self.forget_start(uid);
        self.metrics.decisions.forget(uid);
    }

    /// How long the pod takes to get a node.
    fn binding(&self, pod: &PodEntry) {
        let (uid, labels) = (&*pod.meta.uid, labels_of(pod));
        if !self.seen.lock().unbound.contains(uid) {
            return;
        }
        let created = pod.meta.created;
        let placed = self.metrics.decisions.placed(uid);
        let bound = pod
            .scheduled
            .filter(|scheduled| scheduled.state)
            .map(|scheduled| scheduled.since);
        if bound.is_none() && pod.node().is_none() && !pod.is_terminal() {
            if let Some(created) = created {
                self.metrics.unbound_seconds.set_since(uid, labels, created);
            }
            if let Some(placed) = placed {
                self.metrics.provisioning_unbound_seconds.set_since(uid, labels, placed);
            }
            return;
        }
        if let Some(Some(bound)) = bound {
            if let Some(created) = created {
                self.metrics.bound_seconds.observe([], seconds(created, bound));
            }
            if let Some(placed) = placed {
                self.metrics
                    .provisioning_bound_seconds
                    .observe([], seconds(placed, bound));
            }
        }
        self.forget_binding(uid);
    }

    fn forget_start(&self, uid: &str) {
        self.seen.lock().unstarted.remove(uid);
        self.metrics.unstarted_seconds.remove(uid);
        self.metrics.provisioning_unstarted_seconds.remove(uid);
    }

    fn forget_binding(&self, uid: &str) {
        self.seen.lock().unbound.remove(uid);
        self.metrics.unbound_seconds.remove(uid);
        self.metrics.provisioning_unbound_seconds.remove(uid);
    }

    fn gone(&self, pod: &PodEntry) {
        self.metrics.state.remove(&pod.meta.key.scope, &pod.meta.key.name);
        self.forget_start(&pod.meta.uid);
        self.forget_binding(&pod.meta.uid);
    }

    fn show_node(&self, node: &NodeEntry) {
        let label = |key: &str| node.label(key).unwrap_or_default().into();
        let shown = NodeOfPods {
            nodepool: label(labels::NODEPOOL),
            zone: label(labels::ZONE),
            arch: label(labels::ARCH),
            capacity_type: label(labels::CAPACITY_TYPE),
            instance_type: label(labels::INSTANCE_TYPE),
        };
        self.metrics.state.show_node(node.name(), shown);
    }
}

impl Follower for PodFollower {
    fn follow(&self, snapshot: &Snapshot, _now: DateTime<Utc>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for difference in differences(&shown.1, &snapshot.objects.nodes) {
            match difference {
                Difference::Appeared(node) | Difference::Changed { new: node, .. } => self.show_node(node),
                Difference::Gone(node) => self.metrics.state.remove_node(node.name()),
            }
        }
        for difference in differences(&shown.0, &snapshot.objects.pods) {
            match difference {
                Difference::Appeared(pod) | Difference::Changed { new: pod, .. } => self.show(pod),
                Difference::Gone(pod) => self.gone(pod),
            }
        }
        for (namespace, name) in self.metrics.decisions.take_placed() {
            if let Some(pod) = snapshot.pod(&namespace, &name) {
                self.measure(pod);
            }
        }
        *shown = (Arc::clone(&snapshot.objects.pods), Arc::clone(&snapshot.objects.nodes));
    }
}

fn labels_of(pod: &PodEntry) -> [&str; 2] {
    [&pod.meta.key.name, &pod.meta.key.scope]
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "Pending",
        Phase::Running => "Running",
        Phase::Succeeded => "Succeeded",
        Phase::Failed => "Failed",
        Phase::Unknown => "Unknown",
    }
}

#[cfg(test)]
#[path = "pods_tests.rs"]
mod tests;

//! `metrics.pod`: where every pod is, and how long it took to get there (surface §5.3).
//!
//! A pod's start is measured only if this process saw it waiting, so a restart does not count pods that have run for weeks. [`SeenPods`] takes that
//! down in the cluster task, as soon as the pod appears; how long it took then follows from the pod's own conditions, however late they are looked at.
//! What is shown of every pod is read from the objects that were looked at last, when somebody scrapes.

use super::differences::{Difference, Follower, differences, seconds};
use crate::api::labels;
use crate::cluster::entries::{NodeEntry, NodeFacts, PodEntry, PodFacts};
use crate::cluster::{Change, Cluster, Entries, Key, Kind, Snapshot, Uid, What};
use crate::scheduling::pod::Phase;
use crate::telemetry::{Awaited, NodeOfPods, PodDecisions, PodMetrics, PodOwner, PodState, PodWait, PodsOfMoment};
use chrono::{DateTime, Utc};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
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
    fn of(&self, awaited: Awaited) -> &BTreeSet<Uid> {
        match awaited {
            Awaited::Binding => &self.unbound,
            Awaited::Start => &self.unstarted,
        }
    }

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
    shown: Mutex<Entries<PodFacts>>,
}

impl PodFollower {
    /// The controller.
    pub fn new(metrics: PodMetrics, seen: SeenPods) -> Self {
        metrics.decisions.show_undecided();
        Self {
            metrics,
            seen,
            shown: Mutex::default(),
        }
    }

    fn measure(&self, pod: &PodEntry) {
        self.seen.look_at(pod);
        // a start is the end of what is remembered of a pod
        self.binding(pod);
        self.start(pod);
    }

    /// How long the pod takes to be Ready.
    fn start(&self, pod: &PodEntry) {
        let uid = &*pod.meta.uid;
        if awaits(pod, Awaited::Start) || !self.seen.lock().unstarted.contains(uid) {
            return;
        }
        let created = pod.meta.created;
        let placed = self.metrics.decisions.placed(uid);
        let ready = pod.ready.filter(|ready| ready.state).map(|ready| ready.since);
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
        self.seen.lock().unstarted.remove(uid);
        self.metrics.decisions.forget(uid);
    }

    /// How long the pod takes to get a node.
    fn binding(&self, pod: &PodEntry) {
        let uid = &*pod.meta.uid;
        if awaits(pod, Awaited::Binding) || !self.seen.lock().unbound.contains(uid) {
            return;
        }
        let created = pod.meta.created;
        let placed = self.metrics.decisions.placed(uid);
        let bound = pod
            .scheduled
            .filter(|scheduled| scheduled.state)
            .map(|scheduled| scheduled.since);
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
        self.seen.lock().unbound.remove(uid);
    }
}

impl Follower for PodFollower {
    fn follow(&self, snapshot: &Snapshot, _now: DateTime<Utc>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for difference in differences(&shown, &snapshot.objects.pods) {
            match difference {
                Difference::Appeared(pod) | Difference::Changed { new: pod, .. } => self.measure(pod),
                Difference::Gone(pod) => self.seen.lock().forget(&pod.meta.uid),
            }
        }
        *shown = Arc::clone(&snapshot.objects.pods);
        self.metrics.state.show(Arc::new(Moment {
            pods: Arc::clone(&snapshot.objects.pods),
            nodes: Arc::clone(&snapshot.objects.nodes),
            seen: self.seen.clone(),
            decisions: self.metrics.decisions.clone(),
        }));
    }
}

/// The pods as they were looked at last, and the nodes, whose labels they show.
#[derive(Debug)]
struct Moment {
    pods: Entries<PodFacts>,
    nodes: Entries<NodeFacts>,
    seen: SeenPods,
    decisions: PodDecisions,
}

impl PodsOfMoment for Moment {
    fn show_after(&self, last: Option<(&str, &str)>, show: &mut dyn FnMut(&PodState<'_>) -> ControlFlow<()>) {
        // No object has an empty name: everything comes after that.
        let (namespace, name) = last.unwrap_or_default();
        for pod in self.pods.after(&Key::namespaced(namespace, name)) {
            if show(&self.state(pod)).is_break() {
                return;
            }
        }
    }

    fn show_waiting(&self, awaited: Awaited, show: &mut dyn FnMut(&PodWait<'_>)) {
        for pod in self.pods.values().filter(|pod| awaits(pod, awaited)) {
            if self.seen.lock().of(awaited).contains(&pod.meta.uid) {
                show(&PodWait {
                    namespace: &pod.meta.key.scope,
                    name: &pod.meta.key.name,
                    created: pod.meta.created,
                    placed: self.decisions.placed(&pod.meta.uid),
                });
            }
        }
    }
}

/// Whether the pod is still on its way there.
fn awaits(pod: &PodEntry, awaited: Awaited) -> bool {
    let there = match awaited {
        Awaited::Binding => pod.node().is_some() || pod.scheduled.is_some_and(|scheduled| scheduled.state),
        Awaited::Start => pod.ready.is_some_and(|ready| ready.state),
    };
    !there && !pod.is_terminal()
}

impl Moment {
    fn state<'a>(&'a self, pod: &'a PodEntry) -> PodState<'a> {
        let node = pod.pod.standing.node.as_ref().filter(|name| !name.is_empty());
        let object = node.and_then(|name| {
            self.nodes.get(&Key {
                scope: Arc::default(),
                name: Arc::clone(name),
            })
        });
        PodState {
            namespace: &pod.meta.key.scope,
            name: &pod.meta.key.name,
            owner: pod.owners.first().map(|owner| PodOwner {
                api_version: &owner.api_version,
                kind: &owner.kind,
                name: &owner.name,
            }),
            node: node.map_or("", |name| name),
            of_node: object.map(|node| of_node(node)).unwrap_or_default(),
            phase: phase(pod.pod.standing.phase),
            scheduled: pod.scheduled.is_some_and(|scheduled| scheduled.state),
            ready: pod.ready.is_some_and(|ready| ready.state),
        }
    }
}

fn of_node(node: &NodeEntry) -> NodeOfPods<'_> {
    let label = |key| node.label(key).unwrap_or_default();
    NodeOfPods {
        nodepool: label(labels::NODEPOOL),
        zone: label(labels::ZONE),
        arch: label(labels::ARCH),
        capacity_type: label(labels::CAPACITY_TYPE),
        instance_type: label(labels::INSTANCE_TYPE),
    }
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

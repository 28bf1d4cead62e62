//! `eviction-queue`: asks pods to leave through the Eviction API, each once at a time, with back-off while a budget holds them (lifecycle 14.5).
//!
//! Filled by node termination, which looks at its pods every second; a pod that is in the queue is not added again, so its back-off counts.

use super::Kit;
use super::node::events;
use crate::api::{Conditioned, conditions};
use crate::cluster::entries::PodEntry;
use crate::cluster::{Key, Snapshot};
use crate::k8s::events::Involved;
use crate::k8s::evict::Eviction as Outcome;
use crate::k8s::metrics::BorderMetrics;
use crate::k8s::queue::{BackOff, Mode, Next, Queue, QueueSettings, ReconcileError, Reconciler};
use crate::k8s::write::Target;
use crate::lifecycle::drain::Eviction;
use crate::lifecycle::pods::is_evictable;
use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a pod that cannot leave now waits (lifecycle 0.7).
const BACK_OFF: BackOff = BackOff::doubling(Duration::from_millis(100), Duration::from_secs(10));
/// Most pods that are asked at once or wait to be; the rest is added again by the next look at their node.
const CAPACITY: usize = 20_000;
/// The reason of a pod that leaves a node which nobody chose to disrupt (lifecycle 14.5).
const FORCEFUL: &str = "Forceful Termination";

/// The pods that are asked to leave; cheap to clone.
#[derive(Debug, Clone)]
pub struct Evictions {
    queue: Queue<Eviction>,
    members: Arc<Mutex<BTreeSet<Eviction>>>,
}

impl Evictions {
    /// An empty queue; the wiring runs it with an [`Evictor`].
    pub fn new(workers: usize, mode: Mode, metrics: BorderMetrics) -> Self {
        let settings = QueueSettings::new("eviction-queue", workers)
            .with_back_off(BACK_OFF)
            .with_capacity(CAPACITY)
            .with_mode(mode);
        Self {
            queue: Queue::new(settings, metrics),
            members: Arc::default(),
        }
    }

    /// Asks a pod to leave; one that is asked already is not asked twice.
    pub fn add(&self, eviction: Eviction) {
        let is_new = {
            let mut members = self.members();
            members.len() < CAPACITY && members.insert(eviction.clone())
        };
        if is_new {
            self.queue.add(eviction);
        }
    }

    /// The queue, for whoever runs it.
    pub fn queue(&self) -> Queue<Eviction> {
        self.queue.clone()
    }

    fn done(&self, eviction: &Eviction) -> Next {
        self.members().remove(eviction);
        Next::Done
    }

    fn members(&self) -> MutexGuard<'_, BTreeSet<Eviction>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The controller.
#[derive(Debug)]
pub struct Evictor {
    kit: Kit,
    evictions: Evictions,
}

impl Evictor {
    /// The controller of this queue.
    pub fn new(kit: Kit, evictions: Evictions) -> Self {
        Self { kit, evictions }
    }
}

#[async_trait]
impl Reconciler for Evictor {
    type Key = Eviction;

    async fn reconcile(&self, key: &Eviction) -> Result<Next, ReconcileError> {
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let pod = snapshot
            .objects
            .pods
            .get(&key.pod)
            .filter(|pod| pod.meta.uid == key.uid);
        // One that became protected meanwhile, or is on its way, is the drain's business again.
        let Some(pod) = pod.filter(|pod| is_evictable(pod, self.kit.now())) else {
            return Ok(self.evictions.done(key));
        };
        let reason = reason(&snapshot, pod);
        let outcome = match self.kit.writer.evict(&Target::of(&pod.meta)).await {
            Ok(outcome) => outcome,
            Err(error) => {
                self.count(0);
                return Err(error.into());
            }
        };
        self.count(outcome.code());
        match outcome {
            Outcome::Accepted => {
                let involved = events::pod(&key.pod, &key.uid);
                self.kit.recorder.publish(events::evicted(involved, &reason));
                self.kit.metrics.pods.drained.increment([&reason]);
                Ok(self.evictions.done(key))
            }
            Outcome::Gone => Ok(self.evictions.done(key)),
            Outcome::BlockedByBudget { .. } => {
                self.tell_node(&snapshot, pod, events::budget_violated);
                Ok(Next::Again)
            }
            Outcome::SeveralBudgets => {
                self.tell_node(&snapshot, pod, events::several_budgets);
                Ok(Next::Again)
            }
        }
    }
}

impl Evictor {
    /// Counts an answer by its HTTP code; without an answer there is nothing to count.
    fn count(&self, code: u16) {
        if code > 0 {
            let code = if code == 201 { 200 } else { code };
            self.kit
                .metrics
                .pods
                .eviction_requests
                .increment([code.to_string().as_str()]);
        }
    }

    fn tell_node(&self, snapshot: &Snapshot, pod: &PodEntry, event: fn(Involved, &Key) -> crate::k8s::events::Event) {
        if let Some(node) = pod.node().and_then(|name| snapshot.node(name)) {
            let involved = Involved::entry::<Node>(&node.meta);
            self.kit.recorder.publish(event(involved, &pod.meta.key));
        }
    }
}

/// Why the pod has to leave, in the API's spelling (lifecycle 14.5); empty when its node is not known.
fn reason(snapshot: &Snapshot, pod: &PodEntry) -> String {
    let machine = pod.node().and_then(|name| snapshot.machine_of_node(name));
    let Some(machine) = machine else {
        return String::new();
    };
    let condition = machine
        .claim
        .as_ref()
        .and_then(|claim| claim.facts.condition(conditions::DISRUPTION_REASON));
    condition
        .filter(|condition| condition.is_true())
        .map_or_else(|| FORCEFUL.to_owned(), |condition| condition.reason.clone())
}

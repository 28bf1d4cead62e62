//! The scheduler's loop: watches, picks the next pod, decides, binds.
//!
//! Decisions are in the other files; this one waits and writes. A pod that was bound counts on its node at once, whether or not the watch has
//! told; a pod whose claims wait for it is held on its node until they are bound.

use super::cluster::Cluster;
use super::facts::{NodeFacts, PodFacts, Told};
use super::filter::check;
use super::message;
use super::prepare::Prepared;
use super::queue::Queue;
use super::score::best;
use super::volumes::{SELECTED_NODE, is_bound};
use super::watching::{Change, Watched};
use crate::observe::{Hands, Moved, Name};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use karpenter::clock::SharedClock;
use kube::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The scheduler whose pods these are.
const NAME: &str = "default-scheduler";
/// How long claims may take.
const VOLUME_PATIENCE: TimeDelta = TimeDelta::minutes(10);

/// A pod that is held on a node.
#[derive(Debug, Clone)]
struct Held {
    uid: String,
    node: String,
    /// Not bound yet: its claims are waited for until then.
    claims_until: Option<DateTime<Utc>>,
}

/// The scheduler.
pub struct Binder {
    hands: Hands,
    client: Client,
    clock: SharedClock,
    watched: Watched,
    cluster: Cluster,
    pods: BTreeMap<Name, Arc<PodFacts>>,
    held: BTreeMap<Name, Held>,
    queue: Queue,
}

impl Binder {
    /// A scheduler for a Kubernetes API.
    pub fn new(client: Client, clock: SharedClock) -> Self {
        Self {
            hands: Hands::new(client.clone()),
            client,
            clock,
            watched: Watched::default(),
            cluster: Cluster::default(),
            pods: BTreeMap::new(),
            held: BTreeMap::new(),
            queue: Queue::default(),
        }
    }

    /// Schedules until cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut changes = super::watching::streams(&self.client);
        loop {
            let now = self.clock.now();
            let next = self.next(now);
            let wait = next.map_or(Duration::MAX, |at| (at - now).to_std().unwrap_or_default());
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(change) = changes.next() => self.take(change),
                () = wait_for(wait) => self.work().await,
            }
        }
    }

    fn next(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        if !self.watched.is_complete() {
            return None;
        }
        let claims = self.held.values().filter_map(|h| h.claims_until).min();
        [self.queue.next(now), claims].into_iter().flatten().min()
    }

    async fn work(&mut self) {
        let now = self.clock.now();
        self.give_up_on_claims(now);
        if let Some(name) = self.queue.take(now) {
            self.attempt(&name, now).await;
        }
    }

    fn take(&mut self, change: Change) {
        match change {
            Change::Pod(news) => {
                for moved in self.watched.pods.take(news) {
                    self.pod_moved(&moved);
                }
                return;
            }
            Change::Node(news) => {
                let mut counts = false;
                for moved in self.watched.nodes.take(news) {
                    counts |= self.node_moved(&moved);
                }
                // Heartbeats change nothing that a filter looks at.
                if !counts {
                    return;
                }
            }
            Change::Namespace(news) => {
                for moved in self.watched.namespaces.take(news) {
                    if let Some(namespace) = &moved.after {
                        self.cluster.set_namespace(namespace);
                    }
                }
            }
            Change::Claim(news) => {
                for moved in self.watched.claims.take(news) {
                    self.cluster.set_claim(&moved.name, moved.after.clone());
                }
            }
            Change::Volume(news) => {
                for moved in self.watched.volumes.take(news) {
                    self.cluster.set_volume(&moved.name.name, moved.after.clone());
                }
            }
            Change::Class(news) => {
                for moved in self.watched.classes.take(news) {
                    self.cluster.set_class(&moved.name.name, moved.after.clone());
                }
            }
            Change::CsiNode(news) => {
                for moved in self.watched.csi_nodes.take(news) {
                    self.cluster.set_csi_node(&moved.name.name, moved.after.clone());
                }
            }
        }
        self.queue.stir();
        self.look_at_claims();
    }

    fn node_moved(&mut self, moved: &Moved<Node>) -> bool {
        let before = self.cluster.node(&moved.name.name).cloned();
        match &moved.after {
            Some(node) => self.cluster.set_node(NodeFacts::of(node)),
            None => self.cluster.remove_node(&moved.name.name),
        }
        self.cluster.node(&moved.name.name) != before.as_ref()
    }

    fn pod_moved(&mut self, moved: &Moved<Pod>) {
        let name = &moved.name;
        let before = self.pods.get(name).cloned();
        let Some(pod) = &moved.after else {
            self.pods.remove(name);
            self.release(name);
            self.queue.remove(name);
            if before.is_some_and(|b| b.node.is_some()) {
                self.queue.stir();
            }
            return;
        };
        let facts = Arc::new(PodFacts::of(pod));
        self.pods.insert(name.clone(), Arc::clone(&facts));
        let same = before.as_ref().is_some_and(|b| same_but_told(b, &facts));
        let held = self.held.get(name).filter(|h| h.uid == facts.uid).cloned();
        match (&facts.node, held) {
            (Some(node), _) => {
                self.held.remove(name);
                self.queue.remove(name);
                self.cluster.place(Arc::clone(&facts), node);
                if !same {
                    self.queue.stir();
                }
            }
            // An older state than our own binding.
            (None, Some(held)) => self.cluster.place(Arc::clone(&facts), &held.node),
            (None, None) => {
                self.release(name);
                let wants = facts.scheduler == NAME && !facts.terminating && !facts.finished && !facts.gated;
                if !wants {
                    self.queue.remove(name);
                } else if !same || !self.queue.holds(name) {
                    self.queue.add(name, facts.priority);
                }
            }
        }
    }

    fn release(&mut self, name: &Name) {
        self.held.remove(name);
        self.cluster.unplace(name);
    }

    async fn attempt(&mut self, name: &Name, now: DateTime<Utc>) {
        let Some(pod) = self.pods.get(name).cloned() else {
            return;
        };
        match self.decide(&pod) {
            Ok(node) => self.hold(&pod, &node, now).await,
            Err(words) => {
                self.queue.failed(name, now);
                self.say_why_not(&pod, words, now).await;
            }
        }
    }

    /// The node for a pod, or the sentence that says why there is none.
    fn decide(&self, pod: &PodFacts) -> Result<String, String> {
        let total = self.cluster.nodes().count();
        let prepared = Prepared::of(&self.cluster, pod).map_err(|reason| message::no_node_can(&reason, total))?;
        let nominated = pod.nominated.as_ref().and_then(|n| self.cluster.node(n));
        if let Some(node) = nominated.filter(|n| check(&self.cluster, &prepared, n, pod).is_ok()) {
            return Ok(node.name.clone());
        }
        let (mut fitting, mut refusals) = (Vec::new(), Vec::new());
        for node in self.cluster.nodes() {
            match check(&self.cluster, &prepared, node, pod) {
                Ok(()) => fitting.push(node),
                Err(reason) => refusals.push(reason),
            }
        }
        let chosen = best(&self.cluster, pod, &fitting).map(|node| node.name.clone());
        chosen.ok_or_else(|| message::no_node(&refusals))
    }

    fn unbound_claims(&self, pod: &PodFacts) -> Vec<Arc<PersistentVolumeClaim>> {
        let claims = pod
            .claims
            .iter()
            .filter_map(|c| self.cluster.claim(&pod.name.namespace, c));
        claims.filter(|c| !is_bound(c)).cloned().collect()
    }

    /// Takes the room on the node, then binds, or waits for the claims first.
    async fn hold(&mut self, pod: &Arc<PodFacts>, node: &str, now: DateTime<Utc>) {
        self.cluster.place(Arc::clone(pod), node);
        let unbound = self.unbound_claims(pod);
        let claims_until = now.checked_add_signed(VOLUME_PATIENCE).filter(|_| !unbound.is_empty());
        let held = Held {
            uid: pod.uid.clone(),
            node: node.to_owned(),
            claims_until,
        };
        self.held.insert(pod.name.clone(), held);
        for claim in &unbound {
            let wish = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
            match self
                .hands
                .patch::<PersistentVolumeClaim>(&Name::of(&**claim), &wish)
                .await
            {
                Ok(claim) => {
                    if let Some(moved) = self.watched.claims.assume(claim) {
                        self.cluster.set_claim(&moved.name, moved.after);
                    }
                }
                Err(problem) => {
                    tracing::debug!(pod = %pod.name, error = %problem, "claim could not be given a node");
                    self.release(&pod.name);
                    self.queue.retry(&pod.name, now);
                    return;
                }
            }
        }
        if unbound.is_empty() {
            self.bind(pod, node, now).await;
        }
    }

    async fn bind(&mut self, pod: &Arc<PodFacts>, node: &str, now: DateTime<Utc>) {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": pod.name.name, "namespace": pod.name.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        if let Err(problem) = self.hands.post::<Pod>(&pod.name, "binding", &binding).await {
            tracing::debug!(pod = %pod.name, node, error = %problem, "binding failed");
            self.release(&pod.name);
            self.queue.retry(&pod.name, now);
        } else {
            self.queue.remove(&pod.name);
        }
    }

    /// Lets those be bound next whose claims are bound now.
    fn look_at_claims(&mut self) {
        let waiting = self.held.iter().filter(|(_, h)| h.claims_until.is_some());
        let ready: Vec<Name> = waiting
            .filter(|(name, _)| {
                self.pods
                    .get(*name)
                    .is_some_and(|pod| self.unbound_claims(pod).is_empty())
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in ready {
            // The filters are asked once more; the volumes now pin the pod to the node that was chosen.
            let priority = self.pods.get(&name).map_or(0, |p| p.priority);
            self.release(&name);
            self.queue.add(&name, priority);
        }
    }

    fn give_up_on_claims(&mut self, now: DateTime<Utc>) {
        let late = self
            .held
            .iter()
            .filter(|(_, h)| h.claims_until.is_some_and(|at| at <= now));
        let late: Vec<Name> = late.map(|(name, _)| name.clone()).collect();
        for name in late {
            self.release(&name);
            self.queue.retry(&name, now);
        }
    }

    async fn say_why_not(&mut self, pod: &PodFacts, message: String, now: DateTime<Utc>) {
        let told = Told {
            status: "False".into(),
            reason: "Unschedulable".into(),
            message,
        };
        if pod.told.as_ref() == Some(&told) {
            return;
        }
        let Some(seen) = self.watched.pods.get(&pod.name).cloned() else {
            return;
        };
        let patch = condition_patch(&seen, &told, now);
        match self.hands.patch_status::<Pod>(&pod.name, &patch).await {
            Ok(pod) => {
                if let Some(moved) = self.watched.pods.assume(pod) {
                    self.pod_moved(&moved);
                }
            }
            Err(problem) if problem.code() == Some(404) => {}
            Err(_) => self.queue.retry(&pod.name, now),
        }
    }
}

async fn wait_for(wait: Duration) {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}

fn same_but_told(a: &PodFacts, b: &PodFacts) -> bool {
    let mut a = a.clone();
    a.told.clone_from(&b.told);
    a == *b
}

/// The pod's conditions with this one; only for the pod as it was seen, since a merge patch replaces the list.
fn condition_patch(pod: &Pod, told: &Told, now: DateTime<Utc>) -> Value {
    let old = pod
        .status
        .as_ref()
        .and_then(|s| s.conditions.clone())
        .unwrap_or_default();
    let before = old
        .iter()
        .find(|c| c.type_ == "PodScheduled" && c.status == told.status);
    let since = before.and_then(|c| c.last_transition_time.clone());
    let since = since.map_or_else(|| json!(now.to_rfc3339_opts(SecondsFormat::Secs, true)), |t| json!(t));
    let mut conditions: Vec<Value> = old
        .iter()
        .filter(|c| c.type_ != "PodScheduled")
        .map(|c| json!(c))
        .collect();
    conditions.push(
        json!({"type": "PodScheduled", "status": told.status, "reason": told.reason,
        "message": told.message, "lastTransitionTime": since, "lastProbeTime": null}),
    );
    json!({"metadata": {"resourceVersion": pod.metadata.resource_version}, "status": {"conditions": conditions}})
}

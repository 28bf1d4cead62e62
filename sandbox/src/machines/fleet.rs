//! The machines in motion: one task that watches Nodes and pods, follows the platform's servers and carries out the plans.
//!
//! It keeps nothing that it could not learn again: after a restart it goes on from the platform's servers and from what the Kubernetes API holds. Works against any
//! Kubernetes API, in-process or real.

use super::agenda::Agenda;
use super::hands::Hands;
use super::node_plan::{Act, Memory, plan};
use super::options::MachineOptions;
use super::pod_plan::{PodStep, next_step};
use crate::spot::{MachineOrder, Phase, Spot};
use chrono::{DateTime, TimeDelta, Utc};
use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use std::collections::{BTreeMap, BTreeSet};
use tokio_util::sync::CancellationToken;

/// How long after a failed write the same thing is tried again.
const RETRY: TimeDelta = TimeDelta::seconds(1);
/// How long a Node of ours that no server stands behind is left alone (row 19).
const STRAY: TimeDelta = TimeDelta::seconds(50);
/// All Nodes of the platform are called so (rackspace-spot 5.2).
const NAME_PREFIX: &str = "prod-instance-";

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Node(String),
    Pod(String, String),
}

/// The machines of a platform.
pub struct Fleet {
    spot: Spot,
    hands: Hands,
    options: MachineOptions,
    orders: BTreeMap<String, MachineOrder>,
    /// The platform's revision that the orders are of.
    ordered_at: Option<(u64, u64)>,
    nodes: Mirror<Node>,
    pods: Mirror<Pod>,
    memories: BTreeMap<String, Memory>,
    /// When a pod, or a stray Node, was first seen, by UID: names come again.
    seen: BTreeMap<Key, (Option<String>, DateTime<Utc>)>,
    agenda: Agenda<Key>,
}

impl Fleet {
    /// Machines for the servers of a platform, as Nodes of a Kubernetes API.
    pub fn new(spot: Spot, client: Client, options: MachineOptions) -> Self {
        Self {
            hands: Hands::new(client),
            spot,
            options,
            orders: BTreeMap::new(),
            ordered_at: None,
            nodes: Mirror::default(),
            pods: Mirror::default(),
            memories: BTreeMap::new(),
            seen: BTreeMap::new(),
            agenda: Agenda::default(),
        }
    }

    /// Plays the machines until cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut nodes = Box::pin(watch::<Node>(self.hands.client()));
        let mut pods = Box::pin(watch::<Pod>(self.hands.client()));
        let mut moved = self.spot.changes();
        loop {
            self.follow_orders();
            let wait = self.next_wait();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(event) = nodes.next() => self.node_event(event),
                Some(event) = pods.next() => self.pod_event(event),
                _ = moved.changed() => {}
                () = tokio::time::sleep(wait) => self.work().await,
            }
        }
    }

    fn now(&self) -> DateTime<Utc> {
        self.spot.clock().now()
    }

    fn next_wait(&self) -> std::time::Duration {
        let now = self.now();
        let next = self
            .agenda
            .next()
            .unwrap_or_else(|| now.checked_add_signed(TimeDelta::hours(1)).unwrap_or(now));
        (next - now).to_std().unwrap_or_default()
    }

    /// Looks at every server whose order has changed, and at the pods of those that came or went.
    fn follow_orders(&mut self) {
        let now = self.now();
        let (at, fresh) = self.spot.with(|platform| {
            let at = platform.machine_revision();
            let moved = self.ordered_at != Some(at);
            (at, moved.then(|| platform.machine_orders()))
        });
        let Some(fresh) = fresh else { return };
        self.ordered_at = Some(at);
        let fresh: BTreeMap<String, MachineOrder> = fresh
            .into_iter()
            .map(|order| (order.server.node_name.clone(), order))
            .collect();
        let names: BTreeSet<&String> = fresh.keys().chain(self.orders.keys()).collect();
        let mut moved = Vec::new();
        for name in names {
            let (old, new) = (self.orders.get(name), fresh.get(name));
            if old != new {
                moved.push((name.clone(), old.map(plays_pods) != new.map(plays_pods)));
            }
        }
        self.orders = fresh;
        for (name, pods_too) in moved {
            if pods_too {
                let pods = self
                    .pods
                    .objects
                    .iter()
                    .filter(|(_, pod)| host_of(pod) == Some(name.as_str()));
                let keys: Vec<Key> = pods.filter_map(|(_, pod)| pod_key(pod)).collect();
                for key in keys {
                    self.agenda.put(key, now);
                }
            }
            if !self.orders.contains_key(&name) {
                self.memories.remove(&name);
            }
            self.agenda.put(Key::Node(name), now);
        }
    }

    fn node_event(&mut self, event: watcher::Event<Node>) {
        let now = self.now();
        for name in self.nodes.apply(event, |node| node.metadata.name.clone()) {
            self.agenda.put(Key::Node(name), now);
        }
    }

    fn pod_event(&mut self, event: watcher::Event<Pod>) {
        let now = self.now();
        let changed = self.pods.apply(event, |pod| pod_key(pod).map(|key| path_of(&key)));
        for path in changed {
            let (namespace, name) = path.split_once('/').unwrap_or(("", &path));
            self.agenda.put(Key::Pod(namespace.into(), name.into()), now);
        }
    }

    /// Does all that is due now.
    async fn work(&mut self) {
        while let Some(key) = self.agenda.take(self.now()) {
            match &key {
                Key::Node(name) if self.orders.contains_key(name) => self.work_on_node(name).await,
                Key::Node(name) => self.work_on_stray(name).await,
                Key::Pod(_, _) => self.work_on_pod(&key).await,
            }
        }
    }

    async fn work_on_node(&mut self, name: &str) {
        let now = self.now();
        let Some(order) = self.orders.get(name) else { return };
        let mut memory = self.memories.get(name).copied().unwrap_or_default();
        let plan = plan(order, self.nodes.objects.get(name), memory, &self.options, now);
        if let Some(next) = plan.next {
            self.agenda.put(Key::Node(name.into()), next);
        }
        for act in plan.acts {
            let node = self.nodes.objects.get(name);
            if let Err(problem) = self
                .hands
                .act(&act, &self.spot, order, node, &mut memory, &self.options, now)
                .await
            {
                tracing::debug!(node = name, error = %problem, cause = ?std::error::Error::source(&problem), "machine could not write");
                self.agenda.put(Key::Node(name.into()), retry(now));
                // A Lease or CSINode that cannot be written must not keep the Node from getting ready.
                if !matches!(act, Act::RenewLease | Act::CreateCsiNode(_)) {
                    break;
                }
            }
        }
        self.memories.insert(name.into(), memory);
    }

    /// The cloud controller asks for a server that nobody knows, and deletes its Node.
    async fn work_on_stray(&mut self, name: &str) {
        let now = self.now();
        let key = Key::Node(name.into());
        let ours = name.starts_with(NAME_PREFIX);
        let Some(node) = self
            .nodes
            .objects
            .get(name)
            .filter(|node| ours && node.metadata.deletion_timestamp.is_none())
        else {
            self.seen.remove(&key);
            return;
        };
        let uid = node.metadata.uid.clone();
        let due = first_seen(&mut self.seen, &key, uid, now)
            .checked_add_signed(STRAY)
            .unwrap_or(now);
        if now < due {
            self.agenda.put(key, due);
        } else if self.hands.delete_node(node).await.is_err() {
            self.agenda.put(key, retry(now));
        }
    }

    async fn work_on_pod(&mut self, key: &Key) {
        let now = self.now();
        let Some(pod) = self.pods.objects.get(&path_of(key)) else {
            self.seen.remove(key);
            return;
        };
        let machine = host_of(pod)
            .and_then(|host| self.orders.get(host))
            .filter(|order| plays_pods(order));
        let Some(machine) = machine else { return };
        let seen = first_seen(&mut self.seen, key, pod.metadata.uid.clone(), now);
        let step = next_step(pod, seen, &machine.server.internal_ip, &self.options, now);
        let outcome = match step {
            PodStep::Rest => Ok(()),
            PodStep::WaitUntil(at) => {
                self.agenda.put(key.clone(), at);
                Ok(())
            }
            PodStep::Patch(patch) => self.hands.patch_pod(pod, &patch).await,
            PodStep::Remove => self.hands.remove_pod(pod).await,
        };
        if let Err(problem) = outcome {
            tracing::debug!(pod = path_of(key), error = %problem, "machine could not write");
            self.agenda.put(key.clone(), retry(now));
        }
    }
}

fn first_seen(
    seen: &mut BTreeMap<Key, (Option<String>, DateTime<Utc>)>,
    key: &Key,
    uid: Option<String>,
    now: DateTime<Utc>,
) -> DateTime<Utc> {
    let known = seen.get(key).filter(|(known, _)| *known == uid).map(|(_, at)| *at);
    known.unwrap_or_else(|| {
        seen.insert(key.clone(), (uid, now));
        now
    })
}

fn retry(now: DateTime<Utc>) -> DateTime<Utc> {
    now.checked_add_signed(RETRY).unwrap_or(now)
}

/// Whether the kubelet of a server works.
fn plays_pods(order: &MachineOrder) -> bool {
    order.server.phase == Phase::Active && !order.server.sick && order.server.registered_at.is_some()
}

fn host_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn pod_key(pod: &Pod) -> Option<Key> {
    Some(Key::Pod(pod.metadata.namespace.clone()?, pod.metadata.name.clone()?))
}

fn path_of(key: &Key) -> String {
    match key {
        Key::Node(name) => name.clone(),
        Key::Pod(namespace, name) => format!("{namespace}/{name}"),
    }
}

/// How long after trouble a watch is tried again: always the same, since kube's own pause has jitter and a seed must replay.
struct Pause;

impl Iterator for Pause {
    type Item = std::time::Duration;

    fn next(&mut self) -> Option<Self::Item> {
        Some(std::time::Duration::from_secs(1))
    }
}

impl Backoff for Pause {
    fn reset(&mut self) {}
}

/// Every event of a kind, for ever; failures are waited out.
fn watch<K>(client: Client) -> impl Stream<Item = watcher::Event<K>> + Send
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    watcher(Api::<K>::all(client), watcher::Config::default())
        .backoff(Pause)
        .into_stream()
        .filter_map(|event| async {
            event
                .inspect_err(|problem| tracing::debug!(error = %problem, "machines' watch"))
                .ok()
        })
}

/// The objects of a kind as the watch shows them.
struct Mirror<K> {
    objects: BTreeMap<String, K>,
    listing: Option<BTreeSet<String>>,
}

impl<K> Default for Mirror<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            listing: None,
        }
    }
}

impl<K> Mirror<K> {
    /// Takes an event in; returns the paths it touches.
    fn apply(&mut self, event: watcher::Event<K>, path: impl Fn(&K) -> Option<String>) -> Vec<String> {
        match event {
            watcher::Event::Init => {
                self.listing = Some(BTreeSet::new());
                Vec::new()
            }
            watcher::Event::InitDone => {
                let listed = self.listing.take().unwrap_or_default();
                let gone: Vec<String> = self
                    .objects
                    .keys()
                    .filter(|path| !listed.contains(*path))
                    .cloned()
                    .collect();
                for path in &gone {
                    self.objects.remove(path);
                }
                gone
            }
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                let Some(path) = path(&object) else { return Vec::new() };
                if let Some(listing) = &mut self.listing {
                    listing.insert(path.clone());
                }
                self.objects.insert(path.clone(), object);
                vec![path]
            }
            watcher::Event::Delete(object) => {
                let Some(path) = path(&object) else { return Vec::new() };
                self.objects.remove(&path);
                vec![path]
            }
        }
    }
}

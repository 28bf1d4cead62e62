//! The controllers' loop: watches, asks the plan of each key that moved or is due, carries it out.

use super::act::{Act, Deed, Plan, Sort};
use super::key::Key;
use super::options::WorkloadOptions;
use super::seen::{Seen, Sighted};
use super::{
    attachments, claims, daemon_set, deployment, job, node_lifecycle, pods, replica_set, stateful_set, volumes,
};
use crate::observe::{Agenda, Hands, Name, Removed, WriteError, follow};
use chrono::{DateTime, TimeDelta, Utc};
use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll, select_all};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use karpenter::clock::SharedClock;
use kube::Client;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Longest time after which a failed key is tried again.
const MOST_SECONDS: i64 = 30;

/// News of some kind, ready to be taken in.
type Change = Box<dyn FnOnce(&mut Seen, DateTime<Utc>) -> Vec<Key> + Send>;

/// The controllers.
pub struct Workloads {
    hands: Hands,
    client: Client,
    clock: SharedClock,
    options: WorkloadOptions,
    seen: Seen,
    agenda: Agenda<Key>,
    failures: BTreeMap<Key, u32>,
}

impl Workloads {
    /// Controllers for a Kubernetes API.
    pub fn new(client: Client, clock: SharedClock, options: WorkloadOptions) -> Self {
        Self {
            hands: Hands::new(client.clone()),
            client,
            clock,
            options,
            seen: Seen::default(),
            agenda: Agenda::default(),
            failures: BTreeMap::new(),
        }
    }

    /// Controls until cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut changes = streams(&self.client);
        loop {
            let now = self.clock.now();
            let next = self.agenda.next().filter(|_| self.seen.is_complete());
            let wait = next.map_or(Duration::MAX, |at| (at - now).to_std().unwrap_or_default());
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(change) = changes.next() => {
                    let keys = change(&mut self.seen, now);
                    self.put_down(keys, now);
                }
                () = wait_for(wait) => self.work().await,
            }
        }
    }

    fn put_down(&mut self, keys: Vec<Key>, now: DateTime<Utc>) {
        for key in keys {
            self.agenda.put(key, now);
        }
    }

    /// Does what is due for one key.
    async fn work(&mut self) {
        let now = self.clock.now();
        let Some(key) = self.agenda.take(now) else { return };
        let plan = self.plan(&key, now);
        if let Some(next) = plan.next {
            self.agenda.put(key.clone(), next);
        }
        for act in plan.acts {
            if let Err(problem) = self.carry_out(&act, now).await {
                tracing::debug!(key = ?key, error = %problem, "controller could not write");
                self.try_again(key, now);
                return;
            }
        }
        self.failures.remove(&key);
    }

    fn try_again(&mut self, key: Key, now: DateTime<Utc>) {
        let failures = self.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        let seconds = 1_i64
            .checked_shl(failures.saturating_sub(1).min(5))
            .unwrap_or(MOST_SECONDS)
            .min(MOST_SECONDS);
        self.agenda
            .put(key, now.checked_add_signed(TimeDelta::seconds(seconds)).unwrap_or(now));
    }

    fn plan(&mut self, key: &Key, now: DateTime<Utc>) -> Plan {
        let (seen, options) = (&mut self.seen, &self.options);
        match key {
            Key::Deployment(name) => deployment::plan(seen, name, now),
            Key::ReplicaSet(name) => replica_set::plan(seen, name, now),
            Key::StatefulSet(name) => stateful_set::plan(seen, name, now),
            Key::DaemonSet(name) => daemon_set::plan(seen, name, now),
            Key::Job(name) => job::plan(seen, name, now),
            Key::Claim(name) => claims::plan(seen, name, options, now),
            Key::Volume(name) => volumes::plan(seen, name),
            Key::Attachments(name) => attachments::plan(seen, name, options, now),
            Key::Node(name) => node_lifecycle::plan(seen, name, options, now),
            Key::Pod(name) => pods::plan(seen, name, options, now),
        }
    }

    async fn carry_out(&mut self, act: &Act, now: DateTime<Utc>) -> Result<(), WriteError> {
        let keys = match act.sort {
            Sort::Pod => self.write::<Pod>(act, now).await?,
            Sort::Node => self.write::<Node>(act, now).await?,
            Sort::Deployment => self.write::<Deployment>(act, now).await?,
            Sort::ReplicaSet => self.write::<ReplicaSet>(act, now).await?,
            Sort::StatefulSet => self.write::<StatefulSet>(act, now).await?,
            Sort::DaemonSet => self.write::<DaemonSet>(act, now).await?,
            Sort::Job => self.write::<Job>(act, now).await?,
            Sort::Claim => self.write::<PersistentVolumeClaim>(act, now).await?,
            Sort::Volume => self.write::<PersistentVolume>(act, now).await?,
            Sort::Attachment => self.write::<VolumeAttachment>(act, now).await?,
        };
        self.put_down(keys, now);
        Ok(())
    }

    async fn write<K: Sighted>(&mut self, act: &Act, now: DateTime<Utc>) -> Result<Vec<Key>, WriteError> {
        let name: &Name = &act.name;
        let answer = match &act.deed {
            Deed::Create(body) => self.hands.create::<K>(&name.namespace, body).await,
            Deed::Patch(body) => self.hands.patch::<K>(name, body).await,
            Deed::Status(body) => self.hands.patch_status::<K>(name, body).await,
            Deed::Delete { uid, grace } => {
                return match self.hands.delete::<K>(name, uid, *grace).await? {
                    Removed::Gone => Ok(self.seen.forget::<K>(name, uid, now)),
                    Removed::Going(object) => Ok(self.seen.assume(*object, now)),
                };
            }
        };
        match answer {
            Ok(object) => Ok(self.seen.assume(object, now)),
            // What is gone needs no patch any more; the watch tells the rest.
            Err(problem) if problem.code() == Some(404) && !matches!(act.deed, Deed::Create(_)) => Ok(Vec::new()),
            Err(problem) => Err(problem),
        }
    }
}

async fn wait_for(wait: Duration) {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}

fn streams(client: &Client) -> SelectAll<BoxStream<'static, Change>> {
    select_all([
        of::<Pod>(client),
        of::<Node>(client),
        of::<Deployment>(client),
        of::<ReplicaSet>(client),
        of::<StatefulSet>(client),
        of::<DaemonSet>(client),
        of::<Job>(client),
        of::<PersistentVolumeClaim>(client),
        of::<PersistentVolume>(client),
        of::<StorageClass>(client),
        of::<CSINode>(client),
        of::<VolumeAttachment>(client),
        of::<Lease>(client),
    ])
}

fn of<K: Sighted>(client: &Client) -> BoxStream<'static, Change> {
    let news = follow::<K>(client.clone());
    news.map(|news| Box::new(move |seen: &mut Seen, now| seen.take::<K>(news, now)) as Change)
        .boxed()
}

//! The driver in motion: watches, asks the plan of what moved or is due, carries it out.

use super::furniture::storage_classes;
use super::plan::{Step, step};
use super::seen::{Key, Seen, Watched};
use crate::observe::{Agenda, Hands, WriteError, follow};
use chrono::{DateTime, TimeDelta, Utc};
use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll, select_all};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use karpenter::clock::SharedClock;
use kube::Client;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long after a failed write the same thing is tried again.
const RETRY: TimeDelta = TimeDelta::seconds(1);

/// How long the driver takes. All times are real seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct CsiOptions {
    /// From a claim that wants a volume to the volume.
    pub provision_seconds: u32,
    /// From an attachment to its being there.
    pub attach_seconds: u32,
    /// From an attachment that is asked to go to its end.
    pub detach_seconds: u32,
    /// From a released volume to its end.
    pub delete_seconds: u32,
}

impl Default for CsiOptions {
    fn default() -> Self {
        Self {
            provision_seconds: 1,
            attach_seconds: 1,
            detach_seconds: 1,
            delete_seconds: 1,
        }
    }
}

/// News of some kind, ready to be taken in.
type Change = Box<dyn FnOnce(&mut Seen) -> Vec<Key> + Send>;

/// The pretended driver.
pub struct Csi {
    hands: Hands,
    client: Client,
    clock: SharedClock,
    options: CsiOptions,
    seen: Seen,
    agenda: Agenda<Key>,
}

impl Csi {
    /// A driver for a Kubernetes API.
    pub fn new(client: Client, clock: SharedClock, options: CsiOptions) -> Self {
        Self {
            hands: Hands::new(client.clone()),
            client,
            clock,
            options,
            seen: Seen::default(),
            agenda: Agenda::default(),
        }
    }

    /// Installs the storage classes that are missing, then serves claims until cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut changes = streams(&self.client);
        let mut missing = storage_classes();
        loop {
            let now = self.clock.now();
            let next = self.agenda.next().filter(|_| self.seen.is_complete());
            let wait = next.map_or(Duration::MAX, |at| (at - now).to_std().unwrap_or_default());
            let wait = if missing.is_empty() {
                wait
            } else {
                Duration::from_secs(1).min(wait)
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(change) = changes.next() => {
                    for key in change(&mut self.seen) {
                        self.agenda.put(key, now);
                    }
                }
                () = tokio::time::sleep(wait) => {
                    self.install(&mut missing).await;
                    if self.seen.is_complete() {
                        self.work().await;
                    }
                }
            }
        }
    }

    /// Creates the classes; what cannot be created now is left for the next time.
    async fn install(&self, missing: &mut Vec<serde_json::Value>) {
        let mut left = Vec::new();
        for class in std::mem::take(missing) {
            if let Err(problem) = present(self.hands.create::<StorageClass>("", &class).await) {
                tracing::debug!(error = %problem, "driver could not write");
                left.push(class);
            }
        }
        *missing = left;
    }

    /// Does what is due for one key.
    async fn work(&mut self) {
        let now = self.clock.now();
        let Some(key) = self.agenda.take(now) else { return };
        let outcome = match step(&mut self.seen, &key, &self.options, now) {
            Step::Rest => Ok(()),
            Step::WaitUntil(at) => {
                self.agenda.put(key, at);
                return;
            }
            Step::Make(volume) => present(self.hands.create::<PersistentVolume>("", &volume).await),
            Step::End(name, uid) => self.hands.delete::<PersistentVolume>(&name, &uid, None).await.map(drop),
            Step::Hold(name, finalizers) => {
                gone(self.hands.patch::<VolumeAttachment>(&name, &finalizers).await.map(drop))
            }
            Step::Attach(name, status) => {
                let answer = self.hands.patch_status::<VolumeAttachment>(&name, &status).await;
                gone(answer.map(drop))
            }
        };
        if let Err(problem) = outcome {
            tracing::debug!(key = ?key, error = %problem, "driver could not write");
            self.agenda.put(key, retry(now));
        }
    }
}

/// That it is there already is as good.
fn present<K>(answer: Result<K, WriteError>) -> Result<(), WriteError> {
    match answer {
        Err(problem) if problem.code() == Some(409) => Ok(()),
        other => other.map(drop),
    }
}

/// What is gone needs no patch any more.
fn gone(answer: Result<(), WriteError>) -> Result<(), WriteError> {
    match answer {
        Err(problem) if problem.code() == Some(404) => Ok(()),
        other => other,
    }
}

fn retry(now: DateTime<Utc>) -> DateTime<Utc> {
    now.checked_add_signed(RETRY).unwrap_or(now)
}

fn streams(client: &Client) -> SelectAll<BoxStream<'static, Change>> {
    select_all([
        of::<PersistentVolumeClaim>(client),
        of::<PersistentVolume>(client),
        of::<VolumeAttachment>(client),
        of::<StorageClass>(client),
        of::<Node>(client),
        of::<CSINode>(client),
    ])
}

fn of<K: Watched>(client: &Client) -> BoxStream<'static, Change> {
    let news = follow::<K>(client.clone());
    news.map(|news| Box::new(move |seen: &mut Seen| seen.take::<K>(news)) as Change)
        .boxed()
}

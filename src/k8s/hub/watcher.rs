//! The loop of one watcher: list, watch, and list again when the watch cannot go on.
//!
//! Relies on the hub for where to tell what it sees; the hub runs one per kind.

use super::handle::{Trouble, Unread};
use super::page::{Identity, Page};
use super::run::Hub;
use crate::cluster::entries::Reader;
use crate::cluster::{Delta, Object, Version};
use crate::k8s::cluster_task::Closed;
use crate::k8s::kinds::{Need, WatchedKind};
use crate::k8s::reading::{Heard, STILL, Standstill};
use futures::StreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Objects per page of a list.
const PAGE: u32 = 500;
/// The server ends a watch after this many seconds; the next one goes on from there.
///
/// Differs: upstream's watches last five to ten minutes. The end of a watch and the opening of the next are the only signs of life that can be relied on:
/// where etcd does not report its progress, an API server sends no bookmarks for kinds of which nothing has changed since it started.
const WATCH_SECONDS: u32 = 30;
/// A watch that says nothing for this long, not even that it is over, is taken for dead. The watchdog notices earlier, and has it listed.
const SILENCE: Duration = Duration::from_secs(90);
/// The pause after a failure doubles between these.
const FIRST_PAUSE: Duration = Duration::from_millis(800);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often an optional kind that is not served is looked for.
const UNSERVED_PAUSE: Duration = Duration::from_mins(1);

/// Why a list or watch ended.
enum Ended {
    /// The watch ended as watches do; go on from the version.
    Over,
    /// The version is too old, or a list is wanted: list again.
    Expired,
    /// Not served or not permitted.
    Unserved(kube::Error),
    /// Anything else: pause and try again.
    Failed(kube::Error),
    /// The cluster task is gone.
    Closed,
}

impl From<Closed> for Ended {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

/// One watcher.
pub(super) struct Watcher {
    hub: Hub,
    kind: WatchedKind,
    reader: Reader,
    wanted: watch::Receiver<u64>,
    version: Option<String>,
    /// What was said of objects that cannot be read.
    unread: BTreeMap<crate::cluster::Key, String>,
    pause: Duration,
    unserved: bool,
}

impl Watcher {
    pub(super) fn new(hub: Hub, kind: WatchedKind) -> Self {
        let wanted = hub
            .handle
            .line(&kind.source)
            .map_or_else(|| watch::channel(0).1, |line| line.wanted.subscribe());
        Self {
            hub,
            kind,
            reader: Reader::new(),
            wanted,
            version: None,
            unread: BTreeMap::new(),
            pause: FIRST_PAUSE,
            unserved: false,
        }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        loop {
            let started = Instant::now();
            let ended = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                ended = self.step() => ended,
            };
            let pause = match ended {
                Ok(()) => continue,
                Err(Ended::Closed) => return,
                Err(Ended::Expired) => {
                    // A list that expires between two pages, again and again, must not become a loop of requests either.
                    let was_watching = self.version.take().is_some();
                    if was_watching {
                        continue;
                    }
                    self.trouble("the list expired before its end".to_owned());
                    FIRST_PAUSE
                }
                // A watch that ends at once, again and again, must not become a loop of requests.
                Err(Ended::Over) if started.elapsed() >= FIRST_PAUSE => continue,
                Err(Ended::Over) => FIRST_PAUSE,
                Err(Ended::Unserved(error)) => match self.not_served(&error).await {
                    Ok(pause) => pause,
                    Err(Closed) => return,
                },
                Err(Ended::Failed(error)) => self.failed(&error),
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = self.wanted.changed() => self.version = None,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn step(&mut self) -> Result<(), Ended> {
        match self.version.clone() {
            None => {
                let version = self.list().await?;
                self.version = Some(version);
                self.pause = FIRST_PAUSE;
                Ok(())
            }
            Some(version) => Err(self.watch(&version).await),
        }
    }

    /// Lists everything, consistently, page by page. It needs no limit of its own, and nobody breaks it off for another list: each read ends by itself
    /// when nothing comes any more.
    async fn list(&mut self) -> Result<String, Ended> {
        let number = *self.wanted.borrow_and_update();
        let began = self.hub.clock.now();
        self.hub.metrics.relists.with_label_values(&[self.kind.label()]).inc();
        let mut params = ListParams::default().limit(PAGE);
        let (mut objects, mut unread) = (Vec::new(), BTreeSet::new());
        let version = loop {
            let mut request = Request::new(self.kind.path())
                .list(&params)
                .map_err(|e| Ended::Failed(kube::Error::BuildRequest(e)))?;
            request.extensions_mut().insert(self.heard());
            let page: Page = self.hub.client.kube().request(request).await.map_err(ended)?;
            for text in page.items.unwrap_or_default() {
                let object = serde_json::from_str(text.get()).map_err(|e| Ended::Failed(kube::Error::SerdeError(e)))?;
                let identity = Identity::of(&self.kind.source, &object);
                match self.read(&identity, object) {
                    Some(object) => objects.push(object),
                    None => {
                        unread.insert(identity.key);
                    }
                }
            }
            match page.metadata.next.filter(|next| !next.is_empty()) {
                Some(next) => params.continue_token = Some(next),
                None => break page.metadata.resource_version.unwrap_or_default(),
            }
        };
        self.unread.retain(|key, _| unread.contains(key));
        let source = self.kind.source.clone();
        let listed = Delta::Listed {
            source,
            version: Version::parse(&version),
            began,
            objects,
            unread,
        };
        self.hub.cluster.observe(listed).await?;
        self.served();
        if let Some(line) = self.hub.handle.line(&self.kind.source) {
            let now = self.hub.clock.now();
            line.beat(|pulse| {
                (pulse.last_list, pulse.last_event) = (Some(now), Some(now));
                (pulse.last_piece, pulse.trouble) = (None, None);
            });
            line.done.send_modify(|done| *done = (*done).max(number));
        }
        Ok(version)
    }

    /// Notes that a list goes on.
    fn heard(&self) -> Heard {
        let (handle, source) = (self.hub.handle.clone(), self.kind.source.clone());
        let clock = Arc::clone(&self.hub.clock);
        Heard::new(move || {
            if let Some(line) = handle.line(&source) {
                line.beat(|pulse| pulse.last_piece = Some(clock.now()));
            }
        })
    }

    /// Watches from a version until it ends; says why.
    async fn watch(&mut self, version: &str) -> Ended {
        let params = WatchParams {
            bookmarks: true,
            timeout: Some(WATCH_SECONDS),
            ..WatchParams::default()
        };
        let request = match Request::new(self.kind.path()).watch(&params, version) {
            Ok(request) => request,
            Err(error) => return Ended::Failed(kube::Error::BuildRequest(error)),
        };
        let kube = self.hub.client.kube();
        let opening = kube.request_events::<Value>(request);
        let stream = match tokio::time::timeout(STILL, opening).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return ended(error),
            Err(_) => return Ended::Failed(kube::Error::Service(Standstill::Still.into())),
        };
        // an opened watch is a sign of life too: the next one is due with its end
        self.beat();
        tokio::pin!(stream);
        loop {
            let event = tokio::select! {
                biased;
                _ = self.wanted.changed() => return Ended::Expired,
                event = tokio::time::timeout(SILENCE, stream.next()) => event,
            };
            let told = match event {
                Ok(Some(Ok(event))) => self.tell(event).await,
                Ok(Some(Err(error))) => Err(ended(error)),
                Ok(None) => {
                    self.beat();
                    Err(Ended::Over)
                }
                // Silent for so long that it is taken for dead.
                Err(_) => Err(Ended::Over),
            };
            if let Err(ended) = told {
                return ended;
            }
        }
    }

    async fn tell(&mut self, event: WatchEvent<Value>) -> Result<(), Ended> {
        let source = self.kind.source.clone();
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let identity = Identity::of(&source, &object);
                self.go_on_from(&identity.raw_version);
                if let Some(object) = self.read(&identity, object) {
                    self.hub.cluster.observe(Delta::Applied(object)).await?;
                }
            }
            WatchEvent::Deleted(object) => {
                let Identity {
                    key,
                    uid,
                    version,
                    raw_version,
                } = Identity::of(&source, &object);
                self.go_on_from(&raw_version);
                self.unread.remove(&key);
                self.hub
                    .cluster
                    .observe(Delta::Deleted {
                        kind: source.kind,
                        key,
                        uid,
                        version,
                    })
                    .await?;
            }
            WatchEvent::Bookmark(bookmark) => {
                let raw = bookmark.metadata.resource_version;
                self.go_on_from(&raw);
                self.hub
                    .cluster
                    .observe(Delta::Bookmark {
                        source,
                        version: Version::parse(&raw),
                    })
                    .await?;
            }
            WatchEvent::Error(status) => return Err(ended(kube::Error::Api(status))),
        }
        self.pause = FIRST_PAUSE;
        self.beat();
        Ok(())
    }

    fn go_on_from(&mut self, version: &str) {
        if !version.is_empty() {
            self.version = Some(version.to_owned());
        }
    }

    fn beat(&self) {
        let now = self.hub.clock.now();
        #[allow(clippy::cast_precision_loss)] // seconds since 1970 are far below 2^52
        let seconds = now.timestamp() as f64;
        self.hub
            .metrics
            .last_event
            .with_label_values(&[self.kind.label()])
            .set(seconds);
        if let Some(line) = self.hub.handle.line(&self.kind.source) {
            line.beat(|pulse| (pulse.last_event, pulse.trouble) = (Some(now), None));
        }
    }

    /// Reads one object; one that cannot be read is told once per reason.
    fn read(&mut self, identity: &Identity, object: Value) -> Option<Object> {
        match self.kind.read(&mut self.reader, object) {
            Ok(object) => {
                self.unread.remove(&identity.key);
                Some(object)
            }
            Err(error) => {
                let message = error.to_string();
                if self.unread.insert(identity.key.clone(), message.clone()).as_ref() != Some(&message) {
                    self.report(identity, message);
                }
                None
            }
        }
    }

    fn report(&self, identity: &Identity, message: String) {
        let kind = self.kind.label();
        self.hub.metrics.undecodable.with_label_values(&[kind]).inc();
        tracing::error!(kind, key = %identity.key, error = message, "object cannot be read and is left out until it is corrected");
        if let Some(call) = &self.hub.on_unread {
            let (source, key, uid) = (self.kind.source.clone(), identity.key.clone(), identity.uid.to_string());
            call(&Unread {
                source,
                kind: kind.to_owned(),
                key,
                uid,
                message,
            });
        }
    }

    fn served(&mut self) {
        if self.unserved {
            self.unserved = false;
            self.hub.metrics.unserved.with_label_values(&[self.kind.label()]).set(0);
            tracing::info!(kind = self.kind.label(), "optional kind is served now");
            if let Some(line) = self.hub.handle.line(&self.kind.source) {
                line.beat(|pulse| pulse.unserved = false);
            }
        }
    }

    async fn not_served(&mut self, error: &kube::Error) -> Result<Duration, Closed> {
        if self.kind.need == Need::Required {
            return Ok(self.failed(error));
        }
        self.version = None;
        if !self.unserved {
            self.unserved = true;
            self.hub.metrics.unserved.with_label_values(&[self.kind.label()]).set(1);
            tracing::warn!(kind = self.kind.label(), %error, "optional kind is not served or not permitted; going on without it");
            if let Some(line) = self.hub.handle.line(&self.kind.source) {
                line.beat(|pulse| pulse.unserved = true);
            }
            self.hub
                .cluster
                .observe(Delta::Unserved(self.kind.source.clone()))
                .await?;
        }
        Ok(UNSERVED_PAUSE)
    }

    fn failed(&mut self, error: &kube::Error) -> Duration {
        let pause = self.pause;
        self.pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        tracing::warn!(kind = self.kind.label(), %error, pause = ?pause, "watch failed; trying again");
        self.trouble(error.to_string());
        pause
    }

    fn trouble(&self, words: String) {
        let at = self.hub.clock.now();
        if let Some(line) = self.hub.handle.line(&self.kind.source) {
            line.beat(|pulse| pulse.trouble = Some(Trouble { words, at }));
        }
    }
}

/// What an error of a list or watch means.
fn ended(error: kube::Error) -> Ended {
    match &error {
        kube::Error::Api(status) if status.code == 410 || status.reason == "Expired" || status.reason == "Gone" => {
            Ended::Expired
        }
        kube::Error::Api(status) if status.code == 403 || status.code == 404 => Ended::Unserved(error),
        // What cannot be read as an event would come again from the same version.
        kube::Error::SerdeError(_) => Ended::Expired,
        // The connection broke while it was watched: nothing is wrong with the version.
        kube::Error::ReadEvents(_) => Ended::Over,
        _ => Ended::Failed(error),
    }
}

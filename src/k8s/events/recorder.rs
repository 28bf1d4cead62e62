//! The handle that Events are published with, and the task that sends them.

use super::Event;
use super::correlate::{Correlator, Sent, Step};
use super::dedupe::{Dedupe, Verdict};
use crate::api::time;
use crate::clock::{SharedClock, within};
use crate::k8s::client::{Admitted, ApiClient};
use crate::k8s::leadership::Leadership;
use crate::k8s::metrics::BorderMetrics;
use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::Event as ApiEvent;
use kube::Resource;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Events that may wait to be sent.
const QUEUE: usize = 1000;
/// An Event is tried this often; an Event that does not get through is no reason to stop.
const ATTEMPTS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Bytes of a message, about; an Event is stored for each object it is about.
const LONGEST: usize = 8 * 1024;

/// Publishes Events; cheap to clone.
#[derive(Debug, Clone)]
pub struct Recorder {
    queue: mpsc::Sender<Event>,
    dedupe: Arc<Mutex<Dedupe>>,
    metrics: BorderMetrics,
}

impl Recorder {
    /// Publishes an Event unless it is a repetition, comes too fast, or the queue is full. Never waits.
    pub fn publish(&self, mut event: Event) {
        cut(&mut event.message);
        let verdict = self
            .dedupe
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .judge(&event, Instant::now());
        match verdict {
            Verdict::Repetition => {}
            Verdict::TooFast => self.metrics.events_dropped.with_label_values(&["rate_limit"]).inc(),
            Verdict::Tell => {
                if self.queue.try_send(event).is_err() {
                    self.metrics.events_dropped.with_label_values(&["queue_full"]).inc();
                }
                self.show_queued();
            }
        }
    }

    /// A recorder that sends nothing, and what was published.
    #[cfg(test)]
    pub(crate) fn recording() -> (Self, Told) {
        let (sender, queue) = mpsc::channel(QUEUE);
        let recorder = Self {
            queue: sender,
            dedupe: Arc::default(),
            metrics: BorderMetrics::detached().unwrap(),
        };
        (recorder, Told(queue))
    }

    fn show_queued(&self) {
        let free = self.queue.capacity().min(QUEUE);
        self.metrics
            .events_queued
            .set(i64::try_from(QUEUE - free).unwrap_or(i64::MAX));
    }
}

/// What is left out is told of: a pod with a thousand terms has a thousand reasons.
fn cut(message: &mut String) {
    if message.len() <= LONGEST {
        return;
    }
    let end = message.floor_char_boundary(LONGEST);
    let more = message.len() - end;
    message.truncate(end);
    // writing to a String cannot fail
    let _ = write!(message, "… and {more} more bytes");
}

/// What was published to a recorder that sends nothing.
#[cfg(test)]
pub(crate) struct Told(mpsc::Receiver<Event>);

#[cfg(test)]
impl Told {
    /// What was published since the last call.
    pub(crate) fn take(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

/// Sends what was published.
pub struct RecorderTask {
    queue: mpsc::Receiver<Event>,
    client: ApiClient,
    clock: SharedClock,
    metrics: BorderMetrics,
    leadership: Leadership,
    correlator: Correlator,
    last_stamp: i64,
}

impl std::fmt::Debug for RecorderTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecorderTask").finish_non_exhaustive()
    }
}

impl RecorderTask {
    /// A recorder and the task behind it.
    #[allow(clippy::new_ret_no_self)] // the task comes with its handle
    pub fn new(client: ApiClient, clock: SharedClock, metrics: BorderMetrics) -> (Recorder, Self) {
        let (sender, queue) = mpsc::channel(QUEUE);
        let recorder = Recorder {
            queue: sender,
            dedupe: Arc::default(),
            metrics: metrics.clone(),
        };
        let task = Self {
            queue,
            client,
            clock,
            metrics,
            leadership: Leadership::always(),
            correlator: Correlator::default(),
            last_stamp: 0,
        };
        (recorder, task)
    }

    /// Has nothing sent while this process does not lead.
    pub fn under(mut self, leadership: Leadership) -> Self {
        self.leadership = leadership;
        self
    }

    /// Sends until `stop`, or until nobody can publish any more.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let event = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                event = self.queue.recv() => event,
            };
            let Some(event) = event else { return };
            let free = self.queue.capacity().min(QUEUE);
            self.metrics
                .events_queued
                .set(i64::try_from(QUEUE - free).unwrap_or(i64::MAX));
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.tell(event) => {}
            }
        }
    }

    async fn tell(&mut self, event: Event) {
        if !self.leadership.may_write() {
            self.metrics.events_dropped.with_label_values(&["not_leading"]).inc();
            return;
        }
        let now = self.clock.now();
        match self.correlator.judge(&event, Instant::now()) {
            Step::Drop => self.metrics.events_dropped.with_label_values(&["spam"]).inc(),
            Step::Create { key, message } => {
                let sent = self.create(&event, &message, now).await;
                self.correlator.remember(key, sent, Instant::now());
            }
            Step::Count { key, message, sent } => {
                let sent = match self.count(&event, &message, &sent, now).await {
                    Counted::Yes => Some(sent),
                    // The API server keeps Events for an hour or so.
                    Counted::Expired => self.create(&event, &message, now).await,
                    Counted::No => None,
                };
                self.correlator.remember(key, sent, Instant::now());
            }
        }
    }

    async fn create(&mut self, event: &Event, message: &str, now: DateTime<Utc>) -> Option<Sent> {
        let name = format!("{}.{:x}", event.involved.name, self.stamp(now));
        let body = body(event, message, &name, now);
        let request = request(event)
            .create(&PostParams::default(), body.to_string().into_bytes())
            .ok()?;
        match self.send(&request).await {
            Ok(()) => Some(Sent {
                name,
                count: 1,
                first: now,
            }),
            Err(error) => {
                self.lost(event, &error);
                None
            }
        }
    }

    async fn count(&mut self, event: &Event, message: &str, sent: &Sent, now: DateTime<Utc>) -> Counted {
        let patch = json!({ "count": sent.count, "lastTimestamp": time::to_rfc3339(now), "message": message });
        let params = PatchParams::default();
        let Ok(request) = request(event).patch(&sent.name, &params, &Patch::Merge(patch)) else {
            return Counted::No;
        };
        match self.send(&request).await {
            Ok(()) => Counted::Yes,
            Err(kube::Error::Api(status)) if status.is_not_found() => Counted::Expired,
            Err(error) => {
                self.lost(event, &error);
                Counted::No
            }
        }
    }

    /// Sends it like any write: token, lease, four seconds (architecture §3.5).
    async fn send(&self, request: &http::Request<Vec<u8>>) -> Result<(), kube::Error> {
        let mut pause = FIRST_PAUSE;
        let mut attempt = 1;
        loop {
            self.client.admit().await;
            if !self.leadership.may_write() {
                return Err(kube::Error::Service("this process does not lead any more".into()));
            }
            let mut sent = request.clone();
            sent.extensions_mut().insert(Admitted);
            let kube = self.client.kube();
            match within(self.leadership.write_timeout(), kube.request::<Value>(sent)).await {
                Some(Ok(_)) => return Ok(()),
                // Refused: trying again does not change the answer. A name that exists is an earlier attempt of ours that got through.
                Some(Err(kube::Error::Api(status))) if status.is_already_exists() => return Ok(()),
                Some(Err(error @ kube::Error::Api(_))) if attempt >= ATTEMPTS || !may_pass(&error) => {
                    return Err(error);
                }
                Some(Err(error)) if attempt >= ATTEMPTS => return Err(error),
                None if attempt >= ATTEMPTS => return Err(kube::Error::Service("no answer".into())),
                Some(Err(_)) | None => {}
            }
            attempt += 1;
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2);
        }
    }

    fn lost(&self, event: &Event, error: &kube::Error) {
        self.metrics.events_dropped.with_label_values(&["refused"]).inc();
        tracing::debug!(reason = %event.reason, kind = event.involved.kind, name = event.involved.name, %error, "event was not recorded");
    }

    /// A number that makes names unique: the time, or one more than the last.
    fn stamp(&mut self, now: DateTime<Utc>) -> i64 {
        let stamp = now.timestamp_nanos_opt().unwrap_or_default();
        self.last_stamp = stamp.max(self.last_stamp.saturating_add(1));
        self.last_stamp
    }
}

enum Counted {
    Yes,
    Expired,
    No,
}

fn may_pass(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 429 || status.code >= 500)
}

/// Namespace of an Event: the object's, `default` for a cluster-scoped one (surface §4.1).
fn namespace(event: &Event) -> &str {
    Some(event.involved.namespace.as_str())
        .filter(|namespace| !namespace.is_empty())
        .unwrap_or("default")
}

fn request(event: &Event) -> Request {
    Request::new(ApiEvent::url_path(&(), Some(namespace(event))))
}

fn body(event: &Event, message: &str, name: &str, now: DateTime<Utc>) -> Value {
    let stamp = time::to_rfc3339(now);
    let involved = &event.involved;
    let mut object = json!({
        "apiVersion": involved.api_version, "kind": involved.kind, "name": involved.name, "uid": involved.uid,
    });
    if let Some(object) = object.as_object_mut().filter(|_| !involved.namespace.is_empty()) {
        object.insert("namespace".to_owned(), json!(involved.namespace));
    }
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": name, "namespace": namespace(event) },
        "involvedObject": object,
        "reason": event.reason, "message": message, "type": event.type_.as_str(),
        "source": { "component": event.component },
        "reportingComponent": event.component, "reportingInstance": "",
        "firstTimestamp": stamp, "lastTimestamp": stamp, "count": 1,
    })
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;

//! The platform in motion: a handle that many hold, the task that lets time pass, and the HTTP surface.
//!
//! The router can be called in-process as a tower service under a paused clock, or served over loopback in real time; both see the same [`Platform`].

use super::answer::{Answer, Call, Timing};
use super::options::Options;
use super::platform::Platform;
use crate::ticks::{Moved, Ticks};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, StatusCode, header};
use karpenter::clock::SharedClock;
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Largest request body that is read.
const LARGEST_BODY: usize = 3 << 20;

/// Sends a webhook's POST; says whether the receiver answered 2xx.
pub type WebhookSender = Arc<dyn Fn(String, Value) -> BoxFuture<'static, bool> + Send + Sync>;

/// The simulated platform as it is handed around.
#[derive(Clone)]
pub struct Spot {
    inner: Arc<Inner>,
}

struct Inner {
    platform: Mutex<Platform>,
    clock: SharedClock,
    moved: Ticks,
    admin: Admin,
}

/// Whether `/_sandbox/` is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admin {
    /// It is; for loopback.
    Served,
    /// It is not.
    Hidden,
}

impl Spot {
    /// A platform that starts now.
    pub fn new(options: Options, clock: SharedClock, admin: Admin) -> Self {
        let platform = Mutex::new(Platform::new(options, clock.now()));
        Self {
            inner: Arc::new(Inner {
                platform,
                clock,
                moved: Ticks::new(0),
                admin,
            }),
        }
    }

    /// Looks at the platform, or does something to it, at the present instant. Must not await inside.
    pub fn with<T>(&self, look: impl FnOnce(&mut Platform) -> T) -> T {
        let now = self.inner.clock.now();
        let mut platform = self.lock();
        platform.advance(now);
        let result = look(&mut platform);
        let revision = platform.revision();
        drop(platform);
        self.inner.moved.set(revision);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Platform> {
        // A panic elsewhere leaves whole values behind; nothing here is half done between two statements that can fail.
        self.inner.platform.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves whenever the platform changed.
    pub fn changes(&self) -> Moved {
        self.inner.moved.subscribe()
    }

    /// The clock the platform lives by.
    pub fn clock(&self) -> &SharedClock {
        &self.inner.clock
    }

    /// Answers one call, as late as the platform says.
    pub async fn answer(&self, call: &Call) -> Answer {
        let now = self.inner.clock.now();
        let answer = if self.inner.admin == Admin::Served && call.path.starts_with("/_sandbox/") {
            self.with(|platform| platform.admin(call))
        } else {
            self.with(|platform| platform.answer(now, call))
        };
        if let Timing::Late(delay) = answer.timing {
            tokio::time::sleep(delay).await;
        }
        answer
    }

    /// The HTTP surface; a tower service too.
    pub fn router(&self) -> Router {
        Router::new().fallback(serve).with_state(self.clone())
    }

    /// Lets time pass and delivers webhooks until cancelled.
    pub async fn run(&self, sender: WebhookSender, stop: CancellationToken) {
        let mut moved = self.changes();
        let mut sending = JoinSet::new();
        loop {
            let (due, wait, timeout) = self.with(|platform| {
                let due = platform.take_due_deliveries();
                let wait = platform.next_event().map(|next| next - platform.now());
                (
                    due,
                    wait.and_then(|wait| wait.to_std().ok()),
                    platform.webhook_timeout(),
                )
            });
            for delivery in due {
                let post = sender(delivery.url, delivery.body);
                let spot = self.clone();
                sending.spawn(async move {
                    let accepted = tokio::time::timeout(timeout, post).await.unwrap_or(false);
                    spot.with(|platform| platform.delivered(delivery.id, accepted));
                });
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(_) = sending.join_next() => {}
                _ = moved.changed() => {}
                () = tokio::time::sleep(wait.unwrap_or(Duration::from_secs(1))) => {}
            }
        }
    }
}

/// Sends webhooks over HTTP.
pub fn http_sender() -> WebhookSender {
    let client = reqwest::Client::new();
    Arc::new(move |url, body| {
        let request = client.post(url).json(&body);
        Box::pin(async move {
            request
                .send()
                .await
                .is_ok_and(|response| response.status().is_success())
        })
    })
}

async fn serve(State(spot): State<Spot>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let text = |name: HeaderName| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned)
    };
    let body = match axum::body::to_bytes(body, LARGEST_BODY).await {
        Ok(body) => body.to_vec(),
        Err(_) => return respond(Answer::failure(413, "RequestEntityTooLarge", "limit is 3145728")),
    };
    let call = Call {
        method: parts.method.as_str().to_owned(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        authorization: text(header::AUTHORIZATION),
        content_type: text(header::CONTENT_TYPE),
        if_none_match: text(header::IF_NONE_MATCH),
        if_modified_since: text(header::IF_MODIFIED_SINCE),
        body,
    };
    respond(spot.answer(&call).await)
}

fn respond(answer: Answer) -> Response {
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    response
}

//! The server: from an HTTP request to an HTTP response, in the process or behind a socket.
//!
//! ```text
//! request → route → hooks, faults → core (under the lock, synchronous) → hooks, faults → audit → response
//! ```
//!
//! Relies on the tokio clock for everything that takes time, and on [`karpenter::clock::Clock`] for what is written into objects. Clients are
//! made in [`super::client`], sockets in [`super::http`].

use super::audit::{Audit, AuditEntry, Identity};
use super::background;
use super::core::Core;
use super::discovery;
use super::error::ApiError;
use super::faults::{ApiFaults, FaultEngine, Weather, timed_out};
use super::hooks::{HookPoint, HookVerdict, Hooks, WriteSeen};
use super::options::ApiOptions;
use super::render;
use super::route::{Call, ObjectPath, Verb};
use super::watch::Watcher;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::StreamExt;
use http::{HeaderValue, Request, Response, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use karpenter::clock::SharedClock;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::Notify;

/// A response's body.
pub type AnswerBody = UnsyncBoxBody<Bytes, Infallible>;

/// The simulated API server; cheap to clone, all clones are the same server.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    core: Mutex<Core>,
    audit: Mutex<Audit>,
    faults: Mutex<FaultEngine>,
    hooks: Mutex<Hooks>,
    pub(crate) tokens: Mutex<BTreeMap<String, Identity>>,
    clock: SharedClock,
    budgets: Arc<Notify>,
    garbage: Arc<Notify>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The background tasks wait for these; awake, they see that the server is gone.
        self.budgets.notify_one();
        self.garbage.notify_one();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A test that panicked while it held the lock says so itself.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        locked(&self.core)
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Wakes the background work if the last change left some.
    pub(crate) fn stir(&self, core: &Core) {
        if !core.store.pending.budgets.is_empty() {
            self.budgets.notify_one();
        }
        if !core.store.pending.is_empty() {
            self.garbage.notify_one();
        }
    }
}

impl ApiServer {
    /// A fresh server. Must be called inside a tokio runtime: the garbage collector and the disruption controller run in it, until the last
    /// clone of the server is gone.
    pub fn new(clock: SharedClock, seed: u64, options: ApiOptions) -> Self {
        let now = clock.now();
        let capacity = options.audit_capacity;
        let inner = Arc::new(Inner {
            core: Mutex::new(Core::new(seed, options, now)),
            audit: Mutex::new(Audit::new(capacity)),
            faults: Mutex::new(FaultEngine::seeded(seed)),
            hooks: Mutex::new(Hooks::default()),
            tokens: Mutex::new(BTreeMap::new()),
            clock,
            budgets: Arc::new(Notify::new()),
            garbage: Arc::new(Notify::new()),
        });
        tokio::spawn(keep_budgets(Arc::downgrade(&inner), Arc::clone(&inner.budgets)));
        tokio::spawn(keep_garbage(Arc::downgrade(&inner), Arc::clone(&inner.garbage)));
        Self { inner }
    }

    /// Puts other faults in force.
    pub fn set_faults(&self, faults: ApiFaults) {
        locked(&self.inner.faults).set(faults);
    }

    /// How often each fault was met.
    pub fn faults_met(&self) -> BTreeMap<&'static str, u64> {
        locked(&self.inner.faults).met()
    }

    /// Calls `action` once, at the n-th write from now (from 1) of `user`, or of anybody.
    pub fn hook_write(
        &self,
        point: HookPoint,
        nth: u64,
        user: Option<&str>,
        action: impl FnOnce(&WriteSeen) -> HookVerdict + Send + 'static,
    ) {
        locked(&self.inner.hooks).install(point, nth, user.map(str::to_owned), Box::new(action));
    }

    /// The requests that were answered, oldest first.
    pub fn audit(&self) -> Vec<AuditEntry> {
        locked(&self.inner.audit).entries()
    }

    /// Shows the requests that were answered from a running number on, oldest first; returns the number to go on from.
    pub fn audit_from(&self, number: u64, look: impl FnMut(&AuditEntry)) -> u64 {
        locked(&self.inner.audit).from(number, look)
    }

    /// How many requests there were, by verb and qualified kind.
    pub fn request_counts(&self) -> BTreeMap<(Verb, String), u64> {
        locked(&self.inner.audit).counts()
    }

    /// Forgets all past revisions: watches that lag behind and reads of the past get 410.
    pub fn compact(&self) {
        self.inner.core().store.compact();
    }

    /// The present revision.
    pub fn revision(&self) -> u64 {
        self.inner.core().store.revision()
    }

    /// Lets `token` stand for an identity on requests over a socket.
    pub fn add_token(&self, token: &str, identity: Identity) {
        locked(&self.inner.tokens).insert(token.to_owned(), identity);
    }

    pub(crate) fn identity_of(&self, token: &str) -> Option<Identity> {
        locked(&self.inner.tokens).get(token).cloned()
    }

    /// Answers one request.
    pub async fn answer(&self, identity: &Identity, request: Request<Bytes>) -> Response<AnswerBody> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let Some(object_path) = ObjectPath::parse(path) else {
            let found = discovery::answer(&self.inner.core().registry, path);
            return found.unwrap_or_else(|| refused(&ApiError::no_such_path()));
        };
        let call = {
            let core = self.inner.core();
            object_path.call(&core.registry, &parts.method, &parts.uri, &parts.headers, body)
        };
        let call = match call {
            Ok(call) => call,
            Err(error) => return refused(&error),
        };
        match self.carry_out(identity, &call).await {
            Ok(response) => {
                self.record(identity, &call, response.status().as_u16());
                response
            }
            Err(error) => {
                self.record(identity, &call, error.code);
                refused(&error)
            }
        }
    }

    async fn carry_out(&self, identity: &Identity, call: &Call) -> Result<Response<AnswerBody>, ApiError> {
        self.fire(HookPoint::Before, identity, call).await;
        let weather = locked(&self.inner.faults).meet(call, &identity.user);
        if !weather.delay.is_zero() {
            tokio::time::sleep(weather.delay).await;
        }
        if let Some(refusal) = weather.refusal {
            return Err(refusal);
        }
        let response = if call.verb == Verb::Watch {
            let watcher = Watcher::open(&self.inner, call, weather.drop_after)?;
            let lines = watcher.into_stream().map(|chunk| Ok(Frame::data(chunk)));
            response(200, AnswerBody::new(StreamBody::new(lines)))
        } else {
            self.perform(call, &weather)?
        };
        self.fire(HookPoint::After, identity, call).await;
        if let Some(after) = weather.lost_answer {
            tokio::time::sleep(after).await;
            return Err(timed_out());
        }
        Ok(response)
    }

    fn perform(&self, call: &Call, weather: &Weather) -> Result<Response<AnswerBody>, ApiError> {
        let now = self.inner.now();
        let mut core = self.inner.core();
        let answer = match weather.stale {
            Some(back) => core.stale(call, back)?,
            None => core.execute(call, now)?,
        };
        if call.verb.is_write() {
            self.inner.stir(&core);
        }
        drop(core);
        Ok(response(answer.code(), full(render::answer(call, &answer, now))))
    }

    async fn fire(&self, point: HookPoint, identity: &Identity, call: &Call) {
        if !call.verb.is_write() {
            return;
        }
        let due = locked(&self.inner.hooks).due(point, call, identity);
        let mut vanish = false;
        for (action, seen) in due {
            vanish |= action(&seen) == HookVerdict::Vanish;
        }
        if vanish {
            std::future::pending::<()>().await;
        }
    }

    fn record(&self, identity: &Identity, call: &Call, code: u16) {
        locked(&self.inner.audit).record(AuditEntry {
            at: self.inner.now(),
            user: identity.user.clone(),
            verb: call.verb,
            resource: call.resource.qualified(),
            subresource: call.subresource.clone(),
            namespace: call.namespace.clone(),
            name: call.name.clone(),
            code,
        });
    }
}

/// Runs the disruption controller until the server is gone.
async fn keep_budgets(server: Weak<Inner>, wake: Arc<Notify>) {
    loop {
        wake.notified().await;
        let Some(inner) = server.upgrade() else { return };
        let now = inner.now();
        background::settle_budgets(&mut inner.core(), now);
    }
}

/// Runs the garbage collector until the server is gone.
async fn keep_garbage(server: Weak<Inner>, wake: Arc<Notify>) {
    loop {
        wake.notified().await;
        let Some(delay) = server.upgrade().map(|i| i.core().options.garbage_delay) else {
            return;
        };
        tokio::time::sleep(delay).await;
        let Some(inner) = server.upgrade() else { return };
        let now = inner.now();
        let mut core = inner.core();
        background::settle_garbage(&mut core, now);
        if !core.store.pending.budgets.is_empty() {
            inner.budgets.notify_one();
        }
    }
}

/// A body that is there at once.
pub(crate) fn full(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).boxed_unsync()
}

/// A JSON response.
pub(crate) fn response(code: u16, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A refusal as a response.
pub(crate) fn refused(error: &ApiError) -> Response<AnswerBody> {
    let mut response = response(error.code, full(Bytes::from(error.to_status().to_string())));
    if let Some(seconds) = error.retry_after {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

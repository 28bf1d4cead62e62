//! An operator that can be killed at any of its writes, to Kubernetes or to the platform.
//!
//! ```text
//! operator ─▶ [thread of life] ─▶ API server, platform
//! ```
//!
//! At its end the thread is cut: what was not sent never is, what was sent gets no answer, and no other request of the same operator gets out; then its task
//! is aborted, as by `kill -9`. In the dark every request hangs where it is, as without a network. Called by the trial.

use super::witness::Witness;
use crate::api::{HookPoint, Identity};
use crate::world::World;
use async_trait::async_trait;
use axum::Router;
use axum::body::Body as AxumBody;
use bytes::Bytes;
use http::{Method, Request, Response};
use karpenter::cloud::spot::{ServiceTransport, Transport, TransportError};
use karpenter::k8s::election::{LeaseSettings, Terms};
use karpenter::operator::{
    Candidacy, Environment, FirstLogin, Listen, Listeners, Options, OptionsError, RunError, Setup, Solving, run,
};
use kube::client::Body;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// How long a stop may take before it counts as none.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// How many requests an operator sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traffic {
    /// To the Kubernetes API, by verb and path without names.
    pub kubernetes: BTreeMap<String, u64>,
    /// To the platform, by method and path without names.
    pub spot: BTreeMap<String, u64>,
}

impl Traffic {
    /// Adds another one's.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in [(&mut self.kubernetes, &other.kubernetes), (&mut self.spot, &other.spot)] {
            for (what, count) in theirs {
                let sum = mine.entry(what.clone()).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
    }
}

/// Where a kill is to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trap {
    /// At so many writes from now, from 1.
    pub(super) writes: u64,
    /// Before the write, or after it and before its answer.
    pub(super) side: HookPoint,
}

#[derive(Debug, Default)]
struct Inner {
    trap: Option<Trap>,
    traffic: Traffic,
    /// Until then nothing gets through.
    dark_until: Option<Instant>,
}

/// What an operator's requests hang on.
#[derive(Debug, Default)]
struct Thread {
    cut: AtomicBool,
    inner: Mutex<Inner>,
    fell: Notify,
}

impl Thread {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
        self.fell.notify_one();
    }

    fn dark_until(&self) -> Option<Instant> {
        self.lock().dark_until.filter(|until| *until > Instant::now())
    }

    /// Returns only while the thread holds.
    async fn holds(&self) {
        if self.cut.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    /// Whether this write springs the trap.
    fn springs(&self, side: HookPoint) -> bool {
        let mut inner = self.lock();
        let Some(trap) = inner.trap.as_mut().filter(|trap| trap.side == side) else {
            return false;
        };
        trap.writes = trap.writes.saturating_sub(1);
        let due = trap.writes == 0;
        if due {
            inner.trap = None;
        }
        due
    }

    async fn pass(&self, kind: Sort, side: HookPoint) {
        self.holds().await;
        while let Some(until) = self.dark_until() {
            tokio::time::sleep_until(until).await;
            self.holds().await;
        }
        if kind == Sort::Write && self.springs(side) {
            self.cut();
            std::future::pending::<()>().await;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Read,
    Write,
}

/// A running operator.
pub(super) struct Mortal {
    user: String,
    thread: Arc<Thread>,
    metrics: Arc<OnceLock<Router>>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

/// Settings in the form of environment variables.
pub(super) type Settings = Vec<(&'static str, String)>;

/// How an operator comes to lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chair {
    /// There is nobody else.
    Alone,
    /// By the lease.
    Lease,
}

/// The lease, in the namespace `default`.
pub(super) const LEASE: &str = "karpenter-leader-election";

impl Chair {
    fn candidacy(self, user: &str) -> Candidacy {
        match self {
            Self::Alone => Candidacy::Alone,
            Self::Lease => Candidacy::Lease(LeaseSettings {
                namespace: "default".into(),
                name: LEASE.into(),
                identity: user.to_owned(),
                terms: Terms::default(),
            }),
        }
    }
}

/// The user that the n-th operator of a trial is.
pub(super) fn user(number: u32) -> String {
    format!("operator-{number}")
}

impl Mortal {
    /// Starts the n-th operator of a world.
    ///
    /// # Errors
    /// The settings are refused.
    pub(super) fn start(
        world: &World,
        number: u32,
        settings: &Settings,
        chair: Chair,
        witness: &Arc<Witness>,
    ) -> Result<Self, OptionsError> {
        let user = user(number);
        let thread = Arc::new(Thread::default());
        let metrics = Arc::new(OnceLock::new());
        let nothing = Environment::default();
        let environment = settings
            .iter()
            .fold(nothing, |all, (name, value)| all.with(name, value));
        let setup = Setup {
            options: Options::read([], &environment)?,
            kube: kube(world, &thread, &user, witness),
            transport: Arc::new(Line {
                user: user.clone(),
                thread: Arc::clone(&thread),
                witness: Arc::clone(witness),
                inner: ServiceTransport::new(world.spot_router()),
            }),
            clock: Arc::clone(world.clock()),
            // another process draws other names
            seed: world.seed().wrapping_mul(1000).wrapping_add(u64::from(number)),
            listeners: Listeners {
                metrics: Listen::Inside(Arc::clone(&metrics)),
                health: Listen::Off,
            },
            solving: Solving::Inline,
            candidacy: chair.candidacy(&user),
            // the first login is tested elsewhere; here a start may fall into any weather
            first_login: FirstLogin::Waived,
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(setup, stop.clone()));
        Ok(Self {
            user,
            thread,
            metrics,
            stop,
            task,
        })
    }

    /// As whom it asks.
    pub(super) fn user(&self) -> &str {
        &self.user
    }

    /// Until then its requests and their answers hang where they are.
    pub(super) fn darken(&self, until: Instant) {
        self.thread.lock().dark_until = Some(until);
    }

    /// Its metrics, as a scrape shows them.
    pub(super) async fn scrape(&self) -> String {
        let request = Request::get("/metrics").body(AxumBody::empty());
        let (Some(server), Ok(request)) = (self.metrics.get().cloned(), request) else {
            return String::new();
        };
        let Ok(answer) = server.oneshot(request).await;
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX)
            .await
            .unwrap_or_default();
        String::from_utf8_lossy(&body).into_owned()
    }

    /// Sets a trap; an older one is gone.
    pub(super) fn set_trap(&self, trap: Trap) {
        self.thread.lock().trap = Some(trap);
    }

    /// Takes the trap away.
    pub(super) fn disarm(&self) {
        self.thread.lock().trap = None;
    }

    /// Returns when the trap has sprung, or when the operator ended by itself.
    pub(super) async fn ends(&mut self) -> End {
        let end = self.end().await;
        end.unwrap_or_else(|| End::ByItself("nobody asked it to".into()))
    }

    /// Waits for its end; none is one without error.
    async fn end(&mut self) -> Option<End> {
        tokio::select! {
            biased;
            () = self.thread.fell.notified() => Some(End::Killed),
            outcome = &mut self.task => match outcome {
                Ok(Ok(())) => None,
                Ok(Err(RunError::LeaseLost)) => Some(End::LostLease),
                Ok(Err(error)) => Some(End::ByItself(karpenter::telemetry::with_causes(&error))),
                Err(error) => Some(End::ByItself(error.to_string())),
            },
        }
    }

    /// Kills it; returns what it sent.
    pub(super) async fn kill(self) -> Traffic {
        self.thread.cut();
        self.task.abort();
        if !self.task.is_finished() {
            let _ = self.task.await;
        }
        std::mem::take(&mut self.thread.lock().traffic)
    }

    /// Asks it to stop; returns what it sent, and how it ended otherwise than it was asked to.
    pub(super) async fn ask_to_stop(mut self) -> (Traffic, Option<End>) {
        self.stop.cancel();
        let end = tokio::time::timeout(STOP_LIMIT, self.end()).await;
        let end = end.unwrap_or_else(|_| {
            let limit = STOP_LIMIT.as_secs();
            Some(End::ByItself(format!("it did not stop within {limit} s")))
        });
        (self.kill().await, end)
    }

    /// Asks it to stop where nothing keeps it from that; returns what it sent, and what is wrong with how it ended.
    pub(super) async fn stop(self) -> (Traffic, Option<String>) {
        let (traffic, end) = self.ask_to_stop().await;
        (
            traffic,
            end.map(|end| format!("the operator did not stop well: {end:?}")),
        )
    }
}

/// How an operator ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// By our trap.
    Killed,
    /// It could not renew its lease: right in bad weather.
    LostLease,
    /// By itself: a defect; in words.
    ByItself(String),
}

fn kube(world: &World, thread: &Arc<Thread>, user: &str, witness: &Arc<Witness>) -> kube::Client {
    let service = world.api().service(Identity::new(user, &["system:masters"]));
    let (thread, witness) = (Arc::clone(thread), Arc::clone(witness));
    let user: Arc<str> = user.into();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (service, thread) = (service.clone(), Arc::clone(&thread));
        let (user, witness) = (Arc::clone(&user), Arc::clone(&witness));
        async move {
            let sort = if request.method() == Method::GET {
                Sort::Read
            } else {
                Sort::Write
            };
            if sort == Sort::Write {
                witness.sees_leave(&user, &what_of_kubernetes(&request));
            }
            thread.pass(sort, HookPoint::Before).await;
            count(&mut thread.lock().traffic.kubernetes, &what_of_kubernetes(&request));
            let answer = service.oneshot(request).await;
            thread.pass(sort, HookPoint::After).await;
            answer
        }
    });
    kube::Client::new(service, "default")
}

/// The way to the platform.
struct Line {
    user: String,
    thread: Arc<Thread>,
    witness: Arc<Witness>,
    inner: ServiceTransport<Router, AxumBody>,
}

#[async_trait]
impl Transport for Line {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        let exchange = request.uri().path().starts_with("/oauth/");
        let sort = if request.method() == Method::GET || exchange {
            Sort::Read
        } else {
            Sort::Write
        };
        if sort == Sort::Write {
            self.witness.sees_leave(&self.user, &what_of_spot(&request));
        }
        self.thread.pass(sort, HookPoint::Before).await;
        count(&mut self.thread.lock().traffic.spot, &what_of_spot(&request));
        let answer = self.inner.send(request).await;
        self.thread.pass(sort, HookPoint::After).await;
        answer
    }
}

fn count(counts: &mut BTreeMap<String, u64>, what: &str) {
    if let Some(count) = counts.get_mut(what) {
        *count = count.saturating_add(1);
    } else {
        counts.insert(what.to_owned(), 1);
    }
}

/// Verb and kind of a request to Kubernetes, such as `PATCH nodeclaims/status`.
fn what_of_kubernetes(request: &Request<Body>) -> String {
    let watches = request
        .uri()
        .query()
        .is_some_and(|query| query.contains("watch=true") || query.contains("watch=1"));
    let verb = if watches { "WATCH" } else { request.method().as_str() };
    let mut parts = request.uri().path().split('/').filter(|part| !part.is_empty());
    // `api/v1`, or `apis/GROUP/VERSION`
    let skipped = if parts.next() == Some("apis") { 2 } else { 1 };
    let parts: Vec<&str> = parts.skip(skipped).collect();
    let (kind, rest) = match parts.as_slice() {
        ["namespaces", _, kind, rest @ ..] | [kind, rest @ ..] => (*kind, rest),
        [] => ("", &[][..]),
    };
    let list = if verb == "GET" && rest.is_empty() { "LIST" } else { verb };
    match rest {
        [_, subresource, ..] => format!("{list} {kind}/{subresource}"),
        _ => format!("{list} {kind}"),
    }
}

/// Method and kind of a request to the platform.
fn what_of_spot(request: &Request<Bytes>) -> String {
    let path = request.uri().path();
    let kind = path
        .split('/')
        .rfind(|part| part.chars().all(|c| c.is_ascii_lowercase() || c == '.') && !part.is_empty());
    format!("{} {}", request.method(), kind.unwrap_or(path))
}

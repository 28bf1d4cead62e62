//! The operator from its start to its stop.
//!
//! ```text
//! Setup ─▶ metrics ─▶ wiring ─▶ servers ─▶ login ─▶ lease ─▶ controllers ─▶ stop ─▶ writes in flight end ─▶ lease given back ─▶ Ok
//! ```
//!
//! `main` calls it with the real world, tests and the sandbox with theirs.

use super::build;
use super::http::{Check, Health, ListenError, Listeners, metrics_router, profiling_router};
use super::login::{LoginError, first_login};
use super::options::Options;
use super::process::ProcessMetrics;
use super::setup::{FirstLogin, Setup};
use super::tasks::{TaskError, Tasks};
use super::wiring::{self, Parts, Wired, WiringError};
use crate::clock::SharedClock;
use crate::k8s::election::{Candidate, Ended};
use crate::telemetry::{DeclareError, Exposition, Metrics};
use axum::Router;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Why the operator ended without being asked to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A metric family is declared twice or malformed: a defect.
    #[error("declaring the metrics")]
    Metrics(#[from] DeclareError),
    /// A port is taken.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A part cannot be set up.
    #[error("setting up the operator")]
    Wiring(#[from] WiringError),
    /// The platform does not let us in.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// Somebody else may lead now.
    #[error("leader election lost")]
    LeaseLost,
    /// A task ended early or not at all.
    #[error(transparent)]
    Task(#[from] TaskError),
}

impl RunError {
    /// The exit code (surface §6.4).
    pub fn exit_code(&self) -> u8 {
        2
    }
}

/// Whether `/debug/pprof/` is there.
#[derive(Clone, Copy)]
enum Profiling {
    Served,
    Off,
}

impl Profiling {
    fn of(options: &Options) -> Self {
        if options.enable_profiling {
            Self::Served
        } else {
            Self::Off
        }
    }
}

/// Runs the operator until `stop`.
pub async fn run(setup: Setup, stop: CancellationToken) -> Result<(), RunError> {
    let exposition = Exposition::new();
    let metrics = build::with_info(|info| Metrics::new(&exposition, info))?;
    exposition.add(Arc::new(ProcessMetrics));
    let Setup {
        options,
        kube,
        transport,
        clock,
        seed,
        listeners,
        solving,
        candidacy,
        first_login: login,
    } = setup;
    let profiling = Profiling::of(&options);
    let mut tasks = Tasks::default();
    let cloudspace = options.spot.cloudspace_name.clone();
    let parts = Parts {
        options,
        kube,
        transport,
        clock: Arc::clone(&clock),
        seed,
        solving,
        candidacy,
        metrics,
        exposition: exposition.clone(),
    };
    let Wired {
        borders,
        checks,
        candidate,
        moments,
    } = wiring::wire(&parts, &mut tasks, &stop)?;

    let metrics = metrics_routes(exposition, clock, profiling);
    serve(listeners, metrics, checks, &stop, &mut tasks).await?;
    if login == FirstLogin::Required {
        tokio::select! {
            biased;
            // nothing was written yet, so nothing has to end in order
            () = stop.cancelled() => return Ok(()),
            outcome = first_login(&borders.provider, &cloudspace) => outcome?,
        }
    }
    let seat = Seat::take(candidate, &moments.led, &stop);
    let ended = tasks.run(stop).await;
    drop(borders);
    // only now: no write is left that could come after the next leader's first look (architecture §7.18)
    match seat.leave().await? {
        Ended::Lost => Err(RunError::LeaseLost),
        Ended::Left => Ok(ended?),
    }
}

/// The place among the replicas: whether this process leads is seen to here until all other tasks have ended.
struct Seat {
    leave: CancellationToken,
    holding: Option<AbortOnDropHandle<Ended>>,
}

impl Seat {
    /// Runs for the lease, or leads at once where there is none. However the candidacy ends, everything else stops with it.
    fn take(candidate: Option<Candidate>, led: &CancellationToken, stop: &CancellationToken) -> Self {
        let leave = CancellationToken::new();
        let Some(candidate) = candidate else {
            led.cancel();
            return Self { leave, holding: None };
        };
        let (led, asked, stop) = (led.clone(), leave.clone(), stop.clone().drop_guard());
        let holding = tokio::spawn(async move {
            let _stop = stop;
            candidate.run(led, asked).await
        });
        Self {
            leave,
            holding: Some(AbortOnDropHandle::new(holding)),
        }
    }

    async fn leave(self) -> Result<Ended, TaskError> {
        self.leave.cancel();
        match self.holding {
            None => Ok(Ended::Left),
            Some(holding) => holding.await.map_err(|error| TaskError::Panicked(error.to_string())),
        }
    }
}

/// Opens both ports.
async fn serve(
    listeners: Listeners,
    metrics: Router,
    checks: Vec<Check>,
    stop: &CancellationToken,
    tasks: &mut Tasks,
) -> Result<(), ListenError> {
    let servers = stop.child_token();
    if let Some(server) = listeners.metrics.serve("metrics", metrics, servers.clone()).await? {
        tasks.spawn("metrics server", server);
    }
    let health = Health {
        live: vec![Check::ping("healthz")],
        ready: ready(checks),
    };
    if let Some(server) = listeners.health.serve("health probe", health.router(), servers).await? {
        tasks.spawn("health server", server);
    }
    Ok(())
}

/// What the metrics port serves.
fn metrics_routes(exposition: Exposition, clock: SharedClock, profiling: Profiling) -> Router {
    let routes = metrics_router(exposition, clock);
    match profiling {
        Profiling::Served => routes.merge(profiling_router()),
        Profiling::Off => routes,
    }
}

/// The checks of `/readyz`; the last one says no more than that somebody answers.
fn ready(mut checks: Vec<Check>) -> Vec<Check> {
    checks.push(Check::ping("readyz"));
    checks
}

//! The operator from its start to its stop.
//!
//! ```text
//! Setup ─▶ metrics ─▶ wiring ─▶ servers ─▶ login ─▶ lease ─▶ controllers ─▶ stop ─▶ writes in flight end ─▶ lease given back ─▶ Ok
//! ```
//!
//! From the wiring on the tasks are looked after, so that one that ends early ends the operator, whatever it waits for by then.
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
use std::pin::{Pin, pin};
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
    let let_in = CancellationToken::new();
    let checks = ready(checks, let_in.clone());
    serve(listeners, metrics, checks, &stop, &mut tasks).await?;
    let provider = Arc::clone(&borders.provider);
    let entering = async move {
        if login == FirstLogin::Required {
            first_login(&provider, &cloudspace).await?;
        }
        let_in.cancel();
        Ok(())
    };
    let mut running = pin!(tasks.run(stop.clone()));
    if !enters(running.as_mut(), entering, &stop).await? {
        return Ok(());
    }
    let seat = Seat::take(candidate, &moments.led, &stop);
    let ended = running.await;
    drop(borders);
    // only now: no write is left that could come after the next leader's first look (architecture §7.18)
    match seat.leave().await? {
        Ended::Lost => Err(RunError::LeaseLost),
        Ended::Left => Ok(ended?),
    }
}

/// Whether `entering` comes to its end while the tasks run; if they end before, because of the stop or by themselves, it does not go on. Nothing is
/// written before it has ended, so nothing has to end in order.
async fn enters(
    mut running: Pin<&mut impl Future<Output = Result<(), TaskError>>>,
    entering: impl Future<Output = Result<(), LoginError>>,
    stop: &CancellationToken,
) -> Result<bool, RunError> {
    let refused = tokio::select! {
        biased;
        ended = &mut running => return Ok(ended.map(|()| false)?),
        entered = entering => entered.err(),
    };
    let Some(refused) = refused else { return Ok(true) };
    stop.cancel();
    // why it ends is known already
    let _ = running.await;
    Err(refused.into())
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
        ready: checks,
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
///
/// Differs: upstream serves nothing before it has logged in. We do, since an outage of the platform is no reason to kill us, but are not ready: a
/// replica with a token that nobody accepts must not take the place of one that works (surface §6.4).
fn ready(mut checks: Vec<Check>, let_in: CancellationToken) -> Vec<Check> {
    checks.push(Check::telling("login", move || {
        (!let_in.is_cancelled()).then(|| "Rackspace Spot has not let us in yet".to_owned())
    }));
    checks.push(Check::ping("readyz"));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::time::Duration;

    fn refused() -> LoginError {
        LoginError::NoCloudspace { name: "nowhere".into() }
    }

    // surface §6.4
    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_while_the_platform_is_asked_to_let_us_in_ends_the_operator() {
        let (stop, mut tasks) = (CancellationToken::new(), Tasks::default());
        tasks.spawn("watchdog", tokio::time::sleep(Duration::from_mins(1)));
        let running = pin!(tasks.run(stop.clone()));
        let error = enters(running, pending(), &stop).await.unwrap_err();
        assert!(
            matches!(error, RunError::Task(TaskError::Ended("watchdog"))),
            "{error:?}"
        );
        assert!(stop.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_ends_the_wait_to_be_let_in_and_all_tasks() {
        let (stop, mut tasks) = (CancellationToken::new(), Tasks::default());
        tasks.spawn("a", stop.clone().cancelled_owned());
        let running = pin!(tasks.run(stop.clone()));
        let asked = stop.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            asked.cancel();
        });
        assert!(!enters(running, pending(), &stop).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_refused_stops_all_tasks_and_who_is_let_in_none() {
        let (stop, mut tasks) = (CancellationToken::new(), Tasks::default());
        tasks.spawn("a", stop.clone().cancelled_owned());
        let mut running = pin!(tasks.run(stop.clone()));
        assert!(enters(running.as_mut(), ready(Ok(())), &stop).await.unwrap());
        assert!(!stop.is_cancelled());
        let error = enters(running, ready(Err(refused())), &stop).await.unwrap_err();
        assert!(matches!(error, RunError::Login(_)), "{error:?}");
        assert!(stop.is_cancelled());
    }
}

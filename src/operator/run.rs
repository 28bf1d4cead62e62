//! The operator from its start to its stop.
//!
//! ```text
//! Setup ─▶ metrics ─▶ servers ─▶ wiring: every controller ─▶ run until the stop ─▶ writes in flight end ─▶ Ok
//! ```
//!
//! `main` calls it with the real world, tests and the sandbox with theirs.

use super::build;
use super::http::{Check, Health, ListenError, metrics_router};
use super::process::ProcessMetrics;
use super::setup::Setup;
use super::tasks::{TaskError, Tasks};
use super::wiring::{self, Parts, Wired, WiringError};
use crate::telemetry::{DeclareError, Exposition, Metrics};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

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
    } = setup;
    let mut tasks = Tasks::default();
    let parts = Parts {
        options,
        kube,
        transport,
        clock: Arc::clone(&clock),
        seed,
        solving,
        metrics,
        exposition: exposition.clone(),
    };
    let Wired { borders, checks } = wiring::wire(parts, &mut tasks, &stop)?;

    let servers = stop.child_token();
    let metrics = metrics_router(exposition, clock);
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
    let ended = tasks.run(stop).await;
    drop(borders);
    Ok(ended?)
}

/// The checks of `/readyz`; the last one says no more than that somebody answers.
fn ready(mut checks: Vec<Check>) -> Vec<Check> {
    checks.push(Check::ping("readyz"));
    checks
}

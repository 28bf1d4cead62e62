//! Every controller and what it is given, on one page.
//!
//! Called once by [`run`](super::run). What a controller needs are arguments; nothing here decides anything.

use super::http::Check;
use super::options::Options;
use super::setup::Solving;
use super::tasks::Tasks;
use crate::clock::SharedClock;
use crate::cloud::spot::transport::Transport;
use crate::telemetry::{Exposition, Metrics};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What all controllers are made of.
pub(super) struct Parts {
    pub(super) options: Options,
    pub(super) kube: kube::Client,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) clock: SharedClock,
    pub(super) seed: u64,
    pub(super) solving: Solving,
    pub(super) metrics: Metrics,
    pub(super) exposition: Exposition,
}

/// What the wiring gives back.
pub(super) struct Wired {
    /// Conditions of `/readyz`.
    pub(super) checks: Vec<Check>,
}

/// A part that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum WiringError {}

/// Starts everything.
pub(super) fn wire(_parts: Parts, _tasks: &mut Tasks, _stop: &CancellationToken) -> Result<Wired, WiringError> {
    Ok(Wired { checks: Vec::new() })
}

//! What an operator is given from outside: everything that differs between a real process, a test and a simulated day.

use super::candidacy::Candidacy;
use super::http::Listeners;
use super::options::Options;
use crate::clock::SharedClock;
use crate::cloud::spot::transport::Transport;
use std::fmt;
use std::sync::Arc;

/// Where long computations run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Solving {
    /// In the task that asks, so that a simulation replays exactly.
    Inline,
    /// On a thread of its own, so that other tasks go on.
    Blocking,
}

/// Whether the platform has to accept us before anything else happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstLogin {
    /// It has to: a refused login or an unknown cloudspace ends the start (surface §6.4).
    Required,
    /// It need not; conditions say what is wrong.
    Waived,
}

/// One operator.
pub struct Setup {
    /// The settings.
    pub options: Options,
    /// The way to the Kubernetes API; it must not retry by itself.
    pub kube: kube::Client,
    /// The way to the Spot API, its token service and the price feed.
    pub transport: Arc<dyn Transport>,
    /// The time.
    pub clock: SharedClock,
    /// Where all chance comes from.
    pub seed: u64,
    /// Where metrics and probes are served.
    pub listeners: Listeners,
    /// Where long computations run.
    pub solving: Solving,
    /// Whether it shares its work with other replicas.
    pub candidacy: Candidacy,
    /// Whether the platform has to accept us at the start.
    pub first_login: FirstLogin,
}

impl fmt::Debug for Setup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            options,
            seed,
            listeners,
            solving,
            candidacy,
            first_login,
            ..
        } = self;
        let mut shown = formatter.debug_struct("Setup");
        shown
            .field("options", options)
            .field("seed", seed)
            .field("listeners", listeners)
            .field("solving", solving)
            .field("candidacy", candidacy)
            .field("first_login", first_login);
        shown.finish_non_exhaustive()
    }
}

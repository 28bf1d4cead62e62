//! Logs in upstream's JSON form (surface §8), and a form for people in the sandbox.
//!
//! A `tracing` layer that writes one line per event: fixed keys first, then the fields of the enclosing spans from the outside in (a reconcile's
//! span brings `controller`, `reconcileID` and so on), then the event's own. It samples (surface T25), takes its time from the injected clock, and writes to the outputs that
//! the settings name. `main` installs it once with [`install`]; tests put [`LogLayer`] on a registry of their own.
//!
//! Levels: upstream has no WARN, so a `warn!` is shown as INFO. Libraries are heard from `error!` on only.

mod fields;
mod layer;
mod line;
mod outputs;
mod sampling;

pub use layer::LogLayer;
pub use line::Format;
pub use outputs::{Outputs, OutputsError};

use super::options::LogLevel;
use crate::clock::SharedClock;

/// How to log.
#[derive(Clone)]
pub struct LogSetup {
    /// What is shown.
    pub level: LogLevel,
    /// How a line looks.
    pub format: Format,
    /// Where the time of a line comes from.
    pub clock: SharedClock,
    /// Revision of the build, if known.
    pub commit: Option<&'static str>,
}

impl std::fmt::Debug for LogSetup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            level, format, commit, ..
        } = self;
        formatter
            .debug_struct("LogSetup")
            .field("level", level)
            .field("format", format)
            .field("commit", commit)
            .finish_non_exhaustive()
    }
}

/// Installing the logger twice in one process.
#[derive(Debug, thiserror::Error)]
#[error("setting up the logger")]
pub struct InstallError(#[source] tracing::subscriber::SetGlobalDefaultError);

/// Makes these logs the process's.
pub fn install(setup: LogSetup, outputs: Outputs) -> Result<(), InstallError> {
    use tracing_subscriber::layer::SubscriberExt as _;
    let unknown_revision = setup.commit.is_none();
    let subscriber = tracing_subscriber::registry().with(LogLayer::new(setup, outputs));
    tracing::subscriber::set_global_default(subscriber).map_err(InstallError)?;
    if unknown_revision {
        tracing::info!("Unable to read vcs.revision from binary");
    }
    Ok(())
}

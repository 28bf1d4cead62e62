//! How to log, and making it the process's way.

use super::{Format, LogLayer, Outputs};
use crate::clock::SharedClock;
use crate::operator::options::LogLevel;

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

//! Where the time comes from.
//!
//! Pure modules take `now` as an argument; modules that act hold a [`Clock`]. Durations are slept with `tokio::time`, so a test that pauses the
//! tokio clock moves both: [`TokioClock`] derives its instants from it. This is the only file that reads the machine's own clock.

use chrono::{DateTime, TimeDelta, Utc};
use std::sync::Arc;
use tokio::time::Instant;

/// Tells the present instant.
pub trait Clock: Send + Sync + 'static {
    /// The present instant, UTC.
    fn now(&self) -> DateTime<Utc>;
}

/// A clock as it is handed around.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // the one place that may read the machine's clock
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}

/// A clock that starts at a given instant and runs with tokio's, which a test can pause and advance.
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    epoch: DateTime<Utc>,
    started: Instant,
}

impl TokioClock {
    /// A clock that shows `epoch` now. Must be called inside a tokio runtime whose clock it shall follow.
    pub fn starting_at(epoch: DateTime<Utc>) -> Self {
        Self {
            epoch,
            started: Instant::now(),
        }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> DateTime<Utc> {
        TimeDelta::from_std(self.started.elapsed())
            .ok()
            .and_then(|elapsed| self.epoch.checked_add_signed(elapsed))
            .unwrap_or(DateTime::<Utc>::MAX_UTC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn the_clock_follows_the_paused_tokio_clock() {
        let epoch = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let clock = TokioClock::starting_at(epoch);
        assert_eq!(clock.now(), epoch);
        tokio::time::sleep(Duration::from_hours(24)).await;
        assert_eq!(clock.now(), epoch + TimeDelta::hours(24));
    }
}

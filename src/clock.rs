//! Where the time comes from.
//!
//! Pure modules take `now` as an argument; modules that act hold a [`Clock`]. Durations are slept with `tokio::time`, so a test that pauses the
//! tokio clock moves both: [`TokioClock`] derives its instants from it. This is the only file that reads the machine's own clock.

mod progress;

pub use progress::{Progress, goes_on, patiently};

use chrono::{DateTime, TimeDelta, Utc};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
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

/// What comes of `work` within `limit`; nothing otherwise, and then `work` is dropped.
///
/// For what must not go on once its time is over. Before each step of `work` the clock itself is asked, not only its alarm: a process that was frozen
/// while it connected first goes on with what was ready before, and a request that had not left by then stays here (architecture §3.5).
pub async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    within_while(limit, || true, work).await
}

/// The same for as long as the limit `counts`: work that says no is waited for to its end.
pub async fn within_while<T>(limit: Duration, counts: impl Fn() -> bool, work: impl Future<Output = T>) -> Option<T> {
    let started = Instant::now();
    let mut work = pin!(work);
    let mut alarm = pin!(tokio::time::sleep(limit));
    poll_fn(|context| {
        if counts() && (alarm.as_mut().poll(context).is_ready() || started.elapsed() >= limit) {
            return Poll::Ready(None);
        }
        work.as_mut().poll(context).map(Some)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::task::{Context, Waker};

    #[tokio::test(start_paused = true)]
    async fn what_is_in_time_is_handed_on() {
        let limit = Duration::from_secs(2);
        assert_eq!(within(limit, async { 1 }).await, Some(1));
        let slow = tokio::time::sleep(Duration::from_secs(1));
        assert_eq!(within(limit, slow).await, Some(()));
        assert_eq!(within(limit, std::future::pending::<()>()).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_counts_no_more_cuts_nothing_off() {
        let limit = Duration::from_secs(2);
        for (counts_for, outcome) in [(1, Some(())), (3, None)] {
            let started = Instant::now();
            let counts = || started.elapsed() < Duration::from_secs(counts_for);
            let work = async {
                // whoever stops to count says so by a step of its own
                for _ in 0..10 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            };
            assert_eq!(within_while(limit, counts, work).await, outcome, "{counts_for} s");
        }
    }

    // architecture §3.5
    #[tokio::test(start_paused = true)]
    async fn what_was_ready_before_a_freeze_is_not_carried_on_after_it() {
        let steps = Cell::new(0);
        let work = poll_fn(|_| {
            steps.set(steps.get() + 1);
            if steps.get() > 1 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        let mut work = pin!(within(Duration::from_secs(1), work));
        let mut context = Context::from_waker(Waker::noop());
        assert!(work.as_mut().poll(&mut context).is_pending());
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(work.as_mut().poll(&mut context), Poll::Ready(None));
        assert_eq!(steps.get(), 1, "it went on");
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_follows_the_paused_tokio_clock() {
        let epoch = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let clock = TokioClock::starting_at(epoch);
        assert_eq!(clock.now(), epoch);
        tokio::time::sleep(Duration::from_hours(24)).await;
        assert_eq!(clock.now(), epoch + TimeDelta::hours(24));
    }
}

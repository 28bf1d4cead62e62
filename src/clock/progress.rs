//! How a long piece of work says that it goes on, so that nobody takes it for stuck.
//!
//! Whoever runs the work [`follow`](Progress::follow)s it and asks how long it has been [`stuck_for`](Progress::stuck_for). What is called deep inside
//! needs no handle: it says [`goes_on`], or that it waits [`patiently`] for something that ends by itself within a known limit. Outside of followed work
//! both say nothing. The queues follow; the client of the cloud waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

tokio::task_local! {
    static FOLLOWED: Progress;
}

#[derive(Debug)]
struct State {
    last: Instant,
    /// Until when each wait may last.
    waits: BTreeMap<u64, Instant>,
    next: u64,
}

/// The progress of a piece of work; clones are the same.
#[derive(Debug, Clone)]
pub struct Progress(Arc<Mutex<State>>);

impl Progress {
    /// Work that begins now.
    pub fn begin() -> Self {
        Self(Arc::new(Mutex::new(State {
            last: Instant::now(),
            waits: BTreeMap::new(),
            next: 0,
        })))
    }

    /// The progress of the work that this is called in, or of work that begins now where nobody follows.
    pub fn of_this_work() -> Self {
        FOLLOWED.try_with(Self::clone).unwrap_or_else(|_| Self::begin())
    }

    /// Carries the work out; what it says of its progress is heard here.
    pub async fn follow<T>(self, work: impl Future<Output = T>) -> T {
        FOLLOWED.scope(self, work).await
    }

    /// The work goes on now.
    pub fn note(&self) {
        self.lock().last = Instant::now();
    }

    /// How long there has been no progress, and no wait that may still last.
    pub fn stuck_for(&self) -> Duration {
        let state = self.lock();
        let last = state.waits.values().copied().fold(state.last, Instant::max);
        Instant::now().saturating_duration_since(last)
    }

    fn wait(&self, until: Instant) -> u64 {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.waits.insert(number, until);
        number
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait under way.
struct Wait {
    progress: Progress,
    number: u64,
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut state = self.progress.lock();
        state.waits.remove(&self.number);
        state.last = Instant::now();
    }
}

/// The work that this is called in goes on.
pub fn goes_on() {
    let _ = FOLLOWED.try_with(Progress::note);
}

/// Waits for what ends by itself within about this time.
pub async fn patiently<T>(longest: Duration, work: impl Future<Output = T>) -> T {
    let _wait = FOLLOWED.try_with(|progress| {
        let now = Instant::now();
        // a limit beyond what instants can hold is as good as a century
        let until = now.checked_add(longest).unwrap_or(now + CENTURY);
        Wait {
            number: progress.wait(until),
            progress: progress.clone(),
        }
    });
    work.await
}

const CENTURY: Duration = Duration::from_hours(24 * 365 * 100);

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    const MINUTE: Duration = Duration::from_mins(1);

    /// How long the work was stuck after so many minutes.
    async fn stuck_after(minutes: u32, work: impl Future<Output = ()> + Send + 'static) -> Duration {
        let progress = Progress::begin();
        tokio::spawn(progress.clone().follow(work));
        sleep(minutes * MINUTE).await;
        progress.stuck_for()
    }

    #[tokio::test(start_paused = true)]
    async fn work_without_a_word_is_stuck_since_it_began() {
        assert_eq!(stuck_after(20, std::future::pending()).await, 20 * MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_goes_on_is_stuck_since_it_said_so() {
        let work = async {
            sleep(5 * MINUTE).await;
            goes_on();
            std::future::pending::<()>().await;
        };
        assert_eq!(stuck_after(20, work).await, 15 * MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_with_a_limit_is_no_standstill_and_one_beyond_its_limit_is() {
        let wait = |longest| async move { patiently(longest, std::future::pending()).await };
        assert_eq!(stuck_after(20, wait(30 * MINUTE)).await, Duration::ZERO);
        assert_eq!(stuck_after(20, wait(12 * MINUTE)).await, 8 * MINUTE);
        assert_eq!(stuck_after(20, wait(Duration::MAX)).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_over_gives_no_time_any_more() {
        let work = async {
            let long = patiently(60 * MINUTE, sleep(2 * MINUTE));
            tokio::join!(long, patiently(60 * MINUTE, sleep(4 * MINUTE)));
            std::future::pending::<()>().await;
        };
        assert_eq!(stuck_after(20, work).await, 16 * MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn where_nobody_follows_nothing_is_said() {
        goes_on();
        assert_eq!(patiently(MINUTE, async { 7 }).await, 7);
        assert_eq!(Progress::of_this_work().stuck_for(), Duration::ZERO);
    }
}

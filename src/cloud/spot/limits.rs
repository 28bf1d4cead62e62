//! How hard the platform is asked: how many requests at once, how many per second, and how long between tries.
//!
//! Everything waits on tokio's clock, and chance comes from a seed, so a paused test replays exactly. Called by the client only.

use crate::clock::goes_on;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// When a request that failed for now is sent again (rackspace-spot §2.4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetrySettings {
    /// All tries together, the first included (`SPOT_MAX_RETRIES`).
    pub tries: u32,
    /// The first wait (`SPOT_RETRY_INITIAL_INTERVAL`).
    pub initial: Duration,
    /// Each wait is this many times the one before (`SPOT_RETRY_MULTIPLIER`).
    pub multiplier: f64,
    /// Each wait is varied by up to this share (`SPOT_RETRY_RANDOMIZATION_FACTOR`).
    pub randomization: f64,
    /// Cap on one wait and on all the time together (`SPOT_RETRY_WAIT_MAX`).
    pub most_wait: Duration,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            tries: 10,
            initial: Duration::from_secs(1),
            multiplier: 2.0,
            randomization: 0.5,
            most_wait: Duration::from_mins(10),
        }
    }
}

impl RetrySettings {
    /// How long one call may take until it is answered or given up, with this time-out for one request: after the last wait comes one more try, which
    /// may need a token first.
    pub fn longest_call(&self, timeout: Duration) -> Duration {
        self.most_wait.saturating_add(timeout).saturating_mul(2)
    }

    /// The wait after the given number of failed tries (1 for the first), with `chance` in 0 … 1 deciding where in its range it lies. A wish of the
    /// platform (`Retry-After`) is honoured instead, within the cap.
    pub fn wait(&self, failed: u32, chance: f64, retry_after: Option<Duration>) -> Duration {
        if let Some(wish) = retry_after {
            return wish.min(self.most_wait);
        }
        let exponent = i32::try_from(failed.saturating_sub(1)).unwrap_or(i32::MAX);
        let cap = self.most_wait.as_secs_f64();
        let middle = (self.initial.as_secs_f64() * self.multiplier.powi(exponent)).min(cap);
        let spread = self.randomization * (2.0 * chance - 1.0);
        Duration::try_from_secs_f64((middle * (1.0 + spread)).clamp(0.0, cap)).unwrap_or(self.most_wait)
    }
}

/// Chance from a seed, shared without a lock (splitmix64).
#[derive(Debug)]
pub struct Jitter(AtomicU64);

impl Jitter {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

    /// Chance that follows from `seed`.
    pub fn from_seed(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// The next value in 0 … 1.
    #[allow(clippy::cast_precision_loss)] // 53 bits are exactly what a float holds
    pub fn next(&self) -> f64 {
        let mut x = self.0.fetch_add(Self::STEP, Ordering::Relaxed).wrapping_add(Self::STEP);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((x ^ (x >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Lets a bounded number of requests through at once and per second.
#[derive(Debug)]
pub struct Gate {
    at_once: Semaphore,
    interval: Duration,
    burst: u32,
    next_free: Mutex<Option<Instant>>,
    /// Turns that were given.
    turns: AtomicU64,
}

/// How often a request that waits for its turn looks whether the row moves.
const TURN: Duration = Duration::from_mins(1);

impl Gate {
    /// `at_once` requests in flight, `per_second` in the long run, `burst` of them without waiting.
    pub fn new(at_once: usize, per_second: u32, burst: u32) -> Self {
        Self {
            at_once: Semaphore::new(at_once.max(1)),
            interval: Duration::from_secs(1) / per_second.max(1),
            burst: burst.max(1),
            next_free: Mutex::new(None),
            turns: AtomicU64::new(0),
        }
    }

    /// Waits for a turn; the permit is held until the answer is there. Waiting is progress while others have theirs, however long the row is.
    pub async fn enter(&self) -> Option<SemaphorePermit<'_>> {
        let mut turn = pin!(self.at_once.acquire());
        let mut turns = self.turns.load(Ordering::Relaxed);
        let permit = loop {
            if let Ok(permit) = tokio::time::timeout(TURN, turn.as_mut()).await {
                // The semaphore is never closed; were it, going on without a permit is better than stopping.
                break permit.ok();
            }
            let now = self.turns.load(Ordering::Relaxed);
            if std::mem::replace(&mut turns, now) != now {
                goes_on();
            }
        };
        self.turns.fetch_add(1, Ordering::Relaxed);
        goes_on();
        let turn = self.reserve(Instant::now());
        tokio::time::sleep_until(turn).await;
        permit
    }

    /// A token bucket kept as one instant: `next_free` is when the bucket would be full up to one missing token (GCRA).
    fn reserve(&self, now: Instant) -> Instant {
        let mut next = self.next_free.lock().unwrap_or_else(PoisonError::into_inner);
        let tolerance = self.interval * (self.burst - 1);
        let due = next.unwrap_or(now).max(now);
        *next = Some(due + self.interval);
        due.checked_sub(tolerance).unwrap_or(now).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_are_capped() {
        // rackspace-spot 2.4
        let retry = RetrySettings::default();
        let middle = |failed| retry.wait(failed, 0.5, None);
        assert_eq!(
            (middle(1), middle(2), middle(5)),
            (Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(16))
        );
        assert_eq!(retry.wait(60, 1.0, None), Duration::from_mins(10));
        assert_eq!(retry.wait(1, 0.0, None), Duration::from_millis(500));
    }

    #[test]
    fn the_platforms_wish_is_honoured_within_the_cap() {
        let retry = RetrySettings::default();
        assert_eq!(retry.wait(1, 0.5, Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(
            retry.wait(1, 0.5, Some(Duration::from_hours(9))),
            Duration::from_mins(10)
        );
    }

    #[test]
    fn absurd_settings_never_panic() {
        let retry = RetrySettings {
            multiplier: f64::INFINITY,
            randomization: f64::NAN,
            ..RetrySettings::default()
        };
        let _ = retry.wait(u32::MAX, 1.0, None);
    }

    #[test]
    fn chance_repeats_with_its_seed_and_stays_in_its_range() {
        let (a, b) = (Jitter::from_seed(7), Jitter::from_seed(7));
        for _ in 0..1000 {
            let x = a.next();
            assert!((0.0..1.0).contains(&x));
            assert!((x - b.next()).abs() < f64::EPSILON);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_in_a_row_that_moves_is_progress_and_in_one_that_does_not_is_none() {
        let gate = std::sync::Arc::new(Gate::new(1, 10, 5));
        let (moving, still) = (std::sync::Arc::clone(&gate), Duration::from_mins(20));
        let last = crate::clock::Progress::begin();
        for _ in 0..40 {
            let gate = std::sync::Arc::clone(&gate);
            tokio::spawn(async move {
                let _turn = gate.enter().await;
                tokio::time::sleep(Duration::from_secs(30)).await;
            });
        }
        tokio::task::yield_now().await;
        tokio::spawn(last.clone().follow(async move {
            let _turn = moving.enter().await;
        }));
        tokio::time::sleep(Duration::from_mins(19)).await;
        assert!(last.stuck_for() <= Duration::from_mins(2), "{:?}", last.stuck_for());

        let gate = Gate::new(1, 10, 5);
        let held = gate.enter().await;
        let last = crate::clock::Progress::begin();
        let waiting = last.clone().follow(gate.enter());
        assert!(tokio::time::timeout(still, waiting).await.is_err());
        assert_eq!(last.stuck_for(), still);
        drop(held);
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
        let gate = Gate::new(100, 10, 5);
        let start = Instant::now();
        for _ in 0..5 {
            let _ = gate.enter().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..10 {
            let _ = gate.enter().await;
        }
        assert!(start.elapsed() >= Duration::from_secs(1) && start.elapsed() < Duration::from_millis(1020));
    }
}

//! A token bucket on the tokio clock: how fast requests or keys may go out.
//!
//! Relies on `tokio::time` only, so that a paused clock moves it. The client limits its requests with one (surface §6.1), the queues and the event
//! recorder have theirs.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How much may pass per second, and how much at once after a pause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Tokens that come back each second.
    pub per_second: f64,
    /// The most tokens the bucket holds.
    pub burst: u32,
}

#[derive(Debug)]
struct Level {
    tokens: f64,
    at: Instant,
}

/// Hands out tokens at a rate; whoever comes first is served first.
#[derive(Debug)]
pub struct TokenBucket {
    rate: Rate,
    level: Mutex<Level>,
}

impl TokenBucket {
    /// A full bucket. A rate of zero or less never refills.
    pub fn new(rate: Rate) -> Self {
        let level = Level {
            tokens: f64::from(rate.burst),
            at: Instant::now(),
        };
        Self {
            rate,
            level: Mutex::new(level),
        }
    }

    /// Takes one token on credit and says how long the taker has to wait for it.
    pub fn reserve(&self) -> Duration {
        let mut level = self.refill();
        level.tokens -= 1.0;
        if level.tokens >= 0.0 {
            return Duration::ZERO;
        }
        // A rate of zero would be "never": an hour is as good and does not overflow.
        Duration::try_from_secs_f64(-level.tokens / self.rate.per_second.max(f64::MIN_POSITIVE))
            .unwrap_or(Duration::from_hours(1))
            .min(Duration::from_hours(1))
    }

    /// Takes one token if there is one.
    pub fn try_take(&self) -> bool {
        let mut level = self.refill();
        let there = level.tokens >= 1.0;
        if there {
            level.tokens -= 1.0;
        }
        there
    }

    /// Waits for one token.
    pub async fn take(&self) {
        let wait = self.reserve();
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    fn refill(&self) -> std::sync::MutexGuard<'_, Level> {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let gained = now.duration_since(level.at).as_secs_f64() * self.rate.per_second.max(0.0);
        level.tokens = (level.tokens + gained).min(f64::from(self.rate.burst));
        level.at = now;
        level
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_burst_passes_at_once_and_the_rest_at_the_rate() {
        let bucket = TokenBucket::new(Rate {
            per_second: 10.0,
            burst: 5,
        });
        let started = Instant::now();
        for _ in 0..5 {
            bucket.take().await;
        }
        assert_eq!(started.elapsed(), Duration::ZERO);
        for _ in 0..10 {
            bucket.take().await;
        }
        let took = started.elapsed();
        assert!(
            took >= Duration::from_millis(990) && took <= Duration::from_millis(1010),
            "{took:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_bucket_holds_no_more_than_its_burst() {
        let bucket = TokenBucket::new(Rate {
            per_second: 10.0,
            burst: 2,
        });
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(bucket.try_take() && bucket.try_take());
        assert!(!bucket.try_take());
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_of_zero_waits_long_but_does_not_panic() {
        let bucket = TokenBucket::new(Rate {
            per_second: 0.0,
            burst: 0,
        });
        assert_eq!(bucket.reserve(), Duration::from_hours(1));
    }
}

//! What a controller says of its queue, and what a reconcile answers.

use crate::k8s::bucket::Rate;
use crate::k8s::write_error::{Remedy, WriteError};
use std::time::Duration;

/// What comes after a reconcile that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until somebody adds the key again.
    Done,
    /// Look again after this time, or sooner when the key is added.
    After(Duration),
    /// Look again as soon as the key's back-off allows (lifecycle 0.8).
    Again,
}

impl Next {
    /// The sooner of two wishes (lifecycle 0.8): again, then the shortest delay, then done.
    pub fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::Again, _) | (_, Self::Again) => Self::Again,
            (Self::After(a), Self::After(b)) => Self::After(a.min(b)),
            (Self::After(a), Self::Done) | (Self::Done, Self::After(a)) => Self::After(a),
            (Self::Done, Self::Done) => Self::Done,
        }
    }
}

/// How a failed reconcile is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Part of normal life (a conflict, a lost lease): tried again with back-off, told at debug level.
    Expected,
    /// Tried again with back-off, and told as an error.
    Failure,
    /// Told as an error and not tried again before the key is added anew.
    Terminal,
}

/// A reconcile that failed; the queue tells it once and backs the key off.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct ReconcileError {
    source: Box<dyn std::error::Error + Send + Sync>,
    weight: Weight,
    not_before: Option<Duration>,
}

impl ReconcileError {
    /// A failure that is told and tried again.
    pub fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self {
            source: source.into(),
            weight: Weight::Failure,
            not_before: None,
        }
    }

    /// The same with another weight.
    pub fn weighing(mut self, weight: Weight) -> Self {
        self.weight = weight;
        self
    }

    /// The same, not tried again before this time has passed.
    pub fn not_before(mut self, pause: Duration) -> Self {
        self.not_before = Some(pause);
        self
    }

    /// How it is taken.
    pub fn weight(&self) -> Weight {
        self.weight
    }

    /// The shortest pause before the next attempt, if the failure named one.
    pub fn pause(&self) -> Option<Duration> {
        self.not_before
    }
}

impl From<WriteError> for ReconcileError {
    fn from(error: WriteError) -> Self {
        let (weight, pause) = match error.remedy() {
            Remedy::ReadAgain | Remedy::AlreadyDone | Remedy::LookUp | Remedy::Stop => (Weight::Expected, None),
            Remedy::TryAgain { after } => (Weight::Failure, after),
            // A refused object stays refused until it changes, but permissions and webhooks heal: back-off, not terminal.
            Remedy::TellTheUser => (Weight::Failure, None),
        };
        let own = Self::new(error).weighing(weight);
        match pause {
            Some(pause) => own.not_before(pause),
            None => own,
        }
    }
}

/// How long a failing key waits: doubling from `first` to `limit`, and no faster in all than `rate`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BackOff {
    /// After the first failure.
    pub first: Duration,
    /// Never longer.
    pub limit: Duration,
    /// A bucket over all keys of the queue, if any.
    pub rate: Option<Rate>,
}

impl BackOff {
    /// Doubling only.
    pub const fn doubling(first: Duration, limit: Duration) -> Self {
        Self {
            first,
            limit,
            rate: None,
        }
    }

    /// The generic limiter (lifecycle 0.7): 100 ms to one minute, and 10 per second with a burst of 100.
    pub const fn generic() -> Self {
        Self {
            first: Duration::from_millis(100),
            limit: Duration::from_mins(1),
            rate: Some(Rate {
                per_second: 10.0,
                burst: 100,
            }),
        }
    }

    /// The pause after so many failures in a row.
    pub fn pause(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.first.saturating_mul(1_u32 << doublings).min(self.limit)
    }
}

/// Where reconciles run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Each in a task of its own, at most `workers` at once.
    #[default]
    Spawned,
    /// One after the other in the queue's task: the order is a function of the input alone.
    Inline,
}

/// What a controller says of its queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueSettings {
    /// The controller's name as metrics and logs show it (surface §5.8).
    pub name: &'static str,
    /// Reconciles at once.
    pub workers: usize,
    /// What failing keys get.
    pub back_off: BackOff,
    /// Most keys that wait, the delayed included; more are refused and counted.
    pub capacity: usize,
    /// Where reconciles run.
    pub mode: Mode,
    /// What its keys name, for log lines.
    pub subject: Option<super::span::Subject>,
}

impl QueueSettings {
    /// One queue with the generic back-off and room for 100,000 keys.
    pub fn new(name: &'static str, workers: usize) -> Self {
        Self {
            name,
            workers: workers.max(1),
            back_off: BackOff::generic(),
            capacity: 100_000,
            mode: Mode::Spawned,
            subject: None,
        }
    }

    /// The same with keys that name objects of this kind.
    pub fn about(mut self, subject: super::span::Subject) -> Self {
        self.subject = Some(subject);
        self
    }

    /// The same with another back-off.
    pub fn with_back_off(mut self, back_off: BackOff) -> Self {
        self.back_off = back_off;
        self
    }

    /// The same in another mode.
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// The same with room for another number of keys.
    pub fn with_capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity.max(1);
        self
    }
}

/// Parallel reconciles at a number of cores (lifecycle 0.7): linear from `low` at one core to `high` at sixty, rounded up and clamped.
pub fn workers_at(cores: usize, low: usize, high: usize) -> usize {
    let cores = cores.clamp(1, 60);
    low.saturating_add(high.saturating_sub(low).saturating_mul(cores - 1).div_ceil(59))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_the_limit_and_never_overflows() {
        let back_off = BackOff::doubling(Duration::from_millis(100), Duration::from_secs(10));
        assert_eq!(back_off.pause(1), Duration::from_millis(100));
        assert_eq!(back_off.pause(2), Duration::from_millis(200));
        assert_eq!(back_off.pause(8), Duration::from_secs(10));
        assert_eq!(back_off.pause(u32::MAX), Duration::from_secs(10));
    }

    #[test]
    fn the_sooner_wish_wins() {
        let (short, long) = (Next::After(Duration::from_secs(1)), Next::After(Duration::from_secs(9)));
        assert_eq!(long.sooner(short), short);
        assert_eq!(Next::Done.sooner(long), long);
        assert_eq!(short.sooner(Next::Again), Next::Again);
        assert_eq!(Next::Done.sooner(Next::Done), Next::Done);
    }

    #[test]
    fn workers_grow_with_the_cores() {
        assert_eq!(workers_at(1, 1000, 5000), 1000);
        assert_eq!(workers_at(60, 1000, 5000), 5000);
        assert_eq!(workers_at(600, 1000, 5000), 5000);
        assert_eq!(workers_at(2, 100, 5000), 184);
    }
}

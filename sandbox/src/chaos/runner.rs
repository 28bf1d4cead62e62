//! Runs seeds: each in a runtime of its own with a paused clock, several at once on threads.

use super::journal::{Journal, Verbosity};
use super::outcome::Outcome;
use super::plan::Plan;
use super::trial;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The futures of a whole world are large.
const STACK: usize = 16 << 20;
/// A seed that takes longer in real time turns in circles.
const LONGEST: Duration = Duration::from_mins(10);

/// Seeds from one to another, both included; written `A..B`, or `A` for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds(RangeInclusive<u64>);

impl Seeds {
    /// From the first to the last.
    pub fn new(first: u64, last: u64) -> Self {
        Self(first..=last)
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.0.end().saturating_sub(*self.0.start()).saturating_add(1)
    }
}

/// Not a range of seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("seeds are written as A..B, both included, or as one number")]
pub struct NoSeeds;

impl FromStr for Seeds {
    type Err = NoSeeds;

    fn from_str(text: &str) -> Result<Self, NoSeeds> {
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| NoSeeds);
        let (first, last) = match text.split_once("..") {
            Some((first, last)) => (number(first)?, number(last.trim_start_matches('='))?),
            None => (number(text)?, number(text)?),
        };
        if first <= last {
            Ok(Self::new(first, last))
        } else {
            Err(NoSeeds)
        }
    }
}

/// How often each seed is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// Once.
    Once,
    /// Twice, and whether both runs tell the same to the byte.
    Twice,
}

/// Why seeds could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunSeedsError {
    /// No runtime, or no thread.
    #[error("starting what runs a seed")]
    Start(#[from] std::io::Error),
    /// A seed did not end; real time passes, its own does not.
    #[error("no end after {} s of real time: seeds {seeds:?}", LONGEST.as_secs())]
    Endless {
        /// Those that were running.
        seeds: Vec<u64>,
    },
    /// A thread ended before its seed: something panicked.
    #[error("the run of a seed panicked: seeds {seeds:?}")]
    Panicked {
        /// Those that were running.
        seeds: Vec<u64>,
    },
}

/// Runs one seed in this thread.
///
/// # Errors
/// No runtime could be made.
pub fn run_seed(seed: u64, verbosity: Verbosity) -> std::io::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let plan = Plan::draw(seed);
    Ok(runtime.block_on(trial::run(&plan, &Journal::new(verbosity))))
}

/// Runs one seed twice in this thread with everything told; a difference is a violation of the first.
///
/// # Errors
/// No runtime could be made.
pub fn run_seed_twice(seed: u64, verbosity: Verbosity) -> std::io::Result<Outcome> {
    let mut first = run_seed(seed, Verbosity::Everything)?;
    let second = run_seed(seed, Verbosity::Everything)?;
    let differs = first.difference(&second);
    first.violations.extend(differs);
    if verbosity == Verbosity::Deeds {
        first.log.clear();
    }
    Ok(first)
}

/// Runs seeds on so many threads, and tells of each in their order.
///
/// # Errors
/// A thread could not be started, or a seed did not end.
pub fn run_seeds(
    seeds: &Seeds,
    threads: usize,
    verbosity: Verbosity,
    times: Times,
    mut tell: impl FnMut(Outcome),
) -> Result<(), RunSeedsError> {
    let work = Work {
        next: AtomicU64::new(*seeds.0.start()),
        last: *seeds.0.end(),
        running: Mutex::default(),
    };
    let work = std::sync::Arc::new(work);
    let (sender, receiver) = channel();
    for number in 0..threads.max(1) {
        let (work, sender) = (std::sync::Arc::clone(&work), sender.clone());
        let builder = std::thread::Builder::new()
            .name(format!("chaos-{number}"))
            .stack_size(STACK);
        builder.spawn(move || work.run(verbosity, times, &sender))?;
    }
    drop(sender);
    let mut early = BTreeMap::new();
    let mut next = *seeds.0.start();
    for _ in 0..seeds.count() {
        let outcome = receiver.recv_timeout(LONGEST).map_err(|error| match error {
            RecvTimeoutError::Timeout => RunSeedsError::Endless { seeds: work.running() },
            RecvTimeoutError::Disconnected => RunSeedsError::Panicked { seeds: work.running() },
        })??;
        early.insert(outcome.seed, outcome);
        while let Some(outcome) = early.remove(&next) {
            tell(outcome);
            next = next.saturating_add(1);
        }
    }
    Ok(())
}

struct Work {
    next: AtomicU64,
    last: u64,
    running: Mutex<BTreeSet<u64>>,
}

impl Work {
    fn run(&self, verbosity: Verbosity, times: Times, sender: &Sender<std::io::Result<Outcome>>) {
        loop {
            let seed = self.next.fetch_add(1, Ordering::SeqCst);
            if seed > self.last {
                return;
            }
            self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(seed);
            let outcome = match times {
                Times::Once => run_seed(seed, verbosity),
                Times::Twice => run_seed_twice(seed, verbosity),
            };
            self.running
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&seed);
            if sender.send(outcome).is_err() {
                return;
            }
        }
    }

    fn running(&self) -> Vec<u64> {
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .copied()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read_with_both_ends_and_nothing_else_is_taken() {
        assert_eq!("3..7".parse(), Ok(Seeds::new(3, 7)));
        assert_eq!("3..=7".parse(), Ok(Seeds::new(3, 7)));
        assert_eq!("17".parse(), Ok(Seeds::new(17, 17)));
        assert_eq!(Seeds::new(1, 500).count(), 500);
        for wrong in ["", "..", "7..3", "a..b", "-1..2"] {
            assert_eq!(wrong.parse::<Seeds>(), Err(NoSeeds), "{wrong}");
        }
    }
}

//! Whether a node has been quiet for long enough to be consolidated (lifecycle 11.3).
//!
//! Quiet since the last pod came or went, or since it was initialized if none ever did. The policy is not looked at here. Called by the marks
//! controller.

use chrono::{DateTime, TimeDelta, Utc};

/// What is known of a claim and its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quiet {
    /// The pool's consolidateAfter; `None` is Never.
    pub after: Option<TimeDelta>,
    /// Since when Initialized has been True.
    pub initialized: Option<DateTime<Utc>>,
    /// When a pod last came or went.
    pub last_pod_event: Option<DateTime<Utc>>,
}

/// What follows for the condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consolidatable {
    /// It is taken away: the pool does not consolidate.
    Disabled,
    /// It is taken away: the node is not initialized.
    NotInitialized,
    /// It is taken away until then.
    From(DateTime<Utc>),
    /// It is set.
    Now,
}

/// Decides the condition.
pub fn verdict(quiet: &Quiet, now: DateTime<Utc>) -> Consolidatable {
    let Some(after) = quiet.after else {
        return Consolidatable::Disabled;
    };
    let Some(initialized) = quiet.initialized else {
        return Consolidatable::NotInitialized;
    };
    let since = quiet.last_pod_event.unwrap_or(initialized);
    match since.checked_add_signed(after) {
        Some(end) if end <= now => Consolidatable::Now,
        Some(end) => Consolidatable::From(end),
        None => Consolidatable::From(DateTime::<Utc>::MAX_UTC),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    const QUIET: Quiet = Quiet {
        after: Some(TimeDelta::seconds(30)),
        initialized: Some(DateTime::UNIX_EPOCH),
        last_pod_event: None,
    };

    #[test]
    fn the_time_runs_from_initialization_until_a_pod_came_or_went() {
        assert_eq!(verdict(&QUIET, at(29)), Consolidatable::From(at(30)));
        assert_eq!(verdict(&QUIET, at(30)), Consolidatable::Now);
        let lively = Quiet {
            last_pod_event: Some(at(20)),
            ..QUIET
        };
        assert_eq!(verdict(&lively, at(30)), Consolidatable::From(at(50)));
        assert_eq!(verdict(&lively, at(50)), Consolidatable::Now);
    }

    #[test]
    fn never_and_not_initialized_take_it_away() {
        assert_eq!(
            verdict(&Quiet { after: None, ..QUIET }, at(99)),
            Consolidatable::Disabled
        );
        let young = Quiet {
            initialized: None,
            ..QUIET
        };
        assert_eq!(verdict(&young, at(99)), Consolidatable::NotInitialized);
    }

    #[test]
    fn no_wait_is_at_once_and_a_wait_without_end_never_ends() {
        let at_once = Quiet {
            after: Some(TimeDelta::zero()),
            ..QUIET
        };
        assert_eq!(verdict(&at_once, at(0)), Consolidatable::Now);
        let endless = Quiet {
            after: Some(TimeDelta::MAX),
            ..QUIET
        };
        assert!(matches!(verdict(&endless, at(0)), Consolidatable::From(_)));
    }
}

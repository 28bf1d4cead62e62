//! Whether this process may write: asked immediately before each send (architecture §3.5).
//!
//! Relies on the monotonic clock, which runs on while a process is frozen: a holder that wakes up after its lease has ended finds that it may not
//! write any more before anybody tells it. The lease election holds the [`Keeper`]; every writer holds a [`Leadership`].

use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Term {
    Always,
    Until(Instant),
    Never,
}

/// Says whether this process may write; cheap to clone and to ask.
#[derive(Debug, Clone)]
pub struct Leadership(Arc<Mutex<Term>>);

/// Extends or ends the term of a [`Leadership`].
#[derive(Debug)]
pub struct Keeper(Arc<Mutex<Term>>);

impl Leadership {
    /// A process that always leads: without election.
    pub fn always() -> Self {
        Self(Arc::new(Mutex::new(Term::Always)))
    }

    /// A process that does not lead before its keeper says so.
    pub fn kept() -> (Keeper, Self) {
        let term = Arc::new(Mutex::new(Term::Never));
        (Keeper(Arc::clone(&term)), Self(term))
    }

    /// Whether a write may be sent now.
    pub fn may_write(&self) -> bool {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Term::Always => true,
            Term::Until(end) => Instant::now() < end,
            Term::Never => false,
        }
    }
}

impl Keeper {
    /// The lease is held until then (the renew deadline, not the lease's own end).
    pub fn hold_until(&self, end: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Term::Until(end);
    }

    /// The lease is lost or given back.
    pub fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Term::Never;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_term_ends_by_itself_even_if_nobody_says_so() {
        let (keeper, leadership) = Leadership::kept();
        assert!(!leadership.may_write());
        keeper.hold_until(Instant::now() + Duration::from_secs(10));
        assert!(leadership.may_write());
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(!leadership.may_write());
        keeper.hold_until(Instant::now() + Duration::from_secs(10));
        keeper.end();
        assert!(!leadership.may_write());
        assert!(Leadership::always().may_write());
    }
}

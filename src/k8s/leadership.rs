//! Whether this process may write: asked immediately before each send (architecture §3.5).
//!
//! Relies on the monotonic clock, which runs on while a process is frozen: a holder that wakes up after its lease has ended finds that it may not
//! write any more before anybody tells it. The lease election holds the [`Keeper`]; every writer holds a [`Leadership`] and tells it of each write,
//! so that the lease is not given back while one is under way or may still take effect (architecture §7.18).

use super::election::Terms;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Term {
    Always,
    Until(Instant),
    Never,
}

#[derive(Debug)]
struct State {
    term: Term,
    under_way: usize,
    /// When the last write ended without an answer that says whether it took effect.
    unclear: Option<Instant>,
}

#[derive(Debug)]
struct Shared {
    write_timeout: Duration,
    state: Mutex<State>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says whether this process may write; cheap to clone and to ask.
#[derive(Debug, Clone)]
pub struct Leadership(Arc<Shared>);

/// Extends or ends the term of a [`Leadership`].
#[derive(Debug)]
pub struct Keeper(Arc<Shared>);

/// A write under way. Dropped without an answer, its outcome is unclear.
#[derive(Debug)]
pub struct Writing {
    shared: Arc<Shared>,
    answered: bool,
}

impl Leadership {
    fn with(term: Term, write_timeout: Duration) -> Self {
        let state = Mutex::new(State {
            term,
            under_way: 0,
            unclear: None,
        });
        Self(Arc::new(Shared { write_timeout, state }))
    }

    /// A process that always leads: without election.
    pub fn always() -> Self {
        Self::with(Term::Always, Terms::default().write_timeout)
    }

    /// A process that does not lead before its keeper says so, on the usual terms.
    pub fn kept() -> (Keeper, Self) {
        Self::kept_on(&Terms::default())
    }

    /// The same on other terms.
    pub fn kept_on(terms: &Terms) -> (Keeper, Self) {
        let leadership = Self::with(Term::Never, terms.write_timeout);
        (Keeper(Arc::clone(&leadership.0)), leadership)
    }

    /// Whether a write may be sent now.
    pub fn may_write(&self) -> bool {
        may_write(&self.0.lock())
    }

    /// How long a write may wait for its answer, so that it has ended before anybody else may hold the lease.
    pub fn write_timeout(&self) -> Duration {
        self.0.write_timeout
    }

    /// Begins a write that is sent at once; nothing if this process may not write.
    pub fn begin_write(&self) -> Option<Writing> {
        let mut state = self.0.lock();
        if !may_write(&state) {
            return None;
        }
        state.under_way = state.under_way.saturating_add(1);
        Some(Writing {
            shared: Arc::clone(&self.0),
            answered: false,
        })
    }
}

fn may_write(state: &State) -> bool {
    match state.term {
        Term::Always => true,
        Term::Until(end) => Instant::now() < end,
        Term::Never => false,
    }
}

impl Writing {
    /// There is an answer that says whether it took effect.
    pub fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.under_way = state.under_way.saturating_sub(1);
        if !self.answered {
            state.unclear = Some(Instant::now());
        }
    }
}

impl Keeper {
    /// The lease is held until then (the renew deadline, not the lease's own end).
    pub fn hold_until(&self, end: Instant) {
        self.0.lock().term = Term::Until(end);
    }

    /// The lease is lost or given back.
    pub fn end(&self) {
        self.0.lock().term = Term::Never;
    }

    /// Whether a write is under way, or ended without a clear answer less than `within` ago and may still take effect.
    pub fn has_open_writes(&self, within: Duration) -> bool {
        let state = self.0.lock();
        state.under_way > 0 || state.unclear.is_some_and(|at| at.elapsed() < within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    // architecture §7.18
    #[tokio::test(start_paused = true)]
    async fn a_write_is_open_until_it_is_answered_and_for_a_while_if_it_never_is() {
        let (keeper, leadership) = Leadership::kept();
        assert!(leadership.begin_write().is_none(), "nobody leads");
        keeper.hold_until(Instant::now() + Duration::from_secs(100));
        let within = Duration::from_secs(15);
        let clear = leadership.begin_write().unwrap();
        assert!(keeper.has_open_writes(within));
        clear.answered();
        assert!(!keeper.has_open_writes(within));
        drop(leadership.begin_write().unwrap());
        assert!(keeper.has_open_writes(within));
        tokio::time::sleep(within).await;
        assert!(!keeper.has_open_writes(within));
    }
}

//! What a command under way needs next (disruption 11).
//!
//! ```text
//! replacements initialized? ── not yet ─▶ wait ── too old, or one is lost ─▶ give up: the nodes stay
//!            └── all, or none needed ─▶ delete the claims ─▶ done; the nodes stay marked until they are gone
//! ```

use chrono::TimeDelta;

/// How long a machine in the queue adds to the patience of all commands (disruption 11.5).
const PER_MACHINE: TimeDelta = TimeDelta::milliseconds(80);
const LEAST_PATIENCE: TimeDelta = TimeDelta::minutes(10);
const MOST_PATIENCE: TimeDelta = TimeDelta::hours(1);

/// How a replacement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// It is or was initialized.
    Initialized,
    /// It is on its way.
    Waiting,
    /// Its claim is gone: its launch failed.
    Lost,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing yet.
    Wait,
    /// The nodes go.
    Delete,
    /// They stay.
    GiveUp,
}

/// How old a command may become, by the number of machines in the queue.
pub fn patience(machines: usize) -> TimeDelta {
    let machines = i32::try_from(machines).unwrap_or(i32::MAX);
    PER_MACHINE
        .checked_mul(machines)
        .unwrap_or(MOST_PATIENCE)
        .clamp(LEAST_PATIENCE, MOST_PATIENCE)
}

/// Decides what comes next.
///
/// Differs: upstream looks at the age after the fact, so a command that is late can delete its nodes and then take them for saved; here a late
/// command gives up before it deletes anything.
pub fn next(replacements: &[Readiness], age: TimeDelta, machines: usize) -> Step {
    if age > patience(machines) || replacements.contains(&Readiness::Lost) {
        return Step::GiveUp;
    }
    if replacements.contains(&Readiness::Waiting) {
        return Step::Wait;
    }
    Step::Delete
}

#[cfg(test)]
mod tests {
    use super::*;
    use Readiness::{Initialized, Lost, Waiting};

    #[test]
    fn nodes_go_once_every_replacement_has_been_initialized() {
        let young = TimeDelta::seconds(1);
        assert_eq!(next(&[], young, 1), Step::Delete);
        assert_eq!(next(&[Initialized, Waiting], young, 1), Step::Wait);
        assert_eq!(next(&[Initialized, Initialized], young, 1), Step::Delete);
        assert_eq!(next(&[Waiting, Lost], young, 1), Step::GiveUp);
    }

    #[test]
    fn a_command_that_is_too_old_gives_up_even_when_all_is_ready() {
        let limit = TimeDelta::minutes(10);
        assert_eq!(next(&[Initialized], limit, 1), Step::Delete);
        assert_eq!(
            next(&[Initialized], limit + TimeDelta::milliseconds(1), 1),
            Step::GiveUp
        );
    }

    #[test]
    fn patience_grows_with_the_queue_within_bounds() {
        assert_eq!(patience(0), TimeDelta::minutes(10));
        assert_eq!(patience(15_000), TimeDelta::minutes(20));
        assert_eq!(patience(usize::MAX), TimeDelta::hours(1));
    }
}

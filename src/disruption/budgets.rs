//! How many nodes of a pool may be disrupted at once, and for which reasons.
//!
//! Fails closed: a budget that cannot be read allows nothing, and the pool's owner is told. Called by the disruption loop for every pool and
//! reason, and again when a command is validated.

use super::cron::{CronError, Schedule};
use crate::api::nodepool::{Budget, DisruptionReason};
use chrono::{DateTime, Utc};
use thiserror::Error;

/// What an inactive or absent budget allows: more than any pool has (disruption 4.3).
pub const UNLIMITED: i64 = 2_147_483_647;

/// Why a budget cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BudgetError {
    /// The schedule is not a schedule.
    #[error("invariant violated, invalid cron {0:?}: {1}")]
    Schedule(String, #[source] CronError),
    /// `nodes` is neither a number nor a percentage.
    #[error("{0:?} is neither a number of nodes nor a percentage")]
    Nodes(String),
}

/// Whether the budget limits anything now (disruption 4.2): without a schedule always, otherwise from each hit for its duration, the first
/// instant included and the last excluded.
pub fn is_active(budget: &Budget, now: DateTime<Utc>) -> Result<bool, BudgetError> {
    let Some(text) = budget.schedule.as_deref() else {
        return Ok(true);
    };
    let schedule = Schedule::parse(text).map_err(|error| BudgetError::Schedule(text.to_owned(), error))?;
    let duration = budget
        .duration
        .as_ref()
        .map_or(chrono::TimeDelta::zero(), |d| d.value().as_time_delta());
    let Some(checkpoint) = now.checked_sub_signed(duration) else {
        return Ok(true);
    };
    Ok(schedule.next_after(checkpoint).is_some_and(|hit| hit <= now))
}

/// How many of `nodes` nodes one budget allows to be disrupted now, 0 to [`UNLIMITED`] (disruption 4.3).
pub fn allowed(budget: &Budget, nodes: usize, now: DateTime<Utc>) -> Result<i64, BudgetError> {
    if !is_active(budget, now)? {
        return Ok(UNLIMITED);
    }
    scaled(&budget.nodes, nodes)
        .map(|allowed| allowed.clamp(0, UNLIMITED))
        .ok_or_else(|| BudgetError::Nodes(budget.nodes.clone()))
}

/// How many nodes all budgets of a pool allow to be disrupted for a reason now: the smallest of those that name it or name none
/// (disruption 4.4). An error of any budget, even one for another reason, is returned and counts as nothing allowed.
pub fn allowed_for(
    budgets: &[Budget],
    reason: &DisruptionReason,
    nodes: usize,
    now: DateTime<Utc>,
) -> Result<i64, BudgetError> {
    let mut smallest = UNLIMITED;
    for budget in budgets {
        let allowed = allowed(budget, nodes, now)?;
        if budget.reasons.as_ref().is_none_or(|reasons| reasons.contains(reason)) {
            smallest = smallest.min(allowed);
        }
    }
    Ok(smallest)
}

/// A number as it is, a percentage of `nodes` rounded up.
fn scaled(text: &str, nodes: usize) -> Option<i64> {
    let Some(percent) = text.strip_suffix('%') else {
        return text.parse().ok();
    };
    let percent: i64 = percent.parse().ok()?;
    let scaled = i128::from(percent).checked_mul(i128::try_from(nodes).ok()?)?;
    i64::try_from(scaled.div_euclid(100) + i128::from(scaled.rem_euclid(100) != 0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::SpelledDuration;

    fn now() -> DateTime<Utc> {
        "2026-03-02T09:30:00Z".parse().unwrap()
    }

    fn budget(nodes: &str) -> Budget {
        Budget {
            nodes: nodes.to_owned(),
            ..Budget::default()
        }
    }

    fn window(nodes: &str, schedule: &str, duration: &str) -> Budget {
        let duration = Some(SpelledDuration::parse(duration).unwrap());
        Budget {
            schedule: Some(schedule.to_owned()),
            duration,
            ..budget(nodes)
        }
    }

    #[test]
    fn percentages_round_up() {
        for (text, nodes, expected) in [
            ("5%", 10, 1),
            ("10%", 1, 1),
            ("0%", 10, 0),
            ("100%", 7, 7),
            ("33%", 100, 33),
            ("1%", 0, 0),
            // the API takes none of these; a budget stays one all the same
            ("5555555545555%", 7, UNLIMITED),
            ("-5%", 10, 0),
            ("-1", 10, 0),
            ("9223372036854775807", 1, UNLIMITED),
        ] {
            assert_eq!(allowed(&budget(text), nodes, now()), Ok(expected), "{text} of {nodes}");
        }
    }

    #[test]
    fn a_window_opens_at_its_hit_and_closes_before_its_end() {
        let at_nine = window("0", "0 9 * * *", "30m");
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        assert_eq!(is_active(&at_nine, at("2026-03-02T08:59:59Z")), Ok(false));
        assert_eq!(is_active(&at_nine, at("2026-03-02T09:00:00Z")), Ok(true));
        assert_eq!(is_active(&at_nine, at("2026-03-02T09:29:59Z")), Ok(true));
        assert_eq!(is_active(&at_nine, at("2026-03-02T09:30:00Z")), Ok(false));
    }

    #[test]
    fn a_window_longer_than_its_recurrence_is_always_open() {
        assert_eq!(is_active(&window("0", "@daily", "48h"), now()), Ok(true));
    }

    #[test]
    fn no_budget_is_no_limit() {
        assert_eq!(allowed_for(&[], &DisruptionReason::Empty, 3, now()), Ok(UNLIMITED));
    }

    #[test]
    fn the_smallest_budget_of_the_reason_counts() {
        let empty_only = Budget {
            reasons: Some(vec![DisruptionReason::Empty]),
            ..budget("1")
        };
        let all = [budget("4"), empty_only];
        assert_eq!(allowed_for(&all, &DisruptionReason::Empty, 10, now()), Ok(1));
        assert_eq!(allowed_for(&all, &DisruptionReason::Drifted, 10, now()), Ok(4));
    }

    #[test]
    fn a_budget_that_cannot_be_read_closes_the_pool_for_every_reason() {
        let broken = Budget {
            reasons: Some(vec![DisruptionReason::Empty]),
            ..window("5", "0 0 * * tue-mon", "1h")
        };
        assert!(allowed_for(&[broken], &DisruptionReason::Drifted, 10, now()).is_err());
        assert!(allowed_for(&[budget("many")], &DisruptionReason::Empty, 10, now()).is_err());
    }
}

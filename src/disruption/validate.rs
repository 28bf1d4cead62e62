//! The second look, 15 seconds after a command was chosen (disruption 10).
//!
//! In between a pod may have come, a budget may have closed, a node may have gone. What is left of an emptiness command goes on; the rest is
//! dropped. Called by the disruption loop after the pause.

use super::allowance::Allowances;
use super::candidate::Candidate;
use std::time::Duration;

/// How long a choice must stand before it is carried out (disruption 10.1).
pub const PAUSE: Duration = Duration::from_secs(15);

/// Why nothing of a command is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The nodes are no candidates any more.
    Churn,
    /// The budgets allow none of them.
    Budget,
}

impl Failure {
    /// The word that logs and events show (disruption 10.4).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Churn => "churn",
            Self::Budget => "budget",
        }
    }
}

/// What is left of a command.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Those that go, as they are now; or why none does.
    pub kept: Result<Vec<Candidate>, Failure>,
    /// How many were dropped; each counts as a failed validation.
    pub dropped: usize,
}

/// Holds an emptiness command against the candidates of now (disruption 10.2): the remaining part goes on.
///
/// Differs: upstream does not count the nodes of a command that lives on but ceased to be candidates; here each dropped node counts.
pub fn emptiness(chosen: &[Candidate], fresh: Vec<Candidate>, allowances: &mut Allowances) -> Verdict {
    let still: Vec<Candidate> = fresh
        .into_iter()
        .filter(|now| chosen.iter().any(|then| then.is_same(now)))
        .collect();
    if still.is_empty() {
        return Verdict {
            kept: Err(Failure::Churn),
            dropped: chosen.len(),
        };
    }
    let kept: Vec<Candidate> = still
        .into_iter()
        .filter(|candidate| allowances.take(candidate.pool_name()))
        .collect();
    Verdict {
        dropped: chosen.len().saturating_sub(kept.len()),
        kept: if kept.is_empty() {
            Err(Failure::Budget)
        } else {
            Ok(kept)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disruption::fixture::Fixture;
    use crate::disruption::method::Method;
    use serde_json::json;

    fn pair() -> (Fixture, Vec<Candidate>) {
        let mut fixture = Fixture::new();
        fixture.pool(
            "default",
            &json!({ "spec": { "disruption": { "budgets": [{ "nodes": "100%" }] } } }),
        );
        fixture.machine("a").machine("b");
        let chosen = vec![fixture.candidate("a"), fixture.candidate("b")];
        (fixture, chosen)
    }

    #[test]
    fn what_ceased_to_be_a_candidate_is_dropped_and_the_rest_goes_on() {
        // EM-21
        let (mut fixture, chosen) = pair();
        let verdict = emptiness(
            &chosen,
            vec![chosen[1].clone()],
            &mut fixture.allowances(Method::Emptiness),
        );
        assert_eq!(verdict.kept.unwrap()[0].node.name(), "b");
        assert_eq!(verdict.dropped, 1);
    }

    #[test]
    fn nothing_left_is_churn() {
        let (mut fixture, chosen) = pair();
        let verdict = emptiness(&chosen, Vec::new(), &mut fixture.allowances(Method::Emptiness));
        assert_eq!((verdict.kept.unwrap_err(), verdict.dropped), (Failure::Churn, 2));
    }

    #[test]
    fn a_successor_of_the_same_name_is_not_the_chosen_node() {
        let (mut fixture, chosen) = pair();
        fixture.machine_with("a", &json!({ "metadata": { "uid": "another" } }));
        let fresh = vec![fixture.candidate("a")];
        let verdict = emptiness(&chosen, fresh, &mut fixture.allowances(Method::Emptiness));
        assert_eq!(verdict.kept.unwrap_err(), Failure::Churn);
    }

    #[test]
    fn a_budget_that_closed_stops_the_command() {
        let (mut fixture, chosen) = pair();
        fixture.pool(
            "default",
            &json!({ "spec": { "disruption": { "budgets": [{ "nodes": "0" }] } } }),
        );
        let verdict = emptiness(&chosen, chosen.clone(), &mut fixture.allowances(Method::Emptiness));
        assert_eq!((verdict.kept.unwrap_err(), verdict.dropped), (Failure::Budget, 2));
    }
}

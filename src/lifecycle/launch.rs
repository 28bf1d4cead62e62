//! Decides the next step of a launch: order a machine, wait for it, call it launched, or give it up.
//!
//! Relies on what the provider said of the machine (turned into [`Machine`] by the caller) and on `now`. Called by the NodeClaim lifecycle
//! controller on each pass, before registration.
//!
//! ```text
//! Unneeded ──▶ GiveUp
//! NotOrdered ──Order──▶ Waiting ──attached──▶ MarkLaunched
//!                          │ deadline               │ (launched) taken, or missing and confirmed
//!                          ▼                        ▼
//!                       GiveUp ◀────────────────────┘
//! ```

use chrono::{DateTime, TimeDelta, Utc};

/// How often a waiting machine is asked about. The provider answers all claims from one shared read, so this bounds latency, not load.
pub const POLL: TimeDelta = TimeDelta::seconds(5);

/// A machine that a complete answer did not contain is believed gone only when this long has passed between the first and the last such answer:
/// the platform has been seen to answer "not found" for a pool that is there (architecture §7.21).
pub const MISSING_FOR: TimeDelta = TimeDelta::seconds(30);

/// The longest error text a condition carries; longer ones are cut and end in an ellipsis (lifecycle 3.3).
const LONGEST_TEXT: usize = 300;

/// Whether the claim's Launched condition is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launched {
    /// True or False: the launch is over.
    Decided,
    /// Unknown or missing.
    Open,
}

/// What is known of the machine behind a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Machine {
    /// Nothing was asked for yet, as far as the claim's record and this process know.
    NotOrdered,
    /// Nothing was asked for, and nobody needs it: an earlier leader made the claim, and it arrived after its pods were planned anew
    /// (architecture §3.5).
    Unneeded,
    /// Asked for, not attached yet; the provider's reason and words go to the condition.
    Waiting {
        /// Condition reason, such as `AwaitingServerAssignment`.
        reason: String,
        /// What is awaited, in words.
        message: String,
    },
    /// A server is attached.
    Attached,
    /// The kubelet of its node reports: the stronger evidence, nobody needs to be asked (lifecycle 9.3).
    Alive,
    /// Complete answers do not contain it; the first of an unbroken row of them came at `since`.
    Missing {
        /// When the first of the answers came.
        since: DateTime<Utc>,
    },
    /// It had a server, and the platform took it.
    Taken,
    /// Somebody is deleting it at the cloud; it does not come back.
    GoingAway,
    /// The cloud could not be asked: unknown, never gone.
    Unreachable {
        /// Condition reason and words, if it is known why.
        says: Option<(String, String)>,
    },
}

/// Why a claim is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveUp {
    /// No server came within the launch timeout.
    TimedOut,
    /// The order itself is gone, for instance because somebody deleted it at the cloud.
    Vanished,
    /// The platform took the server away.
    Taken,
    /// The claim arrived after its pods were planned anew.
    Unneeded,
}

/// What to do next about a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchStep {
    /// Settled: write the same condition again so that its generation follows the object's (lifecycle 1.6). While no node lives, look again then: a
    /// server that is lost before its node joins is noticed only by asking (architecture §7.21).
    Reassert {
        /// When to look again.
        until: Option<DateTime<Utc>>,
    },
    /// Ask the provider for a machine; the provider makes this idempotent by the claim's UID.
    Order,
    /// Not there yet: say so on the condition, if there are words, and look again then.
    Wait {
        /// When to look again.
        until: DateTime<Utc>,
        /// Reason and message for Launched=Unknown; `None` leaves the condition alone.
        says: Option<(String, String)>,
    },
    /// A server is attached: Launched becomes True.
    MarkLaunched,
    /// Remove the machine, then the claim.
    GiveUp(GiveUp),
}

/// Decides the next step of a launch. `deadline` is the start of the launch clock plus the provider's launch timeout (lifecycle 6.2,
/// architecture §7.3).
pub fn next_step(launched: Launched, machine: &Machine, deadline: DateTime<Utc>, now: DateTime<Utc>) -> LaunchStep {
    match (launched, machine) {
        // A machine that was taken is never waited for: left alone it would be won again and billed for nobody (architecture §7.21).
        (_, Machine::Taken) => LaunchStep::GiveUp(GiveUp::Taken),
        (_, Machine::GoingAway) => LaunchStep::GiveUp(GiveUp::Vanished),
        (_, Machine::Missing { since }) if now.signed_duration_since(*since) >= MISSING_FOR => {
            LaunchStep::GiveUp(GiveUp::Vanished)
        }
        (Launched::Decided, Machine::Alive) => LaunchStep::Reassert { until: None },
        (Launched::Decided, _) => LaunchStep::Reassert {
            until: now.checked_add_signed(POLL),
        },
        (Launched::Open, Machine::Attached | Machine::Alive) => LaunchStep::MarkLaunched,
        (Launched::Open, Machine::Unneeded) => LaunchStep::GiveUp(GiveUp::Unneeded),
        (Launched::Open, _) if now >= deadline => LaunchStep::GiveUp(GiveUp::TimedOut),
        (Launched::Open, Machine::NotOrdered) => LaunchStep::Order,
        (Launched::Open, Machine::Waiting { reason, message }) => LaunchStep::Wait {
            until: look_again(deadline, now),
            says: Some((reason.clone(), message.clone())),
        },
        (Launched::Open, Machine::Unreachable { says }) => LaunchStep::Wait {
            until: look_again(deadline, now),
            says: says.clone(),
        },
        (Launched::Open, Machine::Missing { .. }) => LaunchStep::Wait {
            until: look_again(deadline, now),
            says: None,
        },
    }
}

/// What the provider's refusal of an order means (lifecycle 3.3), in the order of its classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderFailure {
    /// There is no capacity for what the claim asks.
    InsufficientCapacity(String),
    /// The claim's NodeClass is missing or not ready.
    NodeClassNotReady(String),
    /// The provider names the condition reason and message itself.
    Typed {
        /// Condition reason.
        reason: String,
        /// Condition message.
        message: String,
    },
    /// Anything else.
    Other(String),
}

/// What follows from a failed order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterFailure {
    /// The claim goes, counted under this reason; with an event text where Karpenter publishes one.
    DeleteClaim {
        /// Value of the `reason` label of `karpenter_nodeclaims_disrupted_total`.
        reason: &'static str,
        /// Text of the InsufficientCapacityError event, without the claim's name.
        event: Option<String>,
    },
    /// Launched stays Unknown with this reason and message, and the order is tried again with back-off.
    Retry {
        /// Condition reason.
        reason: String,
        /// Condition message.
        message: String,
    },
}

/// Decides what follows from a failed order (lifecycle 3.3).
pub fn after_failure(failure: OrderFailure) -> AfterFailure {
    match failure {
        OrderFailure::InsufficientCapacity(text) => AfterFailure::DeleteClaim {
            reason: "insufficient_capacity",
            event: Some(cut(&text)),
        },
        OrderFailure::NodeClassNotReady(_) => AfterFailure::DeleteClaim {
            reason: "nodeclass_not_ready",
            event: None,
        },
        OrderFailure::Typed { reason, message } => AfterFailure::Retry { reason, message },
        OrderFailure::Other(text) => AfterFailure::Retry {
            reason: "LaunchFailed".to_owned(),
            message: cut(&text),
        },
    }
}

/// Cuts an error text for a condition or event: 300 characters or more become the first 300 and an ellipsis (lifecycle 3.3).
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or(text)),
        None if text.chars().count() == LONGEST_TEXT => format!("{text}..."),
        None => text.to_owned(),
    }
}

fn look_again(deadline: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
    now.checked_add_signed(POLL).map_or(deadline, |next| next.min(deadline))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + minute * 60, 0).unwrap()
    }

    fn waiting() -> Machine {
        Machine::Waiting {
            reason: "AwaitingServerAssignment".into(),
            message: "bid won, no server yet".into(),
        }
    }

    #[test]
    fn a_launch_is_given_up_at_its_deadline_and_not_a_moment_earlier() {
        let early = at(30) - TimeDelta::milliseconds(1);
        assert!(
            matches!(next_step(Launched::Open, &waiting(), at(30), early), LaunchStep::Wait { until, .. } if until == at(30))
        );
        assert_eq!(
            next_step(Launched::Open, &waiting(), at(30), at(30)),
            LaunchStep::GiveUp(GiveUp::TimedOut)
        );
    }

    #[test]
    fn a_server_that_came_after_the_deadline_but_before_we_looked_is_kept() {
        assert_eq!(
            next_step(Launched::Open, &Machine::Attached, at(30), at(31)),
            LaunchStep::MarkLaunched
        );
    }

    #[test]
    fn waiting_says_why_on_the_condition() {
        let LaunchStep::Wait { until, says } = next_step(Launched::Open, &waiting(), at(30), at(1)) else {
            panic!("waits")
        };
        assert_eq!(until, at(1) + POLL);
        assert_eq!(says.unwrap().0, "AwaitingServerAssignment");
    }

    #[test]
    fn nothing_is_ordered_for_a_claim_that_nobody_needs_and_what_is_launched_stays() {
        // architecture §3.5
        let step = |launched| next_step(launched, &Machine::Unneeded, at(30), at(1));
        assert_eq!(step(Launched::Open), LaunchStep::GiveUp(GiveUp::Unneeded));
        assert!(matches!(step(Launched::Decided), LaunchStep::Reassert { .. }));
    }

    #[test]
    fn a_taken_machine_ends_the_claim_before_and_after_the_launch() {
        for launched in [Launched::Open, Launched::Decided] {
            assert_eq!(
                next_step(launched, &Machine::Taken, at(30), at(1)),
                LaunchStep::GiveUp(GiveUp::Taken)
            );
        }
    }

    #[test]
    fn a_machine_that_somebody_deletes_ends_its_claim_at_once() {
        assert_eq!(
            next_step(Launched::Open, &Machine::GoingAway, at(30), at(1)),
            LaunchStep::GiveUp(GiveUp::Vanished)
        );
    }

    #[test]
    fn a_single_not_found_does_not_end_a_claim() {
        let missing = Machine::Missing { since: at(1) };
        assert!(matches!(
            next_step(Launched::Open, &missing, at(30), at(1)),
            LaunchStep::Wait { says: None, .. }
        ));
        assert_eq!(
            next_step(Launched::Decided, &missing, at(30), at(1)),
            LaunchStep::Reassert {
                until: Some(at(1) + POLL)
            }
        );
        assert_eq!(
            next_step(Launched::Decided, &missing, at(30), at(1) + MISSING_FOR),
            LaunchStep::GiveUp(GiveUp::Vanished)
        );
    }

    #[test]
    fn a_launched_machine_is_asked_for_until_its_node_lives() {
        let step = |machine| next_step(Launched::Decided, &machine, at(30), at(1));
        assert_eq!(
            step(Machine::Attached),
            LaunchStep::Reassert {
                until: Some(at(1) + POLL)
            }
        );
        assert_eq!(step(Machine::Alive), LaunchStep::Reassert { until: None });
    }

    #[test]
    fn an_unreachable_cloud_is_unknown_never_gone() {
        assert!(matches!(
            next_step(Launched::Open, &Machine::Unreachable { says: None }, at(30), at(29)),
            LaunchStep::Wait { says: None, .. }
        ));
        assert_eq!(
            next_step(Launched::Decided, &Machine::Unreachable { says: None }, at(30), at(99)),
            LaunchStep::Reassert {
                until: Some(at(99) + POLL)
            }
        );
    }

    #[test]
    fn refusals_follow_their_classes() {
        let no_capacity = after_failure(OrderFailure::InsufficientCapacity("none left".into()));
        assert_eq!(
            no_capacity,
            AfterFailure::DeleteClaim {
                reason: "insufficient_capacity",
                event: Some("none left".into())
            }
        );
        assert_eq!(
            after_failure(OrderFailure::NodeClassNotReady("default".into())),
            AfterFailure::DeleteClaim {
                reason: "nodeclass_not_ready",
                event: None
            }
        );
        assert_eq!(
            after_failure(OrderFailure::Other("boom".into())),
            AfterFailure::Retry {
                reason: "LaunchFailed".into(),
                message: "boom".into()
            }
        );
    }

    #[test]
    fn texts_of_300_characters_and_more_are_cut() {
        assert_eq!(cut(&"x".repeat(299)), "x".repeat(299));
        assert_eq!(cut(&"x".repeat(300)), format!("{}...", "x".repeat(300)));
        assert_eq!(cut(&"é".repeat(301)), format!("{}...", "é".repeat(300)));
    }
}

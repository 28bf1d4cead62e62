//! Decides when a claim that never became a node is given up.
//!
//! Two clocks: the launch clock starts at creation; the registration clock starts at the later of creation and the moment Launched became
//! True, so that a long wait for a server does not eat the time the node has to join (architecture §7.2, surface T2). Called by the lifecycle
//! controller as the last of its steps.
//!
//! Differs: upstream falls through from the launch to the registration branch and counts one failure twice (lifecycle 6.2, surface T3); here a
//! claim ends for one reason, and a launch time-out alone makes the NodePool unhealthy at once (architecture §7.3).

use chrono::{DateTime, TimeDelta, Utc};

/// What liveness looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LivenessView {
    /// When the claim was created.
    pub created: DateTime<Utc>,
    /// When Launched became True; `None` while it is not.
    pub launched: Option<DateTime<Utc>>,
    /// Whether Registered is True.
    pub registered: bool,
    /// When Registered became False (several nodes claim it), which restarts its clock (lifecycle 6.4).
    pub registration_refused: Option<DateTime<Utc>>,
    /// How long a launch may take.
    pub launch_timeout: TimeDelta,
    /// How long a launched machine may take to become a registered node.
    pub registration_timeout: TimeDelta,
}

/// What follows for the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It is a node: nothing to watch.
    Alive,
    /// There is time left; look again then.
    Until(DateTime<Utc>),
    /// No server within the launch timeout.
    LaunchTimedOut,
    /// No node within the registration timeout.
    RegistrationTimedOut,
}

/// The instant at which a launch is given up.
pub fn launch_deadline(created: DateTime<Utc>, launch_timeout: TimeDelta) -> DateTime<Utc> {
    created
        .checked_add_signed(launch_timeout)
        .unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// Decides whether the claim still has time (lifecycle 6.1–6.4, architecture §7.2).
pub fn verdict(view: &LivenessView, now: DateTime<Utc>) -> Liveness {
    if view.registered {
        return Liveness::Alive;
    }
    let Some(launched) = view.launched else {
        let deadline = launch_deadline(view.created, view.launch_timeout);
        return if now < deadline {
            Liveness::Until(deadline)
        } else {
            Liveness::LaunchTimedOut
        };
    };
    let start = launched
        .max(view.created)
        .max(view.registration_refused.unwrap_or(view.created));
    let deadline = start
        .checked_add_signed(view.registration_timeout)
        .unwrap_or(DateTime::<Utc>::MAX_UTC);
    if now < deadline {
        Liveness::Until(deadline)
    } else {
        Liveness::RegistrationTimedOut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + minute * 60, 0).unwrap()
    }

    fn view(launched: Option<i64>) -> LivenessView {
        LivenessView {
            created: at(0),
            launched: launched.map(at),
            registered: false,
            registration_refused: None,
            launch_timeout: TimeDelta::minutes(30),
            registration_timeout: TimeDelta::minutes(15),
        }
    }

    #[test]
    fn a_registered_claim_is_never_given_up() {
        assert_eq!(
            verdict(
                &LivenessView {
                    registered: true,
                    ..view(Some(1))
                },
                at(10_000)
            ),
            Liveness::Alive
        );
    }

    #[test]
    fn the_launch_timeout_is_counted_once_even_past_the_registration_timeout() {
        assert_eq!(verdict(&view(None), at(29)), Liveness::Until(at(30)));
        assert_eq!(verdict(&view(None), at(30)), Liveness::LaunchTimedOut);
        assert_eq!(verdict(&view(None), at(300)), Liveness::LaunchTimedOut);
    }

    #[test]
    fn the_registration_clock_starts_when_the_server_came() {
        assert_eq!(verdict(&view(Some(17)), at(31)), Liveness::Until(at(32)));
        assert_eq!(verdict(&view(Some(17)), at(32)), Liveness::RegistrationTimedOut);
    }

    #[test]
    fn several_nodes_for_one_claim_give_it_another_fifteen_minutes() {
        let refused = LivenessView {
            registration_refused: Some(at(20)),
            ..view(Some(10))
        };
        assert_eq!(verdict(&refused, at(34)), Liveness::Until(at(35)));
        assert_eq!(verdict(&refused, at(35)), Liveness::RegistrationTimedOut);
    }

    #[test]
    fn absurd_timeouts_never_overflow() {
        let forever = LivenessView {
            launch_timeout: TimeDelta::MAX,
            registration_timeout: TimeDelta::MAX,
            ..view(None)
        };
        assert_eq!(verdict(&forever, at(5)), Liveness::Until(DateTime::<Utc>::MAX_UTC));
    }
}

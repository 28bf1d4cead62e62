//! Whether the machines of a NodePool become nodes: the last four outcomes, and what follows for NodeRegistrationHealthy.
//!
//! Informational: it stops nothing (lifecycle 12.8). Kept per NodePool UID by the registration health controller, told by the lifecycle
//! controller.

use std::collections::VecDeque;

/// How many outcomes are remembered.
const WINDOW: usize = 4;
/// This many failures among them make a pool unhealthy, however few outcomes there are (lifecycle 12.5).
const TOO_MANY: usize = 2;

/// How one claim ended its registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It became a node.
    Success,
    /// It did not.
    Failure,
}

/// What the outcomes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Nothing is known.
    Unknown,
    /// Fewer than two failures.
    Healthy,
    /// Two or more failures.
    Unhealthy,
}

/// The last outcomes of one NodePool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window {
    outcomes: VecDeque<Outcome>,
}

impl Window {
    /// A window as it is seeded or forced (lifecycle 12.5): healthy is one success, unhealthy two failures.
    pub fn forced(health: Health) -> Self {
        let outcomes = match health {
            Health::Unknown => VecDeque::new(),
            Health::Healthy => VecDeque::from([Outcome::Success]),
            Health::Unhealthy => VecDeque::from([Outcome::Failure; TOO_MANY]),
        };
        Self { outcomes }
    }

    /// What the outcomes say.
    pub fn health(&self) -> Health {
        if self.outcomes.is_empty() {
            return Health::Unknown;
        }
        let failures = self
            .outcomes
            .iter()
            .filter(|outcome| **outcome == Outcome::Failure)
            .count();
        if failures >= TOO_MANY {
            Health::Unhealthy
        } else {
            Health::Healthy
        }
    }

    /// Remembers one more outcome.
    pub fn record(&mut self, outcome: Outcome) {
        if self.outcomes.len() >= WINDOW {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back(outcome);
    }

    /// What the outcomes would say with one more.
    pub fn health_after(&self, outcome: Outcome) -> Health {
        let mut next = self.clone();
        next.record(outcome);
        next.health()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_failures_among_the_last_four_are_unhealthy_however_few_there_are() {
        let mut window = Window::default();
        assert_eq!(window.health(), Health::Unknown);
        window.record(Outcome::Failure);
        assert_eq!(window.health(), Health::Healthy);
        assert_eq!(window.health_after(Outcome::Failure), Health::Unhealthy);
        window.record(Outcome::Failure);
        assert_eq!(window.health(), Health::Unhealthy);
        for _ in 0..3 {
            window.record(Outcome::Success);
        }
        assert_eq!(window.health(), Health::Healthy);
    }

    #[test]
    fn a_forced_window_says_what_it_was_forced_to() {
        for health in [Health::Unknown, Health::Healthy, Health::Unhealthy] {
            assert_eq!(Window::forced(health).health(), health);
        }
    }
}

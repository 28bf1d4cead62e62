//! The operators of a trial, one after the other: how each begins, how it ends, and whether it may end so.
//!
//! A lease that cannot be renewed ends an operator (architecture §3.5), whether or not it was just asked to stop. Called by the trial.

use super::{End, Instant, Mortal, Sky, Step, Trial};
use std::time::Duration;

/// The most operators one after the other.
pub(super) const MOST_OPERATORS: u32 = 20;

/// A lease that is lost so soon after bad weather was lost by it: ten seconds for renewing it, and some for ending.
const LEASE_LASTS: Duration = Duration::from_secs(20);
/// How long it takes until an operator that ended by itself is started again.
const PAUSE: Duration = Duration::from_secs(10);

impl Trial<'_> {
    pub(super) fn revive(&mut self) {
        if self.operator.is_some() || self.operators >= MOST_OPERATORS {
            return;
        }
        self.operators = self.operators.saturating_add(1);
        self.tell(&format!("operator {} starts", self.operators));
        match Mortal::start(&self.world, self.operators, &self.plan.settings, self.plan.chair) {
            Ok(operator) => self.operator = Some(operator),
            Err(problem) => self.inspector.note(format!("the operator does not start: {problem}")),
        }
        self.clear_since = Some(Instant::now()).filter(|_| !self.is_stormy);
    }

    pub(super) async fn operator_ended(&mut self, end: End) {
        let Some(operator) = self.operator.take() else { return };
        let sky = self.sky_for_the_lease();
        match &end {
            End::Killed => {
                self.traffic.add(&operator.kill().await);
                self.tell("the operator was killed");
            }
            End::LostLease => self.tell("the operator lost its lease and ended"),
            End::ByItself(words) => self.tell(&format!("the operator ended by itself: {words}")),
        }
        let pause = if end == End::Killed { self.away } else { PAUSE };
        self.put(Instant::now() + pause, Step::Revive);
        if let Some(words) = wrong_with(&end, sky) {
            self.inspector.note(words);
        }
    }

    /// Asks the operator to stop; says whether there was one.
    pub(super) async fn stop(&mut self) -> bool {
        let Some(operator) = self.operator.take() else {
            return false;
        };
        let sky = self.sky_for_the_lease();
        let (traffic, end) = operator.ask_to_stop().await;
        self.traffic.add(&traffic);
        if let Some(end) = end {
            self.tell(&format!("the operator was asked to stop: {end:?}"));
            if let Some(words) = wrong_with(&end, sky) {
                self.inspector.note(words);
            }
        }
        true
    }

    /// What the weather was while the lease was to be renewed; whatever follows is no good weather any more, as nobody is at work.
    fn sky_for_the_lease(&mut self) -> Sky {
        match self.clear_since.take() {
            Some(since) if since.elapsed() > LEASE_LASTS => Sky::Clear,
            _ => Sky::Covered,
        }
    }
}

/// What is wrong with how an operator ended, in words.
fn wrong_with(end: &End, sky: Sky) -> Option<String> {
    match end {
        End::Killed => None,
        End::LostLease => (sky == Sky::Clear).then(|| "the lease was lost in good weather".into()),
        End::ByItself(words) => Some(format!("the operator ended by itself: {words}")),
    }
}

pub(super) async fn end_of(operator: &mut Option<Mortal>) -> End {
    match operator {
        Some(operator) => operator.ends().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_may_be_lost_in_bad_weather_only_and_nothing_else_may_end_an_operator() {
        assert_eq!(wrong_with(&End::LostLease, Sky::Covered), None);
        assert!(wrong_with(&End::LostLease, Sky::Clear).is_some());
        for sky in [Sky::Clear, Sky::Covered] {
            assert_eq!(wrong_with(&End::Killed, sky), None);
            assert!(wrong_with(&End::ByItself("of boredom".into()), sky).is_some());
        }
    }
}

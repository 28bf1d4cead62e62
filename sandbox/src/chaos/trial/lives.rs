//! The operators of a trial: where each lives, how it begins, how it ends, and whether it may end so.
//!
//! Without election there is one seat, and one operator after the other in it. Under a lease there are two, as the replicas of a Deployment: one leads,
//! the other stands by, and whoever ends is started again. What hits "the operator" hits whoever holds the lease.
//!
//! A lease that cannot be renewed ends an operator (architecture §3.5), whether or not it was just asked to stop. Called by the trial.

use super::{End, Instant, Mortal, Step, Trial};
use crate::chaos::mortal::Chair;
use futures::FutureExt;
use futures::future::select_all;
use std::time::Duration;

/// The most operators of one trial.
pub(super) const MOST_OPERATORS: u32 = 40;

/// A lease that is lost so soon after bad weather was lost by it: ten seconds for renewing it, and some for ending.
const LEASE_LASTS: Duration = Duration::from_secs(20);
/// How long it takes until an operator that ended by itself is started again.
const PAUSE: Duration = Duration::from_secs(10);

/// Where an operator lives.
#[derive(Default)]
pub(super) struct Seat {
    pub(super) operator: Option<Mortal>,
    /// How long it stays empty once the trap of its operator has sprung.
    away: Duration,
}

/// As many seats as there are operators at once.
pub(super) fn seats(chair: Chair) -> Vec<Seat> {
    let many = match chair {
        Chair::Alone => 1,
        Chair::Lease => 2,
    };
    std::iter::repeat_with(Seat::default).take(many).collect()
}

impl Trial<'_> {
    /// Starts an operator in each empty seat.
    pub(super) fn revive_all(&mut self) {
        for seat in 0..self.seats.len() {
            self.revive(seat);
        }
    }

    pub(super) fn revive(&mut self, seat: usize) {
        let is_taken = self.seats.get(seat).is_none_or(|seat| seat.operator.is_some());
        if is_taken || self.operators >= MOST_OPERATORS {
            return;
        }
        self.operators = self.operators.saturating_add(1);
        self.tell(&format!("operator {} starts", self.operators));
        self.inspector.operator_begins(&self.world);
        let mut settings = self.plan.settings.clone();
        if self.plan.chair == Chair::Lease && self.plan.warm.get(seat) == Some(&true) {
            settings.push(("DISABLE_CONTROLLER_WARMUP", "false".into()));
        }
        let started = Mortal::start(&self.world, self.operators, &settings, self.plan.chair, &self.witness);
        match (started, self.seats.get_mut(seat)) {
            (Ok(operator), Some(seat)) => seat.operator = Some(operator),
            (Ok(_), None) => {}
            (Err(problem), _) => self.inspector.note(format!("the operator does not start: {problem}")),
        }
    }

    /// The seat of whoever holds the lease; without one, the first whose operator lives.
    pub(super) fn first_seat(&self) -> usize {
        let holder = self.witness.holder();
        let of = |which: &dyn Fn(&Mortal) -> bool| {
            let mut seats = self.seats.iter();
            seats.position(|seat| seat.operator.as_ref().is_some_and(which))
        };
        let by_lease = holder.and_then(|holder| of(&|operator| operator.user() == holder));
        by_lease.or_else(|| of(&|_| true)).unwrap_or_default()
    }

    /// The operator that what hits "the operator" hits.
    pub(super) fn first(&self) -> Option<&Mortal> {
        self.seats.get(self.first_seat())?.operator.as_ref()
    }

    /// Who is at work: the operator that may write, if it lives.
    pub(super) fn at_work(&self) -> Option<String> {
        let leader = match self.plan.chair {
            Chair::Alone => None,
            Chair::Lease => Some(self.witness.leader()?),
        };
        let mut living = self.seats.iter().filter_map(|seat| seat.operator.as_ref());
        let found = living.find(|operator| leader.as_ref().is_none_or(|leader| leader == operator.user()));
        found.map(|operator| operator.user().to_owned())
    }

    /// How long the seat of the first operator stays empty when it is killed.
    pub(super) fn stays_away(&mut self, away: Duration) -> usize {
        let number = self.first_seat();
        if let Some(seat) = self.seats.get_mut(number) {
            seat.away = away;
        }
        number
    }

    pub(super) async fn operator_ended(&mut self, seat: usize, end: End) {
        let Some((operator, away)) = self.leave(seat) else {
            return;
        };
        match &end {
            End::Killed => {
                self.traffic.add(&operator.kill().await);
                self.tell("the operator was killed");
            }
            End::LostLease => self.tell("the operator lost its lease and ended"),
            End::ByItself(words) => self.tell(&format!("the operator ended by itself: {words}")),
        }
        let pause = if end == End::Killed { away } else { PAUSE };
        self.put(Instant::now() + pause, Step::Revive(seat));
        self.judge(&end);
    }

    /// Asks the operator of a seat to stop; says whether there was one.
    pub(super) async fn stop(&mut self, seat: usize) -> bool {
        let Some((operator, _)) = self.leave(seat) else {
            return false;
        };
        let (traffic, end) = operator.ask_to_stop().await;
        self.traffic.add(&traffic);
        if let Some(end) = end {
            self.tell(&format!("the operator was asked to stop: {end:?}"));
            self.judge(&end);
        }
        true
    }

    /// Takes an operator from its seat, and how long that is to stay empty.
    fn leave(&mut self, seat: usize) -> Option<(Mortal, Duration)> {
        let seat = self.seats.get_mut(seat)?;
        Some((seat.operator.take()?, seat.away))
    }

    fn judge(&mut self, end: &End) {
        let weather = if self.heaven.was_good_for(LEASE_LASTS, Instant::now()) {
            Weather::Good
        } else {
            Weather::Bad
        };
        if let Some(words) = wrong_with(end, weather) {
            self.inspector.note(words);
        }
    }
}

/// What the weather was while a lease was to be renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weather {
    Good,
    Bad,
}

/// What is wrong with how an operator ended, in words.
fn wrong_with(end: &End, weather: Weather) -> Option<String> {
    match end {
        End::Killed => None,
        End::LostLease => (weather == Weather::Good).then(|| "the lease was lost in good weather".into()),
        End::ByItself(words) => Some(format!("the operator ended by itself: {words}")),
    }
}

/// Waits until the operator of one of the seats ends: which, and how.
pub(super) async fn end_of(seats: &mut [Seat]) -> (usize, End) {
    let seats = seats.iter_mut().enumerate();
    let ends: Vec<_> = seats
        .filter_map(|(number, seat)| Some((number, seat.operator.as_mut()?)))
        .map(|(number, operator)| async move { (number, operator.ends().await) }.boxed())
        .collect();
    if ends.is_empty() {
        return std::future::pending().await;
    }
    select_all(ends).await.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_may_be_lost_in_bad_weather_only_and_nothing_else_may_end_an_operator() {
        assert_eq!(wrong_with(&End::LostLease, Weather::Bad), None);
        assert!(wrong_with(&End::LostLease, Weather::Good).is_some());
        for weather in [Weather::Good, Weather::Bad] {
            assert_eq!(wrong_with(&End::Killed, weather), None);
            assert!(wrong_with(&End::ByItself("of boredom".into()), weather).is_some());
        }
    }
}

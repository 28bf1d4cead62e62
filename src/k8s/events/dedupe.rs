//! Which Events are repetitions, and which come too fast (lifecycle 0.9).

use super::Event;
use crate::k8s::bucket::{Rate, TokenBucket};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Repetitions are dropped for this long unless an Event says otherwise.
const DEFAULT_WINDOW: Duration = Duration::from_mins(2);
/// This many keys are remembered; the ones that end first are forgotten first.
const KEYS: usize = 10_000;

/// For how long repetitions of an Event are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Window {
    /// Two minutes.
    #[default]
    Default,
    /// This long.
    For(Duration),
    /// Not at all: each one is told.
    None,
}

/// A process-wide limit that several Events share by its name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// Its name.
    pub name: &'static str,
    /// How many.
    pub rate: Rate,
}

impl Limit {
    /// Nominations: 5 per second, burst 10 (surface §4.1).
    pub const NOMINATION: Self = Self {
        name: "nomination",
        rate: Rate {
            per_second: 5.0,
            burst: 10,
        },
    };
}

/// Why an Event is not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Tell,
    Repetition,
    TooFast,
}

/// What was told lately.
#[derive(Debug, Default)]
pub(super) struct Dedupe {
    until: BTreeMap<String, (Instant, u64)>,
    order: BTreeMap<(Instant, u64), String>,
    tickets: u64,
    buckets: BTreeMap<&'static str, TokenBucket>,
}

impl Dedupe {
    /// Whether to tell this Event now; one that comes too fast still counts as told for its window, as upstream has it.
    pub(super) fn judge(&mut self, event: &Event, now: Instant) -> Verdict {
        let window = match event.window {
            Window::Default => Some(DEFAULT_WINDOW),
            Window::For(window) => Some(window),
            Window::None => None,
        };
        if let Some(window) = window {
            let key = format!("{}-{}", event.reason.to_lowercase(), event.dedupe_values.join("-"));
            if self.until.get(&key).is_some_and(|(until, _)| now < *until) {
                return Verdict::Repetition;
            }
            self.remember(key, now.checked_add(window).unwrap_or(now), now);
        }
        let Some(limit) = event.limit else { return Verdict::Tell };
        let bucket = self
            .buckets
            .entry(limit.name)
            .or_insert_with(|| TokenBucket::new(limit.rate));
        if bucket.try_take() {
            Verdict::Tell
        } else {
            Verdict::TooFast
        }
    }

    fn remember(&mut self, key: String, until: Instant, now: Instant) {
        while let Some(first) = self.order.first_entry() {
            if first.key().0 > now && self.until.len() < KEYS {
                break;
            }
            let forgotten = first.remove();
            self.until.remove(&forgotten);
        }
        self.tickets += 1;
        let ticket = (until, self.tickets);
        if let Some(former) = self.until.insert(key.clone(), ticket) {
            self.order.remove(&former);
        }
        self.order.insert(ticket, key);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{EventType, Involved};
    use super::*;

    fn event(reason: &'static str, values: &[&str]) -> Event {
        let involved = Involved {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: "ns".into(),
            name: "p".into(),
            uid: "u".into(),
        };
        Event::new(EventType::Normal, reason, involved, "m").deduped_by(values.iter().copied())
    }

    #[tokio::test(start_paused = true)]
    async fn a_repetition_is_dropped_for_two_minutes() {
        let (mut dedupe, now) = (Dedupe::default(), Instant::now());
        let second = now + Duration::from_secs(1);
        assert_eq!(dedupe.judge(&event("Nominated", &["a"]), now), Verdict::Tell);
        assert_eq!(
            dedupe.judge(&event("NOMINATED", &["a"]), second),
            Verdict::Repetition,
            "the case does not matter"
        );
        assert_eq!(dedupe.judge(&event("Nominated", &["b"]), second), Verdict::Tell);
        assert_eq!(dedupe.judge(&event("Other", &["a"]), second), Verdict::Tell);
        assert_eq!(
            dedupe.judge(&event("Nominated", &["a"]), now + DEFAULT_WINDOW),
            Verdict::Tell
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_object_is_not_part_of_the_key_and_the_window_is_the_events_own() {
        let (mut dedupe, now) = (Dedupe::default(), Instant::now());
        let first = event("DisruptionBlocked", &["x"]).within(Window::For(Duration::from_mins(15)));
        let mut other = first.clone();
        other.involved.name = "another".into();
        assert_eq!(dedupe.judge(&first, now), Verdict::Tell);
        assert_eq!(dedupe.judge(&other, now + Duration::from_mins(14)), Verdict::Repetition);
        assert_eq!(dedupe.judge(&other, now + Duration::from_mins(15)), Verdict::Tell);
        let each = event("Ready", &[]).within(Window::None);
        assert_eq!(dedupe.judge(&each, now), Verdict::Tell);
        assert_eq!(dedupe.judge(&each, now), Verdict::Tell);
    }

    #[tokio::test(start_paused = true)]
    async fn nominations_come_at_five_a_second_after_a_burst_of_ten() {
        let mut dedupe = Dedupe::default();
        let mut told = 0;
        for number in 0..100 {
            let nominated = event("Nominated", &[&number.to_string()]).limited(Limit::NOMINATION);
            told += usize::from(dedupe.judge(&nominated, Instant::now()) == Verdict::Tell);
        }
        assert_eq!(told, 10);
        tokio::time::sleep(Duration::from_secs(1)).await;
        for number in 100..200 {
            let nominated = event("Nominated", &[&number.to_string()]).limited(Limit::NOMINATION);
            told += usize::from(dedupe.judge(&nominated, Instant::now()) == Verdict::Tell);
        }
        assert_eq!(told, 15);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_is_bounded() {
        let (mut dedupe, now) = (Dedupe::default(), Instant::now());
        for number in 0..2 * KEYS {
            dedupe.judge(&event("R", &[&number.to_string()]), now);
        }
        assert!(dedupe.until.len() <= KEYS && dedupe.order.len() == dedupe.until.len());
    }
}

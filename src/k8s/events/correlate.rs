//! Keeps the API server from drowning, as client-go does: counts what is identical, combines what is similar, silences what never stops
//! (surface §4.1).

use super::Event;
use crate::k8s::bucket::{Rate, TokenBucket};
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// More different messages of one reason about one object than this within [`SIMILAR_WINDOW`] are combined.
const SIMILAR: usize = 10;
const SIMILAR_WINDOW: Duration = Duration::from_mins(10);
/// Events about one object from one source: this many at once, then one each five minutes.
const PER_OBJECT: Rate = Rate {
    per_second: 1.0 / 300.0,
    burst: 25,
};
/// After this long without an Event an object may be told of as if it never had been: its bucket is full again. The API server has forgotten what was
/// told of it for half of that time.
const REFILLED: Duration = Duration::from_mins(25 * 5);
/// Objects and messages that are remembered at most; the ones used longest ago are forgotten first.
const REMEMBERED: usize = 4096;

/// A map that forgets what was not used for a while, and what was used longest ago when there is too much.
#[derive(Debug)]
struct Recent<K, V> {
    entries: BTreeMap<Arc<K>, (u64, V)>,
    order: BTreeMap<u64, (Arc<K>, Instant)>,
    uses: u64,
    keeps: Duration,
}

impl<K: Ord, V> Recent<K, V> {
    fn keeping(keeps: Duration) -> Self {
        Self {
            entries: BTreeMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            keeps,
        }
    }

    fn entry(&mut self, key: K, now: Instant, make: impl FnOnce() -> V) -> &mut V {
        self.forget_before(now);
        let known = self
            .entries
            .get_key_value(&key)
            .map(|(known, (uses, _))| (Arc::clone(known), *uses));
        let key = if let Some((key, last)) = known {
            self.order.remove(&last);
            key
        } else {
            if self.entries.len() >= REMEMBERED {
                self.forget_oldest();
            }
            Arc::new(key)
        };
        self.uses += 1;
        let uses = self.uses;
        self.order.insert(uses, (Arc::clone(&key), now));
        let entry = self.entries.entry(key).or_insert_with(|| (uses, make()));
        entry.0 = uses;
        &mut entry.1
    }

    fn forget_before(&mut self, now: Instant) {
        while let Some((_, (_, used))) = self.order.first_key_value()
            && now.saturating_duration_since(*used) > self.keeps
        {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, (oldest, _))) = self.order.pop_first() {
            self.entries.remove(&oldest);
        }
    }
}

/// Object, reason and type.
type Similar = (super::Involved, String, super::EventType);

/// An Event that is at the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) name: String,
    pub(super) count: u32,
    pub(super) first: DateTime<Utc>,
}

/// What to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// A new Event under this name, with this message.
    Create { key: (Similar, String), message: String },
    /// One more of the same.
    Count {
        key: (Similar, String),
        message: String,
        sent: Sent,
    },
    /// Nothing: this object has had enough.
    Drop,
}

/// What was sent lately.
#[derive(Debug)]
pub(super) struct Correlator {
    buckets: Recent<(super::Involved, String), TokenBucket>,
    /// The different messages since the last pause of a window.
    similar: Recent<Similar, BTreeSet<String>>,
    sent: Recent<(Similar, String), Option<Sent>>,
}

impl Default for Correlator {
    fn default() -> Self {
        Self {
            buckets: Recent::keeping(REFILLED),
            similar: Recent::keeping(SIMILAR_WINDOW),
            sent: Recent::keeping(REFILLED),
        }
    }
}

impl Correlator {
    /// What to send for this Event.
    pub(super) fn judge(&mut self, event: &Event, now: Instant) -> Step {
        let source = (event.involved.clone(), event.component.to_string());
        let bucket = self.buckets.entry(source, now, || TokenBucket::new(PER_OBJECT));
        if !bucket.try_take() {
            return Step::Drop;
        }
        let similar: Similar = (event.involved.clone(), event.reason.to_string(), event.type_);
        let messages = self.similar.entry(similar.clone(), now, BTreeSet::new);
        messages.insert(event.message.clone());
        let (key, message) = if messages.len() > SIMILAR {
            // One of the set is dropped so that it does not grow with each new message.
            messages.pop_first();
            (
                (similar, String::new()),
                format!("(combined from similar events): {}", event.message),
            )
        } else {
            ((similar, event.message.clone()), event.message.clone())
        };
        match self.sent.entry(key.clone(), now, || None) {
            Some(sent) => Step::Count {
                key,
                message,
                sent: Sent {
                    count: sent.count.saturating_add(1),
                    ..sent.clone()
                },
            },
            None => Step::Create { key, message },
        }
    }

    /// What was sent is there, under this name and count.
    pub(super) fn remember(&mut self, key: (Similar, String), sent: Option<Sent>, now: Instant) {
        *self.sent.entry(key, now, || None) = sent;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{EventType, Involved};
    use super::*;

    fn event(object: &str, message: &str) -> Event {
        let involved = Involved {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: "ns".into(),
            name: object.into(),
            uid: object.into(),
        };
        Event::new(EventType::Warning, "FailedScheduling", involved, message)
    }

    fn send(correlator: &mut Correlator, event: &Event) -> Step {
        let step = correlator.judge(event, Instant::now());
        if let Step::Create { key, .. } = &step {
            let sent = Sent {
                name: "n".into(),
                count: 1,
                first: DateTime::UNIX_EPOCH,
            };
            correlator.remember(key.clone(), Some(sent), Instant::now());
        } else if let Step::Count { key, sent, .. } = &step {
            correlator.remember(key.clone(), Some(sent.clone()), Instant::now());
        }
        step
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_identical_is_counted() {
        let mut correlator = Correlator::default();
        assert!(matches!(send(&mut correlator, &event("a", "m")), Step::Create { .. }));
        assert!(matches!(
            send(&mut correlator, &event("a", "m")),
            Step::Count {
                sent: Sent { count: 2, .. },
                ..
            }
        ));
        assert!(matches!(
            send(&mut correlator, &event("a", "m")),
            Step::Count {
                sent: Sent { count: 3, .. },
                ..
            }
        ));
        assert!(matches!(send(&mut correlator, &event("b", "m")), Step::Create { .. }));
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_ten_similar_ones_are_combined_into_one() {
        let mut correlator = Correlator::default();
        for number in 0..10 {
            assert!(matches!(
                send(&mut correlator, &event("a", &number.to_string())),
                Step::Create { .. }
            ));
        }
        let Step::Create { message, .. } = send(&mut correlator, &event("a", "eleventh")) else {
            panic!("created once")
        };
        assert_eq!(message, "(combined from similar events): eleventh");
        assert!(matches!(
            send(&mut correlator, &event("a", "twelfth")),
            Step::Count { .. }
        ));
        tokio::time::sleep(SIMILAR_WINDOW + Duration::from_secs(1)).await;
        assert!(
            matches!(send(&mut correlator, &event("a", "later")), Step::Create { message, .. } if message == "later")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_never_stops_is_silenced() {
        let mut correlator = Correlator::default();
        let told = (0..100)
            .filter(|_| send(&mut correlator, &event("a", "m")) != Step::Drop)
            .count();
        assert_eq!(told, 25);
        assert!(
            matches!(send(&mut correlator, &event("b", "m")), Step::Create { .. }),
            "others may still speak"
        );
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert_ne!(send(&mut correlator, &event("a", "m")), Step::Drop);
        assert_eq!(send(&mut correlator, &event("a", "m")), Step::Drop);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_is_bounded() {
        let mut correlator = Correlator::default();
        for number in 0..2 * REMEMBERED {
            send(&mut correlator, &event(&number.to_string(), "m"));
        }
        assert_eq!(correlator.sent.entries.len(), REMEMBERED);
        assert_eq!(correlator.sent.order.len(), REMEMBERED);
    }

    #[tokio::test(start_paused = true)]
    async fn objects_that_nothing_happens_to_any_more_are_forgotten() {
        let mut correlator = Correlator::default();
        for number in 0..100 {
            send(&mut correlator, &event(&number.to_string(), "m"));
        }
        tokio::time::sleep(REFILLED + Duration::from_secs(1)).await;
        send(&mut correlator, &event("another", "m"));
        let Correlator { buckets, similar, sent } = &correlator;
        assert_eq!(
            (buckets.entries.len(), similar.entries.len(), sent.entries.len()),
            (1, 1, 1)
        );
        assert_eq!((buckets.order.len(), similar.order.len(), sent.order.len()), (1, 1, 1));
    }
}

//! What a Lease says, and what a candidate may conclude from it. Pure: instants are arguments.

use crate::api::time;
use chrono::{DateTime, Utc};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use std::time::Duration;
use tokio::time::Instant;

/// What a Lease says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Record {
    /// Who holds it; empty if nobody does.
    pub(super) holder: String,
    /// How long others leave it alone.
    pub(super) seconds: u32,
    /// When the holder got it, by the holder's wall clock: for people.
    pub(super) acquired: Option<DateTime<Utc>>,
    /// When the holder last renewed it, likewise.
    pub(super) renewed: Option<DateTime<Utc>>,
    /// How often it changed hands.
    pub(super) transitions: i32,
}

impl Record {
    /// What this Lease says; what is absent or negative counts as nothing.
    pub(super) fn of(lease: &Lease) -> Self {
        let Some(spec) = &lease.spec else {
            return Self::default();
        };
        Self {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            seconds: spec
                .lease_duration_seconds
                .and_then(|s| u32::try_from(s).ok())
                .unwrap_or(0),
            acquired: spec.acquire_time.as_ref().map(time::from_micro),
            renewed: spec.renew_time.as_ref().map(time::from_micro),
            transitions: spec.lease_transitions.unwrap_or(0),
        }
    }

    /// Writes it into a Lease; whatever else stands there stays.
    pub(super) fn write(&self, lease: &mut Lease) {
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        spec.holder_identity = Some(self.holder.clone());
        spec.lease_duration_seconds = Some(i32::try_from(self.seconds).unwrap_or(i32::MAX));
        spec.acquire_time = self.acquired.map(time::to_micro);
        spec.renew_time = self.renewed.map(time::to_micro);
        spec.lease_transitions = Some(self.transitions);
    }

    /// The record by which `me` takes the lease over from whoever had it, or keeps it.
    pub(super) fn held_by(&self, me: &str, lease: Duration, now: DateTime<Utc>) -> Self {
        let mine = self.holder == me;
        Self {
            holder: me.to_owned(),
            seconds: whole_seconds(lease),
            acquired: if mine { self.acquired.or(Some(now)) } else { Some(now) },
            renewed: Some(now),
            transitions: if mine {
                self.transitions
            } else {
                self.transitions.saturating_add(1)
            },
        }
    }

    /// The record by which the holder gives the lease back: anybody may take it at once.
    pub(super) fn given_back(&self, now: DateTime<Utc>) -> Self {
        Self {
            holder: String::new(),
            seconds: 1,
            acquired: Some(now),
            renewed: Some(now),
            transitions: self.transitions,
        }
    }
}

/// Whole seconds, rounded up: a lease said to be shorter than it is would be taken too early.
fn whole_seconds(lease: Duration) -> u32 {
    let up = u64::from(lease.subsec_nanos() > 0);
    u32::try_from(lease.as_secs().saturating_add(up)).unwrap_or(u32::MAX)
}

/// What it means that there is no Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// Somebody may hold it who does not know yet that it was deleted. It was first missed then.
    Since(Instant),
    /// Nobody ever led here.
    NeverThere,
}

/// What this process saw of a lease, and since when.
#[derive(Debug, Clone, Default)]
pub(super) struct Sighting {
    seen: Option<(Record, Instant)>,
    missing: Option<Missing>,
}

impl Sighting {
    /// Remembers what was seen now; a record that says the same as before was seen before.
    pub(super) fn see(&mut self, record: &Record, now: Instant) {
        self.missing = None;
        if self.seen.as_ref().is_none_or(|(known, _)| known != record) {
            self.seen = Some((record.clone(), now));
        }
    }

    /// Remembers that there is no Lease, until one is seen.
    pub(super) fn miss(&mut self, missing: Missing) {
        self.missing = Some(missing);
    }

    /// Whether there was no Lease at the last look.
    pub(super) fn is_missing(&self) -> bool {
        self.missing.is_some()
    }

    /// Whether no Lease was ever seen.
    pub(super) fn is_empty(&self) -> bool {
        self.seen.is_none()
    }

    /// Until when the lease is somebody else's; nothing if `me` may take it now. `usual` counts where no record names a length.
    pub(super) fn taken_until(&self, me: &str, usual: Duration, now: Instant) -> Option<Instant> {
        let named = self
            .seen
            .as_ref()
            .map(|(record, _)| Duration::from_secs(record.seconds.into()));
        let (since, length) = match (&self.seen, self.missing) {
            // it may have been renewed, and by somebody else, since it was last seen
            (_, Some(Missing::Since(since))) => (since, named.map_or(usual, |named| named.max(usual))),
            (Some((record, seen)), None) if !record.holder.is_empty() && record.holder != me => {
                (*seen, named.filter(|named| !named.is_zero()).unwrap_or(usual))
            }
            _ => return None,
        };
        // a lease that never ends is one that cannot be had
        let until = since.checked_add(length).unwrap_or_else(|| now + usual);
        (now < until).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const USUAL: Duration = Duration::from_secs(15);

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    fn held(holder: &str, renewed: i64) -> Record {
        Record::default().held_by(holder, USUAL, at(renewed))
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_other_fields_stay() {
        let mut lease: Lease = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "l", "labels": { "kept": "yes" } }, "spec": { "strategy": "OldestEmulationVersion" },
        }))
        .unwrap();
        let record = held("a", 1_700_000_000);
        record.write(&mut lease);
        assert_eq!(Record::of(&lease), record);
        assert_eq!(lease.metadata.labels.unwrap()["kept"], "yes");
        assert_eq!(lease.spec.unwrap().strategy.as_deref(), Some("OldestEmulationVersion"));
    }

    #[test]
    fn what_changes_hands_is_counted_and_what_is_renewed_is_not() {
        let first = held("a", 10);
        assert_eq!((first.transitions, first.seconds), (1, 15));
        let renewed = first.held_by("a", USUAL, at(12));
        assert_eq!(
            (renewed.transitions, renewed.acquired, renewed.renewed),
            (1, Some(at(10)), Some(at(12)))
        );
        let second = renewed.held_by("b", USUAL, at(40));
        assert_eq!((second.transitions, second.acquired), (2, Some(at(40))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_may_be_taken_its_whole_length_after_its_last_renewal_was_seen() {
        let start = Instant::now();
        let mut sighting = Sighting::default();
        // renewed in the year 1970 or 2100 by the holder's clock: nobody looks at that
        for (nth, renewed) in [0, 4_102_444_800].into_iter().enumerate() {
            let seen = start + Duration::from_secs(100 * nth as u64);
            sighting.see(&held("a", renewed), seen);
            // seen again and again without a change
            sighting.see(&held("a", renewed), seen + Duration::from_secs(9));
            assert_eq!(sighting.taken_until("b", USUAL, seen), Some(seen + USUAL));
            assert_eq!(sighting.taken_until("b", USUAL, seen + USUAL), None);
            assert_eq!(sighting.taken_until("a", USUAL, seen), None, "one's own lease");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_was_given_back_or_is_nobodys_may_be_taken_at_once() {
        let now = Instant::now();
        let mut sighting = Sighting::default();
        assert_eq!(sighting.taken_until("b", USUAL, now), None);
        sighting.see(&held("a", 0).given_back(at(1)), now);
        assert_eq!(sighting.taken_until("b", USUAL, now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_length_that_the_holder_wrote_counts_and_without_one_our_own() {
        let now = Instant::now();
        let mut sighting = Sighting::default();
        sighting.see(
            &Record {
                seconds: 60,
                ..held("a", 0)
            },
            now,
        );
        assert_eq!(
            sighting.taken_until("b", USUAL, now),
            Some(now + Duration::from_mins(1))
        );
        sighting.see(
            &Record {
                seconds: 0,
                ..held("a", 0)
            },
            now,
        );
        assert_eq!(sighting.taken_until("b", USUAL, now), Some(now + USUAL));
    }

    // architecture §3.5
    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_missing_is_free_after_its_length_whatever_was_seen_before() {
        let start = Instant::now();
        let missed = start + Duration::from_mins(10);
        let seen = [
            None,
            Some(held("a", 0)),
            Some(held("b", 0)),
            Some(held("a", 0).given_back(at(1))),
        ];
        for record in seen {
            let mut sighting = Sighting::default();
            if let Some(record) = &record {
                sighting.see(record, start);
            }
            sighting.miss(Missing::Since(missed));
            assert_eq!(
                sighting.taken_until("b", USUAL, missed),
                Some(missed + USUAL),
                "{record:?}"
            );
            assert_eq!(sighting.taken_until("b", USUAL, missed + USUAL), None, "{record:?}");
            // somebody made it again
            sighting.see(&held("a", 5), missed);
            assert!(!sighting.is_missing());
            assert_eq!(sighting.taken_until("b", USUAL, missed), Some(missed + USUAL));
        }
        let mut sighting = Sighting::default();
        sighting.miss(Missing::NeverThere);
        assert_eq!(sighting.taken_until("b", USUAL, missed), None, "nobody ever led");
    }

    proptest! {
        #[test]
        fn whatever_stands_in_a_lease_is_read_without_a_panic(seconds: i32, transitions: i32, holder in ".{0,20}") {
            let spec = serde_json::json!({ "leaseDurationSeconds": seconds, "leaseTransitions": transitions, "holderIdentity": holder });
            let lease: Lease = serde_json::from_value(serde_json::json!({ "metadata": {}, "spec": spec })).unwrap();
            let record = Record::of(&lease);
            let next = record.held_by("me", Duration::from_secs(u64::MAX), at(0));
            prop_assert!(next.transitions >= record.transitions);
        }
    }
}

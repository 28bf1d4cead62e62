//! The one place where Kubernetes' time (jiff) and ours (chrono) are turned into each other (architecture §7.17).
//!
//! Relies on nothing; called wherever an object's times are read or written. Kubernetes stores whole seconds, so a time that is to be compared
//! with a stored one goes through [`whole_seconds`] first.

use chrono::{DateTime, SecondsFormat, Timelike, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;

/// Our instant for Kubernetes' one.
pub fn from_k8s(time: &Time) -> DateTime<Utc> {
    from_jiff(time.0)
}

/// Kubernetes' instant for ours, in whole seconds as it will be stored.
pub fn to_k8s(time: DateTime<Utc>) -> Time {
    Time(to_jiff(whole_seconds(time)))
}

/// Our instant for Kubernetes' micro time (leases, events).
pub fn from_micro(time: &MicroTime) -> DateTime<Utc> {
    from_jiff(time.0)
}

/// Kubernetes' micro time for our instant.
pub fn to_micro(time: DateTime<Utc>) -> MicroTime {
    MicroTime(to_jiff(time))
}

/// The instant without its fraction of a second, which is what a stored object keeps.
pub fn whole_seconds(time: DateTime<Utc>) -> DateTime<Utc> {
    time.with_nanosecond(0).unwrap_or(time)
}

/// When the object was created, if the API server has said so.
pub fn created(metadata: &ObjectMeta) -> Option<DateTime<Utc>> {
    metadata.creation_timestamp.as_ref().map(from_k8s)
}

/// Since when the object is being deleted, if it is.
pub fn deleting_since(metadata: &ObjectMeta) -> Option<DateTime<Utc>> {
    metadata.deletion_timestamp.as_ref().map(from_k8s)
}

/// The instant as Kubernetes writes it: RFC 3339, whole seconds, `Z`.
pub fn to_rfc3339(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Reads an RFC 3339 instant in any zone.
pub fn parse_rfc3339(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text)
        .ok()
        .map(|time| time.with_timezone(&Utc))
}

fn from_jiff(time: Timestamp) -> DateTime<Utc> {
    let seconds = time.as_second();
    // Before 1970 jiff counts the fraction downwards, chrono always upwards.
    let (seconds, nanos) = match u32::try_from(time.subsec_nanosecond()) {
        Ok(nanos) => (seconds, nanos),
        Err(_) => (
            seconds.saturating_sub(1),
            1_000_000_000 - time.subsec_nanosecond().unsigned_abs(),
        ),
    };
    // jiff's range lies within chrono's, so the fallback is never taken.
    DateTime::from_timestamp(seconds, nanos).unwrap_or(DateTime::<Utc>::MIN_UTC)
}

fn to_jiff(time: DateTime<Utc>) -> Timestamp {
    let nanos = i32::try_from(time.timestamp_subsec_nanos()).unwrap_or_default();
    // chrono reaches further into past and future than jiff: what lies outside is held at jiff's ends.
    Timestamp::new(time.timestamp(), nanos).unwrap_or(if time.timestamp() < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    #[test]
    fn an_instant_survives_both_ways_before_and_after_1970() {
        for nanos in [
            0_i64,
            1,
            1_700_000_000_123_456_789,
            -1,
            -1_500_000_000,
            -86_400_000_000_000,
        ] {
            let time = DateTime::from_timestamp_nanos(nanos);
            assert_eq!(from_micro(&to_micro(time)), time);
        }
    }

    #[test]
    fn what_is_stored_has_whole_seconds() {
        let time = DateTime::from_timestamp_nanos(1_700_000_000_999_999_999);
        assert_eq!(from_k8s(&to_k8s(time)), time - TimeDelta::nanoseconds(999_999_999));
        assert_eq!(to_rfc3339(time), "2023-11-14T22:13:20Z");
        assert_eq!(parse_rfc3339(&to_rfc3339(time)), Some(whole_seconds(time)));
    }

    #[test]
    fn instants_beyond_kubernetes_range_are_held_at_its_ends() {
        assert!(from_k8s(&to_k8s(DateTime::<Utc>::MAX_UTC)) > DateTime::UNIX_EPOCH);
        assert!(from_k8s(&to_k8s(DateTime::<Utc>::MIN_UTC)) < DateTime::UNIX_EPOCH);
    }

    #[test]
    fn a_text_that_is_no_instant_is_none() {
        for text in ["", "tomorrow", "2026-13-01T00:00:00Z", "2026-01-01"] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
        assert_eq!(
            parse_rfc3339("2026-01-01T01:00:00+01:00"),
            parse_rfc3339("2026-01-01T00:00:00Z")
        );
    }
}

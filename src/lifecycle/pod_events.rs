//! Which comings and goings of pods restart the quiet time of their node (lifecycle 10.3).
//!
//! Called by the trigger and the controller that write `status.lastPodEventTime`.

use crate::cluster::What;
use crate::cluster::entries::PodEntry;
use chrono::{DateTime, TimeDelta, Utc};

/// A new time is not written sooner than this after the last (lifecycle 10.3).
pub const SPACING: TimeDelta = TimeDelta::seconds(10);

/// Whether what happened to the pod counts for its node.
pub fn counts(pod: &PodEntry, what: What) -> bool {
    let bound = pod.node().is_some();
    match what {
        What::Appeared | What::Bound | What::Ended | What::Deleting | What::Gone => bound && !pod.pod.standing.daemon,
        What::Changed => false,
    }
}

/// Whether to write `now` as the time of the last event.
pub fn is_due(last: Option<DateTime<Utc>>, now: DateTime<Utc>) -> bool {
    last.is_none_or(|last| now.signed_duration_since(last) >= SPACING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::entries::Reader;
    use serde_json::{Value, json};

    fn pod(node: &str, owner: &str) -> PodEntry {
        let owners: Value = json!([{ "apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o" }]);
        let object = json!({
            "metadata": { "name": "p", "namespace": "ns", "uid": "u", "ownerReferences": owners },
            "spec": { "nodeName": node, "containers": [] },
        });
        Reader::new().pod(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn coming_and_going_counts_and_mere_changes_do_not() {
        for what in [What::Appeared, What::Bound, What::Ended, What::Deleting, What::Gone] {
            assert!(counts(&pod("n", "ReplicaSet"), what), "{what:?}");
            assert!(!counts(&pod("n", "DaemonSet"), what), "{what:?} of a DaemonSet");
            assert!(!counts(&pod("", "ReplicaSet"), what), "{what:?} without node");
        }
        assert!(!counts(&pod("n", "ReplicaSet"), What::Changed));
    }

    #[test]
    fn a_time_is_written_at_most_every_ten_seconds() {
        let at = |second: i64| DateTime::from_timestamp(second, 0).unwrap();
        assert!(is_due(None, at(0)));
        assert!(!is_due(Some(at(0)), at(9)));
        assert!(is_due(Some(at(0)), at(10)));
    }
}

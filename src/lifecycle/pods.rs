//! What a pod means to a node that shall go: does it hold the node, may it be evicted, will it want another place.
//!
//! The predicates are Karpenter's (lifecycle 14.1); those that the scheduler needs too are on the pod itself
//! ([`Standing`](crate::scheduling::pod::Standing)). Called by draining,
//! volume detachment and by disruption when it looks for candidates.

use crate::api::labels::{DISRUPTED_TAINT_KEY, NO_SCHEDULE};
use crate::cluster::entries::PodEntry;
use crate::scheduling::taints::Taint;
use chrono::{DateTime, TimeDelta, Utc};

/// A pod that is still there this long after its deletionTimestamp no longer holds its node (lifecycle 14.1); the timestamp already includes the
/// grace period.
pub const STUCK_AFTER: TimeDelta = TimeDelta::minutes(1);

/// Whether the pod is content with a node that is going: it is neither evicted nor waited for.
pub fn tolerates_disruption(pod: &PodEntry) -> bool {
    let disrupted = Taint::new(DISRUPTED_TAINT_KEY, "", NO_SCHEDULE);
    pod.pod
        .constraints
        .tolerations
        .iter()
        .any(|toleration| toleration.tolerates(&disrupted))
}

/// Whether the pod has outlived its own end.
pub fn is_stuck_terminating(pod: &PodEntry, now: DateTime<Utc>) -> bool {
    pod.meta
        .deleting
        .is_some_and(|end| now.signed_duration_since(end) > STUCK_AFTER)
}

/// Whether the pod holds its node at all.
pub fn is_drainable(pod: &PodEntry, now: DateTime<Utc>) -> bool {
    !tolerates_disruption(pod) && !is_stuck_terminating(pod, now) && !pod.pod.standing.mirror
}

/// Whether draining waits for the pod.
pub fn is_waiting_eviction(pod: &PodEntry, now: DateTime<Utc>) -> bool {
    !pod.is_terminal() && is_drainable(pod, now)
}

/// Whether the pod may be asked to leave now.
pub fn is_evictable(pod: &PodEntry, now: DateTime<Utc>) -> bool {
    pod.pod.standing.is_active()
        && !tolerates_disruption(pod)
        && !pod.pod.standing.mirror
        && pod.pod.standing.is_disruptable(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::entries::Reader;
    use serde_json::{Value, json};

    fn now() -> DateTime<Utc> {
        "2026-03-02T09:30:00Z".parse().unwrap()
    }

    fn pod(patch: &Value) -> PodEntry {
        let mut object = json!({
            "metadata": { "name": "p", "namespace": "default", "uid": "u" },
            "spec": { "containers": [] },
            "status": { "phase": "Running", "startTime": "2026-03-02T09:00:00Z" },
        });
        merge(&mut object, patch);
        Reader::new().pod(&serde_json::from_value(object).unwrap())
    }

    fn merge(into: &mut Value, patch: &Value) {
        match (into, patch) {
            (Value::Object(into), Value::Object(patch)) => {
                for (key, value) in patch {
                    merge(into.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
            (into, patch) => *into = patch.clone(),
        }
    }

    fn annotated(value: &str) -> PodEntry {
        pod(&json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": value } } }))
    }

    #[test]
    fn a_protected_pod_is_not_evicted_but_waited_for() {
        let protected = annotated("true");
        assert!(!is_evictable(&protected, now()));
        assert!(is_waiting_eviction(&protected, now()));
    }

    #[test]
    fn pods_that_tolerate_the_taint_are_ignored() {
        let tolerations = |t: Value| pod(&json!({ "spec": { "tolerations": [t] } }));
        assert!(tolerates_disruption(&tolerations(json!({ "operator": "Exists" }))));
        assert!(tolerates_disruption(&tolerations(
            json!({ "key": "karpenter.sh/disrupted", "operator": "Exists" })
        )));
        assert!(tolerates_disruption(&tolerations(
            json!({ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" })
        )));
        assert!(!tolerates_disruption(&tolerations(
            json!({ "operator": "Exists", "effect": "NoExecute" })
        )));
        assert!(!tolerates_disruption(&tolerations(
            json!({ "key": "karpenter.sh/disrupted", "value": "x" })
        )));
    }

    #[test]
    fn mirror_and_ended_pods_hold_nothing() {
        let mirror = pod(
            &json!({ "metadata": { "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n" }] } }),
        );
        assert!(!is_drainable(&mirror, now()) && !is_evictable(&mirror, now()));
        let ended = pod(&json!({ "status": { "phase": "Succeeded" } }));
        assert!(!is_waiting_eviction(&ended, now()));
    }

    #[test]
    fn a_pod_a_minute_past_its_end_no_longer_holds_its_node() {
        let dying = |end: &str| pod(&json!({ "metadata": { "deletionTimestamp": end } }));
        assert!(is_waiting_eviction(&dying("2026-03-02T09:29:00Z"), now()));
        assert!(!is_waiting_eviction(&dying("2026-03-02T09:28:59Z"), now()));
        assert!(!is_evictable(&dying("2026-03-02T09:40:00Z"), now()));
    }
}

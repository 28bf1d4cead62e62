//! Decides one pass of draining a node: who is deleted by force, who is asked to leave, and how many are still waited for.
//!
//! Groups leave one after the other, so that what others rely on goes last. A termination time overrides budgets and protection: each pod is
//! deleted early enough to get its whole grace period before that time. Called by the node termination controller until nothing is waited for.
//!
//! ```text
//! plain pods → plain DaemonSet pods → critical pods → critical DaemonSet pods
//! ```

use super::pods::{is_evictable, is_waiting_eviction};
use crate::cluster::entries::PodEntry;
use crate::cluster::{Key, Uid};
use chrono::{DateTime, TimeDelta, Utc};
use std::sync::Arc;

/// Priority classes whose pods leave last (lifecycle 14.4).
const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// A pod that is deleted without asking, since the node's time is running out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForcedDeletion {
    /// The pod.
    pub pod: Key,
    /// Its UID.
    pub uid: Uid,
    /// The grace period it is granted, in seconds; at least 1, since 0 means removal without telling the kubelet.
    pub granted_seconds: i64,
    /// The grace period it asked for, in seconds.
    pub own_seconds: i64,
}

/// A pod that is asked to leave.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Eviction {
    /// The pod.
    pub pod: Key,
    /// Its UID.
    pub uid: Uid,
}

/// One pass of draining.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Drain {
    /// Delete these first.
    pub force: Vec<ForcedDeletion>,
    /// Then put these in the eviction queue.
    pub evict: Vec<Eviction>,
    /// How many pods are waited for in all groups; none means drained.
    pub waiting: usize,
}

/// Decides the next pass (lifecycle 14.4) over the pods of a node. `termination` is the time by which all pods must be gone.
pub fn next_pass<'a>(
    pods: impl IntoIterator<Item = &'a Arc<PodEntry>>,
    termination: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Drain {
    let waiting: Vec<&Arc<PodEntry>> = pods.into_iter().filter(|pod| is_waiting_eviction(pod, now)).collect();
    let force = termination
        .map(|end| waiting.iter().filter_map(|pod| forced(pod, end, now)).collect())
        .unwrap_or_default();
    let first = waiting.iter().map(|pod| group(pod)).min();
    let evict = waiting
        .iter()
        .filter(|pod| Some(group(pod)) == first && is_evictable(pod, now))
        .map(|pod| Eviction {
            pod: pod.meta.key.clone(),
            uid: Arc::clone(&pod.meta.uid),
        })
        .collect();
    Drain {
        force,
        evict,
        waiting: waiting.len(),
    }
}

/// Lower groups leave first.
fn group(pod: &PodEntry) -> u8 {
    let critical = pod
        .priority_class
        .as_deref()
        .is_some_and(|class| CRITICAL.contains(&class));
    u8::from(critical) * 2 + u8::from(pod.pod.standing.daemon)
}

fn forced(pod: &PodEntry, end: DateTime<Utc>, now: DateTime<Utc>) -> Option<ForcedDeletion> {
    // one that will be gone in time anyway is left alone
    if pod.meta.deleting.is_some_and(|gone| gone <= end) {
        return None;
    }
    let own_seconds = pod.pod.standing.grace_seconds?;
    let delete_at = end.checked_sub_signed(TimeDelta::try_seconds(own_seconds)?)?;
    (now > delete_at).then(|| ForcedDeletion {
        pod: pod.meta.key.clone(),
        uid: Arc::clone(&pod.meta.uid),
        granted_seconds: end.signed_duration_since(now).num_seconds().max(1),
        own_seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::entries::Reader;
    use serde_json::{Value, json};

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + second, 0).unwrap()
    }

    fn pod(name: &str, class: &str, owner: &str, annotations: &Value) -> Arc<PodEntry> {
        let owners = match owner {
            "" => json!([]),
            kind => json!([{ "apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "o" }]),
        };
        let object = json!({
            "metadata": { "name": name, "namespace": "ns", "uid": name, "ownerReferences": owners, "annotations": annotations },
            "spec": { "containers": [], "priorityClassName": class, "terminationGracePeriodSeconds": 30 },
            "status": { "phase": "Running" },
        });
        Arc::new(Reader::new().pod(&serde_json::from_value(object).unwrap()))
    }

    fn names(drain: &Drain) -> Vec<&str> {
        drain.evict.iter().map(|eviction| &*eviction.pod.name).collect()
    }

    #[test]
    fn the_groups_leave_one_after_the_other() {
        let mut pods = vec![
            pod("critical-daemon", "system-node-critical", "DaemonSet", &json!({})),
            pod("critical", "system-cluster-critical", "", &json!({})),
            pod("daemon", "", "DaemonSet", &json!({})),
            pod("plain", "other", "ReplicaSet", &json!({})),
        ];
        for expected in ["plain", "daemon", "critical", "critical-daemon"] {
            let drain = next_pass(&pods, None, at(0));
            assert_eq!(names(&drain), [expected]);
            assert_eq!(drain.waiting, pods.len());
            pods.pop();
        }
        assert_eq!(next_pass(&pods, None, at(0)), Drain::default());
    }

    #[test]
    fn a_protected_pod_stalls_its_group_and_those_after_it() {
        let protect = json!({ "karpenter.sh/do-not-disrupt": "true" });
        let pods = [
            pod("plain", "", "", &protect),
            pod("daemon", "", "DaemonSet", &json!({})),
        ];
        let drain = next_pass(&pods, None, at(0));
        assert!(drain.evict.is_empty() && drain.force.is_empty());
        assert_eq!(drain.waiting, 2);
    }

    #[test]
    fn the_termination_time_forces_protected_pods_out_with_their_grace_period() {
        let protect = json!({ "karpenter.sh/do-not-disrupt": "true" });
        let pods = [pod("plain", "", "", &protect)];
        assert!(next_pass(&pods, Some(at(100)), at(70)).force.is_empty());
        let forced = next_pass(&pods, Some(at(100)), at(71)).force;
        assert_eq!((forced[0].granted_seconds, forced[0].own_seconds), (29, 30));
        assert_eq!(next_pass(&pods, Some(at(100)), at(500)).force[0].granted_seconds, 1);
    }

    #[test]
    fn a_pod_that_will_be_gone_in_time_is_not_forced() {
        let mut dying = (*pod("plain", "", "", &json!({}))).clone();
        dying.meta.deleting = Some(at(100));
        let dying = [Arc::new(dying)];
        assert!(next_pass(&dying, Some(at(100)), at(90)).force.is_empty());
        assert_eq!(next_pass(&dying, Some(at(99)), at(90)).force.len(), 1);
        assert_eq!(next_pass(&dying, None, at(90)).waiting, 1);
    }
}

//! Which pods of a ReplicaSet go first when there are too many.

use super::owned::{host, instant, phase, ready_since};
use crate::observe::Name;
use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::Pod;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The pods in the order in which they are deleted; `neighbours` are all active pods of the same Deployment.
///
/// Unassigned, pending, not ready, cheap, crowded, lately ready, often restarted, young ones first.
/// Differs: upstream compares ages by powers of two and draws by UID within one; here the younger, then the name decides.
pub(crate) fn sorted<'a>(pods: &[&'a Arc<Pod>], neighbours: &[&Arc<Pod>]) -> Vec<&'a Arc<Pod>> {
    let mut crowd: BTreeMap<&str, usize> = BTreeMap::new();
    for node in neighbours.iter().filter_map(|pod| host(pod)) {
        *crowd.entry(node).or_default() += 1;
    }
    let mut order = pods.to_vec();
    order.sort_by_cached_key(|pod| rank(pod, host(pod).and_then(|node| crowd.get(node)).copied().unwrap_or(0)));
    order
}

type Rank = (
    bool,
    u8,
    bool,
    i64,
    Reverse<usize>,
    Reverse<DateTime<Utc>>,
    Reverse<i32>,
    Reverse<Option<DateTime<Utc>>>,
    Name,
);

fn rank(pod: &Pod, crowd: usize) -> Rank {
    let annotations = pod.metadata.annotations.as_ref();
    let cost = annotations
        .and_then(|a| a.get(COST))
        .and_then(|c| c.parse().ok())
        .unwrap_or(0);
    let stage = match phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    let ready = ready_since(pod);
    let statuses = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
    let restarts = statuses
        .into_iter()
        .flatten()
        .map(|s| s.restart_count)
        .max()
        .unwrap_or(0);
    (
        host(pod).is_some(),
        stage,
        ready.is_some(),
        cost,
        Reverse(crowd),
        Reverse(ready.unwrap_or(DateTime::<Utc>::MIN_UTC)),
        Reverse(restarts),
        Reverse(instant(pod.metadata.creation_timestamp.as_ref())),
        Name::of(pod),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[allow(
        clippy::needless_pass_by_value,
        reason = "json! literals as arguments read best without a borrow"
    )]
    fn pod(name: &str, more: Value) -> Arc<Pod> {
        let mut value = json!({"metadata": {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}]}});
        json_patch::merge(&mut value, &more);
        Arc::new(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn pods_go_in_the_documented_order() {
        let wanted = [
            pod(
                "unassigned",
                json!({"spec": {"nodeName": null}, "status": {"phase": "Pending", "conditions": null}}),
            ),
            pod("pending", json!({"status": {"phase": "Pending", "conditions": null}})),
            pod("not-ready", json!({"status": {"conditions": []}})),
            pod("cheap", json!({"metadata": {"annotations": {COST: "-5"}}})),
            pod("crowded-a", json!({"spec": {"nodeName": "full"}})),
            pod("crowded-b", json!({"spec": {"nodeName": "full"}})),
            pod(
                "lately-ready",
                json!({"spec": {"nodeName": "o"}, "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T01:00:00Z"}]}}),
            ),
            pod(
                "restarted",
                json!({"spec": {"nodeName": "p"}, "status": {"containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 3}]}}),
            ),
            pod(
                "young",
                json!({"spec": {"nodeName": "q"}, "metadata": {"creationTimestamp": "2026-01-01T00:00:05Z"}}),
            ),
            pod("old", json!({"spec": {"nodeName": "r"}})),
        ];
        let mut mixed: Vec<&Arc<Pod>> = wanted.iter().rev().collect();
        mixed.rotate_left(3);
        // Only these two share a node with others that count.
        let neighbours: Vec<&Arc<Pod>> = wanted.iter().skip(4).collect();
        let names: Vec<String> = sorted(&mixed, &neighbours)
            .into_iter()
            .map(|p| Name::of(&**p).name)
            .collect();
        let expected: Vec<String> = wanted.iter().map(|p| Name::of(&**p).name).collect();
        assert_eq!(names, expected);
    }
}

use super::*;
use crate::cluster::entries::{NodeEntry, Reader};
use crate::cluster::{Delta, Object};
use crate::telemetry::{BuildInfo, Decision, Exposition, Metrics};
use serde_json::{Value, json};

struct Stage {
    exposition: Exposition,
    follower: PodFollower,
    metrics: Metrics,
    cluster: Cluster,
    reader: Reader,
    versions: u64,
}

fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_750_000_000 + second, 0).unwrap()
}

fn metrics(exposition: &Exposition) -> Metrics {
    Metrics::new(exposition, BuildInfo::unknown()).unwrap()
}

impl Stage {
    fn new() -> Self {
        let exposition = Exposition::new();
        let metrics = metrics(&exposition);
        Self {
            follower: PodFollower::new(metrics.pods.clone(), SeenPods::default()),
            exposition,
            metrics,
            cluster: Cluster::new([], Arc::new(|_: &_| None), at(0)),
            reader: Reader::new(),
            versions: 0,
        }
    }

    fn pod(&mut self, object: &Value) {
        self.versions += 1;
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = json!(self.versions.to_string());
        let entry = Arc::new(self.reader.pod(&serde_json::from_value(object).unwrap()));
        self.observe(Delta::Applied(Object::Pod(entry)));
    }

    /// What the cluster task does with a delta: the triggers hear of each change.
    fn observe(&mut self, delta: Delta) {
        let mut trigger = self.follower.seen.trigger();
        for change in self.cluster.observe(delta, at(0)) {
            trigger(&change, &self.cluster);
        }
    }

    fn delete(&mut self, name: &str) {
        self.versions += 1;
        let delta = Delta::Deleted {
            kind: Kind::Pod,
            key: crate::cluster::Key::namespaced("ns", name),
            uid: name.into(),
            version: crate::cluster::Version::of(self.versions),
        };
        self.observe(delta);
    }

    fn follow(&mut self) {
        let snapshot = self.cluster.snapshot();
        self.follower.follow(&snapshot, at(0));
    }

    fn scrape(&self, second: i64) -> String {
        self.exposition.render(at(second)).unwrap()
    }
}

fn pending(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "ns", "uid": name, "creationTimestamp": "2025-06-15T15:06:40Z",
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "o", "controller": true }] },
        "spec": { "containers": [] },
        "status": { "phase": "Pending" },
    })
}

/// Bound after 10 s, Ready after 30.
fn running(name: &str) -> Value {
    let mut pod = pending(name);
    pod["spec"]["nodeName"] = json!("node");
    pod["status"] = json!({ "phase": "Running", "conditions": [
        { "type": "PodScheduled", "status": "True", "lastTransitionTime": "2025-06-15T15:06:50Z" },
        { "type": "Ready", "status": "True", "lastTransitionTime": "2025-06-15T15:07:10Z" },
    ] });
    pod
}

fn assert_shows(text: &str, expected: &str) {
    assert!(text.contains(expected), "{expected} is not in\n{text}");
}

#[test]
fn a_pod_that_was_seen_waiting_is_measured_when_it_is_bound_and_ready() {
    let mut stage = Stage::new();
    stage.pod(&pending("p"));
    stage.follow();
    let waiting = stage.scrape(5);
    assert_shows(
        &waiting,
        "karpenter_pods_unstarted_time_seconds{name=\"p\",namespace=\"ns\"} 5",
    );
    assert_shows(
        &waiting,
        "karpenter_pods_unbound_time_seconds{name=\"p\",namespace=\"ns\"} 5",
    );
    stage.metrics.pods.decisions.seen("ns", "p", "p", at(1));
    stage.metrics.pods.decisions.decided("p", Decision::Placed, at(2));
    stage.follow();
    let placed = stage.scrape(5);
    assert_shows(
        &placed,
        "karpenter_pods_provisioning_unstarted_time_seconds{name=\"p\",namespace=\"ns\"} 3",
    );
    assert_shows(
        &placed,
        "karpenter_pods_provisioning_unbound_time_seconds{name=\"p\",namespace=\"ns\"} 3",
    );
    stage.pod(&running("p"));
    stage.follow();
    let done = stage.scrape(31);
    for sum in [
        "karpenter_pods_bound_duration_seconds_sum 10",
        "karpenter_pods_startup_duration_seconds_sum 30",
        "karpenter_pods_provisioning_bound_duration_seconds_sum 8",
        "karpenter_pods_provisioning_startup_duration_seconds_sum 28",
        "karpenter_pods_scheduling_decision_duration_seconds_sum 1",
    ] {
        assert_shows(&done, sum);
    }
    assert!(!done.contains("_time_seconds{"), "{done}");
    assert_shows(
        &done,
        "owner=\"/apis/apps/v1/namespaces/ns/replicasets/web\",node=\"node\",scheduled=\"true\"",
    );
    assert!(stage.metrics.pods.decisions.is_empty());
}

// a restart must not count pods that have run for weeks
#[test]
fn a_pod_that_runs_already_is_shown_and_not_measured() {
    let mut stage = Stage::new();
    stage.pod(&running("p"));
    stage.follow();
    let text = stage.scrape(0);
    assert_shows(&text, "karpenter_pods_state{name=\"p\"");
    assert!(!text.contains("duration_seconds"), "{text}");
}

#[test]
fn a_pod_that_ended_or_went_leaves_no_running_clock_and_no_series() {
    let mut stage = Stage::new();
    stage.pod(&pending("ended"));
    stage.pod(&pending("gone"));
    stage.follow();
    let mut ended = pending("ended");
    ended["status"]["phase"] = json!("Failed");
    stage.pod(&ended);
    stage.delete("gone");
    stage.follow();
    let text = stage.scrape(5);
    assert!(!text.contains("_time_seconds{"), "{text}");
    assert!(!text.contains("name=\"gone\""), "{text}");
    assert_shows(&text, "phase=\"Failed\"");
    let waiting = stage.follower.seen.lock();
    assert!(waiting.unstarted.is_empty() && waiting.unbound.is_empty());
}

#[test]
fn a_pod_that_comes_and_goes_between_two_looks_is_forgotten() {
    let mut stage = Stage::new();
    stage.pod(&pending("p"));
    assert_eq!(stage.follower.seen.lock().unbound.len(), 1);
    stage.delete("p");
    stage.follow();
    let waiting = stage.follower.seen.lock();
    assert!(waiting.unstarted.is_empty() && waiting.unbound.is_empty());
}

#[test]
fn a_nodes_labels_show_in_its_pods_also_when_they_come_later() {
    let mut stage = Stage::new();
    stage.pod(&running("p"));
    stage.follow();
    let node = json!({ "metadata": { "name": "node", "uid": "n", "resourceVersion": "99",
        "labels": { "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot" } } });
    let node = Arc::new(NodeEntry::read(serde_json::from_value(node).unwrap()));
    stage.cluster.observe(Delta::Applied(Object::Node(node)), at(0));
    stage.follow();
    assert_shows(
        &stage.scrape(0),
        "nodepool=\"default\",zone=\"\",arch=\"\",capacity_type=\"spot\"",
    );
}

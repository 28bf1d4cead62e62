use super::*;
use crate::cluster::Object as ClusterObject;
use crate::cluster::entries::NodeEntry;
use crate::cluster::{Cluster, Delta, Key, Kind as ObjectKind, Version};
use crate::telemetry::{BuildInfo, Exposition, Metrics};
use serde_json::{Value, json};

fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_750_000_000 + second, 0).unwrap()
}

/// Messages of transition Events for two looks at a Node.
struct Stage {
    exposition: Exposition,
    follower: NodeConditions,
    cluster: Cluster,
    versions: u64,
    told: crate::k8s::events::Told,
}

impl Stage {
    fn new() -> Self {
        let exposition = Exposition::new();
        let metrics = Metrics::new(&exposition, BuildInfo::unknown()).unwrap();
        let (recorder, told) = Recorder::recording();
        Self {
            follower: NodeConditions::new(metrics.node_conditions, recorder),
            exposition,
            cluster: Cluster::new([], Arc::new(|_: &_| None), at(0)),
            versions: 0,
            told,
        }
    }

    fn node(&mut self, conditions: &Value, finalizers: &[&str]) {
        self.versions += 1;
        let node = json!({
            "metadata": { "name": "n", "uid": "n", "resourceVersion": self.versions.to_string(), "finalizers": finalizers,
                "labels": { "karpenter.sh/nodepool": "default" } },
            "status": { "conditions": conditions },
        });
        let entry = NodeEntry::read(serde_json::from_value(node).unwrap());
        self.cluster
            .observe(Delta::Applied(ClusterObject::Node(Arc::new(entry))), at(0));
        self.follow(0);
    }

    fn follow(&mut self, second: i64) {
        self.follower.follow(&self.cluster.snapshot(), at(second));
    }

    fn told(&mut self) -> Vec<(String, String)> {
        let events = self.told.take();
        events
            .into_iter()
            .map(|event| (event.reason.into_owned(), event.message))
            .collect()
    }
}

fn ready(status: &str, since: &str) -> Value {
    json!([{ "type": "Ready", "status": status, "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": since }])
}

// surface §4.2: not told the first time that a condition is seen
#[test]
fn the_first_sight_counts_and_only_a_later_change_is_told() {
    let mut stage = Stage::new();
    stage.node(&ready("Unknown", "2025-06-15T15:06:40Z"), &[]);
    assert!(stage.told().is_empty());
    let text = stage.exposition.render(at(7)).unwrap();
    assert!(text.contains("operator_node_status_condition_current_status_seconds{namespace=\"\",name=\"n\",type=\"Ready\",status=\"Unknown\",reason=\"KubeletReady\",class_label=\"\",karpenter_sh_initialized=\"\",karpenter_sh_nodepool=\"default\"} 7"), "{text}");
    assert!(!text.contains("transition_seconds"), "{text}");
    stage.node(&ready("True", "2025-06-15T15:07:40Z"), &[]);
    let message = "Status condition transitioned, Type: Ready, Status: Unknown -> True, Reason: KubeletReady, Message: kubelet is posting ready status";
    assert_eq!(stage.told(), [("Ready".to_owned(), message.to_owned())]);
    let text = stage.exposition.render(at(60)).unwrap();
    assert!(
        text.contains("operator_node_status_condition_transition_seconds_sum{class_label=\"\",karpenter_sh_initialized=\"\",karpenter_sh_nodepool=\"default\",status=\"Unknown\",type=\"Ready\"} 60"),
        "{text}"
    );
    assert!(
        !text.contains("status=\"Unknown\",reason"),
        "the old status is still shown: {text}"
    );
    stage.follow(61);
    assert!(stage.told().is_empty(), "nothing differs");
}

#[test]
fn finalizers_are_told_when_they_go_and_with_their_object() {
    let mut stage = Stage::new();
    stage.node(&json!([]), &["a", "b"]);
    stage.node(&json!([]), &["b"]);
    assert_eq!(stage.told(), [("Finalized".to_owned(), "Finalized a".to_owned())]);
    let gone = Delta::Deleted {
        kind: ObjectKind::Node,
        key: Key::cluster("n"),
        uid: "n".into(),
        version: Version::of(9),
    };
    stage.cluster.observe(gone, at(0));
    stage.follow(1);
    assert_eq!(stage.told(), [("Finalized".to_owned(), "Finalized b".to_owned())]);
    assert!(!stage.exposition.render(at(1)).unwrap().contains("name=\"n\""));
}

#[test]
fn a_message_that_is_empty_is_left_out() {
    let object = Involved {
        api_version: "v1".into(),
        kind: "Node".into(),
        namespace: String::new(),
        name: "n".into(),
        uid: "u".into(),
    };
    let transition = Transition {
        condition: "Launched",
        from: "Unknown",
        to: "True",
        reason: "Launched",
        message: "",
    };
    let event = transitioned(object, transition);
    assert_eq!(
        event.message,
        "Status condition transitioned, Type: Launched, Status: Unknown -> True, Reason: Launched"
    );
}

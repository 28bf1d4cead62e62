//! `karpenter_pods_state`: one series for every pod of the cluster (surface §5.3).
//!
//! There may be tens of thousands, so a pod is kept as shared names and put together when the text is written; what it takes from its node is
//! looked up there, so that a node's labels are kept once and never go stale in a pod's series. Filled by the controller `metrics.pod`.

use super::exposition::Family;
use super::pods::POD_STATE_LABELS;
use super::{Exposition, text};
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const NAME: &str = "karpenter_pods_state";
const HELP: &str = "Pods, where they are and how they are.";

/// A pod, as shown. What it has in common with its siblings is shared with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodState {
    /// Its first owner.
    pub owner: Option<PodOwner>,
    /// The node it is bound to.
    pub node: Option<Arc<str>>,
    /// Its phase as the API writes it.
    pub phase: &'static str,
    /// Whether the scheduler placed it.
    pub scheduled: bool,
    /// Whether it serves.
    pub ready: bool,
}

/// The owner of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodOwner {
    /// Its apiVersion.
    pub api_version: Arc<str>,
    /// Its kind.
    pub kind: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl PodOwner {
    /// Its path, made as upstream makes it: lower case and an `s`, whatever the real plural is (surface §5.3).
    fn path(&self, namespace: &str) -> String {
        let Self {
            api_version,
            kind,
            name,
        } = self;
        format!(
            "/apis/{api_version}/namespaces/{namespace}/{}s/{name}",
            kind.to_lowercase()
        )
    }
}

/// What pods take over from their node's labels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeOfPods {
    /// Its NodePool.
    pub nodepool: Box<str>,
    /// Its zone.
    pub zone: Box<str>,
    /// Its architecture.
    pub arch: Box<str>,
    /// Its capacity type.
    pub capacity_type: Box<str>,
    /// Its instance type.
    pub instance_type: Box<str>,
}

/// The pods that are shown; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct PodStates(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    pods: BTreeMap<(Arc<str>, Arc<str>), PodState>,
    nodes: BTreeMap<Box<str>, NodeOfPods>,
}

impl PodStates {
    /// Declares the family.
    pub(super) fn new(exposition: &Exposition) -> Self {
        let states = Self::default();
        exposition.written(NAME, HELP, &POD_STATE_LABELS, Arc::new(states.clone()));
        states
    }

    /// Replaces what is shown of a pod.
    pub fn show(&self, namespace: &Arc<str>, name: &Arc<str>, pod: PodState) {
        let key = (Arc::clone(namespace), Arc::clone(name));
        self.lock().pods.insert(key, pod);
    }

    /// Removes a pod.
    pub fn remove(&self, namespace: &Arc<str>, name: &Arc<str>) {
        self.lock().pods.remove(&(Arc::clone(namespace), Arc::clone(name)));
    }

    /// Replaces what pods take over from a node.
    pub fn show_node(&self, name: &str, node: NodeOfPods) {
        self.lock().nodes.insert(name.into(), node);
    }

    /// Forgets a node.
    pub fn remove_node(&self, name: &str) {
        self.lock().nodes.remove(name);
    }

    /// How many pods are shown.
    pub fn len(&self) -> usize {
        self.lock().pods.len()
    }

    /// Whether no pod is shown.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A pod is replaced in one step: what a panicking thread left behind is still right.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Family for PodStates {
    fn write(&self, out: &mut String, _now: DateTime<Utc>) {
        let inner = self.lock();
        if !inner.pods.is_empty() {
            text::header(out, NAME, HELP, "gauge");
        }
        let unknown = NodeOfPods::default();
        for ((namespace, name), pod) in &inner.pods {
            let node_name = pod.node.as_deref().unwrap_or_default();
            let node = inner.nodes.get(node_name).unwrap_or(&unknown);
            let owner = pod
                .owner
                .as_ref()
                .map(|owner| owner.path(namespace))
                .unwrap_or_default();
            let values: [&str; POD_STATE_LABELS.len()] = [
                name,
                namespace,
                &owner,
                node_name,
                word(pod.scheduled),
                &node.nodepool,
                &node.zone,
                &node.arch,
                &node.capacity_type,
                &node.instance_type,
                pod.phase,
                word(pod.ready),
            ];
            text::raw_sample(out, NAME, POD_STATE_LABELS.into_iter().zip(values), 1.0);
        }
    }
}

fn word(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(node: Option<&str>) -> PodState {
        PodState {
            owner: Some(PodOwner {
                api_version: "apps/v1".into(),
                kind: "ReplicaSet".into(),
                name: "web".into(),
            }),
            node: node.map(Into::into),
            phase: "Running",
            scheduled: true,
            ready: true,
        }
    }

    #[test]
    fn a_pod_shows_its_nodes_labels_and_an_unbound_one_shows_none() {
        let exposition = Exposition::new();
        let states = PodStates::new(&exposition);
        states.show(&"ns".into(), &"bound".into(), pod(Some("a")));
        states.show(&"ns".into(), &"loose".into(), pod(None));
        let node = NodeOfPods {
            nodepool: "default".into(),
            zone: "z".into(),
            ..NodeOfPods::default()
        };
        states.show_node("a", node);
        let text = exposition.render(DateTime::UNIX_EPOCH).unwrap();
        let owner = "namespace=\"ns\",owner=\"/apis/apps/v1/namespaces/ns/replicasets/web\"";
        for expected in [
            format!("name=\"bound\",{owner},node=\"a\",scheduled=\"true\",nodepool=\"default\",zone=\"z\""),
            format!("name=\"loose\",{owner},node=\"\",scheduled=\"true\",nodepool=\"\""),
        ] {
            assert!(text.contains(&expected), "{expected} is not in\n{text}");
        }
        states.remove(&"ns".into(), &"bound".into());
        states.remove(&"ns".into(), &"loose".into());
        assert!(states.is_empty() && exposition.render(DateTime::UNIX_EPOCH).unwrap().is_empty());
    }

    #[test]
    fn what_a_stranger_wrote_stays_inside_its_quotes() {
        let exposition = Exposition::new();
        let states = PodStates::new(&exposition);
        let mut strange = pod(None);
        strange.owner.as_mut().unwrap().name = "a\"b\nc".into();
        states.show(&"ns".into(), &"p".into(), strange);
        let text = exposition.render(DateTime::UNIX_EPOCH).unwrap();
        assert!(text.contains("replicasets/a\\\"b\\nc\""), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
    }
}

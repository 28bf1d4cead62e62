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

/// A pod, as shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodState {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The path of its first owner, or empty.
    pub owner: Arc<str>,
    /// The node it is bound to.
    pub node: Option<Arc<str>>,
    /// Its phase as the API writes it.
    pub phase: &'static str,
    /// `true` or `false`: whether the scheduler placed it.
    pub scheduled: &'static str,
    /// `true` or `false`: whether it serves.
    pub ready: &'static str,
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
    pub fn show(&self, pod: PodState) {
        let key = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
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
        for pod in inner.pods.values() {
            let name = pod.node.as_deref().unwrap_or_default();
            let node = inner.nodes.get(name).unwrap_or(&unknown);
            let values: [&str; POD_STATE_LABELS.len()] = [
                &pod.name,
                &pod.namespace,
                &pod.owner,
                name,
                pod.scheduled,
                &node.nodepool,
                &node.zone,
                &node.arch,
                &node.capacity_type,
                &node.instance_type,
                pod.phase,
                pod.ready,
            ];
            text::raw_sample(out, NAME, POD_STATE_LABELS.into_iter().zip(values), 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, node: Option<&str>) -> PodState {
        PodState {
            namespace: "ns".into(),
            name: name.into(),
            owner: "/apis/apps/v1/namespaces/ns/replicasets/web".into(),
            node: node.map(Into::into),
            phase: "Running",
            scheduled: "true",
            ready: "true",
        }
    }

    #[test]
    fn a_pod_shows_its_nodes_labels_and_an_unbound_one_shows_none() {
        let exposition = Exposition::new();
        let states = PodStates::new(&exposition);
        states.show(pod("bound", Some("a")));
        states.show(pod("loose", None));
        let node = NodeOfPods {
            nodepool: "default".into(),
            zone: "z".into(),
            ..NodeOfPods::default()
        };
        states.show_node("a", node);
        let text = exposition.render(DateTime::UNIX_EPOCH).unwrap();
        assert!(
            text.contains("name=\"bound\",namespace=\"ns\",owner=\"/apis/apps/v1/namespaces/ns/replicasets/web\",node=\"a\",scheduled=\"true\",nodepool=\"default\",zone=\"z\""),
            "{text}"
        );
        assert!(text.contains("name=\"loose\",namespace=\"ns\",owner=\"/apis/apps/v1/namespaces/ns/replicasets/web\",node=\"\",scheduled=\"true\",nodepool=\"\""), "{text}");
        states.remove(&"ns".into(), &"bound".into());
        states.remove(&"ns".into(), &"loose".into());
        assert!(states.is_empty() && exposition.render(DateTime::UNIX_EPOCH).unwrap().is_empty());
    }

    #[test]
    fn what_a_stranger_wrote_stays_inside_its_quotes() {
        let exposition = Exposition::new();
        let states = PodStates::new(&exposition);
        states.show(PodState {
            owner: "a\"b\nc".into(),
            ..pod("p", None)
        });
        let text = exposition.render(DateTime::UNIX_EPOCH).unwrap();
        assert!(text.contains("owner=\"a\\\"b\\nc\""), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
    }
}

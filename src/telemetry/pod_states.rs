//! `karpenter_pods_state`: one series for every pod of the cluster (surface §5.3); and whom the other families of single pods ask.
//!
//! There may be tens of thousands, and all that is shown of them is in the cluster state: nothing is kept here but whom to ask. The text is made
//! when it is asked for, a part at a time, since as a whole it is many megabytes. Filled by the controller `metrics.pod`.

use super::exposition::Family;
use super::pod_ages::{self, Awaited, PodWait};
use super::pods::POD_STATE_LABELS;
use super::{Exposition, text};
use chrono::{DateTime, Utc};
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

const NAME: &str = "karpenter_pods_state";
const HELP: &str = "Pods, where they are and how they are.";
/// About how many bytes of text are made at once: few enough to weigh nothing, and enough not to wait for the client at every step.
const PART: usize = 256 << 10;

/// A pod, as shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodState<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its first owner.
    pub owner: Option<PodOwner<'a>>,
    /// The node it is bound to, or empty.
    pub node: &'a str,
    /// What its node's labels say.
    pub of_node: NodeOfPods<'a>,
    /// Its phase as the API writes it.
    pub phase: &'static str,
    /// Whether the scheduler placed it.
    pub scheduled: bool,
    /// Whether it serves.
    pub ready: bool,
}

/// The owner of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodOwner<'a> {
    /// Its apiVersion.
    pub api_version: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl PodOwner<'_> {
    /// Appends its path, made as upstream makes it: lower case and an `s`, whatever the real plural is (surface §5.3).
    fn write_path(self, out: &mut String, namespace: &str) {
        let kind = self.kind.to_lowercase();
        let parts = [
            "/apis/",
            self.api_version,
            "/namespaces/",
            namespace,
            "/",
            &kind,
            "s/",
            self.name,
        ];
        for part in parts {
            out.push_str(part);
        }
    }
}

/// What pods take over from their node's labels; nothing of a node that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeOfPods<'a> {
    /// Its NodePool.
    pub nodepool: &'a str,
    /// Its zone.
    pub zone: &'a str,
    /// Its architecture.
    pub arch: &'a str,
    /// Its capacity type.
    pub capacity_type: &'a str,
    /// Its instance type.
    pub instance_type: &'a str,
}

/// The pods of one moment, in order of namespace and name.
pub trait PodsOfMoment: Debug + Send + Sync {
    /// Shows one pod after the other, from the first after `last` (namespace and name) until there is none or `show` breaks.
    fn show_after(&self, last: Option<(&str, &str)>, show: &mut dyn FnMut(&PodState<'_>) -> ControlFlow<()>);

    /// Shows the pods whose wait for this is measured and has not ended.
    fn show_waiting(&self, awaited: Awaited, show: &mut dyn FnMut(&PodWait<'_>));
}

/// The pods that are shown; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct PodStates(Arc<Mutex<Option<Arc<dyn PodsOfMoment>>>>);

impl PodStates {
    /// Declares the family.
    pub(super) fn new(exposition: &Exposition) -> Self {
        let states = Self::default();
        exposition.written(NAME, HELP, &POD_STATE_LABELS, Arc::new(states.clone()));
        pod_ages::declare(exposition, &states);
        states
    }

    /// Shows these pods and no others.
    pub fn show(&self, pods: Arc<dyn PodsOfMoment>) {
        // Replaced in one step: what a panicking thread left behind is still right.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(pods);
    }

    pub(super) fn shown(&self) -> Option<Arc<dyn PodsOfMoment>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Family for PodStates {
    fn write(&self, out: &mut String, now: DateTime<Utc>) {
        self.parts(now).for_each(|part| out.push_str(&part));
    }

    fn parts(&self, _now: DateTime<Utc>) -> Box<dyn Iterator<Item = String> + Send> {
        let parts = self.shown().map(|pods| Parts {
            pods,
            last: None,
            owner: String::new(),
        });
        Box::new(parts.into_iter().flatten())
    }
}

/// The text, a part at a time.
struct Parts {
    pods: Arc<dyn PodsOfMoment>,
    /// Namespace and name of the last pod that was written.
    last: Option<(String, String)>,
    /// Of an owner's path; kept to be used again.
    owner: String,
}

impl Iterator for Parts {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut out = String::new();
        let mut reached = None;
        let last = self.last.as_ref().map(|(namespace, name)| (&**namespace, &**name));
        let owner = &mut self.owner;
        self.pods.show_after(last, &mut |pod| {
            if out.is_empty() {
                out.reserve(PART + PART / 16);
                if last.is_none() {
                    text::header(&mut out, NAME, HELP, "gauge");
                }
            }
            write(&mut out, pod, owner);
            if out.len() < PART {
                return ControlFlow::Continue(());
            }
            reached = Some((pod.namespace.to_owned(), pod.name.to_owned()));
            ControlFlow::Break(())
        });
        if let Some(reached) = reached {
            self.last = Some(reached);
        } else {
            // that was the last one
            self.pods = Arc::new(Nobody);
        }
        (!out.is_empty()).then_some(out)
    }
}

/// No pods at all.
#[derive(Debug)]
struct Nobody;

impl PodsOfMoment for Nobody {
    fn show_after(&self, _last: Option<(&str, &str)>, _show: &mut dyn FnMut(&PodState<'_>) -> ControlFlow<()>) {}

    fn show_waiting(&self, _awaited: Awaited, _show: &mut dyn FnMut(&PodWait<'_>)) {}
}

fn write(out: &mut String, pod: &PodState<'_>, owner: &mut String) {
    owner.clear();
    if let Some(path) = pod.owner {
        path.write_path(owner, pod.namespace);
    }
    let values: [&str; POD_STATE_LABELS.len()] = [
        pod.name,
        pod.namespace,
        owner,
        pod.node,
        word(pod.scheduled),
        pod.of_node.nodepool,
        pod.of_node.zone,
        pod.of_node.arch,
        pod.of_node.capacity_type,
        pod.of_node.instance_type,
        pod.phase,
        word(pod.ready),
    ];
    text::raw_sample(out, NAME, POD_STATE_LABELS.into_iter().zip(values), 1.0);
}

fn word(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pods by namespace and name, all bound to a node in zone `z`.
    #[derive(Debug)]
    struct Listed(Vec<(String, String)>);

    impl PodsOfMoment for Listed {
        fn show_after(&self, last: Option<(&str, &str)>, show: &mut dyn FnMut(&PodState<'_>) -> ControlFlow<()>) {
            for (namespace, name) in &self.0 {
                if last.is_some_and(|last| (&**namespace, &**name) <= last) {
                    continue;
                }
                let owner = PodOwner {
                    api_version: "apps/v1",
                    kind: "ReplicaSet",
                    name,
                };
                let pod = PodState {
                    namespace,
                    name,
                    owner: Some(owner),
                    node: "a",
                    of_node: NodeOfPods {
                        nodepool: "default",
                        zone: "z",
                        ..NodeOfPods::default()
                    },
                    phase: "Running",
                    scheduled: true,
                    ready: true,
                };
                if show(&pod).is_break() {
                    return;
                }
            }
        }

        fn show_waiting(&self, _awaited: Awaited, _show: &mut dyn FnMut(&PodWait<'_>)) {}
    }

    fn listed(pods: impl IntoIterator<Item = (&'static str, String)>) -> Arc<Listed> {
        let pods = pods.into_iter().map(|(namespace, name)| (namespace.to_owned(), name));
        Arc::new(Listed(pods.collect()))
    }

    fn scraped(exposition: &Exposition) -> String {
        exposition.render(DateTime::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn a_pod_shows_itself_its_owner_and_its_nodes_labels() {
        let exposition = Exposition::new();
        let states = PodStates::new(&exposition);
        assert_eq!(scraped(&exposition), "");
        states.show(listed([("ns", "p".to_owned())]));
        let labels = "name=\"p\",namespace=\"ns\",owner=\"/apis/apps/v1/namespaces/ns/replicasets/p\",node=\"a\",scheduled=\"true\",\
            nodepool=\"default\",zone=\"z\",arch=\"\",capacity_type=\"\",instance_type=\"\",phase=\"Running\",ready=\"true\"";
        let expected = format!("# HELP {NAME} {HELP}\n# TYPE {NAME} gauge\n{NAME}{{{labels}}} 1\n");
        assert_eq!(scraped(&exposition), expected);
        states.show(listed([]));
        assert_eq!(scraped(&exposition), "");
    }

    #[test]
    fn many_pods_come_in_parts_each_of_them_once() {
        let exposition = Exposition::new();
        let states = PodStates::new(&exposition);
        states.show(listed((0..4000).map(|number| ("ns", format!("p-{number:04}")))));
        let parts: Vec<String> = states.parts(DateTime::UNIX_EPOCH).collect();
        assert!(parts.len() > 2 && parts.iter().all(|part| part.len() <= PART + PART / 16));
        let text = parts.concat();
        assert_eq!(text, scraped(&exposition));
        assert_eq!(text.matches("# HELP").count(), 1);
        let names = text.lines().skip(2).filter_map(|line| line.split('"').nth(1));
        assert!(names.eq((0..4000).map(|number| format!("p-{number:04}"))));
    }

    #[test]
    fn what_a_stranger_wrote_stays_inside_its_quotes() {
        let exposition = Exposition::new();
        PodStates::new(&exposition).show(listed([("ns", "a\"b\nc".to_owned())]));
        let text = scraped(&exposition);
        assert!(text.contains("replicasets/a\\\"b\\nc\""), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
    }
}

//! `operatorpkg.<kind>.status`: which conditions objects have, how long they lasted, how long deletions take (surface §5.6); and the Events that
//! tell of transitions (surface §4.2).
//!
//! A condition that is seen for the first time is a transition that nothing preceded: it counts, and it is not told. Upstream shows the families of
//! its node classes only where a provider registers them; we do.

use super::differences::{Difference, Follower, differences, seconds};
use super::events::{Transition, finalized, transitioned};
use crate::api::nodeclass::NODE_CLASS_LABEL;
use crate::api::{Condition, Conditioned, NodeClaim, NodePool, labels};
use crate::cluster::entries::{ClassFacts, NodeFacts};
use crate::cluster::{Entries, Entry, Snapshot};
use crate::k8s::events::{Involved, Recorder};
use crate::telemetry::{ConditionMetrics, ConditionSample, ConditionTransition, LegacyConditionMetrics};
use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::Node;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A condition of any kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen<'a> {
    condition: &'a str,
    status: &'a str,
    reason: &'a str,
    message: &'a str,
    since: Option<DateTime<Utc>>,
}

impl<'a> Seen<'a> {
    fn of(condition: &'a Condition) -> Self {
        Self {
            condition: &condition.type_,
            status: condition.status.as_str(),
            reason: &condition.reason,
            message: &condition.message,
            since: Some(condition.last_transition_time),
        }
    }

    fn of_node(condition: &'a crate::cluster::entries::NodeCondition) -> Self {
        Self {
            condition: &condition.type_,
            status: &condition.status,
            reason: &condition.reason,
            message: &condition.message,
            since: condition.since,
        }
    }
}

/// What a kind says of its objects, and where they are shown.
struct Kind<'f, T, const E: usize, const A: usize, const B: usize> {
    metrics: &'f ConditionMetrics<E, A, B>,
    /// The older families, and the kind's name in them.
    legacy: Option<(&'f LegacyConditionMetrics, &'static str)>,
    recorder: &'f Recorder,
    conditions: fn(&T) -> Vec<Seen<'_>>,
    finalizers: fn(&T) -> &[String],
    extras: fn(&T) -> [&str; E],
    involved: fn(&Entry<T>) -> Involved,
}

impl<T, const E: usize, const A: usize, const B: usize> Kind<'_, T, E, A, B> {
    fn follow(&self, old: &Entries<T>, new: &Entries<T>, now: DateTime<Utc>) {
        for difference in differences(old, new) {
            match difference {
                Difference::Appeared(entry) => self.show(None, entry),
                Difference::Changed { old, new } => self.show(Some(old), new),
                Difference::Gone(entry) => self.gone(entry, now),
            }
        }
    }

    fn show(&self, before: Option<&Entry<T>>, entry: &Entry<T>) {
        let conditions = (self.conditions)(&entry.facts);
        let extras = (self.extras)(&entry.facts);
        let samples: Vec<ConditionSample<'_>> = conditions
            .iter()
            .map(|seen| ConditionSample {
                condition: seen.condition,
                status: seen.status,
                reason: seen.reason,
                since: seen.since,
            })
            .collect();
        self.metrics
            .show(&entry.meta.key.name, extras, &samples, entry.meta.deleting);
        let known = before
            .map(|before| (self.conditions)(&before.facts))
            .unwrap_or_default();
        for seen in &conditions {
            let previous = known.iter().find(|known| known.condition == seen.condition);
            if previous.is_none_or(|previous| previous.status != seen.status) {
                self.changed(entry, extras, previous, seen);
            }
        }
        if let Some(before) = before {
            let left = (self.finalizers)(&entry.facts);
            self.tell_finalized(
                entry,
                (self.finalizers)(&before.facts)
                    .iter()
                    .filter(|gone| !left.contains(*gone)),
            );
        }
    }

    fn changed(&self, entry: &Entry<T>, extras: [&str; E], previous: Option<&Seen<'_>>, seen: &Seen<'_>) {
        let lasted = |previous: &Seen<'_>| match (previous.since, seen.since) {
            (Some(from), Some(to)) => seconds(from, to),
            _ => 0.0,
        };
        let transition = ConditionTransition {
            condition: seen.condition,
            previous: previous.map(|previous| (previous.status, lasted(previous))),
            status: seen.status,
            reason: seen.reason,
        };
        self.metrics.changed(extras, &transition);
        if let Some((legacy, kind)) = self.legacy {
            legacy.changed(kind, &transition);
        }
        if let Some(previous) = previous {
            let told = Transition {
                condition: seen.condition,
                from: previous.status,
                to: seen.status,
                reason: seen.reason,
                message: seen.message,
            };
            self.recorder.publish(transitioned((self.involved)(entry), told));
        }
    }

    fn gone(&self, entry: &Entry<T>, now: DateTime<Utc>) {
        let lasted = entry.meta.deleting.map(|since| seconds(since, now));
        self.metrics
            .gone(&entry.meta.key.name, (self.extras)(&entry.facts), lasted);
        if let (Some((legacy, kind)), Some(lasted)) = (self.legacy, lasted) {
            legacy.gone(kind, lasted);
        }
        self.tell_finalized(entry, (self.finalizers)(&entry.facts).iter());
    }

    fn tell_finalized<'a>(&self, entry: &Entry<T>, finalizers: impl Iterator<Item = &'a String>) {
        for finalizer in finalizers {
            self.recorder.publish(finalized((self.involved)(entry), finalizer));
        }
    }
}

fn value<'a>(labels: Option<&'a BTreeMap<String, String>>, key: &str) -> &'a str {
    labels.and_then(|labels| labels.get(key)).map_or("", String::as_str)
}

fn seen<K: Conditioned>(object: &K) -> Vec<Seen<'_>> {
    object.conditions().iter().map(Seen::of).collect()
}

fn finalizers<K: kube::Resource>(object: &K) -> &[String] {
    object.meta().finalizers.as_deref().unwrap_or_default()
}

/// Takes over what is there now and gives what was shown before.
fn swap<T>(shown: &Mutex<Entries<T>>, new: &Entries<T>) -> Entries<T> {
    let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut *shown, Arc::clone(new))
}

/// Of NodeClaims.
#[derive(Debug)]
pub struct ClaimConditions {
    metrics: ConditionMetrics<2, 4, 5>,
    legacy: LegacyConditionMetrics,
    recorder: Recorder,
    shown: Mutex<Entries<NodeClaim>>,
}

impl ClaimConditions {
    /// The controller.
    pub fn new(metrics: ConditionMetrics<2, 4, 5>, legacy: LegacyConditionMetrics, recorder: Recorder) -> Self {
        Self {
            metrics,
            legacy,
            recorder,
            shown: Mutex::default(),
        }
    }
}

impl Follower for ClaimConditions {
    fn follow(&self, snapshot: &Snapshot, now: DateTime<Utc>) {
        let kind = Kind {
            metrics: &self.metrics,
            legacy: Some((&self.legacy, "NodeClaim")),
            recorder: &self.recorder,
            conditions: seen::<NodeClaim>,
            finalizers: finalizers::<NodeClaim>,
            extras: |claim: &NodeClaim| {
                let labels = claim.metadata.labels.as_ref();
                [value(labels, NODE_CLASS_LABEL), value(labels, labels::NODEPOOL)]
            },
            involved: |entry| Involved::entry::<NodeClaim>(&entry.meta),
        };
        let new = &snapshot.objects.claims;
        kind.follow(&swap(&self.shown, new), new, now);
    }
}

/// Of NodePools.
#[derive(Debug)]
pub struct PoolConditions {
    metrics: ConditionMetrics<0, 2, 3>,
    legacy: LegacyConditionMetrics,
    recorder: Recorder,
    shown: Mutex<Entries<NodePool>>,
}

impl PoolConditions {
    /// The controller.
    pub fn new(metrics: ConditionMetrics<0, 2, 3>, legacy: LegacyConditionMetrics, recorder: Recorder) -> Self {
        Self {
            metrics,
            legacy,
            recorder,
            shown: Mutex::default(),
        }
    }
}

impl Follower for PoolConditions {
    fn follow(&self, snapshot: &Snapshot, now: DateTime<Utc>) {
        let kind = Kind {
            metrics: &self.metrics,
            legacy: Some((&self.legacy, "NodePool")),
            recorder: &self.recorder,
            conditions: seen::<NodePool>,
            finalizers: finalizers::<NodePool>,
            extras: |_: &NodePool| [],
            involved: |entry| Involved::entry::<NodePool>(&entry.meta),
        };
        let new = &snapshot.objects.pools;
        kind.follow(&swap(&self.shown, new), new, now);
    }
}

/// Of Nodes, with the conditions that their kubelets report.
#[derive(Debug)]
pub struct NodeConditions {
    metrics: ConditionMetrics<3, 5, 6>,
    recorder: Recorder,
    shown: Mutex<Entries<NodeFacts>>,
}

impl NodeConditions {
    /// The controller.
    pub fn new(metrics: ConditionMetrics<3, 5, 6>, recorder: Recorder) -> Self {
        Self {
            metrics,
            recorder,
            shown: Mutex::default(),
        }
    }
}

impl Follower for NodeConditions {
    fn follow(&self, snapshot: &Snapshot, now: DateTime<Utc>) {
        let kind = Kind {
            metrics: &self.metrics,
            legacy: None,
            recorder: &self.recorder,
            conditions: |node: &NodeFacts| node.conditions.iter().map(Seen::of_node).collect(),
            finalizers: |node: &NodeFacts| &node.finalizers,
            extras: |node: &NodeFacts| {
                let label = |key| node.label(key).unwrap_or_default();
                [
                    label(NODE_CLASS_LABEL),
                    label(labels::INITIALIZED),
                    label(labels::NODEPOOL),
                ]
            },
            involved: |entry| Involved::entry::<Node>(&entry.meta),
        };
        let new = &snapshot.objects.nodes;
        kind.follow(&swap(&self.shown, new), new, now);
    }
}

/// Of node classes.
#[derive(Debug)]
pub struct ClassConditions {
    metrics: ConditionMetrics<0, 2, 3>,
    recorder: Recorder,
    shown: Mutex<Entries<ClassFacts>>,
}

impl ClassConditions {
    /// The controller.
    pub fn new(metrics: ConditionMetrics<0, 2, 3>, recorder: Recorder) -> Self {
        Self {
            metrics,
            recorder,
            shown: Mutex::default(),
        }
    }
}

impl Follower for ClassConditions {
    fn follow(&self, snapshot: &Snapshot, now: DateTime<Utc>) {
        let kind = Kind {
            metrics: &self.metrics,
            legacy: None,
            recorder: &self.recorder,
            conditions: |class: &ClassFacts| class.conditions.iter().map(Seen::of_node).collect(),
            finalizers: |class: &ClassFacts| class.metadata.finalizers.as_deref().unwrap_or_default(),
            extras: |_: &ClassFacts| [],
            involved: class_involved,
        };
        let new = &snapshot.objects.classes;
        kind.follow(&swap(&self.shown, new), new, now);
    }
}

/// The scope of a class' key is its `Kind.group` (see [`Key`](crate::cluster::Key)); all node classes are served as v1.
fn class_involved(entry: &Entry<ClassFacts>) -> Involved {
    let (kind, group) = entry.meta.key.scope.split_once('.').unwrap_or_default();
    Involved {
        api_version: format!("{group}/v1"),
        kind: kind.to_owned(),
        namespace: String::new(),
        name: entry.meta.key.name.to_string(),
        uid: entry.meta.uid.to_string(),
    }
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;

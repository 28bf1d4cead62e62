//! How long pods wait for a node and until they are Ready, since they were created and since a place was found for them (surface §5.3).
//!
//! Four families over the pods that [`PodStates`] shows: nothing is kept for any of them, and ages are worked out when somebody scrapes.

use super::exposition::Family;
use super::pod_states::PodStates;
use super::{Exposition, text};
use chrono::{DateTime, Utc};
use std::sync::Arc;

/// What a pod waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// A node.
    Binding,
    /// To be Ready.
    Start,
}

/// A pod that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodWait<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// When it was created.
    pub created: Option<DateTime<Utc>>,
    /// When it was found a place.
    pub placed: Option<DateTime<Utc>>,
}

type Since = fn(&PodWait<'_>) -> Option<DateTime<Utc>>;

/// Name, meaning, what is waited for, and since when the wait is counted.
const FAMILIES: [(&str, &str, Awaited, Since); 4] = [
    (
        "karpenter_pods_unstarted_time_seconds",
        "Age of pods that are not Ready yet.",
        Awaited::Start,
        |wait| wait.created,
    ),
    (
        "karpenter_pods_unbound_time_seconds",
        "Age of pods that are not bound yet.",
        Awaited::Binding,
        |wait| wait.created,
    ),
    (
        "karpenter_pods_provisioning_unstarted_time_seconds",
        "Time since a pod that is not Ready yet was judged schedulable.",
        Awaited::Start,
        |wait| wait.placed,
    ),
    (
        "karpenter_pods_provisioning_unbound_time_seconds",
        "Time since a pod that is not bound yet was judged schedulable.",
        Awaited::Binding,
        |wait| wait.placed,
    ),
];

const LABELS: [&str; 2] = ["name", "namespace"];

/// Declares the families.
pub(super) fn declare(exposition: &Exposition, pods: &PodStates) {
    for (name, help, awaited, since) in FAMILIES {
        let pods = pods.clone();
        let family = PodAges {
            name,
            help,
            awaited,
            since,
            pods,
        };
        exposition.written(name, help, &LABELS, Arc::new(family));
    }
}

/// One of the families.
#[derive(Debug)]
struct PodAges {
    name: &'static str,
    help: &'static str,
    awaited: Awaited,
    since: Since,
    pods: PodStates,
}

impl Family for PodAges {
    fn write(&self, out: &mut String, now: DateTime<Utc>) {
        let Some(pods) = self.pods.shown() else { return };
        let mut opened = false;
        pods.show_waiting(self.awaited, &mut |wait| {
            let Some(since) = (self.since)(wait) else { return };
            if !opened {
                text::header(out, self.name, self.help, "gauge");
                opened = true;
            }
            let labels = LABELS.into_iter().zip([wait.name, wait.namespace]);
            text::raw_sample(out, self.name, labels, text::age(text::instant(since), now));
        });
    }
}

//! For which pods each machine was bought, and where they went instead when it stayed empty.
//!
//! The operator plans, kube-scheduler decides: it counts a spread over the nodes there are and takes the first that suits, so that pods meant for a machine
//! that is still being built may all go to one that came earlier. That machine was not bought for nothing, nor was one that was bought after kube-scheduler
//! had given a place to another pod than the one it was bought for. But a pod that goes to the very machine that was bought for it before was planned twice.

use super::census::text;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;
use std::collections::BTreeMap;

/// A claim's pods are told of it at most so long after it was made.
const TOLD_WITHIN: TimeDelta = TimeDelta::seconds(5);
/// How the operator tells a pod of a claim that has no node yet (surface §4.2).
const TOLD: &str = "Pod should schedule on: nodeclaim/";

/// What is known of plans and of what came of them.
#[derive(Debug, Default)]
pub(super) struct Purchases {
    /// When which pod was told of which claim.
    told: Vec<(DateTime<Utc>, String, String)>,
    /// When each claim was made.
    made: BTreeMap<String, DateTime<Utc>>,
    /// Where each pod runs, and since when if that is known.
    bound: BTreeMap<String, (String, Option<DateTime<Utc>>)>,
    /// The claim of each node.
    nodes: BTreeMap<String, String>,
}

impl Purchases {
    /// Reads an Event.
    pub(super) fn event(&mut self, event: &Value) {
        let of = |pointer| text(event, pointer).unwrap_or_default();
        if of("/reason") != "Nominated" {
            return;
        }
        let claim = of("/message").strip_prefix(TOLD).filter(|rest| !rest.contains(','));
        if let (Some(claim), Some(at)) = (claim, created(event)) {
            self.told
                .push((at, of("/involvedObject/name").to_owned(), claim.to_owned()));
        }
    }

    /// Reads a claim.
    pub(super) fn claim(&mut self, claim: &Value) {
        let Some(name) = text(claim, "/metadata/name") else {
            return;
        };
        if let Some(at) = created(claim) {
            self.made.insert(name.to_owned(), at);
        }
        if let Some(node) = text(claim, "/status/nodeName") {
            self.nodes.insert(node.to_owned(), name.to_owned());
        }
    }

    /// Notes where a pod runs.
    pub(super) fn bound(&mut self, pod: &Value, node: &str) {
        if let Some(name) = text(pod, "/metadata/name") {
            self.bound.insert(name.to_owned(), (node.to_owned(), bound_at(pod)));
        }
    }

    /// Whether kube-scheduler decided otherwise than a claim was planned for, before or after it was made.
    pub(super) fn was_overtaken(&self, claim: &str) -> bool {
        let made = self.made.get(claim);
        made.is_some_and(|made| self.lost_its_pods(claim, *made) || self.found_places_taken(*made))
    }

    /// Whether a pod for which a claim was made went to the machine of another claim, and that was not bought for it before.
    fn lost_its_pods(&self, claim: &str, made: DateTime<Utc>) -> bool {
        let its_pods = self
            .told
            .iter()
            .filter(|(at, _, told)| told == claim && *at - made <= TOLD_WITHIN)
            .map(|(_, pod, _)| pod);
        let mut went = its_pods.filter_map(|pod| Some((pod, self.nodes.get(&self.bound.get(pod)?.0)?)));
        went.any(|(pod, other)| {
            let before =
                |(at, named, told): &(DateTime<Utc>, String, String)| named == pod && told == other && *at < made;
            other != claim && !self.told.iter().any(before)
        })
    }

    /// Whether a pod that waited then had lost its place: its machine had taken one that it was not meant for.
    fn found_places_taken(&self, made: DateTime<Utc>) -> bool {
        let earlier = self.told.iter().filter(|(at, _, _)| *at < made);
        let mut waiting = earlier.filter(|(_, pod, _)| !self.was_bound(pod, made));
        waiting.any(|(_, _, claim)| {
            let there = self
                .bound
                .iter()
                .filter(|(_, (node, _))| self.nodes.get(node) == Some(claim));
            let mut took = there.filter(|(pod, _)| self.was_bound(pod, made));
            took.any(|(pod, _)| !self.told.iter().any(|(_, named, told)| named == pod && told == claim))
        })
    }

    fn was_bound(&self, pod: &str, by: DateTime<Utc>) -> bool {
        let bound = self.bound.get(pod).and_then(|(_, at)| *at);
        bound.is_some_and(|at| at <= by)
    }
}

fn bound_at(pod: &Value) -> Option<DateTime<Utc>> {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array)?;
    let scheduled = conditions
        .iter()
        .find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "True")?;
    text(scheduled, "/lastTransitionTime")?.parse().ok()
}

fn created(object: &Value) -> Option<DateTime<Utc>> {
    text(object, "/metadata/creationTimestamp")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(second: u32) -> String {
        format!("2026-01-01T00:00:{second:02}Z")
    }

    fn claim(name: &str, second: u32) -> Value {
        json!({"metadata": {"name": name, "creationTimestamp": at(second)}, "status": {"nodeName": format!("node-{name}")}})
    }

    fn told(pod: &str, claim: &str, second: u32) -> Value {
        json!({"metadata": {"creationTimestamp": at(second)}, "reason": "Nominated", "involvedObject": {"name": pod},
            "message": format!("Pod should schedule on: nodeclaim/{claim}")})
    }

    fn pod(name: &str) -> Value {
        json!({"metadata": {"name": name}})
    }

    #[test]
    fn a_machine_whose_pods_went_to_an_earlier_one_was_not_bought_for_nothing() {
        let mut purchases = Purchases::default();
        for (name, meant) in [("first", "one"), ("second", "two")] {
            purchases.claim(&claim(name, 1));
            purchases.event(&told(meant, name, 1));
        }
        assert!(!purchases.was_overtaken("second"), "its pod may still come");
        for name in ["one", "two"] {
            purchases.bound(&pod(name), "node-first");
        }
        assert!(purchases.was_overtaken("second"));
    }

    #[test]
    fn a_machine_bought_after_a_pod_took_the_place_of_another_was_not_bought_for_nothing() {
        let mut purchases = Purchases::default();
        for (name, meant, second) in [("first", "one", 1), ("other", "two", 1), ("again", "one", 20)] {
            purchases.claim(&claim(name, second));
            purchases.event(&told(meant, name, second));
        }
        // the second pod took the place of the first, which went to the machine that was meant for the second in the end
        let mut taker = pod("two");
        taker["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(30)}]);
        purchases.bound(&taker, "node-first");
        assert!(!purchases.was_overtaken("again"), "it was bought before that");
        taker["status"]["conditions"][0]["lastTransitionTime"] = json!(at(10));
        purchases.bound(&taker, "node-first");
        assert!(purchases.was_overtaken("again"));
        taker["status"]["conditions"][0]["lastTransitionTime"] = json!(at(10));
        purchases.bound(&taker, "node-other");
        assert!(!purchases.was_overtaken("again"), "it went where it was meant to go");
        purchases.bound(&taker, "node-first");
        let mut robbed = pod("one");
        robbed["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(11)}]);
        purchases.bound(&robbed, "node-first");
        assert!(
            !purchases.was_overtaken("again"),
            "nobody waited any more when it was bought"
        );
    }

    #[test]
    fn a_machine_bought_again_for_the_same_pod_was_bought_for_nothing() {
        let mut purchases = Purchases::default();
        for (name, second) in [("first", 1), ("again", 20)] {
            purchases.claim(&claim(name, second));
            purchases.event(&told("one", name, second));
        }
        purchases.bound(&pod("one"), "node-first");
        assert!(!purchases.was_overtaken("again"));
        assert!(!purchases.was_overtaken("unknown"));
    }
}

//! Pods that were planned twice: a machine was bought for a pod whose machine was on its way, and nothing had changed.
//!
//! ```text
//! pod ─ told of claim A ─────────────── claim B made ─ the pod told of B: planned twice
//!                        A on its way, no pod came, went or was bound, no claim or node went, no pod waits untold
//! ```
//!
//! True in any seed, since whatever may rightly change a plan excuses it: a pod that came, one that kube-scheduler put somewhere, a machine that goes. So does
//! another operator at work: plans do not survive the one that made them (architecture §3.3), the next packs the waiting pods anew into the machines on
//! their way, and the first place that suits each may leave one of them without. Fed by the census in the order of revisions.

use super::census::{is_true, text};
use crate::api::EventKind;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How the operator tells a pod of a claim that has no node yet (surface §4.2).
const TOLD: &str = "Pod should schedule on: nodeclaim/";

/// What was so when a claim was made.
#[derive(Debug)]
struct Made {
    revision: u64,
    /// The claims on their way since the last change.
    on_the_way: BTreeSet<String>,
    /// Of which claim each pod had been told.
    told: BTreeMap<String, String>,
}

/// Follows plans.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// The revision of the last change that a plan may rightly follow.
    stirred: u64,
    /// UIDs of pods without node.
    waiting: BTreeSet<String>,
    /// The last claim that each pod was told of, by its UID; "" for anything else it was told.
    told: BTreeMap<String, String>,
    /// Claims that are not yet ready for pods and not to go, and when they were made.
    coming: BTreeMap<String, u64>,
    made: BTreeMap<String, Made>,
    found: BTreeSet<String>,
}

impl Again {
    /// What was found.
    pub(super) fn found(&self) -> impl Iterator<Item = &String> {
        self.found.iter()
    }

    /// Something changed that a plan may rightly follow.
    pub(super) fn stir(&mut self, revision: u64) {
        self.stirred = revision;
    }

    /// Reads a claim.
    pub(super) fn claim(&mut self, kind: EventKind, revision: u64, claim: &Value) {
        let name = text(claim, "/metadata/name").unwrap_or_default();
        if kind == EventKind::Added {
            self.begin(name, revision);
            self.coming.insert(name.to_owned(), revision);
        }
        let goes = kind == EventKind::Deleted
            || text(claim, "/metadata/deletionTimestamp").is_some()
            || is_true(claim, "DisruptionReason");
        if goes {
            self.stir(revision);
        }
        if goes || is_true(claim, "Initialized") {
            self.coming.remove(name);
        }
    }

    fn begin(&mut self, name: &str, revision: u64) {
        if !self.waiting.iter().all(|pod| self.told.contains_key(pod)) {
            return;
        }
        let undisturbed = self.coming.iter().filter(|(_, made)| **made > self.stirred);
        let on_the_way: BTreeSet<String> = undisturbed.map(|(claim, _)| claim.clone()).collect();
        if !on_the_way.is_empty() {
            let told = self.told.clone();
            let made = Made {
                revision,
                on_the_way,
                told,
            };
            self.made.insert(name.to_owned(), made);
        }
    }

    /// Reads a pod that asks for a machine.
    pub(super) fn pod(&mut self, kind: EventKind, revision: u64, pod: &Value) {
        let uid = text(pod, "/metadata/uid").unwrap_or_default().to_owned();
        let over = kind == EventKind::Deleted || text(pod, "/metadata/deletionTimestamp").is_some();
        let changed = if over || text(pod, "/spec/nodeName").is_some() {
            self.waiting.remove(&uid)
        } else {
            self.waiting.insert(uid)
        };
        if changed || over {
            self.stir(revision);
        }
    }

    /// Reads an Event.
    pub(super) fn event(&mut self, kind: EventKind, event: &Value) {
        let of = |pointer| text(event, pointer).unwrap_or_default();
        let uid = of("/involvedObject/uid");
        match of("/reason") {
            "Nominated" if kind == EventKind::Added => {
                let claim = of("/message").strip_prefix(TOLD).filter(|rest| !rest.contains(','));
                let claim = claim.unwrap_or_default();
                self.judge(uid, of("/involvedObject/name"), claim);
                self.told.insert(uid.to_owned(), claim.to_owned());
            }
            "FailedScheduling" if of("/source/component") == "karpenter" => {
                self.told.insert(uid.to_owned(), String::new());
            }
            _ => {}
        }
    }

    fn judge(&mut self, uid: &str, pod: &str, claim: &str) {
        // told of it by a later plan than the one that it was made by: it may have been made for others
        let made = self.made.get(claim).filter(|made| self.stirred < made.revision);
        let Some(made) = made else { return };
        let before = made.told.get(uid).filter(|before| *before != claim);
        if let Some(before) = before.filter(|before| made.on_the_way.contains(*before)) {
            self.found.insert(format!(
                "pod {pod} was planned twice: {claim} was bought for it while {before} was on its way and nothing had changed"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(again: &mut Again, name: &str, node: Option<&str>, revision: u64) {
        let pod = json!({"metadata": {"name": name, "uid": name}, "spec": {"nodeName": node}});
        again.pod(EventKind::Added, revision, &pod);
    }

    fn claim(again: &mut Again, name: &str, revision: u64) {
        again.claim(EventKind::Added, revision, &json!({"metadata": {"name": name}}));
    }

    fn told(again: &mut Again, pod: &str, claim: &str) {
        let event = json!({"reason": "Nominated", "involvedObject": {"uid": pod, "name": pod},
            "message": format!("{TOLD}{claim}")});
        again.event(EventKind::Added, &event);
    }

    fn planned_once() -> Again {
        let mut again = Again::default();
        pod(&mut again, "one", None, 1);
        claim(&mut again, "first", 2);
        told(&mut again, "one", "first");
        again
    }

    #[test]
    fn a_second_machine_for_a_pod_whose_machine_is_on_its_way_is_found() {
        let mut again = planned_once();
        claim(&mut again, "second", 4);
        told(&mut again, "one", "second");
        assert_eq!(again.found().count(), 1);
    }

    #[test]
    fn whatever_may_change_a_plan_excuses_it() {
        let excuses: [&dyn Fn(&mut Again); 4] = [
            &|again| pod(again, "two", None, 4),
            &|again| pod(again, "one", Some("node"), 4),
            &|again| {
                let gone = json!({"metadata": {"name": "first", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
                again.claim(EventKind::Modified, 4, &gone);
            },
            &|again| again.stir(4),
        ];
        for excuse in excuses {
            let mut again = planned_once();
            excuse(&mut again);
            claim(&mut again, "second", 5);
            told(&mut again, "one", "second");
            assert_eq!(again.found().count(), 0);
        }
    }

    #[test]
    fn a_pod_that_a_later_plan_puts_on_a_machine_made_for_others_was_not_planned_twice() {
        let mut again = planned_once();
        claim(&mut again, "second", 4);
        pod(&mut again, "two", None, 5);
        told(&mut again, "one", "second");
        assert_eq!(again.found().count(), 0);
    }

    #[test]
    fn two_machines_of_one_plan_and_a_pod_told_again_of_its_own_are_well() {
        let mut again = planned_once();
        told(&mut again, "one", "first");
        pod(&mut again, "two", None, 5);
        pod(&mut again, "three", None, 6);
        for (name, revision) in [("second", 7), ("third", 8)] {
            claim(&mut again, name, revision);
        }
        told(&mut again, "two", "second");
        told(&mut again, "three", "third");
        assert_eq!(again.found().count(), 0);
    }
}

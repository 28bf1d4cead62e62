//! What PodDisruptionBudgets say about evicting a pod now (lifecycle 14.7).
//!
//! Made once per pass from the cluster state; asked for every pod of a node that might go.

use crate::cluster::Key;
use crate::cluster::Snapshot;
use crate::cluster::entries::{PdbEntry, PodEntry, UnhealthyPods};
use crate::lifecycle::pods::is_evictable;
use crate::scheduling::Selector;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why an eviction would be refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// Several budgets match the pod, which the Eviction API does not support.
    SeveralBudgets(Vec<Key>),
    /// The one that matches allows nobody to go now.
    Exhausted(Key),
}

#[derive(Debug)]
struct Guard {
    budget: Arc<PdbEntry>,
    selector: Selector,
}

/// All PodDisruptionBudgets, by namespace.
#[derive(Debug, Default)]
pub struct Guards(BTreeMap<Arc<str>, Vec<Guard>>);

impl Guards {
    /// The budgets of a snapshot. One without a selector matches nothing.
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut guards: BTreeMap<Arc<str>, Vec<Guard>> = BTreeMap::new();
        for budget in snapshot.objects.pdbs.values() {
            if let Some(selector) = budget.selector.as_ref() {
                let guard = Guard {
                    budget: Arc::clone(budget),
                    selector: Selector::from_api(selector),
                };
                guards
                    .entry(Arc::clone(&budget.meta.key.scope))
                    .or_default()
                    .push(guard);
            }
        }
        Self(guards)
    }

    /// What holds the pod now, if anything does. Pods that nobody would evict are not held.
    pub fn hold(&self, pod: &PodEntry, now: DateTime<Utc>) -> Option<Hold> {
        if !is_evictable(pod, now) {
            return None;
        }
        let here = self.0.get(&pod.meta.key.scope)?;
        let matching: Vec<&Guard> = here
            .iter()
            .filter(|guard| guard.selector.matches(&pod.pod.labels))
            .collect();
        match matching.as_slice() {
            [] => None,
            [only] => is_exhausted(&only.budget, pod).then(|| Hold::Exhausted(only.budget.meta.key.clone())),
            several => Some(Hold::SeveralBudgets(
                several.iter().map(|guard| guard.budget.meta.key.clone()).collect(),
            )),
        }
    }
}

fn is_exhausted(budget: &PdbEntry, pod: &PodEntry) -> bool {
    let unhealthy = pod.ready.is_some_and(|ready| !ready.state);
    let may_go_anyway = budget.unhealthy == UnhealthyPods::AlwaysAllow && unhealthy;
    !may_go_anyway && budget.disruptions_allowed == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disruption::fixture::{Fixture, now};
    use serde_json::json;

    #[allow(
        clippy::needless_pass_by_value,
        reason = "json! literals as arguments read best without a borrow"
    )]
    fn budget(name: &str, patch: serde_json::Value) -> serde_json::Value {
        let mut object = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": name, "namespace": "default", "uid": name },
            "spec": { "selector": { "matchLabels": { "app": "web" } } },
            "status": { "disruptionsAllowed": 0 },
        });
        crate::disruption::fixture::merge(&mut object, &patch);
        object
    }

    fn hold(budgets: &[serde_json::Value], pod: serde_json::Value) -> Option<Hold> {
        let mut fixture = Fixture::new();
        for budget in budgets {
            fixture.pdb(budget.clone());
        }
        fixture.machine("a").pod("a", "p", pod);
        let snapshot = fixture.snapshot();
        Guards::of(&snapshot).hold(pod_in(&snapshot), now())
    }

    fn pod_in(snapshot: &Snapshot) -> &PodEntry {
        snapshot.pod("default", "p").unwrap()
    }

    fn web() -> serde_json::Value {
        json!({ "metadata": { "labels": { "app": "web" } } })
    }

    #[test]
    fn a_budget_that_allows_nothing_holds_its_pods_and_no_others() {
        let key = Key::namespaced("default", "b");
        assert_eq!(hold(&[budget("b", json!({}))], web()), Some(Hold::Exhausted(key)));
        assert_eq!(hold(&[budget("b", json!({}))], json!({})), None);
        let generous = budget("b", json!({ "status": { "disruptionsAllowed": 1 } }));
        assert_eq!(hold(&[generous], web()), None);
    }

    #[test]
    fn an_empty_selector_matches_all_and_none_matches_nothing() {
        let everything = budget("b", json!({ "spec": { "selector": { "matchLabels": null } } }));
        assert!(hold(&[everything], json!({})).is_some());
        let nothing = budget("b", json!({ "spec": { "selector": null } }));
        assert_eq!(hold(&[nothing], web()), None);
    }

    #[test]
    fn two_matching_budgets_hold_whatever_they_allow() {
        let generous = |name| budget(name, json!({ "status": { "disruptionsAllowed": 5 } }));
        let keys = vec![Key::namespaced("default", "a"), Key::namespaced("default", "b")];
        assert_eq!(
            hold(&[generous("a"), generous("b")], web()),
            Some(Hold::SeveralBudgets(keys))
        );
    }

    #[test]
    fn unhealthy_pods_pass_a_budget_that_always_allows_them() {
        let lenient = budget("b", json!({ "spec": { "unhealthyPodEvictionPolicy": "AlwaysAllow" } }));
        let mut unhealthy = web();
        unhealthy["status"] = json!({ "conditions": [{ "type": "Ready", "status": "False" }] });
        assert_eq!(hold(std::slice::from_ref(&lenient), unhealthy.clone()), None);
        assert!(hold(&[lenient], web()).is_some(), "no Ready condition is not unhealthy");
        assert!(hold(&[budget("b", json!({}))], unhealthy).is_some());
    }

    #[test]
    fn pods_that_nobody_would_evict_are_not_held() {
        let mut dying = web();
        dying["metadata"]["deletionTimestamp"] = json!("2026-03-02T09:30:10Z");
        assert_eq!(hold(&[budget("b", json!({}))], dying), None);
    }
}

//! Nodes without pods that matter (disruption 3.2, 8.1): all of them in one command, as far as budgets allow.
//!
//! DaemonSet, static and ended pods do not matter; a StatefulSet's pod matters even while it is terminating, since it comes back. Needs no
//! prices and no simulation. Called through [`Method`](super::method::Method).

use super::allowance::Allowances;
use super::candidate::Candidate;
use super::method::{Choice, Fit};
use crate::api::conditions;

/// Whether the node is empty and has been so for long enough.
pub fn fit(candidate: &Candidate) -> Fit {
    if candidate.pool.is_static() {
        return Fit::No;
    }
    if candidate.pool.spec.disruption.consolidate_after.is_never() {
        return Fit::Unconsolidatable(format!(
            "NodePool {:?} has consolidation disabled",
            candidate.pool_name()
        ));
    }
    if candidate.reschedulable.is_empty() && candidate.is_true(conditions::CONSOLIDATABLE) {
        Fit::Eligible
    } else {
        Fit::No
    }
}

/// Takes the cheapest first, as many as each pool's budget allows.
pub fn choose(mut candidates: Vec<Candidate>, allowances: &mut Allowances) -> Choice {
    candidates.sort_by(|a, b| a.cost.total_cmp(&b.cost).then_with(|| a.machine.id.cmp(&b.machine.id)));
    let mut choice = Choice::default();
    for candidate in candidates {
        if allowances.take(candidate.pool_name()) {
            choice.candidates.push(candidate);
        } else {
            choice.constrained = true;
        }
    }
    choice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disruption::fixture::Fixture;
    use crate::disruption::method::Method;
    use serde_json::json;

    fn fits(build: impl FnOnce(&mut Fixture)) -> Fit {
        let mut fixture = Fixture::new();
        build(&mut fixture);
        Method::Emptiness.fit(&fixture.candidate("a"))
    }

    #[test]
    fn an_empty_consolidatable_node_is_eligible() {
        assert_eq!(
            fits(|f| {
                f.machine("a");
            }),
            Fit::Eligible
        );
        let no_mark = json!({ "status": { "conditions": [{ "type": "Consolidatable", "status": "False", "lastTransitionTime": "2026-03-02T09:00:00Z" }] } });
        assert_eq!(
            fits(|f| {
                f.machine_with("a", &no_mark);
            }),
            Fit::No
        );
    }

    #[test]
    fn only_pods_that_come_back_make_a_node_non_empty() {
        let owned = |kind: &str| json!({ "metadata": { "ownerReferences": [{ "apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "o", "controller": true }] } });
        let with = |pod: serde_json::Value| {
            fits(|f| {
                f.machine("a").pod("a", "p", pod);
            })
        };
        assert_eq!(with(owned("ReplicaSet")), Fit::No);
        assert_eq!(with(owned("DaemonSet")), Fit::Eligible);
        let dying = |kind| {
            let mut pod = owned(kind);
            pod["metadata"]["deletionTimestamp"] = json!("2026-03-02T09:31:00Z");
            pod
        };
        assert_eq!(with(dying("ReplicaSet")), Fit::Eligible);
        assert_eq!(with(dying("StatefulSet")), Fit::No);
        assert_eq!(with(json!({ "status": { "phase": "Succeeded" } })), Fit::Eligible);
    }

    #[test]
    fn a_pool_without_consolidation_is_told_so_and_a_static_one_is_not_asked() {
        let never = json!({ "spec": { "disruption": { "consolidateAfter": "Never" } } });
        assert_eq!(
            fits(|f| {
                f.pool("default", &never).machine("a");
            }),
            Fit::Unconsolidatable("NodePool \"default\" has consolidation disabled".into())
        );
        let fixed = json!({ "spec": { "replicas": 2 } });
        assert_eq!(
            fits(|f| {
                f.pool("default", &fixed).machine("a");
            }),
            Fit::No
        );
    }

    #[test]
    fn the_budget_bounds_the_choice_and_the_rest_is_remembered_as_constrained() {
        let mut fixture = Fixture::new();
        for name in ["a", "b", "c"] {
            fixture.machine(name);
        }
        let budget = json!({ "spec": { "disruption": { "budgets": [{ "nodes": "2" }] } } });
        fixture.pool("default", &budget);
        let candidates = ["a", "b", "c"].map(|name| fixture.candidate(name)).to_vec();
        let choice = choose(candidates, &mut fixture.allowances(Method::Emptiness));
        let names: Vec<&str> = choice.candidates.iter().map(|c| c.node.name()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(choice.constrained);
    }
}

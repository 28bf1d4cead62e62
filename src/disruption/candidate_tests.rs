use super::*;
use crate::cluster::Mark;
use crate::disruption::fixture::{Fixture, now};
use chrono::TimeDelta;
use serde_json::{Value, json};

fn look(class: Class, build: impl FnOnce(&mut Fixture)) -> Result<Candidate, Refusal> {
    let mut fixture = Fixture::new();
    fixture.machine("a");
    build(&mut fixture);
    fixture.look("a", class)
}

fn refusal(build: impl FnOnce(&mut Fixture)) -> Refusal {
    look(Class::Graceful, build).unwrap_err()
}

fn protected() -> Value {
    json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "true" } } })
}

fn bounded() -> Value {
    json!({ "spec": { "terminationGracePeriod": "300s" } })
}

fn closed_budget() -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "b", "namespace": "default", "uid": "b" },
        "spec": { "selector": {}, "maxUnavailable": 0 }, "status": { "disruptionsAllowed": 0 },
    })
}

#[test]
fn an_idle_machine_is_a_candidate() {
    assert_eq!(look(Class::Graceful, |_| {}).unwrap().node.name(), "a");
}

#[test]
fn the_state_of_the_machine_is_looked_at_first() {
    let mut busy = Fixture::new();
    busy.machine("a");
    busy.busy.insert(MachineId::Claim("a".into()));
    assert_eq!(busy.look("a", Class::Graceful).unwrap_err(), Refusal::UnderWay);
    let mut foreign = Fixture::new();
    foreign.foreign_node("x");
    assert_eq!(foreign.look("x", Class::Graceful).unwrap_err(), Refusal::NotOurs);
    assert_eq!(
        refusal(|f| {
            f.mark("a", Mark::ForDeletion);
        }),
        Refusal::GoingAway
    );
    assert_eq!(
        refusal(|f| {
            f.machine_with(
                "a",
                &json!({ "metadata": { "deletionTimestamp": "2026-03-02T09:00:00Z" } }),
            );
        }),
        Refusal::GoingAway
    );
    assert_eq!(
        refusal(|f| {
            f.node_with(
                "a",
                &json!({ "metadata": { "labels": { "karpenter.sh/initialized": null } } }),
            );
        }),
        Refusal::NotInitialized
    );
    assert_eq!(
        refusal(|f| {
            f.nominate("a", now() + TimeDelta::seconds(1));
        }),
        Refusal::Nominated
    );
    assert!(
        look(Class::Graceful, |f| {
            f.nominate("a", now());
        })
        .is_ok()
    );
}

#[test]
fn the_nodes_annotation_counts_only_when_it_is_true() {
    let annotated = |value: &str| json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": value } } });
    assert_eq!(
        refusal(|f| {
            f.node_with("a", &annotated("true"));
        }),
        Refusal::Annotated
    );
    // EM-11
    assert!(
        look(Class::Graceful, |f| {
            f.node_with("a", &annotated("false"));
        })
        .is_ok()
    );
}

#[test]
fn a_machine_without_a_known_pool_stays() {
    let pool = |value: Value| json!({ "metadata": { "labels": { "karpenter.sh/nodepool": value } } });
    assert_eq!(
        refusal(|f| {
            f.node_with("a", &pool(Value::Null));
        }),
        Refusal::NoPoolLabel
    );
    let unknown = refusal(|f| {
        f.node_with("a", &pool(json!("gone")));
    });
    assert_eq!(unknown.message().unwrap(), "NodePool not found (NodePool=gone)");
}

#[test]
fn a_protected_pod_protects_its_node_whoever_owns_it() {
    // CF-01 to CF-03
    for owner in [("apps/v1", "ReplicaSet"), ("v1", "Node"), ("apps/v1", "DaemonSet")] {
        let mut pod = protected();
        pod["metadata"]["ownerReferences"] =
            json!([{ "apiVersion": owner.0, "kind": owner.1, "name": "o", "uid": "o" }]);
        let refused = refusal(|f| {
            f.pod("a", "p", pod);
        });
        assert_eq!(
            refused.message().unwrap(),
            "Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/p)"
        );
    }
}

#[test]
fn pods_that_are_going_or_ended_protect_nothing() {
    // CF-10, CF-11, CF-19, CF-20
    for state in [
        json!({ "metadata": { "deletionTimestamp": "2026-03-02T09:31:00Z" } }),
        json!({ "status": { "phase": "Failed" } }),
    ] {
        let mut pod = protected();
        crate::disruption::fixture::merge(&mut pod, &state);
        let looked = look(Class::Graceful, |f| {
            f.pdb(closed_budget()).pod("a", "p", pod);
        });
        assert!(looked.is_ok());
    }
}

#[test]
fn a_budget_that_allows_nothing_protects_the_node() {
    // CF-14 to CF-16
    let refused = refusal(|f| {
        f.pdb(closed_budget()).pod("a", "p", json!({}));
    });
    assert_eq!(
        refused.message().unwrap(),
        "Pdb prevents pod evictions (PodDisruptionBudget=[default/b])"
    );
    let mirror =
        json!({ "metadata": { "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "a", "uid": "a" }] } });
    assert!(
        look(Class::Graceful, |f| {
            f.pdb(closed_budget()).pod("a", "p", mirror);
        })
        .is_ok()
    );
}

#[test]
fn only_an_eventual_method_with_a_bounded_drain_passes_over_pods() {
    // CF-04 to CF-09
    let looked = |class, claim: Value| {
        look(class, |f| {
            f.machine_with("a", &claim)
                .pdb(closed_budget())
                .pod("a", "p", protected());
        })
    };
    assert!(looked(Class::Eventual, bounded()).is_ok());
    assert!(looked(Class::Graceful, bounded()).is_err());
    assert!(looked(Class::Eventual, json!({})).is_err());
}

#[test]
fn the_cost_is_the_pods_cost_times_the_life_that_is_left() {
    let life = json!({ "spec": { "expireAfter": "1h" } });
    let candidate = look(Class::Graceful, |f| {
        f.machine_with("a", &life)
            .pod("a", "p", json!({}))
            .pod("a", "q", json!({}));
    });
    assert!(
        (candidate.unwrap().cost - 1.0).abs() < 1e-9,
        "half an hour of one is left"
    );
}

//! Emptiness: who goes, who stays, and what the owner is told.

use crate::world::{KARPENTER, World, protected, seconds};
use serde_json::{Value, json};

async fn budgets(world: &World, budgets: Value) {
    let patch = json!({ "spec": { "disruption": { "budgets": budgets } } });
    world.patch(KARPENTER, "NodePool", "", "default", patch).await;
}

/// Keeps a node from being empty until it is deleted.
async fn occupied(world: &World, name: &str) -> String {
    budgets(world, json!([{ "nodes": "0" }])).await;
    let uid = world.machine(name, &json!({})).await;
    world.pod(&format!("pod-{name}"), name, &json!({})).await;
    budgets(world, json!([{ "nodes": "100%" }])).await;
    uid
}

#[tokio::test(start_paused = true)]
async fn a_node_goes_with_its_claim_and_machine_once_its_last_pod_has_gone() {
    let world = World::start().await;
    let uid = occupied(&world, "a").await;
    seconds(120).await;
    assert!(!world.is_tainted("a").await, "a node with pods stays");
    world.delete("v1", "Pod", "default", "pod-a").await;
    let took = world.until("all is gone", 120, || world.is_gone("a", &uid)).await;
    assert!(
        took.as_secs() >= 25,
        "10 s of grace, 15 s of second thoughts, 5 s of drain; took {took:?}"
    );
    let metrics = &world.metrics;
    assert!((metrics.disruption.decisions.get(["delete", "empty", "empty"]) - 1.0).abs() < 1e-9);
    assert!((metrics.nodeclaims.disrupted.get(["empty", "default", "on-demand"]) - 1.0).abs() < 1e-9);
    assert!((metrics.nodes.terminated.get(["default"]) - 1.0).abs() < 1e-9);
    assert_eq!(world.events("DisruptionTerminating", "a").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_nothing_keeps_empty_nodes_and_says_so() {
    let world = World::start().await;
    budgets(&world, json!([{ "nodes": "0" }])).await;
    world.machine("a", &json!({})).await;
    seconds(90).await;
    assert!(!world.is_tainted("a").await);
    let told = world.events("DisruptionBlocked", "default").await;
    assert_eq!(
        told[0],
        "No allowed disruptions for disruption reason Empty due to blocking budget"
    );
    assert!(
        world
            .metrics
            .nodepools
            .allowed_disruptions
            .get(["default", "Empty"])
            .abs()
            < 1e-9
    );
    assert!((world.metrics.disruption.eligible_nodes.get(["empty"]) - 1.0).abs() < 1e-9);
}

#[tokio::test(start_paused = true)]
async fn a_budget_for_one_lets_one_go_at_a_time() {
    let world = World::start().await;
    budgets(&world, json!([{ "nodes": "0" }])).await;
    for name in ["a", "b", "c"] {
        world.machine(name, &json!({})).await;
    }
    budgets(&world, json!([{ "nodes": "1" }])).await;
    let tainted = || async {
        let mut count = 0;
        for name in ["a", "b", "c"] {
            if world.node(name).await.is_some() && world.is_tainted(name).await {
                count += 1;
            }
        }
        count
    };
    for _ in 0..600 {
        assert!(tainted().await <= 1, "one at a time");
        seconds(1).await;
    }
    for name in ["a", "b", "c"] {
        assert!(world.claim(name).await.is_none(), "{name} has gone in its turn");
    }
}

#[tokio::test(start_paused = true)]
async fn quiet_time_counts_from_the_last_pod_that_came_or_went() {
    let world = World::start().await;
    let uid = occupied(&world, "a").await;
    let patch = json!({ "spec": { "disruption": { "consolidateAfter": "5m" } } });
    world.patch(KARPENTER, "NodePool", "", "default", patch).await;
    seconds(600).await;
    world.delete("v1", "Pod", "default", "pod-a").await;
    seconds(290).await;
    assert!(world.condition("a", "Consolidatable").await.is_none());
    world.until("all is gone", 120, || world.is_gone("a", &uid)).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_during_the_second_thoughts_keeps_its_node() {
    let world = World::start().await;
    budgets(&world, json!([{ "nodes": "0" }])).await;
    world.machine("a", &json!({})).await;
    world.machine("b", &json!({})).await;
    seconds(30).await;
    budgets(&world, json!([{ "nodes": "100%" }])).await;
    // the loop looks every ten seconds and then waits fifteen
    seconds(14).await;
    world.pod("late", "a", &json!({})).await;
    world
        .until("the other has gone", 120, || async { world.claim("b").await.is_none() })
        .await;
    seconds(60).await;
    assert!(!world.is_tainted("a").await, "a is not empty any more");
    assert!((world.metrics.disruption.failed_validations.get(["empty"]) - 1.0).abs() < 1e-9);
}

#[tokio::test(start_paused = true)]
async fn the_annotation_on_a_node_keeps_it_until_it_goes() {
    let world = World::start().await;
    let uid = occupied(&world, "a").await;
    world.patch("v1", "Node", "", "a", protected()).await;
    world.delete("v1", "Pod", "default", "pod-a").await;
    seconds(120).await;
    assert!(!world.is_tainted("a").await);
    let told = world.events("DisruptionBlocked", "a").await;
    assert!(told.contains(&"Disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation".to_owned()));
    let lift = json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": null } } });
    world.patch("v1", "Node", "", "a", lift).await;
    world.until("all is gone", 120, || world.is_gone("a", &uid)).await;
}

#[tokio::test(start_paused = true)]
async fn marks_that_a_former_process_left_are_taken_back() {
    let world = World::start().await;
    occupied(&world, "a").await;
    let taint = json!({ "spec": { "taints": [{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }] } });
    world.patch("v1", "Node", "", "a", taint).await;
    world
        .until("the taint is taken back", 30, || async { !world.is_tainted("a").await })
        .await;
    assert!(world.claim("a").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_waits_for_its_machine_stops_nobody() {
    use karpenter::cloud::fake::Attaching;
    let world = World::start().await;
    let uid = occupied(&world, "a").await;
    world.provider.set_attaching(Attaching::WhenTold);
    let class = json!({ "group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default" });
    let waiting = json!({
        "metadata": { "name": "waiting", "labels": { "karpenter.sh/nodepool": "default" } },
        "spec": { "nodeClassRef": class, "requirements": [{ "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["t1"] }] },
    });
    world.create(KARPENTER, "NodeClaim", waiting).await;
    world.delete("v1", "Pod", "default", "pod-a").await;
    world.until("all is gone", 120, || world.is_gone("a", &uid)).await;
    assert_eq!(world.condition("waiting", "Launched").await.as_deref(), Some("Unknown"));
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_changed_drifts_its_claims() {
    let world = World::start().await;
    occupied(&world, "a").await;
    let arm = json!({ "spec": { "template": { "spec": { "requirements": [{ "key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"] }] } } } });
    world.patch(KARPENTER, "NodePool", "", "default", arm).await;
    world
        .until("it is marked", 30, || async {
            world.condition("a", "Drifted").await.as_deref() == Some("True")
        })
        .await;
    let any = json!({ "spec": { "template": { "spec": { "requirements": [{ "key": "kubernetes.io/arch", "operator": "Exists" }] } } } });
    world.patch(KARPENTER, "NodePool", "", "default", any).await;
    world
        .until("the mark is taken away", 30, || async {
            world.condition("a", "Drifted").await.is_none()
        })
        .await;
}

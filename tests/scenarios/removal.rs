//! Servers that users, or their own age, send away: pods move first, and what is left is given back (lifecycle 7).

use super::manifests::{deployment, node_class, node_pool, of_app, pod, with};
use crate::support::picture::{Picture, name, uid};
use crate::support::stage::Stage;
use serde_json::json;

/// Two pods on one server.
async fn settle<S: Stage>(stage: &mut S, expire_after: &str) -> Picture {
    let corner = stage.corner().to_owned();
    stage.apply(&node_class(&corner, "P80")).await;
    let pool = node_pool(&corner, "", &["spot"]);
    stage
        .apply(&with(pool, "spec.template.spec.expireAfter", json!(expire_after)))
        .await;
    stage.apply(&deployment("web", 2, &pod(&corner, "500m", "512Mi"))).await;
    let settled = stage.running(2).await;
    assert_eq!(settled.claims.len(), 1, "{settled}");
    settled
}

fn is_replaced(picture: &Picture, old: &str) -> bool {
    let gone =
        picture.claims.iter().all(|claim| uid(claim) != old) && picture.pools.iter().all(|pool| pool.meta.name != old);
    gone && picture.pods.len() == 2 && picture.running().count() == 2
}

pub async fn a_claim_that_somebody_deletes_is_drained<S: Stage>(stage: &mut S) {
    let settled = settle(stage, "Never").await;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": of_app("web")},
    });
    stage.apply(&budget).await;
    stage.until_budgeted("web", 1).await;
    let old = uid(&settled.claims[0]);
    stage.delete("NodeClaim", name(&settled.claims[0])).await;
    // Pods of a deployment run on while others are evicted: never is nobody there.
    let moved = stage
        .until_while(
            "both pods run on another server, and the old one is gone",
            |picture| is_replaced(picture, &old),
            "one pod runs at any time",
            |picture| picture.running().count() >= 1,
        )
        .await;
    assert_eq!(moved.orders.len(), 2, "{moved}");
    stage.scale("Deployment", "web", 0).await;
    stage.nothing_left().await;
}

pub async fn an_expired_server_is_replaced<S: Stage>(stage: &mut S) {
    let settled = settle(stage, "40s").await;
    let old = uid(&settled.claims[0]);
    stage
        .until("both pods run on another server, and the old one is gone", |picture| {
            is_replaced(picture, &old)
        })
        .await;
    stage.scale("Deployment", "web", 0).await;
    stage.nothing_left().await;
}

pub async fn a_deleted_node_pool_takes_its_servers_along<S: Stage>(stage: &mut S) {
    let settled = settle(stage, "Never").await;
    let corner = stage.corner().to_owned();
    stage.delete("NodePool", &corner).await;
    let left = stage.nothing_left().await;
    assert_eq!(left.orders, settled.orders, "{left}");
    let pools = stage.objects("NodePool").await;
    assert!(pools.iter().all(|pool| name(pool) != corner), "the NodePool stayed");
}

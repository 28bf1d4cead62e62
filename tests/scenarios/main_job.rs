//! Pending pods become servers, and go away again.

use super::manifests::{deployment, node_class, node_pool, pod};
use crate::support::picture::{Picture, condition, uid};
use crate::support::stage::Stage;
use sandbox::spot::PoolKind;
use std::collections::BTreeSet;

pub async fn one_spot_server<S: Stage>(stage: &mut S) {
    up_and_down(stage, PoolKind::Spot, 1).await;
}

pub async fn many_spot_servers<S: Stage>(stage: &mut S) {
    up_and_down(stage, PoolKind::Spot, 8).await;
}

pub async fn one_on_demand_server<S: Stage>(stage: &mut S) {
    up_and_down(stage, PoolKind::OnDemand, 1).await;
}

pub async fn many_on_demand_servers<S: Stage>(stage: &mut S) {
    up_and_down(stage, PoolKind::OnDemand, 8).await;
}

async fn up_and_down<S: Stage>(stage: &mut S, kind: PoolKind, replicas: u32) {
    let capacity_type = match kind {
        PoolKind::Spot => "spot",
        PoolKind::OnDemand => "on-demand",
    };
    let corner = stage.corner().to_owned();
    stage.apply(&node_class(&corner, "P80")).await;
    stage.apply(&node_pool(&corner, "", &[capacity_type])).await;
    stage
        .apply(&deployment("web", replicas, &pod(&corner, "1", "1Gi")))
        .await;
    stage.running(usize::try_from(replicas).unwrap()).await;
    // A pod may run a moment before its node counts as initialized.
    let up = stage
        .until("all claims are ready", |picture| {
            picture.claims.iter().all(|claim| condition(claim, "Ready").0 == "True")
        })
        .await;
    is_whole(&up, kind);
    assert!(
        up.claim_labels("karpenter.sh/capacity-type")
            .iter()
            .all(|it| *it == capacity_type)
    );

    stage.scale("Deployment", "web", 0).await;
    let down = stage.nothing_left().await;
    assert_eq!(down.orders, up.orders, "something was ordered while nothing was needed");
}

/// Each claim has its one pool of the right kind, and its node, and says so.
fn is_whole(picture: &Picture, kind: PoolKind) {
    let claims: BTreeSet<String> = picture.claims.iter().map(uid).collect();
    let ordered: Vec<&str> = picture.orders.iter().map(|order| order.pool.as_str()).collect();
    assert_eq!(ordered.len(), claims.len(), "one order for each claim\n{picture}");
    for order in &picture.orders {
        assert!(
            claims.contains(&order.pool),
            "a pool without a claim: {order:?}\n{picture}"
        );
        assert_eq!(order.kind, kind, "{order:?}");
        assert_eq!(order.bid.is_some(), kind == PoolKind::Spot, "{order:?}");
    }
    for claim in &picture.claims {
        for step in ["Launched", "Registered", "Initialized"] {
            assert_eq!(condition(claim, step).0, "True", "{step}\n{picture}");
        }
        let node = picture
            .nodes
            .iter()
            .find(|node| node["metadata"]["name"] == claim["status"]["nodeName"]);
        let node = node.unwrap_or_else(|| panic!("a claim without its node\n{picture}"));
        assert_eq!(node["spec"]["providerID"], claim["status"]["providerID"]);
        assert!(
            node["spec"]["providerID"]
                .as_str()
                .unwrap()
                .starts_with("openstack:///")
        );
        assert_eq!(node["metadata"]["labels"]["karpenter.sh/registered"], "true");
    }
}

pub async fn mixed_shapes<S: Stage>(stage: &mut S) {
    let corner = stage.corner().to_owned();
    stage.apply(&node_class(&corner, "P80")).await;
    stage.apply(&node_pool(&corner, "", &["spot", "on-demand"])).await;
    for (name, replicas, cpu, memory) in [
        ("small", 4, "250m", "256Mi"),
        ("broad", 2, "6", "1Gi"),
        ("deep", 1, "500m", "40Gi"),
    ] {
        stage
            .apply(&deployment(name, replicas, &pod(&corner, cpu, memory)))
            .await;
    }
    let up = stage.running(7).await;
    let classes: BTreeSet<&str> = up
        .claim_labels("node.kubernetes.io/instance-type")
        .into_iter()
        .collect();
    assert!(!classes.is_empty(), "{up}");
    for name in ["small", "broad", "deep"] {
        stage.scale("Deployment", name, 0).await;
    }
    stage.nothing_left().await;
}

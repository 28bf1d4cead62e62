//! Pending pods become servers, and go away again.

use super::manifests::{deployment, node_class, node_pool, of_classes, pod};
use crate::support::picture::{Picture, condition, uid};
use crate::support::stage::Stage;
use sandbox::spot::PoolKind;
use std::collections::BTreeSet;

pub async fn one_pod_on_spot<S: Stage>(stage: &mut S) {
    up_and_down(stage, PoolKind::Spot, 1).await;
}

pub async fn many_pods_on_spot<S: Stage>(stage: &mut S) {
    up_and_down(stage, PoolKind::Spot, 8).await;
}

pub async fn one_pod_on_demand<S: Stage>(stage: &mut S) {
    up_and_down(stage, PoolKind::OnDemand, 1).await;
}

pub async fn many_pods_on_demand<S: Stage>(stage: &mut S) {
    up_and_down(stage, PoolKind::OnDemand, 8).await;
}

async fn up_and_down<S: Stage>(stage: &mut S, kind: PoolKind, replicas: u32) {
    let capacity_type = match kind {
        PoolKind::Spot => "spot",
        PoolKind::OnDemand => "on-demand",
    };
    let corner = stage.corner().to_owned();
    stage.apply(&node_class(&corner, "P80")).await;
    // Three of the pods fill one server of this class.
    let pool = of_classes(node_pool(&corner, "", &[capacity_type]), &["ch.vs1.large-iad"]);
    stage.apply(&pool).await;
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
    assert_eq!(up.claims.len(), usize::try_from(replicas.div_ceil(3)).unwrap(), "{up}");
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

// scheduling 14: large pods first, so that small ones fill what they leave
pub async fn mixed_shapes<S: Stage>(stage: &mut S) {
    let corner = stage.corner().to_owned();
    stage.apply(&node_class(&corner, "P80")).await;
    // Two of the broad ones to a server, and whichever server is ready first has room for all that kube-scheduler may put there: nothing has to be bought
    // for pods that were bound elsewhere than planned.
    let shapes = [
        ("small", 6, "250m", "256Mi"),
        ("broad", 3, "6", "1Gi"),
        ("deep", 2, "500m", "50Gi"),
    ];
    for (name, replicas, cpu, memory) in shapes {
        stage
            .apply(&deployment(name, replicas, &pod(&corner, cpu, memory)))
            .await;
    }
    // The NodePool comes after the pods, so that one pass sees them all.
    stage.until("all pods wait", |picture| picture.pods.len() == 11).await;
    stage.apply(&node_pool(&corner, "", &["spot"])).await;
    let up = stage.running(11).await;
    let mut classes = up.claim_labels("node.kubernetes.io/instance-type");
    classes.sort_unstable();
    assert_eq!(classes, ["ch.vs1.2xlarge-iad", "mh.vs1.2xlarge-iad"], "{up}");
    for (name, ..) in shapes {
        stage.scale("Deployment", name, 0).await;
    }
    stage.nothing_left().await;
}

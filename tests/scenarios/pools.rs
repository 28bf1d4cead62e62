//! What NodePools say: taints, weights, limits; and the daemons that come with every node (issue 4 §4).

use super::manifests::{CORNER, daemon_set, deployment, node_class, node_pool, pod, with};
use crate::support::picture::name;
use crate::support::stage::Stage;
use serde_json::json;
use std::time::Duration;

const NODE_POOL: &str = "karpenter.sh/nodepool";

pub async fn taints_keep_out_who_does_not_tolerate_them<S: Stage>(stage: &mut S) {
    let corner = stage.corner().to_owned();
    let taint = json!({"key": "dedicated", "value": "special", "effect": "NoSchedule"});
    let tainted = with(
        node_pool(&corner, "tainted", &["spot"]),
        "spec.template.spec.taints",
        json!([taint]),
    );
    // The tainted pool would be tried first.
    stage.apply(&node_class(&corner, "P80")).await;
    stage.apply(&with(tainted, "spec.weight", json!(50))).await;
    stage.apply(&node_pool(&corner, "plain", &["spot"])).await;
    stage
        .apply(&deployment("plain", 2, &pod(&corner, "500m", "512Mi")))
        .await;
    let toleration = json!([{"key": "dedicated", "operator": "Exists"}]);
    let mut special = with(pod(&corner, "500m", "512Mi"), "tolerations", toleration);
    special["nodeSelector"][NODE_POOL] = format!("{corner}-tainted").into();
    stage.apply(&deployment("special", 2, &special)).await;

    let up = stage.running(4).await;
    let (plain, tainted) = (format!("{corner}-plain"), format!("{corner}-tainted"));
    assert_eq!(up.places("plain", NODE_POOL), [Some(&*plain); 2], "{up}");
    assert_eq!(up.places("special", NODE_POOL), [Some(&*tainted); 2], "{up}");
    let carries = |node: &serde_json::Value| {
        let taints = node["spec"]["taints"].as_array();
        taints.into_iter().flatten().any(|one| one["key"] == "dedicated")
    };
    for node in &up.nodes {
        let expected = node["metadata"]["labels"][NODE_POOL] == tainted;
        assert_eq!(carries(node), expected, "{}\n{up}", name(node));
    }
}

pub async fn daemons_get_room<S: Stage>(stage: &mut S) {
    let corner = stage.corner().to_owned();
    stage.apply(&node_class(&corner, "P80")).await;
    stage.apply(&node_pool(&corner, "", &["spot"])).await;
    // 1.5 CPUs can be had of a server with two: enough for the pod, not for both.
    stage.apply(&daemon_set("agent", &pod(&corner, "1", "128Mi"))).await;
    stage.apply(&deployment("web", 1, &pod(&corner, "1", "512Mi"))).await;
    let up = stage.running(2).await;
    assert_eq!(up.hosts("agent"), up.hosts("web"), "{up}");
    assert_eq!(up.orders.len(), 1, "{up}");
    // A node with nothing but daemons is empty.
    stage.scale("Deployment", "web", 0).await;
    stage.nothing_left().await;
}

pub async fn the_heavier_pool_is_used<S: Stage>(stage: &mut S) {
    let corner = stage.corner().to_owned();
    stage.apply(&node_class(&corner, "P80")).await;
    stage.apply(&node_pool(&corner, "light", &["spot"])).await;
    let heavy = with(node_pool(&corner, "heavy", &["on-demand"]), "spec.weight", json!(80));
    stage.apply(&heavy).await;
    stage
        .until_ready(&[&format!("{corner}-light"), &format!("{corner}-heavy")])
        .await;
    stage.apply(&deployment("web", 2, &pod(&corner, "500m", "512Mi"))).await;
    let up = stage.running(2).await;
    assert_eq!(
        up.places("web", NODE_POOL),
        [Some(&*format!("{corner}-heavy")); 2],
        "{up}"
    );
    assert_eq!(up.claims.len(), 1, "{up}");
}

pub async fn limits_hold_until_they_are_raised<S: Stage>(stage: &mut S) {
    let corner = stage.corner().to_owned();
    stage.apply(&node_class(&corner, "P80")).await;
    let limited = with(node_pool(&corner, "", &["spot"]), "spec.limits", json!({"cpu": "4"}));
    stage.apply(&limited).await;
    stage.apply(&deployment("web", 2, &pod(&corner, "3", "1Gi"))).await;
    stage
        .until("one of both pods runs", |picture| picture.running().count() == 1)
        .await;
    stage
        .meanwhile("there is one server", Duration::from_secs(5), |picture| {
            picture.orders.len() == 1 && picture.running().count() == 1
        })
        .await;
    let told = stage.objects("Event").await;
    let told = told.iter().filter(|event| event["reason"] == "FailedScheduling");
    let of_ours = |event: &&serde_json::Value| event.to_string().contains("karpenter");
    assert!(
        told.clone().any(|event| of_ours(&event)),
        "nobody said why: {:?}",
        told.collect::<Vec<_>>()
    );
    stage
        .patch("NodePool", &corner, &json!({"spec": {"limits": {"cpu": "8"}}}))
        .await;
    let up = stage.running(2).await;
    assert_eq!(up.orders.len(), 2, "{up}");
    assert!(
        up.nodes.iter().all(|node| node["metadata"]["labels"][CORNER] == corner),
        "{up}"
    );
}

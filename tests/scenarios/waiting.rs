//! Servers that are long in coming, or never come (`RACKSPACE_LAUNCH_TIMEOUT`).

use super::manifests::{deployment, node_class, node_pool, of_classes, pod};
use super::settings::NEVER;
use crate::support::picture::{condition, uid};
use crate::support::stage::Stage;
use chrono::TimeDelta;

/// What is taken when the first of [`NEVER`] does not deliver: dearer.
const OTHER: &str = "mh.vs1.medium-iad";

pub async fn a_slow_server_is_asked_for_once<S: Stage>(stage: &mut S) {
    let corner = stage.corner().to_owned();
    stage.apply(&node_class(&corner, "P80")).await;
    stage
        .apply(&of_classes(node_pool(&corner, "", &["spot"]), &["ch.vs1.large-iad"]))
        .await;
    stage.apply(&deployment("web", 2, &pod(&corner, "1", "1Gi"))).await;
    let waiting = |claim: &serde_json::Value| condition(claim, "Launched") == ("Unknown", "AwaitingServerAssignment");
    stage
        .until("a claim that waits for its server", |picture| {
            picture.claims.iter().any(waiting)
        })
        .await;
    let up = stage.running(2).await;
    assert_eq!((up.orders.len(), up.claims.len()), (1, 1), "{up}");
    stage.scale("Deployment", "web", 0).await;
    let down = stage.nothing_left().await;
    assert_eq!(down.orders.len(), 1, "{down}");
}

pub async fn a_class_that_never_delivers_is_given_up<S: Stage>(stage: &mut S) {
    let corner = stage.corner().to_owned();
    stage.apply(&node_class(&corner, "P80")).await;
    stage
        .apply(&of_classes(node_pool(&corner, "", &["spot"]), &[NEVER[0], OTHER]))
        .await;
    stage.apply(&deployment("web", 1, &pod(&corner, "500m", "512Mi"))).await;
    let waiting = stage
        .until("a pool of the class that never delivers", |picture| {
            picture.orders.first().is_some_and(|order| order.class == NEVER[0])
        })
        .await;
    let lost = waiting.orders[0].pool.clone();
    let gone = stage
        .until("claim and pool are gone", |picture| {
            let left = picture.pools.iter().any(|pool| pool.meta.name == lost);
            !left && picture.claims.iter().all(|claim| uid(claim) != lost)
        })
        .await;
    let waited = gone.at - gone.orders[0].at;
    assert!(
        waited >= TimeDelta::seconds(30) && waited < TimeDelta::seconds(60),
        "given up after {waited}\n{gone}"
    );
    let other = stage
        .until("the other class is asked for", |picture| {
            picture.orders.iter().any(|order| order.class == OTHER)
        })
        .await;
    assert_eq!(other.orders.len(), 2, "{other}");
    let up = stage.running(1).await;
    assert_eq!(up.orders.len(), 2, "{up}");
    stage.scale("Deployment", "web", 0).await;
    stage.nothing_left().await;
}

pub async fn others_are_served_meanwhile<S: Stage>(stage: &mut S) {
    let corner = stage.corner().to_owned();
    stage.apply(&node_class(&corner, "P80")).await;
    stage
        .apply(&of_classes(node_pool(&corner, "never", &["spot"]), &[NEVER[1]]))
        .await;
    stage
        .apply(&of_classes(node_pool(&corner, "other", &["spot"]), &[OTHER]))
        .await;
    let only = |pool: &str| {
        let mut pod = pod(&corner, "500m", "512Mi");
        pod["nodeSelector"]["karpenter.sh/nodepool"] = format!("{corner}-{pool}").into();
        pod
    };
    stage.apply(&deployment("stuck", 1, &only("never"))).await;
    let stuck = stage
        .until("a pool of the class that never delivers", |picture| {
            !picture.orders.is_empty()
        })
        .await;
    stage.apply(&deployment("other", 1, &only("other"))).await;
    let served = stage
        .until("the other pod runs", |picture| picture.running().count() == 1)
        .await;
    assert_eq!(served.hosts("other").len(), 1, "{served}");
    // Still the first try: nobody had to wait for it to end.
    let same = served.claims.iter().any(|claim| uid(claim) == stuck.orders[0].pool);
    assert!(same, "the claim that waits is gone already\n{served}");
    stage.scale("Deployment", "stuck", 0).await;
    stage.scale("Deployment", "other", 0).await;
    stage.nothing_left().await;
}

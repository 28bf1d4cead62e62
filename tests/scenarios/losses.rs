//! Servers that the platform, or somebody else, takes away.

use super::manifests::{deployment, node_class, node_pool, of_classes, pod};
use crate::support::picture::{Picture, uid};
use crate::support::stage::Stage;
use sandbox::spot::{Control, Price};

/// The cheaper of two classes that no other scenario uses, and the other.
const CLASSES: [&str; 2] = ["gp.vs1.2xlarge-iad", "gp.vs1.xlarge-iad"];

/// Two pods on one server of these classes, or of any; returns the claim's UID.
async fn settle<S: Stage>(stage: &mut S, capacity_type: &str, classes: Option<&[&str]>) -> String {
    let corner = stage.corner().to_owned();
    stage.apply(&node_class(&corner, "P80")).await;
    let pool = node_pool(&corner, "", &[capacity_type]);
    stage
        .apply(&classes.map_or(pool.clone(), |classes| of_classes(pool, classes)))
        .await;
    stage.apply(&deployment("web", 2, &pod(&corner, "500m", "512Mi"))).await;
    let settled = stage.running(2).await;
    assert_eq!(settled.claims.len(), 1, "{settled}");
    uid(&settled.claims[0])
}

/// One claim, another than this, has the only pool, and both pods run.
fn has_moved_from(picture: &Picture, lost: &str) -> bool {
    let others = picture.claims.iter().filter(|claim| uid(claim) != lost).count();
    let gone = others == picture.claims.len() && picture.pools.iter().all(|pool| pool.meta.name != lost);
    gone && others == 1 && picture.pools.len() == 1 && picture.pods.len() == 2 && picture.running().count() == 2
}

async fn moves_and_ends<S: Stage>(stage: &mut S, lost: &str) -> Picture {
    let what = "both pods run on another server, and nothing is left of the lost one";
    let moved = stage.until(what, |picture| has_moved_from(picture, lost)).await;
    stage.scale("Deployment", "web", 0).await;
    stage.nothing_left().await;
    moved
}

pub async fn a_pool_that_somebody_deletes_is_replaced<S: Stage>(stage: &mut S) {
    let lost = settle(stage, "on-demand", None).await;
    stage.control(Control::VanishPool { pool: lost.clone() });
    moves_and_ends(stage, &lost).await;
}

pub async fn a_server_taken_with_notice_is_replaced<S: Stage>(stage: &mut S) {
    let lost = settle(stage, "spot", Some(&CLASSES)).await;
    // Somebody pays more for this class now; the server goes when the notice is over.
    stage.control(Control::SetMarket {
        class: CLASSES[0].to_owned(),
        price: Price::mills(900),
    });
    let moved = moves_and_ends(stage, &lost).await;
    let taken: Vec<&str> = moved.orders.iter().map(|order| order.class.as_str()).collect();
    assert_eq!(
        taken, CLASSES,
        "the first class can no longer be had at what is bid for it\n{moved}"
    );
}

pub async fn a_server_taken_without_notice_is_replaced<S: Stage>(stage: &mut S) {
    let lost = settle(stage, "spot", None).await;
    stage.control(Control::Kill { pool: lost.clone() });
    let moved = moves_and_ends(stage, &lost).await;
    assert_eq!(moved.orders.len(), 2, "{moved}");
}

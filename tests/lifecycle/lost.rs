//! Servers that are taken, and servers too many (architecture §7.21).

use crate::world::{CLAIMS, Inside, MINUTE, condition, deployment, node_class, node_pool, of_classes};
use sandbox::spot::{Control, Distribution, Options};
use serde_json::{Value, json};
use std::time::Duration;

const LARGE: &str = "gp.vs1.large-iad";
const SECOND: Duration = Duration::from_secs(1);

/// One pod on one machine, whose node needs five minutes after its server.
async fn slow_to_join(seed: u64) -> Inside {
    one_pod(seed, |spot| spot.delays.join = Distribution::Fixed(300.0)).await
}

/// One pod that asks for one machine, on a platform with a change.
async fn one_pod(seed: u64, change: impl FnOnce(&mut Options)) -> Inside {
    let inside = Inside::start(seed, &[], |options| {
        options.spot = Options::short();
        change(&mut options.spot);
    })
    .await;
    inside
        .apply(&[
            node_class(),
            node_pool("default", &of_classes("spot", &[LARGE]), &json!({})),
        ])
        .await;
    inside.apply(&[deployment("web", 1, "3", &json!({}))]).await;
    inside
}

async fn launched(inside: &Inside) -> String {
    let is_launched = |claim: &Value| condition(claim, "Launched")["status"] == "True";
    inside
        .until("the server is there", 5 * MINUTE, |world| {
            world.values(CLAIMS).iter().any(is_launched)
        })
        .await;
    inside.world.values(CLAIMS)[0]["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The claim of the lost server goes with its pool, and the pod gets another.
async fn is_replaced(inside: &Inside, uid: &str) {
    inside
        .until("the claim goes", MINUTE, |_| inside.lives()[0].went.is_some())
        .await;
    assert!(
        !inside.world.pools().contains(&uid.to_owned()),
        "left alone, it would win again and be billed"
    );
    inside
        .until("the pod runs", 15 * MINUTE, |world| world.bound() == 1)
        .await;
    assert_eq!(inside.lives().len(), 2, "{:#?}", inside.lives());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_taken_before_its_node_joined_is_noticed_at_once() {
    let inside = slow_to_join(1).await;
    let uid = launched(&inside).await;
    inside.control(Control::Kill { pool: uid.clone() });
    is_replaced(&inside, &uid).await;
    inside.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_taken_before_its_node_joined_while_no_operator_runs_is_noticed_after_the_restart() {
    let mut inside = slow_to_join(2).await;
    let uid = launched(&inside).await;
    inside.kill().await;
    // lost for good: the bid does not win again
    inside
        .world
        .spot()
        .with(|platform| platform.options_mut().quirks.wins_again = false);
    inside.control(Control::Kill { pool: uid.clone() });
    inside.world.pass(30 * SECOND).await;
    inside.restart();
    is_replaced(&inside, &uid).await;
    inside.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_joins_before_its_server_is_shown_is_kept() {
    let inside = one_pod(3, |spot| {
        spot.quirks.node_before_key = true;
        spot.delays.attach = Distribution::Fixed(120.0);
        spot.delays.ready = Distribution::Fixed(60.0);
    })
    .await;
    inside
        .until("the pod runs", 10 * MINUTE, |world| world.bound() == 1)
        .await;
    inside.world.pass(5 * MINUTE).await;
    assert_eq!(
        (inside.lives().len(), inside.world.bound()),
        (1, 1),
        "{:#?}",
        inside.lives()
    );
    inside.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_server_in_a_pool_never_becomes_the_node_of_its_claim() {
    let inside = Inside::short(4).await;
    inside
        .apply(&[
            node_class(),
            node_pool("default", &of_classes("spot", &[LARGE]), &json!({})),
        ])
        .await;
    inside.apply(&[deployment("web", 1, "3", &json!({}))]).await;
    inside
        .until("the pod runs", 10 * MINUTE, |world| world.bound() == 1)
        .await;
    let before = inside.world.values(CLAIMS).remove(0);
    let uid = before["metadata"]["uid"].as_str().unwrap();
    // somebody asks for one more in the console
    inside.world.spot().with(|platform| {
        let path = format!(
            "/apis/ngpc.rxt.io/v1/namespaces/{}/spotnodepools/{uid}",
            platform.options().account.namespace()
        );
        let call = platform.call("PATCH", &path, &json!({ "spec": { "desired": 2 } }));
        let now = platform.now();
        assert_eq!(platform.answer(now, &call).code, 200);
    });
    inside
        .until("a second node", 10 * MINUTE, |world| world.ready_nodes() == 2)
        .await;
    inside.world.pass(2 * MINUTE).await;
    let after = inside.world.values(CLAIMS).remove(0);
    for field in ["providerID", "nodeName"] {
        assert_eq!(after["status"][field], before["status"][field], "{field}");
    }
    assert_eq!(condition(&after, "Registered")["status"], "True");
    assert_eq!(inside.lives().len(), 1);
    inside.end().await;
}

//! What users are told when machines cannot be had, and that trouble with one machine is nobody else's.

use crate::world::{CLAIMS, Inside, MINUTE, condition, deployment, node_class, node_pool, of_classes, on_pool};
use axum::extract::Request;
use axum::routing::get;
use axum::{Json, Router};
use http_body_util::BodyExt;
use sandbox::spot::{Control, Distribution, Fault, Options};
use sandbox::world::World;
use serde_json::{Value, json};
use tower::ServiceExt;

const LARGE: &str = "gp.vs1.large-iad";
const XLARGE: &str = "gp.vs1.xlarge-iad";

async fn with_delays(seed: u64, build: f64, join: f64) -> Inside {
    let inside = Inside::start(seed, &[], |options| {
        options.spot = Options::short();
        options.spot.delays.build = Distribution::Fixed(build);
        options.spot.delays.join = Distribution::Fixed(join);
    })
    .await;
    let pool = |name, class| node_pool(name, &of_classes("spot", &[class]), &json!({}));
    inside
        .apply(&[node_class(), pool("default", LARGE), pool("other", XLARGE)])
        .await;
    inside
}

/// The Launched conditions of all claims.
fn launches(world: &World) -> Vec<Value> {
    world
        .values(CLAIMS)
        .iter()
        .map(|claim| condition(claim, "Launched"))
        .collect()
}

fn says(condition: &Value, words: &str) -> bool {
    condition["message"].as_str().unwrap_or_default().contains(words)
}

#[tokio::test(start_paused = true)]
async fn a_revoked_token_is_said_on_class_and_pool_and_on_each_claim_that_waits() {
    let inside = with_delays(1, 1_200.0, 5.0).await;
    inside.apply(&[deployment("web", 2, "3", &on_pool("default"))]).await;
    inside
        .until("both are ordered", 2 * MINUTE, |world| world.pools().len() == 2)
        .await;
    inside.world.pass(MINUTE).await;
    assert!(launches(&inside.world).iter().all(|launched| says(launched, "bid of")));
    inside.control(Control::RevokeToken);
    inside.control(Control::EndTokens);
    inside
        .until("both claims say it", 2 * MINUTE, |world| {
            launches(world).iter().all(|launched| says(launched, "refresh token"))
        })
        .await;
    inside
        .until("the pool says it", 10 * MINUTE, |_| {
            let pool = inside.object("nodepools.karpenter.sh", "default");
            says(&condition(&pool, "NodeClassReady"), "refresh token")
        })
        .await;
    inside.control(Control::RestoreToken);
    inside
        .until("both pods run", 30 * MINUTE, |world| world.bound() == 2)
        .await;
    assert_eq!(inside.lives().len(), 2, "{:#?}", inside.lives());
    inside.end().await;
}

/// A platform that lists one class more, which costs nothing yet.
fn with_a_priceless_class(way: Router) -> Router {
    let straight = way.clone();
    let list = move |request: Request| async move {
        let response = straight.oneshot(request).await.unwrap();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let mut list: Value = serde_json::from_slice(&bytes).unwrap();
        let items = list["items"].as_array_mut().unwrap();
        let mut new = items
            .iter()
            .find(|class| class["metadata"]["name"] == LARGE)
            .unwrap()
            .clone();
        new["metadata"]["name"] = json!("new.vs9.large-iad");
        for (part, price) in [
            ("spec", "minBidPricePerHour"),
            ("spec", "onDemandPricing"),
            ("status", "spotPricing"),
        ] {
            new[part].as_object_mut().unwrap().remove(price);
        }
        items.push(new);
        Json(list)
    };
    Router::new()
        .route("/apis/ngpc.rxt.io/v1/serverclasses", get(list))
        .fallback_service(way)
}

// architecture §7.8
#[tokio::test(start_paused = true)]
async fn a_server_class_without_a_price_is_told_of_once() {
    let inside = Inside::behind(2, &[], |_| {}, with_a_priceless_class).await;
    inside.apply(&[node_class()]).await;
    inside.world.pass(30 * MINUTE).await;
    let told = inside.told("NoPrice", "default");
    assert_eq!(
        told,
        ["Server class new.vs9.large-iad is not offered: no price is known"]
    );
    let counts = inside
        .world
        .values("events")
        .into_iter()
        .filter(|event| event["reason"] == "NoPrice");
    assert!(counts.into_iter().all(|event| event["count"] == 1), "{told:?}");
    inside.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_order_that_is_told_to_wait_holds_up_no_other_claim() {
    let inside = with_delays(3, 5.0, 60.0).await;
    inside.apply(&[deployment("first", 1, "3", &on_pool("default"))]).await;
    inside
        .until("its server is there", 2 * MINUTE, |world| {
            launches(world).iter().any(|launched| launched["status"] == "True")
        })
        .await;
    inside.control(Control::Fault {
        method: Some("POST".into()),
        path: "nodepools".into(),
        times: 1_000,
        fault: Fault::TooMany { retry_after: 600 },
    });
    inside.apply(&[deployment("second", 1, "3", &on_pool("other"))]).await;
    inside
        .until("its claim", MINUTE, |world| world.claims().len() == 2)
        .await;
    let took = inside
        .until("the first runs", 5 * MINUTE, |world| world.bound() == 1)
        .await;
    assert!(took < 2 * MINUTE, "{took:?}");
    inside
        .until("the second says why not", 2 * MINUTE, |world| {
            launches(world)
                .iter()
                .any(|launched| launched["reason"] == "LaunchFailed" && says(launched, "no answer"))
        })
        .await;
    inside.end().await;
}

// lifecycle 8.2
#[tokio::test(start_paused = true)]
async fn a_node_much_smaller_than_what_was_paid_for_is_told_of() {
    let inside = with_delays(4, 2.0, 2.0).await;
    inside.apply(&[deployment("web", 1, "1", &on_pool("default"))]).await;
    inside.until("it runs", 5 * MINUTE, |world| world.bound() == 1).await;
    let consistent = |inside: &Inside| condition(&inside.world.values(CLAIMS)[0], "ConsistentStateFound");
    inside
        .until("it is found in order", MINUTE, |_| {
            consistent(&inside)["status"] == "True"
        })
        .await;
    let claim = inside.world.values(CLAIMS).remove(0);
    let name = claim["metadata"]["name"].as_str().unwrap();
    let patch = json!({ "status": { "capacity": { "cpu": "40" } } });
    let claims = kube::core::ApiResource::erase::<karpenter::api::NodeClaim>(&());
    let claims = kube::Api::<kube::core::DynamicObject>::all_with(inside.world.client(), &claims);
    let patch = kube::api::Patch::Merge(patch);
    claims
        .patch_status(name, &kube::api::PatchParams::default(), &patch)
        .await
        .unwrap();
    inside
        .until("it is told", 11 * MINUTE, |_| consistent(&inside)["status"] == "False")
        .await;
    assert_eq!(
        inside.told("FailedConsistencyCheck", name),
        ["expected 40 of resource cpu, but found 4 (10.0% of expected)"]
    );
    inside.end().await;
}

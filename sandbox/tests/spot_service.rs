//! The platform in motion under a paused clock: the router as a tower service, webhooks, time-outs. No sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

use axum::body::Body;
use axum::http::{Request, Response, header};
use chrono::{DateTime, TimeDelta, Utc};
use karpenter::clock::{SharedClock, TokioClock};
use sandbox::spot::{
    Admin, Control, Delays, Distribution, Fault, Options, Outcome, Platform, Spot, WebhookSender, WebhookServer,
    WebhookShape,
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const NS: &str = "/apis/ngpc.rxt.io/v1/namespaces/org-knyiltp8zznvkz5g";
const POOL: &str = "7f3b0c52-4c1e-4f0e-9a55-0d2f6a1b9c11";

type Heard = Arc<Mutex<Vec<(DateTime<Utc>, String, Value)>>>;

fn start() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

struct World {
    spot: Spot,
    clock: SharedClock,
    heard: Heard,
    stop: CancellationToken,
}

/// A running platform whose webhook receiver refuses so many times before it accepts.
fn world(mut options: Options, refusals: usize) -> World {
    let clock: SharedClock = Arc::new(TokioClock::starting_at(start()));
    options.delays = Delays {
        build: Distribution::Fixed(100.0),
        join: Distribution::Fixed(30.0),
        ..options.delays
    };
    options.account.cloudspaces[0].webhook = Some("http://receiver/secret".into());
    let spot = Spot::new(options, clock.clone(), Admin::Served);
    let heard: Heard = Heard::default();
    let (log, now) = (heard.clone(), clock.clone());
    let sender: WebhookSender = Arc::new(move |url, body| {
        let mut log = log.lock().unwrap();
        log.push((now.now(), url, body));
        let accepted = log.len() > refusals;
        Box::pin(async move { accepted })
    });
    let stop = CancellationToken::new();
    tokio::spawn({
        let (spot, stop) = (spot.clone(), stop.clone());
        async move { spot.run(sender, stop).await }
    });
    World {
        spot,
        clock,
        heard,
        stop,
    }
}

async fn ask(spot: &Spot, method: &str, path: &str, body: &Value) -> Response<Body> {
    let bearer = spot.with(Platform::authorization);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::AUTHORIZATION, bearer)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()))
        .unwrap();
    spot.router().oneshot(request).await.unwrap()
}

async fn json_of(response: Response<Body>) -> Value {
    serde_json::from_slice(&axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap()).unwrap()
}

async fn create(spot: &Spot) {
    let body = json!({"metadata": {"name": POOL}, "spec": {"serverClass": "mh.vs1.large-iad", "desired": 1, "cloudSpace": "sandbox", "bidPrice": "0.01"}});
    assert_eq!(
        ask(spot, "POST", &format!("{NS}/spotnodepools"), &body).await.status(),
        201
    );
}

fn seconds(at: DateTime<Utc>) -> i64 {
    (at - start()).num_seconds()
}

#[tokio::test(start_paused = true)]
async fn the_webhook_is_called_at_the_notice_and_tried_three_times_five_seconds_apart() {
    // rows 16, 18
    let world = world(Options::default(), 99);
    create(&world.spot).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    world
        .spot
        .with(|platform| platform.control(Control::Preempt { pool: POOL.into() }));
    let server = world.spot.with(|platform| platform.servers_of(POOL)[0].clone());
    tokio::time::sleep(Duration::from_mins(1)).await;
    let heard = world.heard.lock().unwrap().clone();
    assert_eq!(
        heard.iter().map(|(at, _, _)| seconds(*at)).collect::<Vec<_>>(),
        [200, 205, 210]
    );
    let body = json!({"cloudspace": "sandbox", "Server": server.uuid, "IP": server.ip, "Time": "2027-01-15T08:03:20Z"});
    assert_eq!(
        (&heard[0].1, &heard[0].2),
        (&"http://receiver/secret".to_owned(), &body)
    );
    world
        .spot
        .with(|platform| assert_eq!(platform.deliveries()[0].outcome, Some(Outcome::GivenUp)));
    assert_eq!(server.dies_at, Some(start() + TimeDelta::seconds(560)));
    world.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn the_webhook_may_be_wrapped_for_slack_name_another_uuid_and_ring_on_release() {
    // rows 16, 17
    let mut options = Options::default();
    options.quirks.webhook_shape = WebhookShape::Slack;
    options.quirks.webhook_server = WebhookServer::Unrelated;
    options.quirks.webhook_on_release = true;
    let world = world(options, 1);
    create(&world.spot).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    let server = world.spot.with(|platform| platform.servers_of(POOL)[0].clone());
    ask(
        &world.spot,
        "DELETE",
        &format!("{NS}/spotnodepools/{POOL}"),
        &Value::Null,
    )
    .await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let heard = world.heard.lock().unwrap().clone();
    assert_eq!(heard.len(), 2, "refused once, then taken");
    let inner: Value = serde_json::from_str(heard[1].2["text"].as_str().unwrap()).unwrap();
    assert_eq!(inner["Server"], json!(server.internal_id));
    world.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_release_by_the_user_is_silent_by_default() {
    // row 17
    let world = world(Options::default(), 0);
    create(&world.spot).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    ask(
        &world.spot,
        "DELETE",
        &format!("{NS}/spotnodepools/{POOL}"),
        &Value::Null,
    )
    .await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(world.heard.lock().unwrap().is_empty());
    world.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn lost_answers_keep_the_caller_waiting_on_the_clock() {
    let world = world(Options::default(), 0);
    let fault = Control::Fault {
        method: None,
        path: "regions".into(),
        times: 1,
        fault: Fault::LostBefore,
    };
    world.spot.with(|platform| platform.control(fault));
    let before = world.clock.now();
    let response = ask(&world.spot, "GET", "/apis/ngpc.rxt.io/v1/regions", &Value::Null).await;
    assert_eq!(
        (response.status().as_u16(), (world.clock.now() - before).num_seconds()),
        (504, 120)
    );
    world.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_day_passes_in_the_running_platform_and_seeds_repeat() {
    async fn day() -> Value {
        let world = world(Options::default(), 0);
        create(&world.spot).await;
        tokio::time::sleep(Duration::from_hours(24)).await;
        world.stop.cancel();
        json_of(ask(&world.spot, "GET", "/_sandbox/summary", &Value::Null).await).await
    }
    let once = day().await;
    assert_eq!(once["auctions"], 8640);
    assert_eq!(once["servers"], 1);
    assert_eq!(once, day().await);
}

#[tokio::test(start_paused = true)]
async fn options_can_be_read_and_changed_over_the_admin_endpoint() {
    let world = world(Options::default(), 0);
    let spot = &world.spot;
    assert_eq!(
        ask(spot, "PATCH", "/_sandbox/options", &json!({"speed": 60}))
            .await
            .status(),
        200
    );
    assert_eq!(
        json_of(ask(spot, "GET", "/_sandbox/options", &Value::Null).await).await["speed"],
        60
    );
    assert_eq!(
        ask(spot, "PATCH", "/_sandbox/options", &json!({"sped": 60}))
            .await
            .status(),
        400
    );
    let control = json!({"do": "setMarket", "class": "mh.vs1.large-iad", "price": "0.42"});
    assert_eq!(ask(spot, "POST", "/_sandbox/control", &control).await.status(), 200);
    let class = json_of(
        ask(
            spot,
            "GET",
            "/apis/ngpc.rxt.io/v1/serverclasses/mh.vs1.large-iad",
            &Value::Null,
        )
        .await,
    )
    .await;
    assert_eq!(class["status"]["spotPricing"]["marketPricePerHour"], "0.420000");
    let hidden = Spot::new(Options::default(), world.clock.clone(), Admin::Hidden);
    assert_eq!(
        ask(&hidden, "GET", "/_sandbox/options", &Value::Null).await.status(),
        404
    );
    world.stop.cancel();
}

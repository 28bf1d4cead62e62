//! NodeOverlays in the simulated world, with the gate on: what holds is seen in claims, what does not is told on the overlay (scheduling §26).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

use axum::body::Body;
use karpenter::cloud::spot::ServiceTransport;
use karpenter::operator::{Candidacy, FirstLogin, Listeners, Options, RunError, Setup, Solving, run};
use sandbox::world::{Crds, World};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_mins(45);
const OVERLAYS: &str = "nodeoverlays.karpenter.sh";
const PRICED: &str = "karpenter.sh/price-overlay-applied";
const ENLARGED: &str = "karpenter.sh/capacity-overlay-applied";

/// A world with our kinds, but for those named.
async fn world(without: &[&str]) -> World {
    let world = World::builder(5).crds(Crds::Absent).start().await.unwrap();
    for crd in karpenter::api::crd::all() {
        if !without.contains(&crd.kind().as_str()) {
            world.apply_value(&crd.manifest).await.unwrap();
        }
    }
    world
}

fn start(world: &World, gates: &str, stop: &CancellationToken) -> JoinHandle<Result<(), RunError>> {
    let environment = world.settings().with("FEATURE_GATES", gates);
    let setup = Setup {
        options: Options::read([], &environment).unwrap(),
        kube: world.client(),
        transport: Arc::new(ServiceTransport::<_, Body>::new(world.spot_router())),
        clock: Arc::clone(world.clock()),
        seed: 1,
        listeners: Listeners::off(),
        solving: Solving::Inline,
        candidacy: Candidacy::Alone,
        first_login: FirstLogin::Waived,
    };
    tokio::spawn(run(setup, stop.clone()))
}

async fn apply(world: &World, objects: &[Value]) {
    for object in objects {
        if let Err(error) = world.apply_value(object).await {
            panic!("{object}: {error:?}");
        }
    }
}

fn needed() -> Vec<Value> {
    let requirements = json!([{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] }]);
    let class = json!({ "group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "c" });
    let container = json!({ "name": "main", "image": "app:1", "resources": { "requests": { "cpu": "500m" } } });
    vec![
        json!({ "apiVersion": "karpenter.rackspace.com/v1", "kind": "RackspaceSpotNodeClass", "metadata": { "name": "c" },
            "spec": { "bidPercentile": "P80" } }),
        json!({ "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "p" },
            "spec": { "template": { "spec": { "nodeClassRef": class, "requirements": requirements, "expireAfter": "Never" } },
                "disruption": { "consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never" } } }),
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "app", "namespace": "default" }, "spec": { "containers": [container] } }),
    ]
}

fn overlay(name: &str, more: &Value) -> Value {
    let mut spec =
        json!({ "weight": 10, "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "Exists" }] });
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({ "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": { "name": name }, "spec": spec })
}

async fn the_pod_runs(world: &World) {
    let wait = world.wait_until("the pod has a node", LIMIT, |world| world.bound() == 1);
    if let Err(error) = wait.await {
        panic!("{error}");
    }
}

/// Status and reason of a condition of an overlay.
fn says(world: &World, name: &str, kind: &str) -> (String, String) {
    let overlays = world.values(OVERLAYS);
    let overlay = overlays
        .iter()
        .find(|overlay| overlay["metadata"]["name"] == name)
        .unwrap();
    let conditions = overlay["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions
        .into_iter()
        .find(|condition| condition["type"] == kind)
        .unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

fn annotation(world: &World, key: &str) -> Option<String> {
    let claims = world.values("nodeclaims.karpenter.sh");
    claims[0]["metadata"]["annotations"][key].as_str().map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn overlays_that_hold_are_seen_in_claims_and_the_others_say_why_they_do_not() {
    // surface §3.3, scheduling 26-7, 26-12
    let world = world(&[]).await;
    apply(&world, &needed()).await;
    let fuse = json!({ "capacity": { "smarter-devices/fuse": "1" } });
    let restricted = json!({ "requirements": [{ "key": "a", "operator": "NotIn", "values": ["b"] }, { "key": "x".repeat(80), "operator": "Exists" }] });
    apply(
        &world,
        &[
            overlay("b-dearer", &json!({ "priceAdjustment": "+10%" })),
            overlay("a-clashes", &json!({ "price": "3" })),
            overlay("fuses", &fuse),
            overlay("senseless", &restricted),
        ],
    )
    .await;
    let stop = CancellationToken::new();
    let task = start(&world, "NodeOverlay=true", &stop);
    the_pod_runs(&world).await;
    let truth = |name: &str, kind: &str| says(&world, name, kind).0;
    for held in ["b-dearer", "fuses"] {
        assert_eq!(
            (truth(held, "ValidationSucceeded"), truth(held, "Ready")),
            ("True".into(), "True".into())
        );
    }
    let refused = |name: &str| says(&world, name, "ValidationSucceeded");
    assert_eq!(refused("a-clashes"), ("False".into(), "Conflict".into()));
    assert_eq!(refused("senseless"), ("False".into(), "RuntimeValidation".into()));
    assert_eq!(truth("senseless", "Ready"), "False");
    assert_eq!(annotation(&world, PRICED).as_deref(), Some("true"));
    assert_eq!(annotation(&world, ENLARGED).as_deref(), Some("true"));
    let claims = world.values("nodeclaims.karpenter.sh");
    assert_eq!(
        claims[0]["status"]["allocatable"]["smarter-devices/fuse"], "1",
        "what the claim promises"
    );
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_overlays_change_nothing_and_are_told_nothing() {
    // scheduling 26-11
    let world = world(&[]).await;
    apply(&world, &needed()).await;
    apply(&world, &[overlay("dearer", &json!({ "priceAdjustment": "+10%" }))]).await;
    let stop = CancellationToken::new();
    let task = start(&world, "", &stop);
    the_pod_runs(&world).await;
    assert_eq!(annotation(&world, PRICED), None);
    assert_eq!(says(&world, "dearer", "ValidationSucceeded").0, "");
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn with_the_gate_and_without_the_kind_pods_are_served_all_the_same() {
    // architecture §7.22
    let world = world(&["NodeOverlay"]).await;
    apply(&world, &needed()).await;
    let stop = CancellationToken::new();
    let task = start(&world, "NodeOverlay=true", &stop);
    the_pod_runs(&world).await;
    assert_eq!(annotation(&world, PRICED), None);
    stop.cancel();
    task.await.unwrap().unwrap();
}

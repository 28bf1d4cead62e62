//! The operator in the simulated world, among objects and answers that nobody should write: the good ones are served all the same.

use super::unreadable::{name_of, unreadable};
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use k8s_openapi::api::core::v1::Event;
use karpenter::api::RackspaceSpotNodeClass;
use karpenter::cloud::spot::ServiceTransport;
use karpenter::cluster::entries::Reader;
use karpenter::k8s::kinds::{WatchedKind, WatchedKinds};
use karpenter::operator::{Candidacy, FirstLogin, Listeners, Options, RunError, Setup, Solving, run};
use sandbox::spot::{Control, Fault};
use sandbox::world::{Crds, World, WorldError};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_mins(45);

/// Whose schemas the API server holds objects against: ours, or none, as with definitions of a version that let everything in.
#[derive(Clone, Copy, PartialEq)]
enum Schemas {
    Ours,
    None,
}

async fn world(schemas: Schemas) -> World {
    let world = World::builder(3).crds(Crds::Absent).start().await.unwrap();
    for crd in karpenter::api::crd::all() {
        let mut manifest = crd.manifest.clone();
        let versions = manifest["spec"]["versions"].as_array_mut().unwrap();
        for version in versions.iter_mut().filter(|_| schemas == Schemas::None) {
            version["schema"] =
                json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
        }
        world.apply_value(&manifest).await.unwrap();
    }
    world
}

/// An operator of this world; the platform is reached through `way`.
struct Operator {
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Operator {
    fn start(world: &World, way: Router) -> Self {
        let setup = Setup {
            options: Options::read([], &world.settings()).unwrap(),
            kube: world.client(),
            transport: Arc::new(ServiceTransport::<_, Body>::new(way)),
            clock: Arc::clone(world.clock()),
            seed: 1,
            listeners: Listeners::off(),
            solving: Solving::Inline,
            candidacy: Candidacy::Alone,
            first_login: FirstLogin::Waived,
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(setup, stop.clone()));
        Self { stop, task }
    }

    async fn end(self) {
        assert!(!self.task.is_finished(), "the operator stopped: {:?}", self.task.await);
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

async fn apply(world: &World, objects: &[Value]) {
    for object in objects {
        if let Err(error) = world.apply_value(object).await {
            panic!("{object}: {error:?}");
        }
    }
}

fn node_pool(name: &str, class: &str, requirements: &Value) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": name },
        "spec": {
            "template": { "spec": {
                "nodeClassRef": { "group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": class },
                "requirements": requirements, "expireAfter": "Never",
            } },
            "disruption": { "consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{ "nodes": "10%" }] },
        },
    })
}

fn node_class(name: &str, percentile: &Value) -> Value {
    json!({ "apiVersion": "karpenter.rackspace.com/v1", "kind": "RackspaceSpotNodeClass", "metadata": { "name": name },
        "spec": { "bidPercentile": percentile } })
}

fn pod(name: &str, more: &Value) -> Value {
    let mut spec =
        json!({ "containers": [{ "name": "main", "image": "app:1", "resources": { "requests": { "cpu": "500m" } } }] });
    let fields = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(fields);
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" }, "spec": spec })
}

/// What the good half of each world is made of.
fn good() -> Vec<Value> {
    let on_demand = json!([{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "spot"] }]);
    vec![
        node_class("good", &json!("P80")),
        node_pool("good", "good", &on_demand),
        pod("good-a", &json!({})),
        pod("good-b", &json!({})),
    ]
}

fn runs(world: &World, name: &str) -> bool {
    let mut pods = world.values("pods").into_iter();
    pods.any(|pod| pod["metadata"]["name"] == name && pod["spec"]["nodeName"].is_string())
}

async fn the_good_ones_run(world: &World) {
    let wait = world.wait_until("both good pods have a node", LIMIT, |world| {
        runs(world, "good-a") && runs(world, "good-b")
    });
    if let Err(error) = wait.await {
        panic!("{error}");
    }
}

/// Kind and name of what events with this reason are about, and their words.
fn told(world: &World, reason: &str) -> Vec<(String, String)> {
    let events: Vec<Event> = world.objects("events");
    let mut told: Vec<_> = events
        .into_iter()
        .filter(|event| event.reason.as_deref() == Some(reason))
        .map(|event| {
            let about = event.involved_object;
            let name = format!("{} {}", about.kind.unwrap_or_default(), about.name.unwrap_or_default());
            (name, event.message.unwrap_or_default())
        })
        .collect();
    told.sort();
    told
}

fn condition(world: &World, plural: &str, name: &str, kind: &str) -> Value {
    let object = world
        .values(plural)
        .into_iter()
        .find(|object| object["metadata"]["name"] == name)
        .unwrap_or_default();
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions
        .into_iter()
        .find(|condition| condition["type"] == kind)
        .unwrap_or_default()
}

#[test]
fn an_object_of_each_watched_kind_with_a_field_of_the_wrong_type_is_refused_at_that_field() {
    let kinds = WatchedKinds::with([WatchedKind::class::<RackspaceSpotNodeClass>()]);
    let strange = unreadable();
    for kind in kinds.iter() {
        let (object, place) = strange
            .iter()
            .find(|(object, _)| object["kind"] == kind.label())
            .unwrap();
        let error = kind.read(&mut Reader::new(), object.clone()).unwrap_err();
        assert!(error.path.starts_with(place), "{}: {error}", kind.label());
    }
}

// architecture §8
#[tokio::test(start_paused = true)]
async fn an_object_of_each_kind_that_cannot_be_read_is_told_and_the_good_ones_are_served() {
    let world = world(Schemas::None).await;
    let mut stored = Vec::new();
    for (object, place) in unreadable() {
        let kind = object["kind"].as_str().unwrap().to_owned();
        match world.apply_value(&object).await {
            Ok(_) => stored.push((kind, place)),
            // The API server itself knows the built-in kinds.
            Err(WorldError::Refused { source, .. }) => {
                assert!(
                    matches!(*source, kube::Error::Api(ref status) if status.code == 400),
                    "{kind}: {source:?}"
                );
            }
            Err(error) => panic!("{kind}: {error:?}"),
        }
    }
    let ours = ["NodePool", "NodeClaim", "RackspaceSpotNodeClass"];
    assert!(
        ours.iter().all(|kind| stored.iter().any(|(other, _)| other == kind)),
        "{stored:?}"
    );
    apply(&world, &good()).await;
    let operator = Operator::start(&world, world.spot_router());
    the_good_ones_run(&world).await;
    let told = told(&world, "Unreadable");
    for (kind, place) in &stored {
        let name = format!("{kind} {}", name_of(kind));
        let words: Vec<_> = told.iter().filter(|(about, _)| *about == name).collect();
        assert_eq!(words.len(), 1, "{name} in {told:?}");
        assert!(words[0].1.contains(&format!("cannot read {place}")), "{:?}", words[0]);
    }
    assert_eq!(told.len(), stored.len(), "{told:?}");
    operator.end().await;
}

// architecture §8
#[tokio::test(start_paused = true)]
#[allow(clippy::too_many_lines)] // a table of objects and what their authors are told
async fn an_object_that_makes_no_sense_says_so_and_the_good_ones_are_served() {
    let world = world(Schemas::None).await;
    let near = json!([{ "key": "a", "operator": "Near", "values": ["b"] }]);
    let mut unlimited = node_pool("limit", "good", &json!([]));
    unlimited["spec"]["limits"] = json!({ "cpu": "ten" });
    let fields = json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n"] }] }]);
    let by_field = json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": fields } } } });
    let mut giant = pod("giant", &json!({}));
    giant["spec"]["containers"][0]["resources"]["requests"] =
        json!({ "cpu": "99999999999999999999999", "memory": "16Ei" });
    apply(
        &world,
        &[
            node_class("percentile", &json!("P95")),
            node_pool("operator", "good", &near),
            unlimited,
            node_pool("percentile", "percentile", &json!([])),
            node_pool("classless", "nowhere", &json!([])),
            pod("fields", &by_field),
            giant,
            pod(
                "claimless",
                &json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "nowhere" } }] }),
            ),
        ],
    )
    .await;
    apply(&world, &good()).await;
    let operator = Operator::start(&world, world.spot_router());
    the_good_ones_run(&world).await;
    for (plural, name, kind, words) in [
        (
            "nodepools.karpenter.sh",
            "operator",
            "ValidationSucceeded",
            "unknown operator \"Near\" for a",
        ),
        (
            "nodepools.karpenter.sh",
            "limit",
            "ValidationSucceeded",
            "invalid limit \"ten\" for cpu",
        ),
        (
            "nodepools.karpenter.sh",
            "classless",
            "NodeClassReady",
            "NodeClass not found",
        ),
        ("nodepools.karpenter.sh", "percentile", "NodeClassReady", "P95"),
        (
            "rackspacespotnodeclasses.karpenter.rackspace.com",
            "percentile",
            "ServerClassesDiscovered",
            "P95",
        ),
    ] {
        let said = condition(&world, plural, name, kind);
        assert_eq!(said["status"], "False", "{plural} {name}: {said}");
        assert!(
            said["message"].as_str().unwrap_or_default().contains(words),
            "{plural} {name}: {said}"
        );
    }
    let told = told(&world, "FailedScheduling");
    for (name, words) in [("fields", "matchFields"), ("giant", ""), ("claimless", "nowhere")] {
        let about = format!("Pod {name}");
        assert!(
            told.iter().any(|(of, said)| *of == about && said.contains(words)),
            "{name} in {told:?}"
        );
        assert!(!runs(&world, name), "{name} runs");
    }
    operator.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_feed_of_garbage_leaves_the_built_in_prices_and_the_good_ones_are_served() {
    let world = world(Schemas::Ours).await;
    apply(&world, &good()).await;
    let way = Router::new()
        .route(
            "/percentiles.json",
            get(|| async { "<Error><Code>AccessDenied</Code></Error>" }),
        )
        .fallback_service(world.spot_router());
    let operator = Operator::start(&world, way);
    the_good_ones_run(&world).await;
    operator.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_platform_that_answers_nonsense_for_a_while_is_asked_again_and_the_good_ones_are_served() {
    let world = world(Schemas::Ours).await;
    apply(&world, &good()).await;
    for (path, fault) in [
        ("/oauth/token", Fault::Garbage),
        ("organizations", Fault::Garbage),
        ("serverclasses", Fault::Garbage),
        ("cloudspaces", Fault::Garbage),
        ("nodepools", Fault::Garbage),
        ("nodepools", Fault::Error { code: 500 }),
        ("nodepools", Fault::TooMany { retry_after: u32::MAX }),
    ] {
        let control = Control::Fault {
            method: None,
            path: path.into(),
            times: 3,
            fault,
        };
        world.spot().with(|platform| platform.control(control));
    }
    let operator = Operator::start(&world, world.spot_router());
    the_good_ones_run(&world).await;
    operator.end().await;
}

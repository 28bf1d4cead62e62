//! The whole operator in the in-process world, on a paused clock and without a socket: it starts, sees what is there, says what it cannot read, and stops.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "operator/kills.rs"]
mod kills;
#[path = "operator/replicas.rs"]
mod replicas;
#[path = "operator/scene.rs"]
mod scene;
#[path = "operator/start.rs"]
mod start;

use axum::body::Body;
use chrono::DateTime;
use k8s_openapi::api::core::v1::Event;
use karpenter::clock::{SharedClock, TokioClock};
use karpenter::cloud::spot::ServiceTransport;
use karpenter::operator::{Candidacy, Environment, FirstLogin, Listeners, Options, RunError, Setup, Solving, run};
use kube::Api;
use sandbox::api::{ApiOptions, ApiServer, Verb};
use sandbox::spot::{Admin, Spot};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct World {
    api: ApiServer,
    stop: CancellationToken,
    operator: JoinHandle<Result<(), RunError>>,
}

impl World {
    /// An API server with our resources, a platform, an operator.
    async fn start(schemas: Schemas) -> Self {
        let epoch = DateTime::from_timestamp(1_750_000_000, 0).unwrap();
        let clock: SharedClock = Arc::new(TokioClock::starting_at(epoch));
        let api = ApiServer::new(Arc::clone(&clock), 1, ApiOptions::default());
        install_resources(&api, schemas).await;
        let spot = Spot::new(sandbox::spot::Options::default(), Arc::clone(&clock), Admin::Hidden);
        let environment = Environment::from([
            ("SPOT_CLOUDSPACE_NAME", "my-cloudspace"),
            ("SPOT_REFRESH_TOKEN", "token"),
        ]);
        let setup = Setup {
            options: Options::read([], &environment).unwrap(),
            kube: api.client(),
            transport: Arc::new(ServiceTransport::<_, Body>::new(spot.router())),
            clock,
            seed: 1,
            listeners: Listeners::off(),
            solving: Solving::Inline,
            candidacy: Candidacy::Alone,
            first_login: FirstLogin::Waived,
        };
        let stop = CancellationToken::new();
        let operator = tokio::spawn(run(setup, stop.clone()));
        Self { api, stop, operator }
    }

    /// Stops the operator and gives its result and how long it took.
    async fn end(self) -> (Result<(), RunError>, Duration) {
        let asked = tokio::time::Instant::now();
        self.stop.cancel();
        (self.operator.await.unwrap(), asked.elapsed())
    }
}

/// Which schemas the API server holds objects against.
#[derive(Clone, Copy, PartialEq)]
enum Schemas {
    Ours,
    /// Those of a version that let everything in.
    Lax,
}

async fn install_resources(api: &ApiServer, schemas: Schemas) {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    let resources: Api<CustomResourceDefinition> = Api::all(api.client());
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut resource: CustomResourceDefinition = serde_saphyr::from_str(&text).unwrap();
        for version in resource.spec.versions.iter_mut().filter(|_| schemas == Schemas::Lax) {
            let lax = serde_json::json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
            version.schema = Some(serde_json::from_value(lax).unwrap());
        }
        resources
            .create(&kube::api::PostParams::default(), &resource)
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn it_lists_and_watches_every_kind_once_and_stops_when_asked() {
    let world = World::start(Schemas::Ours).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let counts = world.api.request_counts();
    for kind in [
        "nodepools",
        "nodeclaims",
        "nodes",
        "pods",
        "rackspacespotnodeclasses",
        "poddisruptionbudgets",
        "volumeattachments",
    ] {
        let of = |verb: Verb| {
            counts
                .iter()
                .filter(|((v, r), _)| *v == verb && r.split('.').next() == Some(kind))
                .map(|(_, n)| *n)
                .sum::<u64>()
        };
        assert_eq!((of(Verb::List), of(Verb::Watch)), (1, 1), "{kind} in {counts:?}");
    }
    let (result, took) = world.end().await;
    result.unwrap();
    assert!(took < Duration::from_secs(1), "it took {took:?} to stop");
}

// architecture §8
#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_is_told_to_its_author_and_the_operator_goes_on() {
    let world = World::start(Schemas::Lax).await;
    let strange = serde_json::json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": "strange" },
        "spec": "whatever you like",
    });
    let pools = kube::core::ApiResource::erase::<karpenter::api::NodePool>(&());
    let pools = Api::<kube::core::DynamicObject>::all_with(world.api.client(), &pools);
    let strange = serde_json::from_value(strange).unwrap();
    pools.create(&kube::api::PostParams::default(), &strange).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!world.operator.is_finished());
    let events = Api::<Event>::namespaced(world.api.client(), "default");
    let events = events.list(&kube::api::ListParams::default()).await.unwrap();
    let told: Vec<_> = events
        .items
        .iter()
        .filter(|event| event.reason.as_deref() == Some("Unreadable"))
        .collect();
    assert_eq!(told.len(), 1, "{:?}", events.items);
    assert_eq!(told[0].involved_object.name.as_deref(), Some("strange"));
    world.end().await.0.unwrap();
}

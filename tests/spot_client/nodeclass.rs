//! The NodeClass controller against the simulated platform and the in-process API server.

use super::world::{CLASS, World};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter::api::{Conditioned, RackspaceSpotNodeClass, conditions};
use karpenter::cloud::Provider;
use karpenter::cluster::{Cluster, Delta, Key, Kind, Version};
use karpenter::controllers::nodeclass::NodeClassStatus;
use karpenter::k8s::client::{ApiClient, Limits};
use karpenter::k8s::cluster_task::{ClusterHandle, ClusterTask};
use karpenter::k8s::events::{Recorder, RecorderTask};
use karpenter::k8s::kinds::{WatchedKind, WatchedKinds};
use karpenter::k8s::leadership::Leadership;
use karpenter::k8s::metrics::BorderMetrics;
use karpenter::k8s::queue::{Next, Reconciler};
use karpenter::k8s::write::Writer;
use kube::api::{Api, DeleteParams, PostParams};
use sandbox::api::{ApiOptions, ApiServer};
use sandbox::spot::Control;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::test(start_paused = true)]
async fn a_class_becomes_ready_loses_it_with_its_token_gets_it_back_and_goes_when_the_watch_says_so() {
    // surface §3.4
    let world = World::new();
    let server = ApiServer::new(Arc::clone(&world.clock), 1, ApiOptions::default());
    let crds: Api<CustomResourceDefinition> = Api::all(server.client());
    for definition in karpenter::api::crd::all() {
        let crd = serde_json::from_value(definition.manifest).unwrap();
        crds.create(&PostParams::default(), &crd).await.unwrap();
    }
    let classes: Api<RackspaceSpotNodeClass> = Api::all(server.client());
    let mut class = RackspaceSpotNodeClass::default();
    class.metadata.name = Some("default".into());
    classes.create(&PostParams::default(), &class).await.unwrap();
    world.provider.node_classes().remove("default");

    let cloudspace = "sandbox".to_owned();
    let claim = world.claim(1, CLASS, "spot");
    let (cluster, writer, recorder, _stop) = borders(&world, &server);
    let provider = Arc::new(world.provider);
    let controller = NodeClassStatus::new(
        Arc::clone(&provider),
        cluster.clone(),
        writer,
        recorder,
        Arc::clone(&world.clock),
        cloudspace,
    );
    let name = "default".to_owned();

    controller.reconcile(&name).await.unwrap();
    let ready = classes.get("default").await.unwrap();
    assert!(ready.is_ready());
    assert_eq!(ready.status.unwrap().region.as_deref(), Some("us-east-iad-1"));
    provider.create(&claim).await.unwrap();

    world.spot.with(|p| p.control(Control::RevokeToken));
    world.spot.with(|p| p.control(Control::EndTokens));
    tokio::time::advance(Duration::from_mins(6)).await;
    controller.reconcile(&name).await.unwrap();
    let troubled = classes.get("default").await.unwrap();
    let condition = troubled.condition(conditions::SERVER_CLASSES_DISCOVERED).unwrap();
    assert!(
        condition.is_false() && condition.message.contains("refresh token"),
        "{condition:?}"
    );
    assert!(provider.readiness().is_err());

    world.spot.with(|p| p.control(Control::RestoreToken));
    tokio::time::advance(Duration::from_mins(1)).await;
    controller.reconcile(&name).await.unwrap();
    let ready = classes.get("default").await.unwrap();
    assert!(ready.is_ready());

    // One answer does not make it go; the watch does.
    classes.delete("default", &DeleteParams::default()).await.unwrap();
    let next = controller.reconcile(&name).await.unwrap();
    assert!(matches!(next, Next::After(_)), "{next:?}");
    assert!(provider.node_classes().get("default").is_some());
    let told = Delta::Deleted {
        kind: Kind::NodeClass,
        key: Key::of_class("RackspaceSpotNodeClass", "karpenter.rackspace.com", "default"),
        uid: ready.metadata.uid.unwrap().as_str().into(),
        version: Version::of(1_000),
    };
    cluster.observe(told).await.unwrap();
    assert_eq!(controller.reconcile(&name).await.unwrap(), Next::Done);
    assert!(provider.node_classes().get("default").is_none());
}

fn borders(world: &World, server: &ApiServer) -> (ClusterHandle, Writer, Recorder, tokio_util::sync::DropGuard) {
    let metrics = BorderMetrics::detached().unwrap();
    let limits = Limits { qps: 200.0, burst: 300 };
    let client = ApiClient::over(server.client(), limits, metrics.clone());
    let kinds = WatchedKinds::with([WatchedKind::class::<RackspaceSpotNodeClass>()]);
    let state = Cluster::new(
        kinds.sources(),
        Arc::new(|_: &std::collections::BTreeMap<String, String>| None),
        world.clock.now(),
    );
    let made = ClusterTask::new(state, Arc::clone(&world.clock), metrics.clone());
    let (recorder, task) = RecorderTask::new(client.clone(), Arc::clone(&world.clock), metrics);
    let stop = CancellationToken::new();
    tokio::spawn(task.run(stop.clone()));
    tokio::spawn(made.task.run(stop.clone()));
    let writer = Writer::new(
        client,
        Leadership::always(),
        made.handle.clone(),
        kinds,
        Arc::clone(&world.clock),
    );
    (made.handle, writer, recorder, stop.drop_guard())
}

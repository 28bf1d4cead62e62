//! Evictions and what the API server answers (lifecycle 14.5).

use crate::world::{World, seconds};
use k8s_openapi::api::core::v1::Pod;
use karpenter::k8s::evict::Eviction;
use karpenter::k8s::write::Target;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

async fn pod(world: &World, name: &str) -> Target {
    let object = json!({
        "metadata": { "name": name, "namespace": "default", "labels": { "app": name } },
        "spec": { "containers": [{ "name": "c", "image": "i" }], "nodeName": "n" },
    });
    let made = world.create("v1", "Pod", object).await;
    let status = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    let pods: Api<Pod> = Api::namespaced(world.api.client(), "default");
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    let text = |pointer: &str| made.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
    Target {
        namespace: Some("default".to_owned()),
        name: name.to_owned(),
        uid: text("/metadata/uid"),
        version: text("/metadata/resourceVersion"),
    }
}

async fn budget(world: &World, name: &str, app: &str) {
    let spec = json!({ "maxUnavailable": 0, "selector": { "matchLabels": { "app": app } } });
    let object = json!({ "metadata": { "name": name, "namespace": "default" }, "spec": spec });
    world.create("policy/v1", "PodDisruptionBudget", object).await;
    seconds(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_budget_is_asked_to_go() {
    let world = World::start().await;
    let free = pod(&world, "free").await;
    assert!(matches!(world.writer.evict(&free).await.unwrap(), Eviction::Accepted));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_or_another_one_is_no_failure() {
    let world = World::start().await;
    let one = pod(&world, "one").await;
    let other = Target {
        uid: "another".to_owned(),
        ..one.clone()
    };
    assert!(matches!(world.writer.evict(&other).await.unwrap(), Eviction::Gone));
    let missing = Target {
        name: "missing".to_owned(),
        ..one
    };
    assert!(matches!(world.writer.evict(&missing).await.unwrap(), Eviction::Gone));
}

#[tokio::test(start_paused = true)]
async fn a_budget_blocks_and_two_are_told_apart_from_one() {
    let world = World::start().await;
    let held = pod(&world, "held").await;
    budget(&world, "first", "held").await;
    assert!(matches!(
        world.writer.evict(&held).await.unwrap(),
        Eviction::BlockedByBudget { .. }
    ));
    budget(&world, "second", "held").await;
    assert!(matches!(
        world.writer.evict(&held).await.unwrap(),
        Eviction::SeveralBudgets
    ));
}

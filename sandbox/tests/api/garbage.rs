//! Owner references: what goes with its owner, when, and what stays.

use super::support::{code, object, with_options, world};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use sandbox::api::{ApiOptions, ApiServer, Garbage};
use serde_json::json;
use std::time::Duration;

async fn family(server: &ApiServer) -> Api<ConfigMap> {
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let owner = maps
        .create(&PostParams::default(), &object(json!({"metadata": {"name": "owner"}})))
        .await
        .unwrap();
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid, "blockOwnerDeletion": true}]);
    let child = json!({"metadata": {"name": "child", "ownerReferences": reference, "finalizers": ["a.io/wait"]}});
    maps.create(&PostParams::default(), &object(child)).await.unwrap();
    maps
}

async fn later() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

async fn release(maps: &Api<ConfigMap>) {
    let done = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("child", &PatchParams::default(), &done).await.unwrap();
    later().await;
}

#[tokio::test(start_paused = true)]
async fn in_the_background_the_owner_goes_first() {
    let server = world();
    let maps = family(&server).await;
    maps.delete("owner", &DeleteParams::background()).await.unwrap();
    assert_eq!(code(&maps.get("owner").await.unwrap_err()), 404);
    assert!(
        maps.get("child").await.unwrap().metadata.deletion_timestamp.is_none(),
        "the collector looks a moment later"
    );
    later().await;
    assert!(maps.get("child").await.unwrap().metadata.deletion_timestamp.is_some());
    release(&maps).await;
    assert_eq!(code(&maps.get("child").await.unwrap_err()), 404);
}

#[tokio::test(start_paused = true)]
async fn in_the_foreground_the_owner_waits_for_its_dependents() {
    let server = world();
    let maps = family(&server).await;
    maps.delete("owner", &DeleteParams::foreground()).await.unwrap();
    later().await;
    assert!(maps.get("owner").await.is_ok() && maps.get("child").await.unwrap().metadata.deletion_timestamp.is_some());
    release(&maps).await;
    assert_eq!(code(&maps.get("child").await.unwrap_err()), 404);
    assert_eq!(code(&maps.get("owner").await.unwrap_err()), 404);
}

#[tokio::test(start_paused = true)]
async fn orphans_stay() {
    let server = world();
    let maps = family(&server).await;
    maps.delete("owner", &DeleteParams::orphan()).await.unwrap();
    later().await;
    assert_eq!(code(&maps.get("owner").await.unwrap_err()), 404);
    let child = maps.get("child").await.unwrap().metadata;
    assert!(child.deletion_timestamp.is_none() && child.owner_references.is_none_or(|o| o.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_never_was_is_an_absent_one_unless_garbage_is_kept() {
    for (garbage, stays) in [(Garbage::Collected, false), (Garbage::Kept, true)] {
        let server = with_options(
            1,
            ApiOptions {
                garbage,
                ..ApiOptions::default()
            },
        );
        let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
        let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "11111111-1111-1111-1111-111111111111"}]);
        let child = json!({"metadata": {"name": "child", "ownerReferences": reference}});
        maps.create(&PostParams::default(), &object(child)).await.unwrap();
        later().await;
        assert_eq!(maps.get("child").await.is_ok(), stays);
    }
}

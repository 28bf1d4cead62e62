//! Watches: raw, and through kube's watcher for a simulated day.

use super::support::{code, install_crds, node_pool, node_pools, object, pod, seeded, world};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use karpenter::api::NodePool;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use sandbox::api::{ApiFaults, ApiServer, EventKind, Fault, FaultRule};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// The events of a raw watch until it ends, as short texts.
async fn told(api: &Api<Pod>, params: &WatchParams, from: &str) -> Vec<String> {
    let stream = api.watch(params, from).await.unwrap();
    let short = |event: WatchEvent<Pod>| match event {
        WatchEvent::Added(p) => format!("+{}", p.metadata.name.unwrap()),
        WatchEvent::Modified(p) => format!("~{}", p.metadata.name.unwrap()),
        WatchEvent::Deleted(p) => format!("-{}", p.metadata.name.unwrap()),
        WatchEvent::Bookmark(_) => "bookmark".to_owned(),
        WatchEvent::Error(status) => format!("error {} {}", status.code, status.reason),
    };
    stream.map_ok(short).try_collect().await.unwrap()
}

async fn label(pods: &Api<Pod>, name: &str, value: &str) {
    let patch = Patch::Merge(json!({"metadata": {"labels": {"l": value}}}));
    pods.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_what_enters_changes_and_leaves_its_selection() {
    let server = world();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    pods.create(&PostParams::default(), &object(pod("a"))).await.unwrap();
    let from = pods
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    label(&pods, "a", "x").await;
    label(&pods, "a", "x").await;
    pods.create(&PostParams::default(), &object(pod("b"))).await.unwrap();
    label(&pods, "b", "x").await;
    label(&pods, "a", "y").await;
    pods.delete("b", &DeleteParams::default()).await.unwrap();
    let all = WatchParams::default().timeout(5).disable_bookmarks();
    assert_eq!(
        told(&pods, &all, &from).await,
        ["~a", "+b", "~b", "~a", "-b"],
        "an equal write is no event"
    );
    assert_eq!(
        told(&pods, &all.clone().labels("l=x"), &from).await,
        ["+a", "+b", "-a", "-b"]
    );
    assert_eq!(
        told(&pods, &all.clone().fields("metadata.name=b"), &from).await,
        ["+b", "~b", "-b"]
    );
    assert_eq!(
        told(&pods, &all, "0").await,
        ["+a"],
        "without a revision it starts with what is there"
    );
}

#[tokio::test(start_paused = true)]
async fn watches_end_at_their_timeout_and_bookmarks_come_every_minute_and_just_before_it() {
    let server = world();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let from = pods
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    let started = Instant::now();
    assert_eq!(
        told(&pods, &WatchParams::default().timeout(200), &from).await,
        ["bookmark", "bookmark", "bookmark", "bookmark"]
    );
    assert_eq!(started.elapsed(), Duration::from_secs(200));
    let short = WatchParams::default().timeout(30);
    assert_eq!(told(&pods, &short, &from).await, ["bookmark"]);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_revision_is_410() {
    let server = world();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let from = pods
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    pods.create(&PostParams::default(), &object(pod("a"))).await.unwrap();
    server.compact();
    let params = WatchParams::default().timeout(5);
    assert_eq!(told(&pods, &params, &from).await, ["error 410 Expired"]);
    assert_eq!(code(&pods.watch(&params, "x").await.err().unwrap()), 400);
}

/// What a watcher saw of one run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    lists: u32,
    applied: u32,
    deleted: u32,
}

async fn a_day_of_watching(server: &ApiServer, config: watcher::Config) -> Seen {
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let writer = pods.clone();
    tokio::spawn(async move {
        for hour in 0..24 {
            let name = format!("p{hour}");
            writer
                .create(&PostParams::default(), &object(pod(&name)))
                .await
                .unwrap();
            tokio::time::sleep(Duration::from_mins(59)).await;
            writer.delete(&name, &DeleteParams::default()).await.unwrap();
            tokio::time::sleep(Duration::from_mins(1)).await;
        }
    });
    let mut seen = Seen::default();
    let stream =
        watcher(pods, config).take_until(tokio::time::sleep(Duration::from_hours(24) + Duration::from_secs(1)));
    let mut stream = std::pin::pin!(stream);
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::InitDone) => seen.lists += 1,
            Ok(Event::Apply(_) | Event::InitApply(_)) => seen.applied += 1,
            Ok(Event::Delete(_)) => seen.deleted += 1,
            Ok(Event::Init) => {}
            Err(error) => tracing::debug!(%error, "the watcher goes on"),
        }
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn the_watcher_of_kube_runs_a_day_with_one_list() {
    let server = world();
    let seen = a_day_of_watching(&server, watcher::Config::default()).await;
    assert_eq!(
        seen,
        Seen {
            lists: 1,
            applied: 24,
            deleted: 24
        },
        "bookmarks keep its revision young"
    );
    let server = world();
    let seen = a_day_of_watching(&server, watcher::Config::default().streaming_lists()).await;
    assert_eq!(
        seen,
        Seen {
            lists: 1,
            applied: 24,
            deleted: 24
        }
    );
}

#[tokio::test(start_paused = true)]
async fn dropped_watches_are_resumed_without_loss() {
    let server = seeded(7);
    server.set_faults(ApiFaults {
        rules: vec![FaultRule::new(
            Fault::DropWatch {
                within: Duration::from_mins(4),
            },
            0.5,
        )],
    });
    let seen = a_day_of_watching(&server, watcher::Config::default()).await;
    assert_eq!((seen.applied, seen.deleted), (24, 24));
    assert!(server.faults_met()["drop_watch"] > 20);
}

#[tokio::test(start_paused = true)]
async fn deletions_of_custom_objects_and_metadata_only_watches_are_told() {
    let server = world();
    install_crds(&server);
    let pools = node_pools(server.client());
    pools
        .create(&PostParams::default(), &serde_json::from_value(node_pool("p")).unwrap())
        .await
        .unwrap();
    let metadata: Api<PartialObjectMeta<NodePool>> = Api::all(server.client());
    let stream = watcher(metadata, watcher::Config::default());
    let mut stream = std::pin::pin!(stream);
    assert!(matches!(stream.next().await, Some(Ok(Event::Init))));
    let Some(Ok(Event::InitApply(first))) = stream.next().await else {
        panic!("the object is listed")
    };
    assert_eq!(first.metadata.name.as_deref(), Some("p"));
    assert!(matches!(stream.next().await, Some(Ok(Event::InitDone))));
    pools.delete("p", &DeleteParams::default()).await.unwrap();
    assert!(matches!(stream.next().await, Some(Ok(Event::Delete(_)))));
}

#[tokio::test(start_paused = true)]
async fn direct_followers_see_each_change_once() {
    let server = world();
    let handle = server.handle();
    let mut changes = handle.follow("configmaps").unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    maps.create(&PostParams::default(), &object(json!({"metadata": {"name": "m"}})))
        .await
        .unwrap();
    maps.delete("m", &DeleteParams::default()).await.unwrap();
    let kinds: Vec<EventKind> = changes.next().await.unwrap().iter().map(|e| e.kind).collect();
    assert_eq!(kinds, [EventKind::Added, EventKind::Deleted]);
    handle
        .create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}}))
        .unwrap();
    server.compact();
    assert_eq!(changes.next().await.unwrap_err().code, 410);
    assert_eq!(
        handle.get("configmaps", "default", "n").unwrap().value()["metadata"]["name"],
        "n"
    );
}

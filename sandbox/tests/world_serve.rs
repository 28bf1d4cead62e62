//! `sandbox serve` over loopback, in real time: kubectl's and a Spot client's view of one world. Few, since they cost real seconds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use sandbox::commands::serve::Serve;
use sandbox::world::{Order, World, WorldOptions};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_served_world_is_found_by_its_kubeconfig_and_its_variables() {
    let file = std::env::temp_dir().join(format!("world-serve-{}.kubeconfig", std::process::id()));
    let serve = Serve {
        kubernetes: ([127, 0, 0, 1], 0).into(),
        cloud: ([127, 0, 0, 1], 0).into(),
        speed: Some(50),
        seed: 1,
        options: None,
        write_kubeconfig: file.clone(),
        allow_remote: false,
    };
    let options = WorldOptions {
        spot: sandbox::spot::Options::short(),
        ..WorldOptions::default()
    };
    let (world, served, doors) = serve.start(options).await.unwrap();
    let world: &'static World = Box::leak(Box::new(world));
    let stop = CancellationToken::new();
    let serving = tokio::spawn(doors.open(world, stop.clone()));

    let config = Kubeconfig::read_from(&file).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default())
        .await
        .unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let classes = Api::<StorageClass>::all(client.clone())
        .list(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(classes.items.len(), 4);
    let feed = &served.variables()[5].1;
    let prices = reqwest::get(feed).await.unwrap().text().await.unwrap();
    assert!(prices.contains("ch.vs1.large-iad"), "{prices}");

    assert_eq!(world.order(&Order::default()), 201);
    world
        .wait_until("the node joins", Duration::from_secs(20), |w| !w.nodes().is_empty())
        .await
        .unwrap();
    let nodes = Api::<Node>::all(client).list(&ListParams::default()).await.unwrap();
    assert_eq!(nodes.items.len(), 1);
    stop.cancel();
    serving.await.unwrap().unwrap();
    std::fs::remove_file(file).unwrap();
}

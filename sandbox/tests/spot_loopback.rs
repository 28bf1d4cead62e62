//! `sandbox cloud` over a real socket in real time, as any Spot client sees it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

use sandbox::commands::cloud::Cloud;
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

async fn id_token(http: &reqwest::Client, base: &str) -> String {
    let form = [
        ("grant_type", "refresh_token"),
        ("client_id", "mwG3lUMV8KyeMqHe4fJ5Bb3nM1vBvRNa"),
        ("refresh_token", "sandbox-refresh-token"),
    ];
    let tokens = http
        .post(format!("{base}/oauth/token"))
        .form(&form)
        .send()
        .await
        .unwrap();
    let tokens: Value = tokens.error_for_status().unwrap().json().await.unwrap();
    tokens["id_token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_client_exchanges_its_token_bids_and_gets_a_server_at_high_speed() {
    let cloud = Cloud {
        kubeconfig: None,
        listen: "127.0.0.1:0".parse().unwrap(),
        speed: Some(2000),
        seed: Some(3),
        options: None,
        allow_remote: false,
    };
    let (ready, address) = tokio::sync::oneshot::channel();
    let stop = CancellationToken::new();
    let running = tokio::spawn(cloud.run(|address| _ = ready.send(address), stop.clone()));
    let base = format!("http://{}", address.await.unwrap());
    let http = reqwest::Client::new();
    let token = id_token(&http, &base).await;
    let refused = http
        .get(format!("{base}/apis/ngpc.rxt.io/v1/regions"))
        .send()
        .await
        .unwrap();
    assert_eq!(
        (refused.status().as_u16(), refused.text().await.unwrap().as_str()),
        (401, "Jwt is missing")
    );

    let namespace = format!("{base}/apis/ngpc.rxt.io/v1/namespaces/org-knyiltp8zznvkz5g");
    let pool = json!({"metadata": {"name": "7f3b0c52-4c1e-4f0e-9a55-0d2f6a1b9c11"},
        "spec": {"serverClass": "mh.vs1.large-iad", "desired": 1, "cloudSpace": "sandbox", "bidPrice": "0.01"}});
    let created = http
        .post(format!("{namespace}/spotnodepools"))
        .bearer_auth(&token)
        .json(&pool)
        .send()
        .await
        .unwrap();
    assert_eq!(created.status(), 201);
    let attached = async {
        loop {
            let space = http
                .get(format!("{namespace}/cloudspaces/sandbox"))
                .bearer_auth(&token)
                .send()
                .await
                .unwrap();
            let space: Value = space.json().await.unwrap();
            if !space["status"]["assignedServers"].as_object().unwrap().is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), attached)
        .await
        .expect("half an hour at most, 2000 times faster");
    stop.cancel();
    running.await.unwrap().unwrap();
}

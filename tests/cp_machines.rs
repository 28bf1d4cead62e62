//! The simulated platform and its machines against the real control plane: Nodes join, become usable, run pods and go.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::CSINode;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use support::cloud::beside;
use support::controlplane::{ControlPlane, eventually};

const WITHIN: Duration = Duration::from_mins(1);
const POOL: &str = "7f3b0c52-4c1e-4f0e-9a55-0d2f6a1b9c11";
const POOLS: &str = "apis/ngpc.rxt.io/v1/namespaces/org-knyiltp8zznvkz5g/spotnodepools";

/// A Spot client of the simplest kind.
struct Spot {
    address: SocketAddr,
    http: reqwest::Client,
    token: String,
}

impl Spot {
    async fn start(plane: &ControlPlane, stop: &CancellationToken) -> Self {
        let address = beside(plane, "platform", stop.clone()).await;
        let http = reqwest::Client::new();
        let form = [
            ("grant_type", "refresh_token"),
            ("client_id", "mwG3lUMV8KyeMqHe4fJ5Bb3nM1vBvRNa"),
            ("refresh_token", "sandbox-refresh-token"),
        ];
        let answer = http
            .post(format!("http://{address}/oauth/token"))
            .form(&form)
            .send()
            .await
            .unwrap();
        let tokens: Value = answer.error_for_status().unwrap().json().await.unwrap();
        let token = tokens["id_token"].as_str().unwrap().to_owned();
        Self { address, http, token }
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> reqwest::StatusCode {
        let request = self
            .http
            .request(method.parse().unwrap(), format!("http://{}/{path}", self.address));
        request
            .bearer_auth(&self.token)
            .json(body)
            .send()
            .await
            .unwrap()
            .status()
    }
}

async fn node_of_pool(client: &Client) -> Option<Node> {
    let selector = ListParams::default().labels(&format!("nodepool.ngpc.rxt.io/name={POOL}"));
    Api::<Node>::all(client.clone())
        .list(&selector)
        .await
        .unwrap()
        .items
        .into_iter()
        .next()
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.clone())
        .unwrap_or_default();
    taints.into_iter().map(|taint| taint.key).collect()
}

async fn pod(client: &Client, namespace: &str) -> Option<Pod> {
    Api::<Pod>::namespaced(client.clone(), namespace)
        .get_opt("web")
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_becomes_a_node_that_runs_pods_and_goes_with_its_machine() {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let stop = CancellationToken::new();
    let spot = Spot::start(plane, &stop).await;
    let body = json!({"metadata": {"name": POOL}, "spec": {"serverClass": "ch.vs1.large-iad", "desired": 1, "cloudSpace": "sandbox",
        "bidPrice": "0.01", "customLabels": {"team": "a"}, "customTaints": [{"key": "dedicated", "value": "ci", "effect": "NoSchedule"}]}});
    assert_eq!(spot.send("POST", POOLS, &body).await, 201);

    let name = a_node_joins(&client).await;
    let namespace = plane.namespace("machines").await;
    a_pod_runs_and_ends(&client, &namespace).await;

    let kill = json!({"do": "kill", "pool": POOL});
    assert_eq!(spot.send("POST", "_sandbox/control", &kill).await, 200);
    eventually("another node instead of the dead one", WITHIN, async || {
        let gone = Api::<Node>::all(client.clone()).get_opt(&name).await.unwrap().is_none();
        let other = node_of_pool(&client)
            .await
            .is_some_and(|node| node.metadata.name.as_ref() != Some(&name));
        (gone && other).then_some(())
    })
    .await;
    assert_eq!(spot.send("DELETE", &format!("{POOLS}/{POOL}"), &Value::Null).await, 200);
    eventually("no node", WITHIN, async || {
        node_of_pool(&client).await.is_none().then_some(())
    })
    .await;
    stop.cancel();
}

/// The pool's node with everything that a kubelet and the cloud's own controller give it; returns its name.
async fn a_node_joins(client: &Client) -> String {
    // The real node-lifecycle controller takes the not-ready taint off; the pool's own comes last.
    let node = eventually("a node with the pool's taint alone", WITHIN, async || {
        node_of_pool(client).await.filter(|node| taints(node) == ["dedicated"])
    })
    .await;
    let name = node.metadata.name.clone().unwrap();
    let labels = node.metadata.labels.clone().unwrap();
    assert_eq!(labels["node.kubernetes.io/instance-type"], "compute1-8");
    assert_eq!(
        (&*labels["topology.kubernetes.io/region"], &*labels["team"]),
        ("IAD", "a")
    );
    assert!(node.spec.unwrap().provider_id.unwrap().starts_with("openstack:///"));
    let allocatable = node.status.unwrap().allocatable.unwrap();
    assert_eq!(
        (&*allocatable["memory"].0, &*allocatable["cpu"].0),
        ("6457304Ki", "3500m")
    );
    eventually("a Lease and a CSINode", WITHIN, async || {
        let leases = Api::<Lease>::namespaced(client.clone(), "kube-node-lease");
        let plugins = Api::<CSINode>::all(client.clone());
        let both = (
            leases.get_opt(&name).await.unwrap().is_some(),
            plugins.get_opt(&name).await.unwrap().is_some(),
        );
        (both == (true, true)).then_some(())
    })
    .await;
    name
}

async fn a_pod_runs_and_ends(client: &Client, namespace: &str) {
    let wanted: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "1"}}}],
                 "tolerations": [{"key": "dedicated", "operator": "Exists"}]},
    }))
    .unwrap();
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    pods.create(&PostParams::default(), &wanted).await.unwrap();
    eventually("a running, ready pod", WITHIN, async || {
        let status = pod(client, namespace).await?.status?;
        let ready = status
            .conditions?
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True");
        (status.phase? == "Running" && ready && status.pod_ip.is_some()).then_some(())
    })
    .await;
    pods.delete("web", &DeleteParams::default()).await.unwrap();
    eventually("no pod", WITHIN, async || {
        pod(client, namespace).await.is_none().then_some(())
    })
    .await;
}

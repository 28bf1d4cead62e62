//! The main job on the real control plane, with the real kube-scheduler: pending pods become servers, and go away again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

mod support;

use serde_json::{Value, json};
use support::stage::{PLATFORM, Stage};

const NODEPOOL: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.rackspace.com, kind: RackspaceSpotNodeClass, name: default}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 1s, budgets: [{nodes: '100%'}]}
";

#[tokio::test(flavor = "multi_thread")]
async fn pods_become_spot_servers_and_scaling_to_zero_gives_them_back() {
    let stage = Stage::start(&[]).await;
    stage.apply(NODEPOOL).await;
    stage.apply(include_str!("../config/samples/inflate.yaml")).await;
    stage.scale("Deployment", "inflate", 3).await;
    stage.bound(3).await;
    let claims = stage.claims().await;
    assert!(!claims.is_empty());
    for claim in &claims {
        assert_eq!(claim["metadata"]["labels"]["karpenter.sh/capacity-type"], "spot");
    }
    stage.scale("Deployment", "inflate", 0).await;
    stage.nothing_left().await;
}

/// A NodePool for one capacity type, in haste to give nodes back.
fn pool(name: &str, capacity_type: &str) -> String {
    NODEPOOL
        .replace("name: default}\nspec", &format!("name: {name}}}\nspec"))
        .replace("[spot]", &format!("[{capacity_type}]"))
}

/// A Deployment of the namespace `default`.
fn deployment(name: &str, replicas: u32, cpu: &str, memory: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: {replicas}\n  selector: {{matchLabels: {{app: {name}}}}}\n  \
         template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      terminationGracePeriodSeconds: 1\n      containers:\n        - name: main\n          \
         image: registry.k8s.io/pause:3.10\n          resources: {{requests: {{cpu: '{cpu}', memory: {memory}}}}}\n"
    )
}

fn uid(claim: &Value) -> String {
    claim["metadata"]["uid"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn mixed_shapes_run_on_demand_and_a_pool_that_somebody_deletes_is_replaced() {
    let stage = Stage::start(&[]).await;
    stage.apply(&pool("default", "on-demand")).await;
    for (name, replicas, cpu, memory) in [
        ("small", 4, "250m", "256Mi"),
        ("broad", 2, "2", "1Gi"),
        ("deep", 1, "500m", "6Gi"),
    ] {
        stage.apply(&deployment(name, replicas, cpu, memory)).await;
    }
    stage.bound(7).await;
    let claims = stage.claims().await;
    assert!(
        claims
            .iter()
            .all(|claim| claim["metadata"]["labels"]["karpenter.sh/capacity-type"] == "on-demand")
    );
    let lost = uid(&claims[0]);
    stage.control(&json!({ "do": "vanishPool", "pool": lost })).await;
    stage
        .until(
            "the claim of the deleted pool is gone and all pods run elsewhere",
            async || {
                let claims = stage.claims().await;
                let pods = stage.pods().await;
                let bound = pods.iter().filter(|pod| {
                    pod["spec"]["nodeName"].is_string() && pod["metadata"]["deletionTimestamp"].is_null()
                });
                claims.iter().all(|claim| uid(claim) != lost) && bound.count() == 7
            },
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_taken_is_given_up_and_its_pods_get_another() {
    let stage = Stage::start(&[]).await;
    stage.apply(NODEPOOL).await;
    stage.apply(&deployment("web", 2, "1", "1Gi")).await;
    stage.bound(2).await;
    let taken = uid(&stage.claims().await[0]);
    stage.control(&json!({ "do": "kill", "pool": taken })).await;
    stage
        .until("the pods run on another server, and the old pool is gone", async || {
            let claims = stage.claims().await;
            let pods = stage.pods().await;
            let ready = |claim: &&Value| uid(claim) != taken && claim["status"]["nodeName"].is_string();
            let bound = pods
                .iter()
                .filter(|pod| pod["spec"]["nodeName"].is_string() && pod["metadata"]["deletionTimestamp"].is_null());
            let pools = stage.platform("summary").await["pools"].as_u64();
            claims.len() == 1 && claims.iter().filter(ready).count() == 1 && bound.count() == 2 && pools == Some(1)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_never_delivers_is_given_up_at_the_deadline_and_others_are_served_meanwhile() {
    let options = format!("{PLATFORM}  quirks: {{neverBuiltClasses: [ch.vs1.medium-iad, gp.vs1.medium-iad]}}\n");
    let stage = Stage::start_with(&[("RACKSPACE_LAUNCH_TIMEOUT", "15s")], &options).await;
    stage.apply(NODEPOOL).await;
    stage.apply(&deployment("stuck", 1, "500m", "512Mi")).await;
    stage
        .until("a claim that waits for its server", async || {
            stage
                .claims()
                .await
                .iter()
                .any(|claim| claim.to_string().contains("AwaitingServerAssignment"))
        })
        .await;
    // a shape that needs a larger class is served while the other waits
    stage.apply(&deployment("other", 1, "3", "4Gi")).await;
    stage.bound(2).await;
    let bids = stage.platform("bids").await;
    assert!(bids.as_array().unwrap().len() >= 2, "{bids}");
}

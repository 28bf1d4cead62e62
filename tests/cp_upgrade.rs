//! Taking over from the Go provider, and going back (surface T1, T13; architecture §7.22).
//!
//! The cluster is made by hand as the Go provider leaves it: CRDs without NodeOverlay, NodePool, claims and Nodes with hashes of version `v3` that our
//! own algorithm would never make, machines whose pools are named by the claims' UIDs. Nothing of it comes from our code.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]
#![allow(
    dead_code,
    reason = "the scene is shared with the test of the chart, and each uses its part"
)]

#[path = "installed/scene.rs"]
mod scene;
mod support;

use scene::{Scene, bound, condition, name, uid};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const GROUP: &str = "karpenter.rackspace.com";
const CLASS: &str = "gp.vs1.xlarge-iad";
const GO_HASH: &str = "4211082431876551783";
const POOLS: &str = "apis/ngpc.rxt.io/v1/namespaces/org-knyiltp8zznvkz5g/spotnodepools";
/// Ten passes of disruption and of everything else that could want to change something.
const LOOK_ON: Duration = Duration::from_secs(45);

fn hashes() -> Value {
    json!({ "karpenter.sh/nodepool-hash": GO_HASH, "karpenter.sh/nodepool-hash-version": "v3" })
}

fn class_ref() -> Value {
    json!({ "group": GROUP, "kind": "RackspaceSpotNodeClass", "name": "default" })
}

fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "default", "annotations": hashes() },
        "spec": { "template": { "metadata": { "labels": { "team": "a" } }, "spec": { "nodeClassRef": class_ref(), "expireAfter": "720h",
                "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] }] } },
            "disruption": { "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s", "budgets": [{ "nodes": "100%" }] } },
    })
}

fn labels() -> Value {
    json!({
        "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot", "team": "a",
        format!("{GROUP}/rackspacespotnodeclass"): "default",
        "node.kubernetes.io/instance-type": CLASS, "topology.kubernetes.io/zone": "us-east-iad-1", "topology.kubernetes.io/region": "us-east-iad-1",
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
    })
}

fn deployment(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "terminationGracePeriodSeconds": 1, "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10",
                "resources": { "requests": { "cpu": "1500m", "memory": "1Gi" } } }],
              "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": { "matchLabels": { "app": "web" } } }] } } },
    })
}

/// A token for the Spot API.
async fn token(scene: &Scene) -> String {
    let form = [
        ("grant_type", "refresh_token"),
        ("client_id", "mwG3lUMV8KyeMqHe4fJ5Bb3nM1vBvRNa"),
        ("refresh_token", "sandbox-refresh-token"),
    ];
    let url = format!("http://{}/oauth/token", scene.platform);
    let answer = reqwest::Client::new().post(url).form(&form).send().await.unwrap();
    let tokens: Value = answer.error_for_status().unwrap().json().await.unwrap();
    tokens["id_token"].as_str().unwrap().to_owned()
}

/// A claim with its machine and its Node, finished, as the Go provider leaves it.
async fn machine(scene: &Scene, token: &str, claim: &str) {
    let owner = scene.objects("karpenter.sh/v1", "NodePool").await.remove(0);
    let made = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": { "name": claim, "labels": labels(), "annotations": hashes(), "finalizers": ["karpenter.sh/termination"],
            "ownerReferences": [{ "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default", "uid": uid(&owner), "blockOwnerDeletion": true }] },
        "spec": { "nodeClassRef": class_ref(), "expireAfter": "720h", "requirements": [
            { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] },
            { "key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"] },
            { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": [CLASS] }] },
    });
    scene.apply(&made, "").await.unwrap();
    let claims = scene.claims().await;
    let id = uid(claims.iter().find(|found| name(found) == claim).unwrap());
    order(scene, token, claim, &id).await;
    let node = joined(scene, &id).await;
    finish(scene, claim, &id, &node).await;
}

async fn order(scene: &Scene, token: &str, claim: &str, id: &str) {
    let custom = json!({
        format!("{GROUP}/managed"): "true", format!("{GROUP}/nodeclaim-name"): claim, format!("{GROUP}/nodeclaim-uid"): id,
        "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot", "topology.kubernetes.io/zone": "us-east-iad-1",
    });
    let body = json!({ "metadata": { "name": id }, "spec": { "serverClass": CLASS, "cloudSpace": "sandbox", "desired": 1, "bidPrice": "0.1", "customLabels": custom } });
    let url = format!("http://{}/{POOLS}", scene.platform);
    let answer = reqwest::Client::new()
        .post(url)
        .bearer_auth(token)
        .json(&body)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 201, "{}", answer.text().await.unwrap());
}

/// The Node of a pool once it is Ready.
async fn joined(scene: &Scene, id: &str) -> Value {
    let is_it = |node: &Value| {
        node["metadata"]["labels"][format!("{GROUP}/nodeclaim-uid")] == id
            && node["spec"]["providerID"].is_string()
            && condition(node, "Ready").is_some_and(|ready| ready["status"] == "True")
    };
    scene
        .until("the machine joins", async || scene.nodes().await.iter().any(is_it))
        .await;
    scene.nodes().await.into_iter().find(|node| is_it(node)).unwrap()
}

/// What registration and initialization of the Go provider write.
async fn finish(scene: &Scene, claim: &str, id: &str, node: &Value) {
    let mut marks = labels();
    for mark in ["registered", "initialized"] {
        marks[format!("karpenter.sh/{mark}")] = json!("true");
    }
    // the platform's cloud controller keeps these two on the Node
    for kept in ["node.kubernetes.io/instance-type", "topology.kubernetes.io/region"] {
        marks.as_object_mut().unwrap().remove(kept);
    }
    let owner = json!([{ "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": claim, "uid": id, "blockOwnerDeletion": true }]);
    let metadata = json!({ "metadata": { "labels": marks, "annotations": hashes(), "finalizers": ["karpenter.sh/termination"], "ownerReferences": owner } });
    scene.merge("v1", "Node", &name(node), &metadata).await;
    let now = &condition(node, "Ready").unwrap()["lastTransitionTime"];
    let conditions: Vec<Value> = ["Launched", "Registered", "Initialized", "Ready"]
        .map(|type_| json!({ "type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": now, "observedGeneration": 1 }))
        .into();
    let status = json!({ "status": { "providerID": node["spec"]["providerID"], "nodeName": name(node), "capacity": node["status"]["capacity"],
        "allocatable": node["status"]["allocatable"], "conditions": conditions } });
    scene.merge("karpenter.sh/v1", "NodeClaim", claim, &status).await;
}

/// CRDs of the Go chart: ours without the one that it lacks.
async fn install_crds(scene: &Scene) {
    scene.plane.apply_crds().await;
    let crd = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    scene.delete(crd.0, crd.1, "nodeoverlays.karpenter.sh").await;
}

fn uids(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().map(uid).collect()
}

async fn pools_of(scene: &Scene) -> BTreeSet<String> {
    let url = format!("http://{}/{POOLS}", scene.platform);
    let answer = reqwest::Client::new()
        .get(url)
        .bearer_auth(token(scene).await)
        .send()
        .await
        .unwrap();
    let list: Value = answer.error_for_status().unwrap().json().await.unwrap();
    list["items"].as_array().unwrap().iter().map(name).collect()
}

/// What was there before and must be there after.
#[derive(Debug, PartialEq)]
struct Held {
    claims: BTreeSet<String>,
    nodes: BTreeSet<String>,
    pools: BTreeSet<String>,
    pods: Vec<(String, String)>,
}

async fn held(scene: &Scene) -> Held {
    Held {
        claims: uids(&scene.claims().await),
        nodes: uids(&scene.nodes().await),
        pools: pools_of(scene).await,
        pods: bound(&scene.pods().await),
    }
}

fn environment() -> Vec<(String, String)> {
    // the Go chart's: nothing but this; the gate shows that the missing CRD stops nothing
    [
        ("SPOT_CLOUDSPACE_NAME", "sandbox"),
        ("SPOT_REFRESH_TOKEN", "sandbox-refresh-token"),
        ("DISABLE_LEADER_ELECTION", "true"),
        ("FEATURE_GATES", "NodeOverlay=true"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

fn hash_version(object: &Value) -> &str {
    object["metadata"]["annotations"]["karpenter.sh/nodepool-hash-version"]
        .as_str()
        .unwrap_or_default()
}

/// What the Go provider needs to go on with a claim and its Node.
fn assert_the_go_provider_could_go_on(claim: &Value, node: &Value) {
    let text = |object: &Value, pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(claim["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
    assert_eq!(claim["metadata"]["ownerReferences"][0]["kind"], "NodePool");
    for (label, value) in labels().as_object().unwrap() {
        assert_eq!(claim["metadata"]["labels"][label], *value, "{label}");
    }
    assert!(claim["metadata"]["annotations"]["karpenter.sh/nodepool-hash"].is_string());
    assert!(
        text(claim, "/status/providerID").starts_with("openstack:///"),
        "{claim}"
    );
    assert_eq!(text(claim, "/status/providerID"), text(node, "/spec/providerID"));
    assert_eq!(text(claim, "/status/nodeName"), name(node));
    for type_ in ["Launched", "Registered", "Initialized", "Ready"] {
        assert_eq!(condition(claim, type_).unwrap()["status"], "True", "{type_}");
    }
    let kept = node["metadata"]["finalizers"].as_array().unwrap();
    assert!(kept.contains(&json!("karpenter.sh/termination")));
    assert_eq!(node["metadata"]["ownerReferences"][0]["uid"], claim["metadata"]["uid"]);
    for label in [
        "karpenter.sh/registered",
        "karpenter.sh/initialized",
        &format!("{GROUP}/managed"),
    ] {
        assert_eq!(node["metadata"]["labels"][label], "true", "{label}");
    }
    assert_eq!(
        node["metadata"]["labels"][format!("{GROUP}/rackspacespotnodeclass")],
        "default"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_the_go_provider_is_carried_on_and_could_be_handed_back() {
    let mut scene = Scene::start("upgrade").await;
    install_crds(&scene).await;
    let class = json!({ "apiVersion": format!("{GROUP}/v1"), "kind": "RackspaceSpotNodeClass", "metadata": { "name": "default" }, "spec": {} });
    scene.apply(&class, "").await.unwrap();
    scene.apply(&pool(), "").await.unwrap();
    let token = token(&scene).await;
    for claim in ["default-aaaaa", "default-bbbbb"] {
        machine(&scene, &token, claim).await;
    }
    scene.apply(&deployment(2), "").await.unwrap();
    all_run(&scene, 2).await;
    let before = held(&scene).await;

    let kubeconfig = scene.plane.admin_kubeconfig().to_owned();
    scene.start_operator(&kubeconfig, &environment());
    scene
        .until("the hashes are stamped anew", async || {
            let pools = scene.objects("karpenter.sh/v1", "NodePool").await;
            let claims = scene.claims().await;
            pools
                .iter()
                .chain(&claims)
                .all(|object| !["", "v3"].contains(&hash_version(object)))
        })
        .await;
    tokio::time::sleep(LOOK_ON).await;
    assert_eq!(
        held(&scene).await,
        before,
        "nothing is bought, moved or removed\n{}",
        scene.log()
    );
    let claims = scene.claims().await;
    for claim in &claims {
        assert!(condition(claim, "Drifted").is_none(), "{claim}");
        assert!(claim["metadata"]["deletionTimestamp"].is_null());
    }

    scene.stop_operator().await;
    let nodes = scene.nodes().await;
    for claim in &claims {
        let node = nodes
            .iter()
            .find(|node| claim["status"]["nodeName"] == node["metadata"]["name"])
            .unwrap();
        assert_the_go_provider_could_go_on(claim, node);
    }

    scene.start_operator(&kubeconfig, &environment());
    scene.scale("web", 0).await;
    scene.nothing_left().await;
}

async fn all_run(scene: &Scene, pods: usize) {
    scene
        .until("all pods run", async || {
            let all = scene.pods().await;
            all.len() == pods && all.iter().all(|pod| pod["status"]["phase"] == "Running")
        })
        .await;
}

//! Taking over from the Go provider, and going back (surface T1, T13; architecture §7.22).
//!
//! The cluster is made by hand as the Go provider leaves it (`installed/go.rs`). Our operator has the rights of the chart and its settings, and has to wait for
//! the Go provider's lease. The charts themselves, with helm, are `cp_chart.rs`.

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

#[path = "installed/chart.rs"]
mod chart;
#[path = "installed/go.rs"]
mod go;
#[path = "installed/installation.rs"]
mod installation;
#[path = "installed/scene.rs"]
mod scene;
mod support;

use go::{GROUP, HOLDER, LEASE, Platform};
use installation::{Installed, NAMESPACE, install};
use scene::{Scene, bound, condition, name, uid};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// Ten passes of disruption and of everything else that could want to change something.
const LOOK_ON: Duration = Duration::from_secs(45);

/// Pods of which each has a machine of its own.
fn spread(replicas: u32) -> Value {
    deployment(
        "web",
        replicas,
        "1500m",
        &json!([{ "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": { "app": "web" } } }]),
    )
}

fn deployment(name: &str, replicas: u32, cpu: &str, spread: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "namespace": "default" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } }, "template": {
            "metadata": { "labels": { "app": name } },
            "spec": { "terminationGracePeriodSeconds": 1, "topologySpreadConstraints": spread,
                "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10",
                    "resources": { "requests": { "cpu": cpu, "memory": "1Gi" } } }] } } },
    })
}

fn uids(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().map(uid).collect()
}

/// What was there before and must be there after.
#[derive(Debug, PartialEq)]
struct Held {
    claims: BTreeSet<String>,
    nodes: BTreeSet<String>,
    /// With all that was ordered: a bid or a label that changes is a change.
    pools: BTreeMap<String, Value>,
    pods: Vec<(String, String)>,
}

async fn held(scene: &Scene, platform: &Platform) -> Held {
    Held {
        claims: uids(&scene.claims().await),
        nodes: uids(&scene.nodes().await),
        pools: platform.pools().await,
        pods: bound(&scene.pods().await),
    }
}

fn hash_version(object: &Value) -> &str {
    object["metadata"]["annotations"]["karpenter.sh/nodepool-hash-version"]
        .as_str()
        .unwrap_or_default()
}

/// Starts ours while the lease says that the Go provider holds it, and waits until ours leads and every hash has our version.
async fn take_over(scene: &mut Scene, installed: &Installed) {
    go::leave_the_lease(scene, NAMESPACE).await;
    let begun = Instant::now();
    scene.start_operator(&installed.kubeconfig, &installed.environment);
    scene
        .until("ours leads", async || {
            let leases = scene.objects("coordination.k8s.io/v1", "Lease").await;
            let lease = leases.iter().find(|lease| name(lease) == LEASE).unwrap();
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            !holder.is_empty() && holder != HOLDER
        })
        .await;
    let waited = begun.elapsed();
    assert!(
        waited > Duration::from_secs(10),
        "the lease of somebody who may still work was taken after {waited:?}"
    );
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
}

/// Looks on, and holds all to what it was.
async fn nothing_happens(scene: &Scene, platform: &Platform, before: &Held) {
    tokio::time::sleep(LOOK_ON).await;
    assert_eq!(
        held(scene, platform).await,
        *before,
        "nothing is bought, moved or removed\n{}",
        scene.log()
    );
    for claim in scene.claims().await {
        assert!(condition(&claim, "Drifted").is_none(), "{claim}");
        assert!(claim["metadata"]["deletionTimestamp"].is_null(), "{claim}");
    }
}

/// What the Go provider needs to go on with a claim and its Node, whoever made them.
fn assert_the_go_provider_could_go_on(claim: &Value, node: &Value, ordered: &Value) {
    let text = |object: &Value, pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(claim["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
    let owner = &claim["metadata"]["ownerReferences"][0];
    assert_eq!(owner["kind"], "NodePool");
    let mut wanted = go::labels(owner["name"].as_str().unwrap());
    // one that we launched is of the class that we chose
    wanted.remove("node.kubernetes.io/instance-type");
    for (label, value) in &wanted {
        assert_eq!(claim["metadata"]["labels"][label], *value, "{label} of {}", name(claim));
    }
    let class = &claim["metadata"]["labels"]["node.kubernetes.io/instance-type"];
    assert_eq!(*class, ordered["spec"]["serverClass"]);
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
    assert_eq!(node["metadata"]["labels"]["karpenter.sh/nodepool"], owner["name"]);
}

/// Three machines that are done, one of them on demand, and one that is still to come, for the pod that waits for it.
async fn cluster_of_the_go_provider(scene: &Scene, platform: &Platform) {
    go::apply_pools(scene).await;
    platform.machine(scene, "default", "default-aaaaa").await;
    platform.machine(scene, "default", "default-bbbbb").await;
    platform.machine(scene, "steady", "steady-aaaaa").await;
    scene.apply(&spread(3), "").await.unwrap();
    running(scene, "web", 3).await;
    scene.apply(&deployment("late", 1, "7", &json!([])), "").await.unwrap();
    platform.build_in(40.0).await;
    platform.in_flight(scene, "default", "default-ccccc").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_the_go_provider_is_carried_on_and_could_be_handed_back() {
    let mut scene = Scene::start("upgrade").await;
    go::install_crds(&scene).await;
    // the gate shows that the missing definition stops nothing
    let installed = install(&scene, &["--set", "settings.featureGates.nodeOverlay=true"]).await;
    let platform = Platform::of(&scene).await;
    cluster_of_the_go_provider(&scene, &platform).await;
    let before = held(&scene, &platform).await;
    assert_eq!((before.claims.len(), before.nodes.len(), before.pools.len()), (4, 3, 4));

    take_over(&mut scene, &installed).await;
    platform.build_in(1.0).await;
    running(&scene, "late", 1).await;
    let now = held(&scene, &platform).await;
    assert_eq!(
        (&now.claims, &now.pools),
        (&before.claims, &before.pools),
        "the one on its way is waited for"
    );
    assert!(now.nodes.is_superset(&before.nodes) && now.nodes.len() == 4);
    all_are_ready(&scene).await;
    nothing_happens(&scene, &platform, &now).await;

    // one of ours beside them
    scene.scale("web", 4).await;
    running(&scene, "web", 4).await;
    all_are_ready(&scene).await;
    let handed_back = held(&scene, &platform).await;
    assert_eq!((handed_back.claims.len(), handed_back.pools.len()), (5, 5));
    scene.stop_operator().await;

    let nodes = scene.nodes().await;
    for claim in scene.claims().await {
        let node = nodes
            .iter()
            .find(|node| claim["status"]["nodeName"] == node["metadata"]["name"])
            .unwrap();
        assert_the_go_provider_could_go_on(&claim, node, &handed_back.pools[&uid(&claim)]);
    }
    // it comes back, and then ours once more
    go::stamp_anew(&scene).await;
    take_over(&mut scene, &installed).await;
    nothing_happens(&scene, &platform, &handed_back).await;

    scene.keep_what_is_shown("upgrade").await;
    for deployment in ["web", "late"] {
        scene.scale(deployment, 0).await;
    }
    scene.nothing_left().await;
    installed.assert_nothing_was_forbidden(&scene);
    scene.stop_operator().await;
}

async fn running(scene: &Scene, app: &str, pods: usize) {
    scene
        .until(&format!("the pods of {app} run"), async || {
            let all = scene.pods().await;
            let of: Vec<&Value> = all
                .iter()
                .filter(|pod| pod["metadata"]["labels"]["app"] == app)
                .collect();
            of.len() == pods && of.iter().all(|pod| pod["status"]["phase"] == "Running")
        })
        .await;
}

async fn all_are_ready(scene: &Scene) {
    scene
        .until("all claims are ready", async || {
            let claims = scene.claims().await;
            claims
                .iter()
                .all(|claim| condition(claim, "Ready").is_some_and(|ready| ready["status"] == "True"))
        })
        .await;
}

//! The chart: what it renders, whether the real API server takes it, and whether its ServiceAccount alone is enough for the main job.
//!
//! When a golden rendering differs (`tests/data/chart`): look at the difference; if it is meant, `make chart-golden` writes it anew.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]
#![allow(
    dead_code,
    reason = "the scene is shared with the test of the upgrade, and each uses its part"
)]

#[path = "installed/chart.rs"]
mod chart;
#[path = "installed/documented.rs"]
mod documented;
#[path = "installed/go.rs"]
mod go;
#[path = "installed/installation.rs"]
mod installation;
#[path = "installed/releases.rs"]
mod releases;
#[path = "installed/scene.rs"]
mod scene;
#[path = "surface/scrape.rs"]
mod scrape;
#[path = "installed/silence.rs"]
mod silence;
mod support;
#[path = "installed/values.rs"]
mod values;

use chart::{helm, monitoring, objects, of_kind, template};
use installation::{Installed, install};
use scene::{Scene, condition, name};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use support::controlplane::Use;

const INLINE: &[&str] = &[
    "--set",
    "spot.cloudspaceName=my-cloudspace",
    "--set",
    "spot.refreshToken=my-token",
];
const EXISTING: &[&str] = &[
    "--set",
    "spot.cloudspaceName=my-cloudspace",
    "--set",
    "spot.existingSecret=karpenter-spot",
];
/// A values file that uses everything.
const EVERYTHING: &[&str] = &["--values", "tests/data/chart/everything.values.yaml"];

#[test]
fn it_passes_helm_lint_in_each_form() {
    for values in [INLINE, EXISTING, EVERYTHING] {
        let mut arguments = vec!["lint", "--strict", "charts/karpenter"];
        arguments.extend(values);
        helm(&arguments).unwrap();
    }
}

// surface T16
#[test]
fn without_a_token_or_a_cloudspace_the_template_fails_with_one_sentence() {
    let error = template(&["--set", "spot.cloudspaceName=x"]).unwrap_err();
    assert!(
        error.contains("Set spot.refreshToken, or spot.existingSecret to the name of a secret that has the token under refreshToken or SPOT_REFRESH_TOKEN."),
        "{error}"
    );
    let error = template(&["--set", "spot.refreshToken=x"]).unwrap_err();
    assert!(
        error.contains("Set spot.cloudspaceName to the name of the cloudspace."),
        "{error}"
    );
    assert!(!error.contains("my-token"));
}

#[test]
fn values_that_make_no_sense_are_refused_by_the_schema_and_unknown_ones_are_not() {
    let with = |value: &'static str| {
        let mut values = EXISTING.to_vec();
        values.extend(["--set", value]);
        template(&values)
    };
    for (value, word) in [
        ("replicaCount=0", "replicaCount"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("operator.metricsPort=70000", "metricsPort"),
        ("logLevel=warn", "logLevel"),
        ("settings.preferencePolicy=Maybe", "preferencePolicy"),
        ("settings.featureGates.nodeRepair=perhaps", "nodeRepair"),
    ] {
        let error = with(value).unwrap_err();
        assert!(error.contains(word), "{value}: {error}");
    }
    with("somethingOfYours.deep=1").unwrap();
}

/// surface T13, T15, T17: an upgrade from the Go chart with its values.
#[test]
fn the_go_charts_values_render_an_upgrade_that_the_deployment_accepts() {
    let rendered = objects(&template(&["--values", "tests/data/chart/go-chart.values.yaml"]).unwrap());
    let deployment = of_kind(&rendered, "Deployment")[0];
    assert_eq!(name(deployment), "karpenter-karpenter-provider-rackspace-spot");
    let selector = json!({ "app.kubernetes.io/name": "karpenter-provider-rackspace-spot", "app.kubernetes.io/instance": "karpenter" });
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], selector);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["name"], "controller");
    assert_eq!(container["envFrom"], json!([{ "secretRef": { "name": "my-secret" } }]));
    let env = |wanted: &str| {
        let all = container["env"].as_array().unwrap();
        let found: Vec<&Value> = all.iter().filter(|variable| variable["name"] == wanted).collect();
        assert!(found.len() < 2, "{wanted} comes twice");
        found
            .first()
            .map(|variable| variable["value"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(env("METRICS_PORT").as_deref(), Some("9090"));
    assert_eq!(env("SPOT_BASE_URL").as_deref(), Some("https://spot.example.com"));
    // free-form variables win over the chart's own
    assert_eq!(env("LOG_LEVEL").as_deref(), Some("debug"));
    assert_eq!(env("FEATURE_GATES").as_deref(), Some("NodeRepair=true"));
    let ports: Vec<i64> = container["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| port["containerPort"].as_i64().unwrap())
        .collect();
    assert_eq!(ports, [9090, 9091]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_takes_every_object_and_no_unknown_field() {
    let scene = Scene::start("objects").await;
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "karpenter" } });
    scene.apply(&namespace, "").await.unwrap();
    for kind in ["ServiceMonitor", "PrometheusRule"] {
        scene.apply(&monitoring(kind), "").await.unwrap();
    }
    for file in std::fs::read_dir("charts/karpenter/crds").unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for object in objects(&text) {
            scene.apply(&object, "").await.unwrap();
        }
    }
    scene
        .until("the kinds of the Prometheus operator are served", async || {
            let crds = scene
                .objects("apiextensions.k8s.io/v1", "CustomResourceDefinition")
                .await;
            crds.iter()
                .all(|crd| condition(crd, "Established").is_some_and(|established| established["status"] == "True"))
        })
        .await;
    for values in [INLINE, EXISTING, EVERYTHING] {
        let rendered = objects(&template(values).unwrap());
        assert!(rendered.len() >= 10, "{} objects", rendered.len());
        for object in &rendered {
            scene
                .apply(object, "karpenter")
                .await
                .unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

/// The rights that a rendered (Cluster)Role grants.
fn granted(rendered: &[Value]) -> BTreeSet<Use> {
    let mut all = BTreeSet::new();
    let own = |role: &&Value| !name(role).ends_with("-admin") && !name(role).ends_with("-view");
    let roles = of_kind(rendered, "ClusterRole")
        .into_iter()
        .filter(own)
        .chain(of_kind(rendered, "Role"));
    for rule in roles.flat_map(|role| role["rules"].as_array().unwrap()) {
        let texts = |field: &str| {
            rule[field]
                .as_array()
                .unwrap()
                .iter()
                .map(|text| text.as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        for api_group in texts("apiGroups") {
            for resource in texts("resources") {
                for verb in texts("verbs") {
                    all.insert(Use {
                        api_group: api_group.clone(),
                        resource: resource.clone(),
                        verb,
                    });
                }
            }
        }
    }
    all
}

/// Granted rights that a quiet run does not use, and when they are; `silence` brings each about.
const RARE: &[(&str, &str, &str, &str)] = &[
    (
        "",
        "nodes",
        "get",
        "read when no watch has told of our own write for a while",
    ),
    (
        "",
        "pods",
        "get",
        "read when no watch has told of our own write for a while",
    ),
    (
        "karpenter.sh",
        "nodepools",
        "get",
        "read when no watch has told of our own write for a while",
    ),
    (
        "karpenter.sh",
        "nodeclaims",
        "get",
        "read when the outcome of a write is unknown",
    ),
];

fn class() -> Value {
    json!({ "apiVersion": "karpenter.rackspace.com/v1", "kind": "RackspaceSpotNodeClass", "metadata": { "name": "default" }, "spec": {} })
}

fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "default" },
        "spec": { "template": { "spec": {
                "nodeClassRef": { "group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default" },
                "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] }],
                "expireAfter": "Never", "terminationGracePeriod": "20s" } },
            "disruption": { "consolidationPolicy": "WhenEmpty", "consolidateAfter": "1s", "budgets": [{ "nodes": "100%" }] } },
    })
}

fn deployment(name: &str, replicas: u32, annotations: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "namespace": "default" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } }, "template": {
            "metadata": { "labels": { "app": name }, "annotations": annotations },
            "spec": { "terminationGracePeriodSeconds": 1, "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10",
                "resources": { "requests": { "cpu": "500m", "memory": "512Mi" } } }] } } },
    })
}

/// Twice the same transition, so that an Event is counted up.
async fn flip_the_class(scene: &Scene) {
    for _ in 0..2 {
        for wanted in ["False", "True"] {
            if wanted == "True" {
                scene.apply(&class(), "").await.unwrap();
            } else {
                scene
                    .delete("karpenter.rackspace.com/v1", "RackspaceSpotNodeClass", "default")
                    .await;
            }
            let what = format!("Ready={wanted}");
            scene
                .until(&what, async || {
                    let pools = scene.objects("karpenter.sh/v1", "NodePool").await;
                    condition(&pools[0], "Ready").is_some_and(|ready| ready["status"] == wanted)
                })
                .await;
            // transitions are looked at once a second
            tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_account_alone_does_the_main_job_with_nothing_forbidden_and_no_right_to_spare() {
    let mut scene = Scene::start("rights").await;
    scene.plane.apply_crds().await;
    let installed = install(&scene, &["--set", "settings.featureGates.nodeOverlay=true"]).await;
    scene.start_operator(&installed.kubeconfig, &installed.environment);

    scene.apply(&class(), "").await.unwrap();
    scene.apply(&pool(), "").await.unwrap();
    overlay(&scene).await;
    scene.apply(&deployment("web", 2, &json!({})), "").await.unwrap();
    let protected = json!({ "karpenter.sh/do-not-disrupt": "true" });
    scene.apply(&deployment("kept", 1, &protected), "").await.unwrap();
    all_run(&scene, 3).await;
    let text = scene.scrape().await;
    assert_is_as_declared(&text);
    assert!(
        text.contains("karpenter_pods_state{") && text.contains("karpenter_nodes_allocatable{"),
        "{text}"
    );
    // a protected pod is deleted by force when the grace period is over
    for claim in scene.claims().await {
        scene.delete("karpenter.sh/v1", "NodeClaim", &name(&claim)).await;
    }
    scene
        .until("new machines have taken over", async || replaced(&scene).await)
        .await;
    all_run(&scene, 3).await;
    scene.scale("web", 0).await;
    scene.scale("kept", 0).await;
    scene.nothing_left().await;
    flip_the_class(&scene).await;

    assert_rights(&scene, &installed);
    scene.keep_what_is_shown("rights").await;
    scene.stop_operator().await;
    assert!(
        !scene.log().contains("sandbox-refresh-token"),
        "the token is in the log"
    );
}

/// An overlay that is judged.
async fn overlay(scene: &Scene) {
    let overlay = json!({ "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": { "name": "dearer" },
        "spec": { "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] }], "priceAdjustment": "+1%" } });
    scene.apply(&overlay, "").await.unwrap();
    scene
        .until("the overlay is judged", async || {
            let all = scene.objects("karpenter.sh/v1alpha1", "NodeOverlay").await;
            condition(&all[0], "Ready").is_some_and(|ready| ready["status"] == "True")
        })
        .await;
}

/// Nothing was forbidden, and nothing is granted that was not used.
fn assert_rights(scene: &Scene, installed: &Installed) {
    installed.assert_nothing_was_forbidden(scene);
    let used = scene.plane.rights_used_by(&installed.user);
    let rare = |right: &&Use| {
        RARE.iter().any(|(group, resource, verb, _)| {
            right.api_group == *group && right.resource == *resource && right.verb == *verb
        })
    };
    let spare: BTreeSet<Use> = granted(&installed.rendered)
        .difference(&used)
        .filter(|right| !rare(right))
        .cloned()
        .collect();
    assert!(spare.is_empty(), "granted and not used: {}", listed(&spare));
}

/// The scrape of the real binary against what the docs list.
fn assert_is_as_declared(text: &str) {
    let declared = karpenter::operator::reference::metrics().unwrap();
    for (name, family) in scrape::families(text) {
        let known = declared.iter().find(|known| known.name == name);
        let known = known.unwrap_or_else(|| panic!("{name} is not declared"));
        let labels: BTreeSet<String> = known.labels.iter().cloned().collect();
        assert_eq!(
            (family.kind, &family.help),
            (known.kind.as_str(), &known.help),
            "{name}"
        );
        assert_eq!(family.labels, labels, "labels of {name}");
    }
}

async fn all_run(scene: &Scene, pods: usize) {
    scene
        .until("all pods run", async || {
            let all = scene.pods().await;
            let running = all
                .iter()
                .filter(|pod| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null());
            running.count() == pods
        })
        .await;
}

async fn replaced(scene: &Scene) -> bool {
    let claims = scene.claims().await;
    !claims.is_empty()
        && claims
            .iter()
            .all(|claim| claim["metadata"]["deletionTimestamp"].is_null())
}

fn listed(rights: &BTreeSet<Use>) -> String {
    rights.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

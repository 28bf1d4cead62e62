//! Releases as people have them: the documents' commands against the real API server, from the Go provider's chart to ours and back.

use super::chart::{helm, objects, of_kind};
use super::documented::{Shell, block_with, blocks};
use super::scene::Scene;
use serde_json::{Value, json};

const FULL: &str = "karpenter-karpenter-provider-rackspace-spot";
const OURS: &str = "registry.example/karpenter-provider-rackspace-spot:dev";
const FROM_GO: &str = "From the Go provider's chart";
/// As its users install it; what they set stands for itself.
const GO_INSTALL: &str = "helm install karpenter tests/data/go-chart --namespace karpenter --create-namespace \
    --set spot.cloudspaceName=my-cloudspace --set spot.refreshToken=my-token --set resources.limits.memory=2Gi";

/// Every `helm install` of the documents.
fn installs() -> Vec<(&'static str, String)> {
    let places = [("README.md", "Installing"), ("docs/install.md", "The token")];
    let of = |(document, heading)| {
        blocks(document, heading)
            .into_iter()
            .map(move |block| (document, block))
    };
    let all: Vec<_> = places
        .into_iter()
        .flat_map(of)
        .filter(|(_, block)| block.contains("helm install"))
        .collect();
    assert_eq!(all.len(), 4, "two forms in each document");
    all
}

#[test]
fn the_documented_installs_render_as_recorded_and_name_an_image() {
    let shell = Shell::new(std::path::Path::new("/nowhere"));
    for (document, block) in installs() {
        let file = if block.contains("existingSecret") {
            "existing-secret"
        } else {
            "inline"
        };
        let at = block.find("helm install").unwrap();
        let rendered = shell.does(&block[at..].replacen("helm install", "helm template", 1));
        assert!(rendered.contains(OURS), "{document} names no image:\n{block}");
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/chart/{file}.yaml"));
        if std::env::var("GOLDEN").is_ok_and(|told| told == "write") {
            std::fs::write(&path, &rendered).unwrap();
        }
        assert!(
            rendered == std::fs::read_to_string(&path).unwrap(),
            "{document}: {} differs: run `make chart-golden` and look at the difference",
            path.display()
        );
    }
}

/// What the cluster has of the release.
async fn deployment(scene: &Scene) -> Value {
    let all = scene.objects("apps/v1", "Deployment").await;
    let found = all.into_iter().find(|object| object["metadata"]["name"] == FULL);
    found.expect("the release's Deployment")
}

fn image(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"][0]["image"]
}

async fn has(scene: &Scene, api_version: &str, kind: &str, name: &str) -> bool {
    let all = scene.objects(api_version, kind).await;
    all.iter().any(|object| object["metadata"]["name"] == name)
}

async fn has_overlays(scene: &Scene) -> bool {
    has(
        scene,
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "nodeoverlays.karpenter.sh",
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_documented_install_runs_on_a_fresh_cluster() {
    for (document, block) in installs() {
        let scene = Scene::start("installs").await;
        let shell = Shell::new(scene.plane.admin_kubeconfig());
        shell.run(&block).unwrap_or_else(|error| panic!("{document}: {error}"));
        let made = deployment(&scene).await;
        assert_eq!(image(&made), OURS, "{document}");
        let container = &made["spec"]["template"]["spec"]["containers"][0];
        let secret = container["envFrom"][0]["secretRef"]["name"].as_str().unwrap();
        let kept = shell.does(&format!(
            "kubectl -n karpenter get secret {secret} -o jsonpath='{{.data}}'"
        ));
        assert!(
            kept.contains("bXktdG9rZW4="),
            "{document}: the secret {secret} has no token: {kept}"
        );
        assert!(has_overlays(&scene).await, "{document}");
    }
}

/// surface T13, §7: the same release goes on under our chart, and back.
#[tokio::test(flavor = "multi_thread")]
async fn the_documented_way_from_the_go_chart_and_back_is_walked() {
    let scene = Scene::start("from-go").await;
    super::go::install_crds(&scene).await;
    let shell = Shell::new(scene.plane.admin_kubeconfig());
    shell.does(GO_INSTALL);
    let before = deployment(&scene).await;
    assert!(!has_overlays(&scene).await);

    shell.does(&block_with("docs/upgrade.md", FROM_GO, "helm upgrade"));
    let after = deployment(&scene).await;
    assert_eq!(image(&after), OURS);
    assert_eq!(
        after["metadata"]["uid"], before["metadata"]["uid"],
        "carried on, not made anew"
    );
    let container = &after["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        container["resources"]["limits"]["memory"], "2Gi",
        "what users set is kept"
    );
    assert_eq!(
        container["envFrom"][0]["secretRef"]["name"],
        format!("{FULL}-credentials")
    );
    assert!(has_overlays(&scene).await);
    for (api_version, kind) in [
        ("v1", "Service"),
        ("policy/v1", "PodDisruptionBudget"),
        ("rbac.authorization.k8s.io/v1", "Role"),
    ] {
        assert!(has(&scene, api_version, kind, FULL).await, "{kind}");
    }
    let way = shell.does("helm get manifest karpenter --namespace karpenter");

    shell.does(&block_with("docs/upgrade.md", "And back", "helm rollback"));
    let back = deployment(&scene).await;
    assert_eq!(image(&back), image(&before));
    assert_eq!(back["metadata"]["uid"], before["metadata"]["uid"]);
    for (api_version, kind) in [("v1", "Service"), ("policy/v1", "PodDisruptionBudget")] {
        assert!(!has(&scene, api_version, kind, FULL).await, "{kind} is left over");
    }

    // whoever has the other flag in their fingers gets the same
    let documented = block_with("docs/upgrade.md", FROM_GO, "helm upgrade");
    shell.does(&documented.replace("--reset-then-reuse-values", "--reuse-values"));
    let reused = shell.does("helm get manifest karpenter --namespace karpenter");
    assert_eq!(objects(&reused), objects(&way), "--reuse-values makes something else");
    shell.does(&block_with(
        "docs/upgrade.md",
        "From one version to the next",
        "helm upgrade",
    ));
    assert_eq!(image(&deployment(&scene).await), OURS);
    // and one whose pods are replaced in another way
    for (value, wanted) in [
        (
            "operator.disableLeaderElection=true",
            json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 1 } }),
        ),
        ("strategy.type=Recreate", json!({ "type": "Recreate" })),
    ] {
        shell.does(&format!(
            "helm upgrade karpenter charts/karpenter --namespace karpenter --reset-then-reuse-values --set {value}"
        ));
        assert_eq!(deployment(&scene).await["spec"]["strategy"], wanted, "{value}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_would_start_the_go_providers_image_is_refused_and_changes_nothing() {
    let scene = Scene::start("go-image").await;
    super::go::install_crds(&scene).await;
    let shell = Shell::new(scene.plane.admin_kubeconfig());
    shell.does(GO_INSTALL);
    let before = deployment(&scene).await;
    for more in ["--reuse-values", "--reuse-values --set image.tag=v0.1.4"] {
        let error = shell
            .run(&format!(
                "helm upgrade karpenter charts/karpenter --namespace karpenter {more}"
            ))
            .unwrap_err();
        assert!(
            error.contains("the Go provider's image: set image.repository and image.tag to an image of this provider."),
            "{error}"
        );
    }
    assert_eq!(deployment(&scene).await["spec"], before["spec"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chart_of_the_definitions_adopts_those_that_are_there_and_leaves_them_behind() {
    const HEADING: &str = "The definitions (CRDs)";
    let scene = Scene::start("definitions").await;
    let shell = Shell::new(scene.plane.admin_kubeconfig());
    shell.does(&block_with("docs/upgrade.md", HEADING, "kubectl apply"));
    let overlay = json!({ "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": { "name": "kept" },
        "spec": { "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] }], "priceAdjustment": "+1%" } });
    scene.plane.apply_crds().await;
    scene.apply(&overlay, "").await.unwrap();
    let adopt = format!(
        "kubectl create namespace karpenter\n{}",
        block_with("docs/upgrade.md", HEADING, "karpenter-crd")
    );
    shell.does(&adopt);
    // an upgrade of the definitions' own release
    shell.does(&block_with("docs/upgrade.md", HEADING, "karpenter-crd").replace("--take-ownership", ""));
    let crds = || scene.objects("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    for crd in crds().await {
        assert_eq!(
            crd["metadata"]["annotations"]["meta.helm.sh/release-name"],
            "karpenter-crd"
        );
        assert_eq!(crd["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    }
    shell.does("helm uninstall karpenter-crd --namespace karpenter");
    assert_eq!(crds().await.len(), 4, "the definitions stay");
    assert!(has(&scene, "karpenter.sh/v1alpha1", "NodeOverlay", "kept").await);
}

#[test]
fn without_a_registry_or_with_the_go_providers_image_the_notes_say_so() {
    let notes = |more: &str| {
        let values = format!("spot.cloudspaceName=x,spot.existingSecret=mine{more}");
        let arguments = [
            "install",
            "karpenter",
            "charts/karpenter",
            "--dry-run=client",
            "--set",
            &values,
        ];
        helm(&arguments).unwrap()
    };
    assert!(notes("").contains("The image karpenter-provider-rackspace-spot:0.1.0 names no registry"));
    let go = notes(",image.repository=ghcr.io/kanya-approve/karpenter-provider-rackspace-spot");
    assert!(
        go.contains("WARNING: image.repository is ghcr.io/kanya-approve/karpenter-provider-rackspace-spot"),
        "{go}"
    );
    let named = notes(",image.repository=registry.example/ours");
    assert!(!named.contains("WARNING") && !named.contains("registry:"), "{named}");
}

/// The Go stand-in is a chart of its own: what the tests upgrade from renders.
#[test]
fn the_stand_in_of_the_go_chart_has_its_names() {
    let rendered = helm(&[
        "template",
        "karpenter",
        "tests/data/go-chart",
        "--namespace",
        "karpenter",
        "--values",
        "tests/data/chart/go-chart.values.yaml",
    ]);
    let rendered = objects(&rendered.unwrap());
    let made = of_kind(&rendered, "Deployment")[0];
    assert_eq!(made["metadata"]["name"], FULL);
    assert_eq!(
        made["spec"]["selector"]["matchLabels"],
        json!({ "app.kubernetes.io/name": "karpenter-provider-rackspace-spot", "app.kubernetes.io/instance": "karpenter" })
    );
    assert!(of_kind(&rendered, "Service").is_empty() && of_kind(&rendered, "Role").is_empty());
}

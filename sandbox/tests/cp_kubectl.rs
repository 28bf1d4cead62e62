//! The real kubectl against the simulated server, over a loopback socket.
//!
//! kubectl is built with the real control plane (`tests/controlplane/build`); without it these tests fail and say how to get it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "api/served.rs"]
mod served;
#[path = "api/support.rs"]
#[allow(dead_code, reason = "shared with tests/api.rs, which uses the rest")]
mod support;

use sandbox::api::kubeconfig;
use served::{Served, served};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

struct Kubectl {
    program: PathBuf,
    served: Served,
    home: PathBuf,
}

/// Where the build put kubectl.
fn program() -> PathBuf {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/controlplane/build");
    let answer = std::process::Command::new(&build).arg("--where").output();
    let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", build.display()));
    let folder = PathBuf::from(String::from_utf8(answer.stdout).unwrap().trim_end());
    let program = folder.join("kubectl");
    assert!(
        answer.status.success() && program.is_file(),
        "no kubectl in {}: run `make control-plane` (needs Go 1.26 or newer), or set KUBEBUILDER_ASSETS to a folder with it",
        folder.display()
    );
    program
}

impl Kubectl {
    async fn start() -> Self {
        let program = program();
        let served = served().await;
        let home = std::env::temp_dir().join(format!(
            "sandbox-kubectl-{}-{}",
            std::process::id(),
            served.address.port()
        ));
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(home.join("config"), kubeconfig(served.address, "secret")).unwrap();
        Self { program, served, home }
    }

    async fn run(&self, arguments: &str, input: &str) -> (bool, String) {
        let config: &Path = &self.home.join("config");
        let mut child = Command::new(&self.program)
            .args(arguments.split_whitespace())
            .env("HOME", &self.home)
            .env("KUBECONFIG", config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    /// Runs and expects success; the words must all be in what it says.
    async fn says(&self, arguments: &str, input: &str, words: &[&str]) {
        let (fine, text) = self.run(arguments, input).await;
        assert!(fine, "kubectl {arguments}: {text}");
        for word in words {
            assert!(text.contains(word), "kubectl {arguments} does not say {word:?}: {text}");
        }
    }

    async fn refuses(&self, arguments: &str, input: &str, words: &str) {
        let (fine, text) = self.run(arguments, input).await;
        assert!(
            !fine && text.contains(words),
            "kubectl {arguments} does not refuse with {words:?}: {text}"
        );
    }
}

impl Drop for Kubectl {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.home);
    }
}

const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: 'app:1', resources: {requests: {cpu: '1'}}}]}
";

const CLASS: &str = "apiVersion: karpenter.rackspace.com/v1
kind: RackspaceSpotNodeClass
metadata: {name: default}
spec: {bidPercentile: P50}
";

#[tokio::test]
async fn kubectl_reads() {
    let kubectl = Kubectl::start().await;
    kubectl
        .says("get pods", "", &["NAME", "READY", "STATUS", "one", "0/1", "Pending"])
        .await;
    kubectl
        .says("get pods -A -o wide", "", &["NAMESPACE", "NOMINATED NODE", "default"])
        .await;
    kubectl
        .says("get karpenter", "", &["nodepool.karpenter.sh/general", "NODECLASS"])
        .await;
    kubectl.says("get nodepools -o wide", "", &["WEIGHT", "MEMORY"]).await;
    kubectl
        .says(
            "get nodepool general -o yaml",
            "",
            &["consolidateAfter: 0s", "expireAfter: 720h"],
        )
        .await;
    kubectl
        .says("get pod one -o json", "", &["\"schedulerName\": \"default-scheduler\""])
        .await;
    kubectl
        .says(
            "get pods --field-selector spec.nodeName= -l !x -o name",
            "",
            &["pod/one", "pod/two"],
        )
        .await;
    kubectl
        .says("describe pod one", "", &["Name:", "default", "Events:"])
        .await;
    kubectl
        .says("describe nodepool general", "", &["Node Class Ref", "Budgets"])
        .await;
    kubectl
        .says("api-resources", "", &["rackspacespotnodeclasses", "rsnc"])
        .await;
    // How it ends when its time is over is kubectl's affair; what it saw until then is ours.
    let (_, watched) = kubectl.run("get pods -w --request-timeout=1s", "").await;
    assert!(watched.contains("one") && watched.contains("two"), "{watched}");
    kubectl
        .refuses(
            "get pod nope",
            "",
            "Error from server (NotFound): pods \"nope\" not found",
        )
        .await;
}

#[tokio::test]
async fn kubectl_applies_and_changes() {
    let kubectl = Kubectl::start().await;
    kubectl
        .says("apply -f -", DEPLOYMENT, &["deployment.apps/web created"])
        .await;
    kubectl
        .says("apply -f -", DEPLOYMENT, &["deployment.apps/web unchanged"])
        .await;
    kubectl
        .says(
            "apply -f -",
            &DEPLOYMENT.replace("app:1", "app:2"),
            &["deployment.apps/web configured"],
        )
        .await;
    kubectl
        .says(
            "get deployment web -o yaml",
            "",
            &["image: app:2", "cpu: \"1\"", "generation: 2"],
        )
        .await;
    kubectl
        .says("apply --server-side -f -", CLASS, &["serverside-applied"])
        .await;
    kubectl
        .says("scale deployment web --replicas=3", "", &["deployment.apps/web scaled"])
        .await;
    kubectl
        .says("get deploy web -o jsonpath={.spec.replicas}", "", &["3"])
        .await;
    kubectl.says("label nodepool general team=a", "", &["labeled"]).await;
    kubectl
        .says("annotate nodepool general note=b", "", &["annotated"])
        .await;
    kubectl
        .says(
            "patch nodepool general --type=merge -p {\"spec\":{\"weight\":5}}",
            "",
            &["patched"],
        )
        .await;
    kubectl
        .says(
            "patch pod one -p {\"metadata\":{\"labels\":{\"x\":\"y\"}}}",
            "",
            &["patched"],
        )
        .await;
}

#[tokio::test]
async fn kubectl_creates_deletes_and_hears_refusals() {
    let kubectl = Kubectl::start().await;
    let team = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n";
    kubectl.says("create -f -", team, &["namespace/team created"]).await;
    // Its generators send protobuf, which is not spoken here.
    kubectl.refuses("create namespace other", "", "protobuf").await;
    kubectl
        .says("delete pod one --wait", "", &["pod \"one\" deleted"])
        .await;
    kubectl.says("delete namespace team --wait", "", &["deleted"]).await;
    kubectl
        .refuses("apply -f -", &CLASS.replace("P50", "P51"), "Unsupported value: \"P51\"")
        .await;
    kubectl
        .refuses(
            "apply -f -",
            &CLASS.replace("spec:", "spec2: 1\nspec:"),
            "unknown field",
        )
        .await;
    assert!(kubectl.served.server.handle().get("pods", "default", "one").is_none());
}

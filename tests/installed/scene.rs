//! The real control plane, the simulated platform, and an operator that is given exactly what an installation gives it.

use crate::support::cloud::beside;
use crate::support::controlplane::{ControlPlane, eventually};
use crate::support::written;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, ValidationDirective};
use kube::core::GroupVersionKind;
use kube::discovery::{self, Scope};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio_util::sync::{CancellationToken, DropGuard};

const BINARY: &str = env!("CARGO_BIN_EXE_karpenter-provider-rackspace-spot");
/// What the real thing needs at most, on a busy machine.
pub const WITHIN: Duration = Duration::from_mins(4);

pub struct Scene {
    pub plane: ControlPlane,
    pub platform: SocketAddr,
    operator: Option<Child>,
    log: PathBuf,
    _stop: DropGuard,
}

impl Scene {
    /// Control plane and platform; no CRDs, no operator.
    pub async fn start(name: &str) -> Self {
        let log = written::log(name);
        let plane = ControlPlane::start().await;
        let stop = CancellationToken::new();
        let platform = beside(&plane, name, stop.clone()).await;
        Self {
            plane,
            platform,
            operator: None,
            log,
            _stop: stop.drop_guard(),
        }
    }

    /// Starts an operator with this kubeconfig and environment; the platform's addresses are added.
    pub fn start_operator(&mut self, kubeconfig: &Path, environment: &[(String, String)]) {
        let base = format!("http://{}", self.platform);
        let log = std::fs::OpenOptions::new().append(true).open(&self.log).unwrap();
        let child = Command::new(BINARY)
            .args(["--metrics-port=0", "--health-probe-port=0"])
            .env_clear()
            .envs(environment.iter().cloned())
            .envs([
                ("KUBECONFIG", kubeconfig.to_str().unwrap()),
                ("SPOT_BASE_URL", &base),
                ("SPOT_AUTH_URL", &base),
                ("NGPC_PRICE_DETAILS_URL", &format!("{base}/percentiles.json")),
                ("LOG_LEVEL", "debug"),
            ])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        self.operator = Some(child);
    }

    /// Asks the operator to stop, as the kubelet does, and waits for it.
    pub async fn stop_operator(&mut self) {
        let mut operator = self.operator.take().unwrap();
        let id = operator.id().unwrap().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .await
                .unwrap()
                .success()
        );
        let ended = tokio::time::timeout(Duration::from_secs(30), operator.wait()).await;
        assert!(ended.unwrap().unwrap().success(), "{}", self.log());
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// The text of a scrape of the running operator.
    pub async fn scrape(&self) -> String {
        written::scrape(&self.log).await
    }

    /// Keeps what the running operator shows, for who looks for secrets in it.
    pub async fn keep_what_is_shown(&self, name: &str) {
        written::keep(&self.plane.client().await, &self.log, name).await;
    }

    async fn api(&self, api_version: &str, kind: &str) -> (Api<DynamicObject>, ApiResource, Scope) {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = GroupVersionKind::gvk(group, version, kind);
        let client = self.plane.client().await;
        let (resource, capabilities) = discovery::pinned_kind(&client, &kind).await.unwrap();
        (Api::all_with(client, &resource), resource, capabilities.scope)
    }

    /// Applies an object; a field that its kind does not have is refused.
    pub async fn apply(&self, object: &Value, namespace: &str) -> Result<(), String> {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let (all, resource, scope) = self.api(&text("/apiVersion"), &text("/kind")).await;
        let api = if scope == Scope::Cluster {
            all
        } else {
            let own = text("/metadata/namespace");
            let namespace = if own.is_empty() { namespace } else { &own };
            Api::namespaced_with(self.plane.client().await, namespace, &resource)
        };
        let how = PatchParams {
            field_validation: Some(ValidationDirective::Strict),
            ..PatchParams::apply("test").force()
        };
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let name = object.metadata.name.clone().unwrap();
        let applied = api.patch(&name, &how, &Patch::Apply(&object)).await;
        applied
            .map(drop)
            .map_err(|error| format!("{} {name}: {error}", text("/kind")))
    }

    /// Merges into an object, or into its status.
    pub async fn merge(&self, api_version: &str, kind: &str, name: &str, patch: &Value) {
        let (api, _, _) = self.api(api_version, kind).await;
        let params = PatchParams::default();
        if patch.get("status").is_some() {
            api.patch_status(name, &params, &Patch::Merge(patch)).await.unwrap();
        } else {
            api.patch(name, &params, &Patch::Merge(patch)).await.unwrap();
        }
    }

    pub async fn delete(&self, api_version: &str, kind: &str, name: &str) {
        let (api, _, _) = self.api(api_version, kind).await;
        api.delete(name, &kube::api::DeleteParams::default()).await.unwrap();
    }

    /// All objects of a kind.
    pub async fn objects(&self, api_version: &str, kind: &str) -> Vec<Value> {
        let (api, _, _) = self.api(api_version, kind).await;
        let list = api.list(&ListParams::default()).await.unwrap();
        list.items
            .into_iter()
            .map(|object| serde_json::to_value(object).unwrap())
            .collect()
    }

    pub async fn claims(&self) -> Vec<Value> {
        self.objects("karpenter.sh/v1", "NodeClaim").await
    }

    pub async fn nodes(&self) -> Vec<Value> {
        self.objects("v1", "Node").await
    }

    /// Pods of the namespace `default`.
    pub async fn pods(&self) -> Vec<Value> {
        let all = self.objects("v1", "Pod").await;
        all.into_iter()
            .filter(|pod| pod["metadata"]["namespace"] == "default")
            .collect()
    }

    pub async fn scale(&self, deployment: &str, replicas: u32) {
        let patch = json!({ "spec": { "replicas": replicas } });
        let request = http::Request::patch(format!(
            "/apis/apps/v1/namespaces/default/deployments/{deployment}/scale"
        ))
        .header("content-type", "application/merge-patch+json")
        .body(serde_json::to_vec(&patch).unwrap())
        .unwrap();
        self.plane.client().await.request::<Value>(request).await.unwrap();
    }

    /// What the platform says of itself.
    pub async fn platform(&self, what: &str) -> Value {
        let url = format!("http://{}/_sandbox/{what}", self.platform);
        reqwest::get(url).await.unwrap().json().await.unwrap()
    }

    /// Waits for something; on failure shows what the operator wrote last.
    pub async fn until(&self, what: &str, condition: impl AsyncFn() -> bool) {
        let waiting = eventually(what, WITHIN, async || condition().await.then_some(()));
        let shown = tokio::time::timeout(WITHIN.saturating_sub(Duration::from_secs(1)), waiting).await;
        if shown.is_err() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines
                .get(lines.len().saturating_sub(60)..)
                .unwrap_or_default()
                .join("\n");
            panic!("not so: {what}\n{last}");
        }
    }

    pub async fn nothing_left(&self) {
        self.until("nothing is left", async || {
            self.claims().await.is_empty()
                && self.nodes().await.is_empty()
                && self.platform("summary").await["pools"].as_u64() == Some(0)
        })
        .await;
    }
}

pub fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

pub fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// Pods by name with the node they run on.
pub fn bound(pods: &[Value]) -> Vec<(String, String)> {
    let node = |pod: &Value| pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    let mut all: Vec<_> = pods.iter().map(|pod| (uid(pod), node(pod))).collect();
    all.sort();
    all
}

pub fn condition<'o>(object: &'o Value, type_: &str) -> Option<&'o Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == type_)
}

//! A whole scene on the real control plane: the four programs, the simulated platform with its machines, and the operator as its own process.

use super::controlplane::ControlPlane;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use sandbox::commands::cloud::Cloud;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio_util::sync::{CancellationToken, DropGuard};

const BINARY: &str = env!("CARGO_BIN_EXE_karpenter-provider-rackspace-spot");
/// What the real thing needs at most, on a busy machine.
pub const WITHIN: Duration = Duration::from_mins(3);

/// Seconds where the platform takes minutes: the platform's half of the options, to be added to.
pub const PLATFORM: &str = "
spot:
  delays:
    auction: 1
    pending: 0.2
    build: {between: [1, 2]}
    join: {between: [0.5, 1]}
    ready: {between: [1, 2]}
    labels: {between: [0, 0.5]}
    taints: 2
    cloudController: 0.5
    release: 1
    nodeDeletion: {between: [2, 3]}
";
/// The machines' half.
const MACHINES: &str = "machines: {podStartSeconds: 0.5, podStopSeconds: 0.5}\n";

/// The scene.
pub struct Stage {
    plane: ControlPlane,
    platform: SocketAddr,
    http: reqwest::Client,
    operator: Option<Child>,
    settings: Vec<(String, String)>,
    log: PathBuf,
    _stop: DropGuard,
}

impl Stage {
    /// Everything started, the samples' NodeClass applied; `settings` are added to the operator's environment.
    pub async fn start(settings: &[(&str, &str)]) -> Self {
        Self::start_with(settings, PLATFORM).await
    }

    /// The same with other options of the platform.
    pub async fn start_with(settings: &[(&str, &str)], options: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME"));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("platform-{number}.yaml"));
        std::fs::write(&file, format!("{options}{MACHINES}")).unwrap();
        let plane = ControlPlane::start().await;
        plane.apply_crds().await;
        let stop = CancellationToken::new();
        let cloud = Cloud {
            kubeconfig: Some(plane.admin_kubeconfig().to_owned()),
            listen: "127.0.0.1:0".parse().unwrap(),
            speed: None,
            seed: Some(7),
            options: Some(file),
            allow_remote: false,
        };
        let (ready, address) = tokio::sync::oneshot::channel();
        let token = stop.clone();
        let serving = Box::pin(cloud.run(|address| _ = ready.send(address), token));
        tokio::spawn(async move {
            serving.await.unwrap();
        });
        let platform = address.await.unwrap();
        let mut stage = Self {
            plane,
            platform,
            http: reqwest::Client::new(),
            operator: None,
            settings: settings
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            log: folder.join(format!("operator-{number}.log")),
            _stop: stop.drop_guard(),
        };
        std::fs::write(&stage.log, "").unwrap();
        stage.start_operator();
        stage.apply(include_str!("../../config/samples/nodeclass.yaml")).await;
        stage
    }

    /// Starts the operator (again), with the log added to.
    pub fn start_operator(&mut self) {
        let base = format!("http://{}", self.platform);
        let log = std::fs::OpenOptions::new().append(true).open(&self.log).unwrap();
        let child = Command::new(BINARY)
            .args(["--metrics-port=0", "--health-probe-port=0"])
            .env_clear()
            .envs([
                ("KUBECONFIG", self.plane.admin_kubeconfig().to_str().unwrap()),
                ("SPOT_CLOUDSPACE_NAME", "sandbox"),
                ("SPOT_REFRESH_TOKEN", "sandbox-refresh-token"),
                ("SPOT_BASE_URL", &base),
                ("SPOT_AUTH_URL", &base),
                ("NGPC_PRICE_DETAILS_URL", &format!("{base}/percentiles.json")),
                ("LOG_LEVEL", "debug"),
            ])
            .envs(self.settings.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        self.operator = Some(child);
    }

    /// Ends the operator at once, as the kernel would.
    pub async fn kill_operator(&mut self) {
        if let Some(mut operator) = self.operator.take() {
            operator.kill().await.unwrap();
        }
    }

    /// What the operator wrote.
    pub fn operator_log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// The administrator's client.
    pub async fn client(&self) -> Client {
        self.plane.client().await
    }

    /// Applies manifests; namespaced ones go to `default`.
    pub async fn apply(&self, yaml: &str) {
        self.plane.apply(yaml, "default").await;
    }

    /// All objects of a kind.
    pub async fn objects(&self, group: &str, version: &str, kind: &str, plural: &str) -> Vec<Value> {
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: if group.is_empty() {
                version.to_owned()
            } else {
                format!("{group}/{version}")
            },
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        let api: Api<DynamicObject> = Api::all_with(self.client().await, &resource);
        let list = api.list(&ListParams::default()).await.unwrap();
        list.items
            .into_iter()
            .map(|object| serde_json::to_value(object).unwrap())
            .collect()
    }

    /// All NodeClaims.
    pub async fn claims(&self) -> Vec<Value> {
        self.objects("karpenter.sh", "v1", "NodeClaim", "nodeclaims").await
    }

    /// All Nodes.
    pub async fn nodes(&self) -> Vec<Value> {
        self.objects("", "v1", "Node", "nodes").await
    }

    /// All pods of the namespace `default`.
    pub async fn pods(&self) -> Vec<Value> {
        let all = self.objects("", "v1", "Pod", "pods").await;
        all.into_iter()
            .filter(|pod| pod["metadata"]["namespace"] == "default")
            .collect()
    }

    /// What the platform says of itself: pools, bids, cost.
    pub async fn platform(&self, what: &str) -> Value {
        let url = format!("http://{}/_sandbox/{what}", self.platform);
        self.http.get(url).send().await.unwrap().json().await.unwrap()
    }

    /// Does something to the platform.
    pub async fn control(&self, what: &Value) {
        let url = format!("http://{}/_sandbox/control", self.platform);
        let answer = self.http.post(url).json(what).send().await.unwrap();
        assert!(answer.status().is_success(), "{what}: {}", answer.text().await.unwrap());
    }

    /// Scales a Deployment or StatefulSet of the namespace `default`.
    pub async fn scale(&self, kind: &str, name: &str, replicas: u32) {
        let client = self.client().await;
        let plural = format!("{}s", kind.to_lowercase());
        let body = json!({ "spec": { "replicas": replicas } });
        let request = http::Request::patch(format!("/apis/apps/v1/namespaces/default/{plural}/{name}/scale"))
            .header("content-type", "application/merge-patch+json")
            .body(serde_json::to_vec(&body).unwrap())
            .unwrap();
        client.request::<Value>(request).await.unwrap();
    }

    /// Waits until so many pods are bound and running.
    pub async fn bound(&self, pods: usize) {
        let what = format!("{pods} bound pods");
        self.until(&what, async || {
            let all = self.pods().await;
            let bound = all.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count();
            all.len() == pods && bound == pods
        })
        .await;
    }

    /// Waits until no claim, no node and no pool is left.
    pub async fn nothing_left(&self) {
        self.until("nothing left", async || {
            let pools = self.platform("summary").await["pools"].as_u64().unwrap();
            pools == 0 && self.claims().await.is_empty() && self.nodes().await.is_empty()
        })
        .await;
    }

    /// Waits for something; on failure shows what the operator wrote last.
    pub async fn until(&self, what: &str, condition: impl AsyncFn() -> bool) {
        let waited = tokio::time::timeout(WITHIN, async {
            while !condition().await {
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
        });
        if waited.await.is_err() {
            let log = self.operator_log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines
                .get(lines.len().saturating_sub(60)..)
                .unwrap_or_default()
                .join("\n");
            let claims = serde_json::to_string_pretty(&self.claims().await).unwrap();
            let summary = self.platform("summary").await;
            panic!("not within {WITHIN:?}: {what}\noperator:\n{last}\nclaims: {claims}\nplatform: {summary}");
        }
    }
}

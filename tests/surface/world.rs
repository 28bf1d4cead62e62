//! One run of the whole operator in the simulated world, and everything it showed.

use axum::Router;
use axum::body::Body;
use karpenter::cloud::spot::ServiceTransport;
use karpenter::operator::logging::{Format, LogLayer, LogSetup, Outputs};
use karpenter::operator::{
    Candidacy, Environment, FirstLogin, Listen, Listeners, LogLevel, Options, Setup, Solving, run,
};
use sandbox::world::World;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tracing_subscriber::layer::SubscriberExt as _;

const MINUTE: Duration = Duration::from_mins(1);

/// What a run showed.
pub struct Shown {
    /// While servers are awaited.
    pub waiting: String,
    /// With running pods, one that waits and one node that is going.
    pub busy: String,
    /// When everything is gone.
    pub quiet: String,
    /// All Events.
    pub events: Vec<Value>,
    /// Every condition of claims, pools and classes that was ever seen: kind, type, status, reason, message.
    pub conditions: Vec<[String; 5]>,
    /// All log lines as they were written.
    pub written: Vec<String>,
    /// The same, read.
    pub lines: Vec<Value>,
    /// Names of claims and nodes that came and went.
    pub names: Vec<String>,
}

/// The one run, made by whoever asks first.
pub fn shown() -> &'static Shown {
    static SHOWN: OnceLock<Shown> = OnceLock::new();
    SHOWN.get_or_init(|| on_a_paused_clock(whole_run))
}

/// Runs on a thread and a paused clock of its own.
pub fn on_a_paused_clock<T: Send, F: Future<Output = T>>(work: impl FnOnce() -> F + Send) -> T {
    std::thread::scope(|scope| {
        let runner = scope.spawn(|| {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().start_paused(true).build().unwrap();
            runtime.block_on(work())
        });
        runner.join().unwrap()
    })
}

/// A world and an operator in it.
pub struct Stage {
    pub world: World,
    routes: Arc<OnceLock<Router>>,
    stop: CancellationToken,
    seen: Mutex<BTreeSet<[String; 5]>>,
    names: Mutex<BTreeSet<String>>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Stage {
    pub async fn start(settings: &[(&str, &str)]) -> Self {
        let world = World::builder(11)
            .with(|options| options.spot = sandbox::spot::Options::short())
            .start()
            .await
            .unwrap();
        let with = |environment: Environment, (name, value): &(&str, &str)| environment.with(name, value);
        let environment = settings.iter().fold(world.settings(), with);
        let routes = Arc::new(OnceLock::new());
        let setup = Setup {
            options: Options::read([], &environment).unwrap(),
            kube: world.api().client_as("operator", &["system:masters"]),
            transport: Arc::new(ServiceTransport::<_, Body>::new(world.spot_router())),
            clock: Arc::clone(world.clock()),
            seed: 1,
            listeners: Listeners {
                metrics: Listen::Inside(Arc::clone(&routes)),
                health: Listen::Off,
            },
            solving: Solving::Inline,
            candidacy: Candidacy::Alone,
            first_login: FirstLogin::Required,
        };
        let stop = CancellationToken::new();
        tokio::spawn(run(setup, stop.clone()));
        Self {
            world,
            routes,
            stop,
            seen: Mutex::default(),
            names: Mutex::default(),
        }
    }

    pub async fn scrape(&self) -> String {
        let request = http::Request::get("/metrics").body(Body::empty()).unwrap();
        let answer = self.routes.get().unwrap().clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
        assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        String::from_utf8(body.to_vec()).unwrap()
    }

    pub async fn until(&self, what: &str, minutes: u32, mut holds: impl FnMut(&World) -> bool) {
        let watched = |world: &World| {
            self.look(world);
            holds(world)
        };
        self.world.wait_until(what, minutes * MINUTE, watched).await.unwrap();
    }

    pub async fn apply(&self, object: Value) {
        self.world.apply_value(&object).await.unwrap();
    }

    /// Takes down the conditions and names that are there now.
    fn look(&self, world: &World) {
        let (mut seen, mut names) = (self.seen.lock().unwrap(), self.names.lock().unwrap());
        for (kind, plural) in [
            ("NodeClaim", "nodeclaims.karpenter.sh"),
            ("NodePool", "nodepools.karpenter.sh"),
            (
                "RackspaceSpotNodeClass",
                "rackspacespotnodeclasses.karpenter.rackspace.com",
            ),
        ] {
            for object in world.values(plural) {
                if kind == "NodeClaim" {
                    names.insert(object["metadata"]["name"].as_str().unwrap().to_owned());
                }
                for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
                    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
                    let key = [
                        kind.to_owned(),
                        text("type"),
                        text("status"),
                        text("reason"),
                        text("message"),
                    ];
                    seen.insert(key);
                }
            }
        }
        for node in world.nodes() {
            names.insert(node.metadata.name.unwrap());
        }
    }
}

pub fn class() -> Value {
    json!({ "apiVersion": "karpenter.rackspace.com/v1", "kind": "RackspaceSpotNodeClass", "metadata": { "name": "default" }, "spec": {} })
}

pub fn pool(name: &str, class: &str) -> Value {
    let class = json!({ "group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": class });
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": name },
        "spec": { "template": { "spec": { "nodeClassRef": class, "expireAfter": "Never",
                "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }] } },
            "limits": { "cpu": "100", "nodes": "20" },
            "disruption": { "consolidateAfter": "30s", "consolidationPolicy": "WhenEmpty", "budgets": [{ "nodes": "100%" }] } },
    })
}

pub fn deployment(name: &str, replicas: u32, spec: &Value) -> Value {
    let mut pod = json!({ "terminationGracePeriodSeconds": 20, "containers": [
        { "name": "main", "image": "app:1", "resources": { "requests": { "cpu": "1" }, "limits": { "memory": "1Gi" } } }] });
    for (key, value) in spec.as_object().unwrap() {
        pod[key] = value.clone();
    }
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": pod } } })
}

fn daemon_set() -> Value {
    let tolerations = json!([{ "operator": "Exists" }]);
    let containers = json!([{ "name": "main", "image": "agent:1", "resources": { "requests": { "cpu": "50m", "memory": "64Mi" }, "limits": { "memory": "64Mi" } } }]);
    json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent" },
        "spec": { "selector": { "matchLabels": { "app": "agent" } }, "template": {
            "metadata": { "labels": { "app": "agent" } },
            "spec": { "tolerations": tolerations, "containers": containers } } } })
}

/// Pods become nodes; one node is drained against a budget, one pod never fits; then everything goes.
async fn whole_run() -> Shown {
    let (outputs, memory) = Outputs::in_memory();
    let stage = Stage::start(&[]).await;
    let setup = LogSetup {
        level: LogLevel::Debug,
        format: Format::Json,
        clock: Arc::clone(stage.world.clock()),
        commit: None,
    };
    let subscriber = tracing_subscriber::registry().with(LogLayer::new(setup, outputs));
    let _logs = tracing::subscriber::set_default(subscriber);

    stage.apply(pool("lost", "nowhere")).await;
    stage.apply(class()).await;
    stage.apply(pool("default", "default")).await;
    stage.apply(daemon_set()).await;
    stage.apply(deployment("web", 3, &json!({}))).await;
    let same = json!({ "matchLabels": { "app": "never" } });
    let far =
        json!({ "weight": 1, "podAffinityTerm": { "topologyKey": "kubernetes.io/hostname", "labelSelector": same } });
    let nowhere = json!({
        "nodeSelector": { "example.com/nowhere": "true" },
        "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [far] } },
        "topologySpreadConstraints": [
            { "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": same }],
    });
    stage.apply(deployment("never", 1, &nowhere)).await;
    stage.until("claims are made", 5, |w| !w.claims().is_empty()).await;
    stage.world.pass(Duration::from_secs(2)).await;
    let waiting = stage.scrape().await;
    stage
        .until("three pods run", 20, |w| w.ready() >= 3 + w.nodes().len())
        .await;
    stage.until("nodes are initialized", 10, initialized).await;

    let busy = drained_against_a_budget(&stage).await;

    stage.world.scale("deployment/web", 0).await.unwrap();
    stage.world.delete("deployment/never").await.unwrap();
    stage.world.delete("daemonset/agent").await.unwrap();
    stage
        .until("nothing is left", 30, |w| {
            w.claims().is_empty() && w.nodes().is_empty() && w.pods().is_empty() && w.pools().is_empty()
        })
        .await;
    for pool in ["lost", "default"] {
        stage.world.delete(&format!("nodepool/{pool}")).await.unwrap();
    }
    stage.world.pass(Duration::from_mins(1)).await;
    let quiet = stage.scrape().await;
    let text = String::from_utf8(memory.lock().unwrap().clone()).unwrap();
    Shown {
        waiting,
        busy,
        quiet,
        events: stage.world.values("events"),
        conditions: stage.seen.lock().unwrap().iter().cloned().collect(),
        written: text.lines().map(str::to_owned).collect(),
        lines: text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        names: stage.names.lock().unwrap().iter().cloned().collect(),
    }
}

/// A claim is deleted while a budget lets none of its pods go; yields a scrape of that time.
async fn drained_against_a_budget(stage: &Stage) -> String {
    let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "web" } } } });
    stage.apply(budget).await;
    stage.world.pass(Duration::from_secs(10)).await;
    let claim = stage.world.claims().remove(0);
    stage.world.delete(&format!("nodeclaim/{claim}")).await.unwrap();
    stage.world.pass(Duration::from_mins(3)).await;
    let busy = stage.scrape().await;
    stage.world.delete("poddisruptionbudget/web").await.unwrap();
    stage
        .until("the claim is gone", 20, |w| !w.claims().contains(&claim))
        .await;
    stage
        .until("the pods run elsewhere", 20, |w| w.ready() >= 3 + w.nodes().len())
        .await;
    busy
}

fn initialized(world: &World) -> bool {
    let nodes = world.nodes();
    let is_so = |node: &k8s_openapi::api::core::v1::Node| {
        let labels = node.metadata.labels.as_ref();
        labels.is_some_and(|labels| {
            labels
                .get("karpenter.sh/initialized")
                .is_some_and(|value| value == "true")
        })
    };
    !nodes.is_empty() && nodes.iter().all(is_so)
}

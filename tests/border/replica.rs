//! Whole operators as their probes, their scrapes and their logs show them: what a replica says that stands by, and how it names what does not work.

use crate::lines::{Disturbance, Lines};
use crate::world::MINUTE;
use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use karpenter::cloud::spot::{ServiceTransport, Transport, TransportError};
use karpenter::k8s::election::{LeaseSettings, Terms};
use karpenter::operator::logging::{Format, LogLayer, LogSetup, Outputs};
use karpenter::operator::{
    Candidacy, Environment, FirstLogin, Listen, Listeners, LogLevel, Options, RunError, Setup, Solving, run,
};
use sandbox::world::World;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt as _;

const SYNCED: &str = "karpenter_cluster_state_synced";
const UNSYNCED: &str = "karpenter_cluster_state_unsynced_time_seconds";
const STALLED: &str = "karpenter_watchdog_stalled";

/// A world, and everything that was logged in it.
struct Scene {
    world: World,
    memory: Arc<Mutex<Vec<u8>>>,
    _logs: DefaultGuard,
}

/// One operator.
struct Replica {
    metrics: Arc<OnceLock<Router>>,
    health: Arc<OnceLock<Router>>,
    lines: Lines,
    platform: Arc<Platform>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The way to the platform, which may ask for patience.
struct Platform {
    inner: ServiceTransport<Router, Body>,
    busy: AtomicBool,
}

#[async_trait]
impl Transport for Platform {
    async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, TransportError> {
        if self.busy.load(Ordering::Relaxed) {
            let later = http::Response::builder().status(429).header("retry-after", "1500");
            return Ok(later.body(Bytes::new()).unwrap());
        }
        self.inner.send(request).await
    }
}

impl Scene {
    async fn start() -> Self {
        let world = World::builder(5)
            .with(|options| options.spot = sandbox::spot::Options::short())
            .start()
            .await
            .unwrap();
        let (outputs, memory) = Outputs::in_memory();
        let setup = LogSetup {
            level: LogLevel::Info,
            format: Format::Json,
            clock: Arc::clone(world.clock()),
            commit: None,
        };
        let subscriber = tracing_subscriber::registry().with(LogLayer::new(setup, outputs));
        let logs = tracing::subscriber::set_default(subscriber);
        world.apply_value(&class()).await.unwrap();
        world.apply_value(&pool()).await.unwrap();
        Self {
            world,
            memory,
            _logs: logs,
        }
    }

    fn alone(&self, settings: &[(&str, &str)]) -> Replica {
        self.replica("operator", Candidacy::Alone, settings)
    }

    fn one_of_several(&self, user: &str, settings: &[(&str, &str)]) -> Replica {
        let lease = LeaseSettings {
            namespace: "default".into(),
            name: "karpenter-leader-election".into(),
            identity: format!("{user}_1"),
            terms: Terms::default(),
        };
        self.replica(user, Candidacy::Lease(lease), settings)
    }

    fn replica(&self, user: &str, candidacy: Candidacy, settings: &[(&str, &str)]) -> Replica {
        let with = |environment: Environment, (name, value): &(&str, &str)| environment.with(name, value);
        let environment = settings.iter().fold(self.world.settings(), with);
        let (metrics, health, lines): (Arc<OnceLock<Router>>, Arc<OnceLock<Router>>, _) =
            (Arc::default(), Arc::default(), Lines::default());
        let platform = Arc::new(Platform {
            inner: ServiceTransport::new(self.world.spot_router()),
            busy: AtomicBool::new(false),
        });
        let setup = Setup {
            options: Options::read([], &environment).unwrap(),
            kube: lines.client(self.world.api(), user),
            transport: Arc::clone(&platform) as Arc<dyn Transport>,
            clock: Arc::clone(self.world.clock()),
            seed: 1,
            listeners: Listeners {
                metrics: Listen::Inside(Arc::clone(&metrics)),
                health: Listen::Inside(Arc::clone(&health)),
            },
            solving: Solving::Inline,
            candidacy,
            first_login: FirstLogin::Required,
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(setup, stop.clone()));
        Replica {
            metrics,
            health,
            lines,
            platform,
            stop,
            task,
        }
    }

    /// All log lines of this level, or with this message.
    fn logged(&self, wanted: &str) -> Vec<Value> {
        let text = String::from_utf8(self.memory.lock().unwrap().clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .filter(|line| line["level"] == wanted || line["message"] == wanted)
            .collect()
    }
}

impl Replica {
    async fn get(router: &OnceLock<Router>, path: &str) -> (u16, String) {
        let request = http::Request::get(path).body(Body::empty()).unwrap();
        let answer = router.get().unwrap().clone().oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn probe(&self, path: &str) -> (u16, String) {
        Self::get(&self.health, path).await
    }

    /// The lines of a scrape that show series of this family.
    async fn shown(&self, family: &str) -> Vec<String> {
        let (status, text) = Self::get(&self.metrics, "/metrics").await;
        assert_eq!(status, 200);
        let of_family =
            |line: &&str| line.starts_with(&format!("{family} ")) || line.starts_with(&format!("{family}{{"));
        text.lines().filter(of_family).map(str::to_owned).collect()
    }

    async fn is_ready(&self) -> bool {
        self.probe("/readyz").await == (200, "ok".to_owned())
    }

    /// Waits until `/readyz` fails; yields its words and after how long.
    async fn noticed(&self) -> (String, Duration) {
        let started = Instant::now();
        loop {
            let (status, words) = self.probe("/readyz").await;
            if status != 200 {
                assert_eq!(status, 500, "{words}");
                return (words, started.elapsed());
            }
            assert!(started.elapsed() < 5 * MINUTE, "nothing was noticed");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

fn class() -> Value {
    json!({ "apiVersion": "karpenter.rackspace.com/v1", "kind": "RackspaceSpotNodeClass", "metadata": { "name": "default" }, "spec": {} })
}

fn pool() -> Value {
    let class = json!({ "group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default" });
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "default" },
        "spec": { "template": { "spec": { "nodeClassRef": class, "expireAfter": "Never", "requirements": [] } } },
    })
}

fn deployment() -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "main", "image": "app:1", "resources": { "requests": { "cpu": "1" } } }] } } } })
}

// surface §5.4, surface §6.4, surface §8.2
#[tokio::test(start_paused = true)]
async fn a_replica_that_stands_by_is_ready_and_raises_no_alarm_warm_or_not() {
    // the first is the default
    for (settings, synced) in [
        (&[][..], &[][..]),
        (
            &[("DISABLE_CONTROLLER_WARMUP", "false")],
            &["karpenter_cluster_state_synced 1"],
        ),
    ] {
        let scene = Scene::start().await;
        let leader = scene.one_of_several("first", settings);
        scene.world.pass(Duration::from_secs(20)).await;
        // the first leader met a class without conditions
        let before = scene.logged("ERROR").len();
        let standby = scene.one_of_several("second", settings);
        scene.world.pass(Duration::from_secs(20)).await;
        for _ in 0..60 {
            scene.world.pass(Duration::from_secs(5)).await;
            for replica in [&leader, &standby] {
                assert_eq!(replica.probe("/healthz").await, (200, "ok".to_owned()));
                assert_eq!(replica.probe("/readyz").await, (200, "ok".to_owned()));
                for unsynced in replica.shown(UNSYNCED).await {
                    assert_eq!(unsynced, format!("{UNSYNCED} 0"));
                }
            }
            assert_eq!(standby.shown(SYNCED).await, synced);
        }
        assert_eq!(leader.shown(SYNCED).await, [format!("{SYNCED} 1")]);
        assert!(standby.shown(STALLED).await.is_empty());
        assert_eq!(scene.logged("ERROR")[before..], [] as [Value; 0]);
        // and it takes over as ready as it was
        drop(leader);
        scene.world.pass(MINUTE).await;
        assert!(standby.is_ready().await);
        assert_eq!(standby.shown(SYNCED).await, [format!("{SYNCED} 1")]);
        assert_eq!(scene.logged("ERROR")[before..], [] as [Value; 0]);
    }
}

// surface §8.2
#[tokio::test(start_paused = true)]
async fn a_replica_that_cannot_list_says_so_and_names_the_kinds() {
    let scene = Scene::start().await;
    let settings = [("DISABLE_CONTROLLER_WARMUP", "true")];
    let probe = scene.one_of_several("operator", &settings);
    probe.lines.disturb(Disturbance::HalfLists("pods"));
    probe.lines.disturb(Disturbance::HalfLists("nodeclaims"));
    scene.world.pass(2 * MINUTE).await;
    let lines = scene.logged("cluster is waiting on sync for extended duration");
    assert!(lines.len() > 5, "{lines:?}");
    for line in lines {
        assert_eq!(
            (&line["level"], &line["kinds"]),
            (&json!("ERROR"), &json!("NodeClaim, Pod"))
        );
    }
    assert_eq!(probe.shown(SYNCED).await, [format!("{SYNCED} 0")]);
    let shown = probe.shown(UNSYNCED).await;
    let seconds: f64 = shown[0].rsplit(' ').next().unwrap().parse().unwrap();
    assert!(seconds > 60.0, "{shown:?}");
    assert!(probe.probe("/readyz").await.1.contains("[-]manager failed"));
    probe.lines.mend();
    scene.world.pass(2 * MINUTE).await;
    assert!(probe.is_ready().await);
    assert_eq!(probe.shown(UNSYNCED).await, [format!("{UNSYNCED} 0")]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_hears_nothing_is_named_by_readiness_a_metric_and_the_log_within_a_minute_and_healed() {
    let scene = Scene::start().await;
    let operator = scene.alone(&[]);
    scene.world.pass(2 * MINUTE).await;
    assert!(operator.is_ready().await);
    assert!(operator.shown(STALLED).await.is_empty());
    operator.lines.disturb(Disturbance::DeafWatches("pods"));
    scene.world.apply_value(&deployment()).await.unwrap();
    let (words, took) = operator.noticed().await;
    assert!(took <= MINUTE, "{took:?}");
    assert!(words.contains("[-]watchdog failed: watch Pod: silent for 5"), "{words}");
    assert_eq!(
        operator.shown(STALLED).await,
        [format!("{STALLED}{{kind=\"watch\",name=\"Pod\"}} 1")]
    );
    let told = scene.logged("stalled");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (&told[0]["level"], &told[0]["part"], &told[0]["cure"]),
        (&json!("ERROR"), &json!("watch Pod"), &json!("listing again"))
    );
    operator.lines.mend();
    scene.world.pass(Duration::from_secs(15)).await;
    assert!(operator.is_ready().await);
    assert_eq!(
        operator.shown(STALLED).await,
        [format!("{STALLED}{{kind=\"watch\",name=\"Pod\"}} 0")]
    );
    assert_eq!(scene.logged("works again").len(), 1);
    // the pod whose coming was lost gets its server
    scene
        .world
        .wait_until("the pod runs", 30 * MINUTE, |world| world.ready() == 1)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_waits_is_named_by_readiness_a_metric_and_the_log_within_a_minute() {
    let scene = Scene::start().await;
    let operator = scene.alone(&[]);
    scene.world.pass(2 * MINUTE).await;
    operator.platform.busy.store(true, Ordering::Relaxed);
    // within the time that one call may take
    scene.world.pass(MINUTE).await;
    scene.world.apply_value(&deployment()).await.unwrap();
    let (words, _) = operator.noticed().await;
    assert!(words.contains("[-]watchdog failed: controller "), "{words}");
    assert!(words.contains(": one run takes 5"), "{words}");
    assert!(
        operator
            .shown(STALLED)
            .await
            .iter()
            .any(|line| line.contains("kind=\"controller\"") && line.ends_with(" 1"))
    );
    assert!(scene.logged("stalled").iter().all(|line| line["cure"] == "waiting"));
}

// rackspace-spot 2.4
#[tokio::test(start_paused = true)]
async fn an_operator_that_is_told_to_be_patient_is_not_ended_by_its_own_watchdog() {
    let scene = Scene::start().await;
    let settings = [("SPOT_RETRY_WAIT_MAX", "30m"), ("SPOT_REQUEST_TIMEOUT", "30s")];
    let operator = scene.alone(&settings);
    scene.world.pass(2 * MINUTE).await;
    operator.platform.busy.store(true, Ordering::Relaxed);
    scene.world.apply_value(&deployment()).await.unwrap();
    scene.world.pass(Duration::from_hours(3)).await;
    assert!(!operator.task.is_finished(), "{:?}", scene.logged("stalled"));
    let longest = scene.logged("stalled");
    assert!(!longest.is_empty(), "nobody waited");
    operator.platform.busy.store(false, Ordering::Relaxed);
    scene
        .world
        .wait_until("the pod runs", 90 * MINUTE, |world| world.ready() == 1)
        .await
        .unwrap();
    assert!(operator.is_ready().await);
}

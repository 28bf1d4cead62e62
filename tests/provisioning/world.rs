//! The simulated world with an operator in it, on a paused clock: platform, machines, workloads and scheduler are there, nothing is played by hand.
//!
//! Shared by `tests/provisioning.rs` and `tests/lifecycle.rs`.

use axum::Router;
use axum::body::Body;
use chrono::{DateTime, Utc};
use karpenter::cloud::spot::ServiceTransport;
use karpenter::operator::{Candidacy, FirstLogin, Listeners, Options, RunError, Setup, Solving, run};
use sandbox::api::{ApiFaults, EventKind, FaultRule, HookPoint, HookVerdict};
use sandbox::spot::{Control, Options as SpotOptions};
use sandbox::world::{World, WorldOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;

pub const CLAIMS: &str = "nodeclaims.karpenter.sh";
pub const USER: &str = "operator";
pub const MINUTE: Duration = Duration::from_mins(1);

/// When each claim appeared and went, by UID.
type Lives = Arc<Mutex<BTreeMap<String, Life>>>;

/// What was seen of one claim.
#[derive(Clone)]
pub struct Life {
    pub name: String,
    pub came: DateTime<Utc>,
    pub went: Option<DateTime<Utc>>,
    /// As it was last.
    pub last: Value,
}

impl std::fmt::Debug for Life {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let went = self.went.map(|went| went.time().to_string()).unwrap_or_default();
        write!(f, "{} {}–{went} {}", self.name, self.came.time(), self.last["status"])
    }
}

/// A world and its operator.
pub struct Inside {
    pub world: World,
    way: Router,
    operator: Operator,
    settings: Vec<(String, String)>,
    starts: u64,
    lives: Lives,
}

struct Operator {
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Inside {
    /// A platform whose machines come within seconds, and an operator with its defaults.
    pub async fn short(seed: u64) -> Self {
        Self::start(seed, &[], |options| options.spot = SpotOptions::short()).await
    }

    pub async fn start(seed: u64, settings: &[(&str, &str)], change: impl FnOnce(&mut WorldOptions)) -> Self {
        Self::behind(seed, settings, change, |way| way).await
    }

    /// The operator reaches the platform through what `between` makes of the straight way.
    pub async fn behind(
        seed: u64,
        settings: &[(&str, &str)],
        change: impl FnOnce(&mut WorldOptions),
        between: impl FnOnce(Router) -> Router,
    ) -> Self {
        let world = World::builder(seed).with(change).start().await.unwrap();
        let lives = Lives::default();
        follow(&world, &lives);
        let settings: Vec<(String, String)> = settings
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let way = between(world.spot_router());
        let operator = Operator::start(&world, way.clone(), &settings, 1);
        Self {
            world,
            way,
            operator,
            settings,
            starts: 1,
            lives,
        }
    }

    /// Ends the operator at once, in the middle of whatever it does.
    pub async fn kill(&mut self) {
        self.operator.task.abort();
        let _ = (&mut self.operator.task).await;
    }

    /// Starts another operator after the last has ended.
    pub fn restart(&mut self) {
        self.starts += 1;
        // chance differs from process to process
        self.operator = Operator::start(&self.world, self.way.clone(), &self.settings, self.starts);
    }

    /// Ends the operator at its n-th write from now.
    pub fn kill_at(&self, point: HookPoint, nth: u64) {
        let handle: AbortHandle = self.operator.task.abort_handle();
        self.world.api().hook_write(point, nth, Some(USER), move |_| {
            handle.abort();
            HookVerdict::Vanish
        });
    }

    pub fn has_ended(&self) -> bool {
        self.operator.task.is_finished()
    }

    /// Ends the operator in order; it must have run until now.
    pub async fn end(self) {
        assert!(!self.operator.task.is_finished(), "the operator stopped by itself");
        self.operator.stop.cancel();
        self.operator.task.await.unwrap().unwrap();
    }

    pub fn faults(&self, rules: impl IntoIterator<Item = FaultRule>) {
        let rules = rules.into_iter().map(|rule| rule.users(&[USER])).collect();
        self.world.api().set_faults(ApiFaults { rules });
    }

    pub fn control(&self, control: Control) {
        self.world.spot().with(|platform| platform.control(control));
    }

    pub async fn apply(&self, objects: &[Value]) {
        for object in objects {
            if let Err(error) = self.world.apply_value(object).await {
                panic!("{object}: {error:?}");
            }
        }
    }

    /// Waits until something is so, and says how long it took.
    pub async fn until(&self, what: &str, within: Duration, holds: impl FnMut(&World) -> bool) -> Duration {
        match self.world.wait_until(what, within, holds).await {
            Ok(took) => took,
            Err(error) => panic!("{error}\n{:#?}", self.lives()),
        }
    }

    /// Every claim that ever was, in order of appearance.
    pub fn lives(&self) -> Vec<Life> {
        let mut lives: Vec<Life> = self.lives.lock().unwrap().values().cloned().collect();
        lives.sort_by(|a, b| (a.came, &a.name).cmp(&(b.came, &b.name)));
        lives
    }

    /// Names of every pool that was ever ordered, by the answers of the platform.
    pub fn orders(&self) -> Vec<String> {
        self.world.spot().with(|platform| {
            let made = platform
                .ledger()
                .requests()
                .filter(|request| request.method == "POST" && request.path.contains("nodepools") && request.code < 300);
            made.map(|request| {
                let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
                body["metadata"]["name"].as_str().unwrap_or_default().to_owned()
            })
            .collect()
        })
    }

    pub fn object(&self, plural: &str, name: &str) -> Value {
        let mut all = self.world.values(plural).into_iter();
        all.find(|object| object["metadata"]["name"] == name)
            .unwrap_or_default()
    }

    /// Messages of the Events with this reason about an object of this name.
    pub fn told(&self, reason: &str, name: &str) -> Vec<String> {
        let events = self.world.values("events").into_iter();
        events
            .filter(|event| event["reason"] == reason && event["involvedObject"]["name"] == name)
            .map(|event| event["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

impl Operator {
    fn start(world: &World, way: Router, settings: &[(String, String)], seed: u64) -> Self {
        let mut environment = world.settings();
        for (key, value) in settings {
            environment = environment.with(key, value);
        }
        let setup = Setup {
            options: Options::read([], &environment).unwrap(),
            kube: world.api().client_as(USER, &["system:masters"]),
            transport: Arc::new(ServiceTransport::<_, Body>::new(way)),
            clock: Arc::clone(world.clock()),
            seed,
            listeners: Listeners::off(),
            solving: Solving::Inline,
            candidacy: Candidacy::Alone,
            first_login: FirstLogin::Waived,
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(setup, stop.clone()));
        Self { stop, task }
    }
}

/// Writes every claim down, past the operator's own faults.
fn follow(world: &World, lives: &Lives) {
    let mut changes = world.api().handle().follow(CLAIMS).unwrap();
    let (lives, clock) = (Arc::clone(lives), Arc::clone(world.clock()));
    tokio::spawn(async move {
        while let Ok(events) = changes.next().await {
            let mut lives = lives.lock().unwrap();
            for event in events {
                let object = event.object.value().clone();
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
                let life = lives.entry(text("uid")).or_insert_with(|| Life {
                    name: text("name"),
                    came: clock.now(),
                    went: None,
                    last: Value::Null,
                });
                life.last = object;
                life.went = (event.kind == EventKind::Deleted).then(|| clock.now());
            }
        }
    });
}

/// A condition of an object, `Null` if it has none of this type.
pub fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions
        .into_iter()
        .find(|condition| condition["type"] == kind)
        .unwrap_or_default()
}

pub fn node_class() -> Value {
    json!({ "apiVersion": "karpenter.rackspace.com/v1", "kind": "RackspaceSpotNodeClass", "metadata": { "name": "default" },
        "spec": { "bidPercentile": "P80" } })
}

/// A pool that buys by `requirements` and gives nothing back by itself; `more` is merged into its spec.
pub fn node_pool(name: &str, requirements: &Value, more: &Value) -> Value {
    let class = json!({ "group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default" });
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": name },
        "spec": {
            "template": { "spec": { "nodeClassRef": class, "requirements": requirements, "expireAfter": "Never" } },
            "disruption": { "consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{ "nodes": "100%" }] },
        },
    });
    merge(&mut pool["spec"], more);
    pool
}

/// Only machines of these classes, paid for in this way.
pub fn of_classes(capacity_type: &str, classes: &[&str]) -> Value {
    json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": classes },
    ])
}

/// A deployment of pods that ask for so much; `more` is merged into the pod's spec.
pub fn deployment(name: &str, replicas: u32, cpu: &str, more: &Value) -> Value {
    let mut spec = json!({ "terminationGracePeriodSeconds": 0, "containers": [{ "name": "main", "image": "app:1", "resources": { "requests": { "cpu": cpu } } }] });
    merge(&mut spec, more);
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "namespace": "default" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": spec } } })
}

/// Pods that go only to machines of this pool.
pub fn on_pool(pool: &str) -> Value {
    json!({ "nodeSelector": { "karpenter.sh/nodepool": pool } })
}

pub fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}

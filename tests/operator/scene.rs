//! The simulated world with operators that can be killed, one or several at a time.

use async_trait::async_trait;
use axum::body::Body;
use bytes::Bytes;
use karpenter::cloud::spot::{ServiceTransport, Transport, TransportError};
use karpenter::k8s::election::{LeaseSettings, Terms};
use karpenter::operator::{Candidacy, FirstLogin, Listeners, Options, RunError, Setup, Solving, run};
use sandbox::api::{HookPoint, HookVerdict};
use sandbox::world::World;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub const MINUTE: Duration = Duration::from_mins(1);

/// A world with short delays, a NodeClass and a NodePool that gives empty nodes back at once.
pub struct Scene {
    pub world: World,
    seen: Mutex<Seen>,
}

/// What was ever there.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Seen {
    /// UIDs of claims.
    pub claims: BTreeSet<String>,
    /// Names of pools.
    pub pools: BTreeSet<String>,
}

/// How an operator runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The only one.
    Alone,
    /// One of several, with empty caches until it leads.
    Cold,
    /// One of several, with caches that are kept warm.
    Warm,
}

/// Where a kill strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Kubernetes,
    Spot,
}

/// A kill at the n-th write to one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kill {
    pub side: Side,
    pub point: HookPoint,
    pub nth: u64,
}

/// A running operator.
pub struct Operator {
    pub stop: CancellationToken,
    pub task: JoinHandle<Result<(), RunError>>,
}

impl Operator {
    /// Ends it as the kernel would.
    pub async fn kill(self) {
        self.task.abort();
        let ended = self.task.await;
        assert!(
            ended.is_err_and(|error| error.is_cancelled()),
            "it ended before it was killed"
        );
    }
}

impl Scene {
    pub async fn start(seed: u64) -> Self {
        let world = World::builder(seed)
            .with(|options| options.spot = sandbox::spot::Options::short())
            .start()
            .await
            .unwrap();
        world.apply_value(&class()).await.unwrap();
        world.apply_value(&pool()).await.unwrap();
        Self {
            world,
            seen: Mutex::default(),
        }
    }

    /// Starts an operator whose user at the API server has this name.
    pub fn operator(&self, user: &str, role: Role) -> Operator {
        self.operator_to_be_killed(user, role, None, &Arc::default())
    }

    /// The same; at the kill's write the signal is given and the request never answered.
    pub fn operator_to_be_killed(&self, user: &str, role: Role, kill: Option<Kill>, signal: &Arc<Notify>) -> Operator {
        let cold = if role == Role::Warm { "false" } else { "true" };
        let environment = self.world.settings().with("DISABLE_CONTROLLER_WARMUP", cold);
        let mut at_spot = None;
        match kill {
            None => {}
            Some(Kill {
                side: Side::Spot,
                point,
                nth,
            }) => at_spot = Some((point, nth)),
            Some(Kill {
                side: Side::Kubernetes,
                point,
                nth,
            }) => {
                let signal = Arc::clone(signal);
                self.world.api().hook_write(point, nth, Some(user), move |_| {
                    signal.notify_one();
                    HookVerdict::Vanish
                });
            }
        }
        let transport = Struck {
            inner: ServiceTransport::<_, Body>::new(self.world.spot_router()),
            left: Mutex::new(at_spot),
            signal: Arc::clone(signal),
        };
        let setup = Setup {
            options: Options::read([], &environment).unwrap(),
            kube: self.world.api().client_as(user, &["system:masters"]),
            transport: Arc::new(transport),
            clock: Arc::clone(self.world.clock()),
            seed: 1,
            listeners: Listeners::off(),
            solving: Solving::Inline,
            candidacy: match role {
                Role::Alone => Candidacy::Alone,
                Role::Cold | Role::Warm => Candidacy::Lease(LeaseSettings {
                    namespace: "default".into(),
                    name: "karpenter-leader-election".into(),
                    identity: format!("{user}_1"),
                    terms: Terms::default(),
                }),
            },
            first_login: FirstLogin::Required,
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(setup, stop.clone()));
        Operator { stop, task }
    }

    /// Waits until something is so. All the while each pool has its claim, and what is there is remembered.
    pub async fn until(&self, what: &str, minutes: u32, mut holds: impl FnMut(&World) -> bool) {
        let look = |world: &World| {
            self.look();
            holds(world)
        };
        if let Err(error) = self.world.wait_until(what, minutes * MINUTE, look).await {
            panic!("{error}");
        }
    }

    fn look(&self) {
        let claims: BTreeSet<String> = self
            .world
            .values("nodeclaims.karpenter.sh")
            .iter()
            .map(|claim| claim["metadata"]["uid"].as_str().unwrap().to_owned())
            .collect();
        let pools: BTreeSet<String> = self.world.pools().into_iter().collect();
        let lone: Vec<_> = pools.difference(&claims).collect();
        assert!(lone.is_empty(), "pools without claim: {lone:?}");
        let mut seen = self.seen.lock().unwrap();
        seen.claims.extend(claims);
        seen.pools.extend(pools);
    }

    /// What was ever there.
    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    /// Pods come and run; each claim that was ever made is there and has its one pool.
    pub async fn pods_come(&self, pods: u32) {
        self.world.apply_value(&deployment(pods)).await.unwrap();
        let wanted = usize::try_from(pods).unwrap();
        self.until("the pods run", 30, |world| world.ready() == wanted).await;
        let seen = self.seen();
        assert_eq!(
            seen.claims.len(),
            self.world.claims().len(),
            "a claim was lost on the way"
        );
        assert_eq!(seen.claims, seen.pools, "each claim has one pool of its name");
        assert_eq!(
            self.world.pools().len(),
            seen.pools.len(),
            "a pool of both kinds for one claim"
        );
    }

    /// Pods go, and nothing is left.
    pub async fn pods_go(&self) {
        self.world.scale("deployment/web", 0).await.unwrap();
        self.until("nothing is left", 30, |world| {
            world.claims().is_empty() && world.nodes().is_empty() && world.pools().is_empty()
        })
        .await;
    }
}

/// A way to the platform that ends at one of its writes.
struct Struck<T> {
    inner: T,
    left: Mutex<Option<(HookPoint, u64)>>,
    signal: Arc<Notify>,
}

#[async_trait]
impl<T: Transport> Transport for Struck<T> {
    async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, TransportError> {
        let writes = request.method() != http::Method::GET && !request.uri().path().ends_with("/oauth/token");
        let struck = {
            let mut left = self.left.lock().unwrap();
            match &mut *left {
                Some((point, 1)) if writes => {
                    let point = *point;
                    *left = None;
                    Some(point)
                }
                Some((_, nth)) if writes => {
                    *nth -= 1;
                    None
                }
                _ => None,
            }
        };
        let Some(point) = struck else {
            return self.inner.send(request).await;
        };
        if point == HookPoint::After {
            let _ = self.inner.send(request).await;
        }
        self.signal.notify_one();
        std::future::pending().await
    }
}

fn class() -> Value {
    json!({ "apiVersion": "karpenter.rackspace.com/v1", "kind": "RackspaceSpotNodeClass", "metadata": { "name": "default" }, "spec": {} })
}

fn pool() -> Value {
    let class = json!({ "group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default" });
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "default" },
        "spec": {
            "template": { "spec": { "nodeClassRef": class, "expireAfter": "Never",
                "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] }] } },
            "disruption": { "consolidateAfter": "1s", "consolidationPolicy": "WhenEmpty", "budgets": [{ "nodes": "100%" }] } },
    })
}

/// Pods that no two of which fit on one machine of the cheapest class.
pub fn deployment(replicas: u32) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{ "name": "main", "image": "app:1", "resources": { "requests": { "cpu": "1" } } }],
                "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
                    "labelSelector": { "matchLabels": { "app": "web" } }, "topologyKey": "kubernetes.io/hostname" }] } },
            } } } })
}

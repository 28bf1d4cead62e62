//! The whole operator in the whole simulated world: what was bought is given back.

use axum::body::Body;
use karpenter::cloud::spot::ServiceTransport;
use karpenter::operator::{Candidacy, FirstLogin, Listeners, Options, RunError, Setup, Solving, run};
use sandbox::spot::Control;
use sandbox::world::{Order, World};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const MINUTE: Duration = Duration::from_mins(1);
const ATTACHMENTS: &str = "volumeattachments.storage.k8s.io";
const CLAIMS: &str = "nodeclaims.karpenter.sh";

struct Stage {
    world: World,
    stop: CancellationToken,
    _operator: JoinHandle<Result<(), RunError>>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Stage {
    /// A world with short delays, an operator, a class and a pool that consolidates empty nodes after half a minute.
    async fn start() -> Self {
        let world = World::builder(7)
            .with(|options| options.spot = sandbox::spot::Options::short())
            .start()
            .await
            .unwrap();
        let setup = Setup {
            options: Options::read([], &world.settings()).unwrap(),
            kube: world.api().client_as("operator", &["system:masters"]),
            transport: Arc::new(ServiceTransport::<_, Body>::new(world.spot_router())),
            clock: Arc::clone(world.clock()),
            seed: 1,
            listeners: Listeners::off(),
            solving: Solving::Inline,
            candidacy: Candidacy::Alone,
            first_login: FirstLogin::Waived,
        };
        let stop = CancellationToken::new();
        let operator = tokio::spawn(run(setup, stop.clone()));
        world.apply_value(&class()).await.unwrap();
        world.apply_value(&pool()).await.unwrap();
        Self {
            world,
            stop,
            _operator: operator,
        }
    }

    async fn until(&self, what: &str, minutes: u32, condition: impl FnMut(&World) -> bool) -> Duration {
        self.world.wait_until(what, minutes * MINUTE, condition).await.unwrap()
    }

    /// Nothing is left that costs money.
    async fn until_nothing_is_left(&self) {
        self.until("nothing is left", 15, |w| {
            w.claims().is_empty() && w.nodes().is_empty() && w.pools().is_empty()
        })
        .await;
    }
}

fn class() -> Value {
    json!({ "apiVersion": "karpenter.rackspace.com/v1", "kind": "RackspaceSpotNodeClass", "metadata": { "name": "default" }, "spec": {} })
}

/// The volumes of the platform ask for a label that its CSI driver puts on nodes; a pool that shall serve them says that its nodes will have it.
fn pool() -> Value {
    let labels = json!({ "topology.cinder.csi.openstack.org/zone": "nova" });
    let class = json!({ "group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default" });
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "default" },
        "spec": { "template": { "metadata": { "labels": labels }, "spec": { "nodeClassRef": class, "expireAfter": "Never",
                "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }] } },
            "disruption": { "consolidateAfter": "30s", "consolidationPolicy": "WhenEmpty", "budgets": [{ "nodes": "100%" }] } },
    })
}

fn deployment(replicas: u32) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "main", "image": "app:1", "resources": { "requests": { "cpu": "1" } } }] } } } })
}

#[tokio::test(start_paused = true)]
async fn scaled_to_zero_no_node_no_claim_and_no_pool_is_left() {
    let stage = Stage::start().await;
    stage.world.apply_value(&deployment(2)).await.unwrap();
    stage.until("two pods run", 15, |w| w.ready() == 2).await;
    assert!(!stage.world.pools().is_empty());
    stage.world.scale("deployment/web", 0).await.unwrap();
    stage.until_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_vanishes_takes_its_claim_along_and_its_pods_get_another() {
    let stage = Stage::start().await;
    stage.world.apply_value(&deployment(1)).await.unwrap();
    stage.until("the pod runs", 15, |w| w.ready() == 1).await;
    let (lost, pool) = (stage.world.claims().remove(0), stage.world.pools().remove(0));
    stage
        .world
        .spot()
        .with(|platform| platform.control(Control::VanishPool { pool }));
    stage
        .until("the claim has gone", 15, |w| !w.claims().contains(&lost))
        .await;
    stage
        .until("the pod runs again", 30, |w| w.ready() == 1 && w.claims().len() == 1)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_gives_its_volume_back_before_the_machine_ends() {
    let stage = Stage::start().await;
    let set = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "db" },
        "spec": { "replicas": 1, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } }, "template": {
            "metadata": { "labels": { "app": "db" } },
            "spec": { "containers": [{ "name": "main", "image": "db:1", "resources": { "requests": { "cpu": "1" } },
                "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }] } },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": { "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "10Gi" } } } }] } });
    stage.world.apply_value(&set).await.unwrap();
    stage
        .until("its volume is attached", 20, |w| {
            w.ready() == 1 && !w.values(ATTACHMENTS).is_empty()
        })
        .await;
    let claim = stage.world.claims().remove(0);
    stage.world.delete(&format!("nodeclaim/{claim}")).await.unwrap();
    let mut seen_attached = false;
    stage
        .until("the machine ends", 15, |w| {
            let claims = w.values(CLAIMS);
            let Some(old) = claims.iter().find(|found| found["metadata"]["name"] == claim.as_str()) else {
                return true;
            };
            let node = old["status"]["nodeName"].as_str().unwrap_or_default();
            let attached = w
                .values(ATTACHMENTS)
                .iter()
                .any(|found| found["spec"]["nodeName"] == node);
            seen_attached |= attached;
            let ending = is_true(old, "InstanceTerminating");
            assert!(!(ending && attached), "the machine ends with its volume attached");
            false
        })
        .await;
    assert!(seen_attached);
    stage.until("the pod runs elsewhere", 30, |w| w.ready() == 1).await;
    stage.world.scale("statefulset/db", 0).await.unwrap();
    stage.until_nothing_is_left().await;
}

fn is_true(object: &Value, type_: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == type_ && condition["status"] == "True")
}

#[tokio::test(start_paused = true)]
async fn an_orphan_of_ours_is_collected_and_a_users_own_pool_is_not() {
    const OURS: &str = "00000000-0000-4000-8000-00000000000a";
    const THEIRS: &str = "00000000-0000-4000-8000-00000000000b";
    let stage = Stage::start().await;
    let order = |pool, labels: &[(&'static str, &'static str)]| {
        let order = Order {
            pool,
            labels: labels.iter().copied().collect::<BTreeMap<_, _>>(),
            ..Order::default()
        };
        assert_eq!(stage.world.order(&order), 201);
    };
    order(OURS, &[("karpenter.rackspace.com/managed", "true")]);
    order(THEIRS, &[]);
    stage.world.pass(4 * MINUTE).await;
    assert_eq!(stage.world.pools().len(), 2, "both are too young");
    stage
        .until("ours has gone", 10, |w| !w.pools().contains(&OURS.to_owned()))
        .await;
    stage.world.pass(30 * MINUTE).await;
    assert_eq!(stage.world.pools(), [THEIRS]);
    let told =
        |event: &Value| event["reason"] == "UnclaimedMachine" && event["message"].as_str().unwrap().contains(THEIRS);
    assert!(stage.world.values("events").iter().any(told));
}

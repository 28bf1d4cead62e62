//! The machines against the Kubernetes API of the simulated world, under a paused clock: hours in a moment, and the same hours twice.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter::clock::{SharedClock, TokioClock};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use sandbox::api::{ApiOptions, ApiServer};
use sandbox::machines::{Fleet, MachineOptions, NodeLifecycle};
use sandbox::spot::{Admin, Control, Delays, Distribution, Options, Spot};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const POOL: &str = "7f3b0c52-4c1e-4f0e-9a55-0d2f6a1b9c11";

struct World {
    spot: Spot,
    server: ApiServer,
    client: Client,
    stop: CancellationToken,
}

fn world(change: impl FnOnce(&mut Options)) -> World {
    let clock: SharedClock = Arc::new(TokioClock::starting_at(
        DateTime::<Utc>::from_timestamp(1_800_000_000, 0).unwrap(),
    ));
    let delays = Delays {
        build: Distribution::Fixed(100.0),
        join: Distribution::Fixed(30.0),
        ..Delays::default()
    };
    let mut options = Options {
        delays,
        ..Options::default()
    };
    change(&mut options);
    let spot = Spot::new(options, clock.clone(), Admin::Hidden);
    let server = ApiServer::new(clock, 1, ApiOptions::default());
    let client = server.client();
    let world = World {
        spot,
        server,
        client,
        stop: CancellationToken::new(),
    };
    let spot = world.spot.clone();
    let stop = world.stop.clone();
    tokio::spawn(async move { spot.run(Arc::new(|_, _| Box::pin(async { true })), stop).await });
    world.start_fleet();
    world
}

impl World {
    /// The machines, once more if they were stopped.
    fn start_fleet(&self) {
        let machines = MachineOptions {
            node_lifecycle: NodeLifecycle::Here,
            ..MachineOptions::default()
        };
        tokio::spawn(Fleet::new(self.spot.clone(), self.client.clone(), machines).run(self.stop.clone()));
    }

    fn bid(&self) {
        let body = json!({"metadata": {"name": POOL}, "spec": {"serverClass": "ch.vs1.large-iad", "desired": 1, "cloudSpace": "sandbox",
            "bidPrice": "0.01", "customLabels": {"team": "a"}, "customTaints": [{"key": "dedicated", "value": "ci", "effect": "NoSchedule"}]}});
        self.spot.with(|platform| {
            let path = "/apis/ngpc.rxt.io/v1/namespaces/org-knyiltp8zznvkz5g/spotnodepools";
            let call = platform.call("POST", path, &body);
            let now = platform.now();
            assert_eq!(platform.answer(now, &call).code, 201);
        });
    }

    async fn nodes(&self) -> Vec<Node> {
        Api::<Node>::all(self.client.clone())
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
    }

    async fn after(&self, seconds: u64) -> Vec<Node> {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.nodes().await
    }
}

fn taints(node: &Node) -> Vec<&str> {
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default();
    taints.iter().map(|taint| taint.key.as_str()).collect()
}

fn ready(node: &Node) -> String {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")
        .map(|condition| condition.status.clone())
        .unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_node_joins_late_is_initialized_gets_ready_and_its_taints_come_last_and_once() {
    // rows 14, 23
    let world = world(|_| {});
    world.bid();
    assert!(
        world.after(139).await.is_empty(),
        "won at 10, built at 110, joins at 140"
    );
    let young = world.after(2).await;
    assert_eq!((young.len(), ready(&young[0]).as_str()), (1, "False"));
    assert!(taints(&young[0]).contains(&"node.cloudprovider.kubernetes.io/uninitialized"));
    let labelled = world.after(5).await;
    assert_eq!(labelled[0].labels()["nodepool.ngpc.rxt.io/name"], POOL);
    assert_eq!(labelled[0].labels()["team"], "a");
    assert_eq!(labelled[0].labels()["node.kubernetes.io/instance-type"], "compute1-8");
    assert!(!taints(&labelled[0]).contains(&"node.cloudprovider.kubernetes.io/uninitialized"));
    let usable = world.after(30).await;
    assert_eq!((ready(&usable[0]).as_str(), taints(&usable[0]).len()), ("True", 0));
    let tainted = world.after(65).await;
    assert_eq!(taints(&tainted[0]), ["dedicated"]);
    let nodes = Api::<Node>::all(world.client.clone());
    let none = Patch::Merge(json!({"spec": {"taints": null}}));
    nodes
        .patch(&tainted[0].name_any(), &PatchParams::default(), &none)
        .await
        .unwrap();
    assert!(
        taints(&world.after(3600).await[0]).is_empty(),
        "a removed taint is not put back"
    );
    world.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_preempted_machine_falls_silent_after_its_notice_and_its_node_is_deleted() {
    // rows 18, 19
    let world = world(|options| options.quirks.wins_again = false);
    world.bid();
    assert_eq!(world.after(400).await.len(), 1);
    world
        .spot
        .with(|platform| platform.control(Control::Preempt { pool: POOL.into() }));
    assert_eq!(ready(&world.after(359).await[0]), "True");
    assert_eq!(world.after(45).await.len(), 1);
    assert!(world.after(20).await.is_empty());
    world.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_lingering_node_is_unknown_and_a_sick_one_recovers() {
    // row 19's option
    let world = world(|options| options.quirks.node_lingers = true);
    world.bid();
    world.after(400).await;
    let sick = |sick| Control::SetSick {
        pool: POOL.into(),
        sick,
    };
    world.spot.with(|platform| platform.control(sick(true)));
    assert_eq!(ready(&world.after(60).await[0]), "Unknown");
    world.spot.with(|platform| platform.control(sick(false)));
    assert_eq!(ready(&world.after(5).await[0]), "True");
    world
        .spot
        .with(|platform| platform.control(Control::VanishPool { pool: POOL.into() }));
    let nodes = world.after(7200).await;
    assert_eq!((nodes.len(), ready(&nodes[0]).as_str()), (1, "Unknown"));
    world.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn wiped_labels_leave_the_node_but_not_the_platforms_own() {
    // rackspace-spot 6
    let world = world(|options| options.quirks.wipes_labels = true);
    world.bid();
    let nodes = world.after(400).await;
    assert!(!nodes[0].labels().contains_key("team"));
    assert_eq!(nodes[0].labels()["nodepool.ngpc.rxt.io/name"], POOL);
    world.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn pods_run_and_end_and_restarted_machines_go_on_where_they_were() {
    let mut world = world(|_| {});
    world.bid();
    let node = world.after(400).await[0].name_any();
    let pods = Api::<Pod>::default_namespaced(world.client.clone());
    let pod = |name: &str| -> Pod {
        serde_json::from_value(
            json!({"metadata": {"name": name}, "spec": {"nodeName": node, "terminationGracePeriodSeconds": 20,
            "containers": [{"name": "c", "image": "i"}], "tolerations": [{"operator": "Exists"}]}}),
        )
        .unwrap()
    };
    let phase = async |name: &str| pods.get_opt(name).await.unwrap().and_then(|pod| pod.status?.phase);
    pods.create(&PostParams::default(), &pod("a")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(phase("a").await.as_deref(), Some("Running"));
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(18)).await;
    assert_eq!(phase("a").await.as_deref(), Some("Running"));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(phase("a").await, None);

    world.stop.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.stop = CancellationToken::new();
    pods.create(&PostParams::default(), &pod("b")).await.unwrap();
    world.start_fleet();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(phase("b").await.as_deref(), Some("Running"));
    assert_eq!(world.nodes().await.len(), 1);
    world.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_twice_gives_the_same_writes() {
    async fn hours() -> (Vec<Node>, Value, u64) {
        let world = world(|options| {
            options.market.moves_per_week = 20_000.0;
            options.delays = Delays::default();
        });
        world.bid();
        let nodes = world.after(6 * 3600).await;
        world.stop.cancel();
        (
            nodes,
            world.spot.with(|platform| platform.summary()),
            world.server.revision(),
        )
    }
    let once = hours().await;
    assert!(once.2 > 500, "{}", once.2);
    assert_eq!(once, hours().await);
}

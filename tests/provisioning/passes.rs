//! What one pass buys: for many pods at once, under weights and limits, beside daemons, and while a claim waits.

use crate::world::{CLAIMS, Inside, MINUTE, condition, deployment, node_class, node_pool, of_classes, on_pool};
use sandbox::world::World;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const MEDIUM: &str = "gp.vs1.medium-iad";
const LARGE: &str = "gp.vs1.large-iad";
const XLARGE: &str = "gp.vs1.xlarge-iad";
const LIMIT: Duration = Duration::from_mins(10);

async fn with_pools(seed: u64, pools: &[Value]) -> Inside {
    let inside = Inside::short(seed).await;
    inside.apply(&[node_class()]).await;
    inside.apply(pools).await;
    inside.world.pass(MINUTE).await;
    inside
}

fn pool_of(claim: &Value) -> &str {
    claim["metadata"]["labels"]["karpenter.sh/nodepool"]
        .as_str()
        .unwrap_or_default()
}

fn cpus(claims: &[Value]) -> f64 {
    let cpu = |claim: &Value| {
        claim["status"]["capacity"]["cpu"]
            .as_str()
            .unwrap_or("0")
            .parse::<f64>()
            .unwrap()
    };
    claims.iter().map(cpu).sum()
}

fn class_of(world: &World, pod: &str) -> Option<String> {
    let pods = world.values("pods");
    let bound = pods.iter().find(|found| {
        found["metadata"]["name"]
            .as_str()
            .is_some_and(|name| name.starts_with(pod))
    })?;
    let nodes = world.values("nodes");
    let node = nodes
        .iter()
        .find(|node| node["metadata"]["name"] == bound["spec"]["nodeName"])?;
    node["metadata"]["labels"]["servers.ngpc.rxt.io/class"]
        .as_str()
        .map(str::to_owned)
}

// scheduling 1-3
#[tokio::test(start_paused = true)]
async fn a_thousand_pods_that_come_together_are_bought_for_in_one_pass() {
    let pool = node_pool("default", &of_classes("spot", &["gp.vs1.2xlarge-iad"]), &json!({}));
    let inside = with_pools(1, &[pool]).await;
    inside.apply(&[deployment("web", 1_000, "500m", &json!({}))]).await;
    inside
        .until("all pods run", LIMIT, |world| world.bound() == 1_000)
        .await;
    inside.world.pass(MINUTE).await;
    let lives = inside.lives();
    let moments: BTreeSet<_> = lives.iter().map(|life| life.came).collect();
    let spread = *moments.last().unwrap() - *moments.first().unwrap();
    assert!(spread < chrono::TimeDelta::seconds(2), "one pass, not {moments:?}");
    // 15.5 of 16 cpus are for pods: 31 pods a machine
    assert_eq!(lives.len(), 1_000_usize.div_ceil(31), "{lives:#?}");
    assert_eq!(inside.orders().len(), lives.len());
    inside.end().await;
}

// scheduling 11-1
#[tokio::test(start_paused = true)]
async fn the_heavier_pool_is_bought_from_while_it_can_be() {
    let limits = json!({ "weight": 90, "limits": { "cpu": "4" } });
    let inside = with_pools(
        2,
        &[
            node_pool(
                "light",
                &of_classes("on-demand", &[MEDIUM, LARGE]),
                &json!({ "weight": 1 }),
            ),
            node_pool("heavy", &of_classes("on-demand", &[LARGE]), &limits),
        ],
    )
    .await;
    inside.apply(&[deployment("web", 2, "3", &json!({}))]).await;
    inside.until("both run", LIMIT, |world| world.bound() == 2).await;
    let mut pools: Vec<String> = inside
        .lives()
        .iter()
        .map(|life| pool_of(&life.last).to_owned())
        .collect();
    pools.sort();
    assert_eq!(
        pools,
        ["heavy", "light"],
        "the second no longer fits the heavier pool's limit"
    );
    inside.end().await;
}

// scheduling 20-4, architecture §3.4
#[tokio::test(start_paused = true)]
async fn a_limit_holds_inside_a_pass_and_for_claims_that_have_no_type_yet() {
    let limits = json!({ "limits": { "cpu": "9" } });
    let pool = node_pool("default", &of_classes("on-demand", &[LARGE]), &limits);
    let inside = with_pools(3, &[pool]).await;
    inside.apply(&[deployment("web", 5, "3", &json!({}))]).await;
    inside.until("two run", LIMIT, |world| world.bound() == 2).await;
    inside.world.pass(5 * MINUTE).await;
    assert_eq!(inside.world.bound(), 2);
    let claims = inside.world.values(CLAIMS);
    assert!((cpus(&claims) - 8.0).abs() < 1e-9, "{}", cpus(&claims));
    assert_eq!(inside.lives().len(), 2);
    let waits = inside
        .world
        .values("pods")
        .into_iter()
        .find(|pod| pod["spec"]["nodeName"].is_null())
        .unwrap();
    let told = inside.told("FailedScheduling", waits["metadata"]["name"].as_str().unwrap());
    let words = "all available instance types exceed limits for nodepool (NodePool=default)";
    assert!(told.iter().any(|text| text.contains(words)), "{told:?}");
    inside.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_on_nodes_holds_inside_a_pass() {
    let limits = json!({ "limits": { "nodes": "3" } });
    let pool = node_pool("default", &of_classes("on-demand", &[LARGE]), &limits);
    let inside = with_pools(4, &[pool]).await;
    inside.apply(&[deployment("web", 7, "3", &json!({}))]).await;
    inside.until("three run", LIMIT, |world| world.bound() == 3).await;
    inside.world.pass(5 * MINUTE).await;
    assert_eq!((inside.world.bound(), inside.lives().len()), (3, 3));
    inside.end().await;
}

// scheduling 12-1
#[tokio::test(start_paused = true)]
async fn a_machine_has_room_for_the_daemons_that_will_come_to_it() {
    let pool = node_pool("default", &of_classes("on-demand", &[MEDIUM, LARGE]), &json!({}));
    let inside = with_pools(5, &[pool]).await;
    let agent = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent", "namespace": "default" },
        "spec": { "selector": { "matchLabels": { "app": "agent" } }, "template": { "metadata": { "labels": { "app": "agent" } },
            "spec": { "containers": [{ "name": "main", "image": "agent:1", "resources": { "requests": { "cpu": "1" } } }] } } } });
    inside.apply(&[agent]).await;
    inside.world.pass(10 * Duration::from_secs(1)).await;
    // alone it would fit the smaller class, which offers 1500m
    inside.apply(&[deployment("web", 1, "1", &json!({}))]).await;
    inside
        .until("pod and daemon run", LIMIT, |world| world.bound() == 2)
        .await;
    assert_eq!(class_of(&inside.world, "web").as_deref(), Some(LARGE));
    let requests = inside.lives()[0].last["spec"]["resources"]["requests"]["cpu"].clone();
    assert_eq!(requests, "2");
    inside.end().await;
}

// architecture §3.4
#[tokio::test(start_paused = true)]
async fn a_claim_that_waits_for_its_server_holds_up_nobody() {
    let inside = Inside::start(6, &[], |options| {
        options.spot = sandbox::spot::Options::short();
        options.spot.quirks.never_built_classes.insert(XLARGE.to_owned());
    })
    .await;
    let pool = |name, class| node_pool(name, &of_classes("on-demand", &[class]), &json!({}));
    inside
        .apply(&[node_class(), pool("large", LARGE), pool("xlarge", XLARGE)])
        .await;
    inside.apply(&[deployment("stuck", 1, "1", &on_pool("xlarge"))]).await;
    inside
        .until("the stuck one is ordered", LIMIT, |world| world.pools().len() == 1)
        .await;
    inside.world.pass(3 * MINUTE).await;
    inside.apply(&[deployment("web", 3, "3", &on_pool("large"))]).await;
    let took = inside.until("the others run", LIMIT, |world| world.bound() == 3).await;
    assert!(took < MINUTE, "{took:?}");
    let claims = inside.world.values(CLAIMS);
    let waiting: Vec<_> = claims
        .iter()
        .filter(|claim| condition(claim, "Launched")["reason"] == "AwaitingServerAssignment")
        .collect();
    assert_eq!(waiting.len(), 1);
    assert_eq!(
        waiting[0]["metadata"]["labels"]["node.kubernetes.io/instance-type"],
        XLARGE
    );
    assert!(!waiting[0]["status"]["providerID"].is_null() && !waiting[0]["status"]["allocatable"].is_null());
    assert_eq!(inside.lives().len(), 4, "the waiting pod is not bought for again");
    inside.end().await;
}

// scheduling 2-2.6, 15-2, 22-1: what there is takes pods though no pool may open another claim
#[tokio::test(start_paused = true)]
async fn pods_that_fit_a_machine_that_is_coming_are_promised_it_while_no_pool_is_usable() {
    let inside = Inside::start(8, &[], |options| {
        options.spot = sandbox::spot::Options::short();
        options.spot.delays.build = sandbox::spot::Distribution::Fixed(300.0);
    })
    .await;
    let pool = node_pool("default", &of_classes("on-demand", &[LARGE]), &json!({}));
    inside.apply(&[node_class(), pool]).await;
    inside.world.pass(MINUTE).await;
    inside.apply(&[deployment("first", 1, "1", &json!({}))]).await;
    inside
        .until("a claim knows its machine", LIMIT, |world| {
            let claims = world.values(CLAIMS);
            claims.iter().any(|claim| !claim["status"]["allocatable"].is_null())
        })
        .await;
    let claim = inside.lives()[0].name.clone();
    close(&inside).await;
    inside
        .apply(&[
            deployment("late", 2, "1", &json!({})),
            deployment("big", 1, "4", &json!({})),
        ])
        .await;
    inside.world.pass(20 * Duration::from_secs(1)).await;
    let named = |app: &str| -> Vec<String> {
        let pods = inside.world.values("pods").into_iter();
        let names = pods.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
        names.filter(|name| name.starts_with(app)).collect()
    };
    for pod in named("late") {
        let told = inside.told("Nominated", &pod);
        assert_eq!(told, [format!("Pod should schedule on: nodeclaim/{claim}")], "{pod}");
        assert_eq!(inside.told("FailedScheduling", &pod), Vec::<String>::new(), "{pod}");
    }
    let big = &named("big")[0];
    let told = inside.told("FailedScheduling", big);
    assert!(
        told.iter().any(|text| text.contains("no dynamic nodepools found")),
        "{told:?}"
    );
    assert_eq!(inside.told("Nominated", big), Vec::<String>::new());
    inside.until("what fits runs", LIMIT, |world| world.bound() == 3).await;
    assert_eq!(inside.lives().len(), 1, "{:#?}", inside.lives());
    inside.end().await;
}

/// Makes the pool unusable, and its machines stay.
async fn close(inside: &Inside) {
    inside
        .world
        .delete("rackspacespotnodeclasses.karpenter.rackspace.com/default")
        .await
        .unwrap();
    inside
        .until("the pool is no longer ready", MINUTE, |world| {
            let pools = world.values("nodepools.karpenter.sh");
            pools.iter().all(|pool| condition(pool, "Ready")["status"] == "False")
        })
        .await;
}

/// What the only pod was told that it waits for.
fn told_to_the_pod(inside: &Inside) -> String {
    let pod = inside.world.values("pods")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    inside.told("FailedScheduling", &pod).concat()
}

// surface T18
#[tokio::test(start_paused = true)]
async fn a_pod_that_asks_for_a_label_that_the_platform_overwrites_is_told_and_not_bought_for() {
    for (label, value) in [
        ("node.kubernetes.io/instance-type", LARGE),
        ("topology.kubernetes.io/region", "us-east-iad-1"),
        ("failure-domain.beta.kubernetes.io/region", "us-east-iad-1"),
    ] {
        let pool = node_pool("default", &of_classes("spot", &[LARGE]), &json!({}));
        let inside = with_pools(7, &[pool]).await;
        inside
            .apply(&[deployment("web", 1, "1", &json!({ "nodeSelector": { label: value } }))])
            .await;
        inside.world.pass(5 * MINUTE).await;
        assert_eq!(inside.lives().len(), 0, "{:#?}", inside.lives());
        let told = told_to_the_pod(&inside);
        let now_called = label.replace("failure-domain.beta", "topology");
        assert!(told.contains(&format!("overwrites label {now_called}")), "{told:?}");
        // the way that the Event names
        inside.apply(&[deployment("api", 1, "1", &on_pool("default"))]).await;
        inside.until("the pod runs", LIMIT, |world| world.bound() == 1).await;
        inside.end().await;
    }
}

fn requires(terms: &Value) -> Value {
    json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } } })
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_a_label_of_its_new_node_rules_out_is_told_and_gets_no_other_at_once() {
    let pool = node_pool("default", &of_classes("spot", &[LARGE]), &json!({}));
    let inside = with_pools(8, &[pool]).await;
    // nothing says beforehand that the platform puts this label on its nodes
    let without = json!([{ "matchExpressions": [{ "key": "servers.ngpc.rxt.io/class", "operator": "DoesNotExist" }] }]);
    inside.apply(&[deployment("web", 1, "1", &requires(&without))]).await;
    inside.world.pass(5 * MINUTE).await;
    assert_eq!(inside.lives().len(), 1, "{:#?}", inside.lives());
    let told = told_to_the_pod(&inside);
    assert!(
        told.contains("servers.ngpc.rxt.io/class=") && told.contains("rules the pod out"),
        "{told:?}"
    );
    inside.world.pass(55 * MINUTE).await;
    let lives = inside.lives().len();
    assert!((2..=4).contains(&lives), "tried again, and ever more seldom: {lives}");
    inside.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_terms_are_all_empty_is_told_and_not_bought_for() {
    let pool = node_pool("default", &of_classes("spot", &[LARGE]), &json!({}));
    let inside = with_pools(9, &[pool]).await;
    inside
        .apply(&[deployment(
            "web",
            1,
            "1",
            &requires(&json!([{}, { "matchExpressions": [] }])),
        )])
        .await;
    inside.world.pass(5 * MINUTE).await;
    assert_eq!(inside.lives().len(), 0, "{:#?}", inside.lives());
    let told = told_to_the_pod(&inside);
    assert!(told.contains("only empty terms"), "{told:?}");
    inside.end().await;
}

// an empty term is no way out, and no wish either
#[tokio::test(start_paused = true)]
async fn an_empty_term_beside_others_counts_as_if_it_were_not_there() {
    let pool = node_pool("default", &of_classes("spot", &[MEDIUM, LARGE]), &json!({}));
    let inside = with_pools(10, &[pool]).await;
    let terms = json!([{}, { "matchExpressions": [{ "key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"] }] }]);
    inside.apply(&[deployment("web", 1, "1", &requires(&terms))]).await;
    inside.until("the pod runs", LIMIT, |world| world.bound() == 1).await;
    assert_eq!(inside.lives().len(), 1, "{:#?}", inside.lives());
    inside.end().await;
}

//! The whole world on the paused clock: workloads become pods, pods find nodes, time and loss are survived, and a seed replays.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

use k8s_openapi::api::core::v1::Pod;
use sandbox::spot::{Control, Options};
use sandbox::world::{Order, World};
use serde_json::{Value, json};
use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);
const POOL: &str = "00000000-0000-4000-8000-000000000001";
const OTHER: &str = "00000000-0000-4000-8000-000000000002";

async fn world(seed: u64) -> World {
    World::builder(seed)
        .with(|o| o.spot = Options::short())
        .start()
        .await
        .unwrap()
}

async fn with_nodes(desired: u32) -> World {
    let world = world(1).await;
    assert_eq!(
        world.order(&Order {
            desired,
            ..Order::default()
        }),
        201
    );
    world
        .wait_until("nodes are ready", 5 * MINUTE, |w| {
            w.ready_nodes() == usize::try_from(desired).unwrap()
        })
        .await
        .unwrap();
    world
}

fn deployment(name: &str, replicas: u32, cpu: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}]}}}})
}

async fn until(world: &World, what: &str, condition: impl FnMut(&World) -> bool) -> Duration {
    world.wait_until(what, 10 * MINUTE, condition).await.unwrap()
}

fn object(world: &World, kind: &str, name: &str) -> Value {
    world
        .values(kind)
        .into_iter()
        .find(|o| o["metadata"]["name"] == name)
        .unwrap_or(Value::Null)
}

fn names(world: &World) -> Vec<String> {
    world.pods().into_iter().filter_map(|p| p.metadata.name).collect()
}

fn hosts(pods: &[Pod]) -> Vec<String> {
    pods.iter().filter_map(|p| p.spec.as_ref()?.node_name.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_deployment_runs_is_scaled_and_goes() {
    let world = with_nodes(1).await;
    world.apply_value(&deployment("web", 3, "100m")).await.unwrap();
    until(&world, "three pods are ready", |w| w.ready() == 3).await;
    until(&world, "the status says so", |w| {
        object(w, "deployments.apps", "web")["status"]["availableReplicas"] == 3
    })
    .await;
    world.scale("deployment/web", 5).await.unwrap();
    until(&world, "five pods are ready", |w| w.ready() == 5).await;
    world.scale("deployment/web", 1).await.unwrap();
    until(&world, "one pod is left", |w| w.pods().len() == 1).await;
    world.delete("deployment/web").await.unwrap();
    until(&world, "none is left", |w| {
        w.pods().is_empty() && w.values("replicasets.apps").is_empty()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn without_a_node_pods_say_so_and_are_bound_when_one_comes() {
    let world = world(1).await;
    world.apply_value(&deployment("web", 2, "1")).await.unwrap();
    until(&world, "pods are told", |w| {
        let told = |p: &Value| {
            p["status"]["conditions"]
                .to_string()
                .contains("no nodes available to schedule pods")
        };
        w.pending() == 2 && w.values("pods").iter().all(told)
    })
    .await;
    assert_eq!(world.order(&Order::default()), 201);
    until(&world, "pods run", |w| w.ready() == 2).await;
    world.scale("deployment/web", 9).await.unwrap();
    until(&world, "three fit and the others are told why not", |w| {
        let reason = |p: &Value| {
            p["status"]["conditions"][0]["message"]
                .as_str()
                .unwrap_or_default()
                .starts_with("0/1 nodes are available: 1 Insufficient cpu.")
        };
        w.ready() == 3 && w.values("pods").iter().filter(|p| reason(p)).count() == 6
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_replaces_pods_without_going_below_what_is_allowed() {
    let world = with_nodes(1).await;
    world.apply_value(&deployment("web", 4, "100m")).await.unwrap();
    until(&world, "four pods are ready", |w| w.ready() == 4).await;
    let mut new = deployment("web", 4, "100m");
    new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("app:2");
    world.apply_value(&new).await.unwrap();
    let mut least = usize::MAX;
    until(&world, "all pods are new", |w| {
        least = least.min(w.ready());
        let images = w.values("pods");
        images.len() == 4 && w.ready() == 4 && images.iter().all(|p| p["spec"]["containers"][0]["image"] == "app:2")
    })
    .await;
    assert!(least >= 3, "{least} were ready at the worst moment");
    assert_eq!(
        world.values("replicasets.apps").len(),
        2,
        "the old set stays for history"
    );
}

fn stateful_set(name: &str, replicas: i32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
        "spec": {"replicas": replicas, "serviceName": name, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "db:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "10Gi"}}}}]}})
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_comes_in_order_with_volumes_that_stay() {
    let world = with_nodes(2).await;
    world.apply_value(&stateful_set("db", 3)).await.unwrap();
    let mut seen = Vec::new();
    until(&world, "three pods are ready", |w| {
        let now = names(w);
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        w.ready() == 3
    })
    .await;
    assert!(
        seen.iter()
            .all(|s| s.iter().enumerate().all(|(i, name)| *name == format!("db-{i}"))),
        "{seen:?}"
    );
    let claims = world.values("persistentvolumeclaims");
    assert_eq!(claims.len(), 3);
    assert!(
        claims
            .iter()
            .all(|c| c["status"]["phase"] == "Bound" && c["spec"]["storageClassName"] == "ssd"),
        "{claims:?}"
    );
    until(&world, "volumes are attached", |w| {
        w.values("volumeattachments.storage.k8s.io")
            .iter()
            .filter(|a| a["status"]["attached"] == true)
            .count()
            == 3
    })
    .await;
    let volume = object(
        &world,
        "persistentvolumes",
        claims[0]["spec"]["volumeName"].as_str().unwrap(),
    );
    assert_eq!(
        volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["key"],
        "topology.cinder.csi.openstack.org/zone"
    );
    world.scale("statefulset/db", 1).await.unwrap();
    until(&world, "one pod is left", |w| names(w) == ["db-0"]).await;
    assert_eq!(world.values("persistentvolumeclaims").len(), 3, "claims are kept");
    until(&world, "the others are detached", |w| {
        w.values("volumeattachments.storage.k8s.io").len() == 1
    })
    .await;
    world.delete("persistentvolumeclaim/data-db-2").await.unwrap();
    until(&world, "its volume goes", |w| w.values("persistentvolumes").len() == 2).await;
    world.delete("persistentvolumeclaim/data-db-0").await.unwrap();
    world.pass(MINUTE).await;
    assert_eq!(
        world.values("persistentvolumeclaims").len(),
        2,
        "one that is in use stays until its pod is gone"
    );
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_has_one_pod_per_suitable_node() {
    let world = with_nodes(2).await;
    let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {"metadata": {"labels": {"app": "agent"}},
            "spec": {"nodeSelector": {"servers.ngpc.rxt.io/class": "ch.vs1.large-iad"}, "containers": [{"name": "main", "image": "agent:1"}]}}}});
    world.apply_value(&set).await.unwrap();
    until(&world, "both nodes have one", |w| w.ready() == 2).await;
    let mut on = hosts(&world.pods());
    on.dedup();
    assert_eq!(on.len(), 2);
    world.order(&Order {
        pool: OTHER,
        class: "gp.vs1.large-iad",
        ..Order::default()
    });
    until(&world, "a third node of another class", |w| w.ready_nodes() == 3).await;
    world.pass(MINUTE).await;
    assert_eq!(world.ready(), 2, "it does not suit");
    let status = object(&world, "daemonsets.apps", "agent")["status"].clone();
    assert_eq!(
        (&status["desiredNumberScheduled"], &status["numberReady"]),
        (&json!(2), &json!(2))
    );
    world.give_back(POOL);
    until(&world, "nodes and daemons are gone", |w| {
        w.nodes().len() == 1 && w.pods().is_empty()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_job_ends_when_enough_pods_have_ended() {
    let world = with_nodes(1).await;
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"},
        "spec": {"completions": 3, "parallelism": 2, "template": {"metadata": {"annotations": {"sandbox/run-seconds": "5"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "job:1"}]}}}});
    world.apply_value(&job).await.unwrap();
    until(&world, "the job is complete", |w| {
        let status = object(w, "jobs.batch", "once")["status"].clone();
        status["succeeded"] == 3 && status["conditions"].to_string().contains("\"Complete\"")
    })
    .await;
    assert_eq!(world.pods().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_becomes_unknown_and_its_pods_are_evicted_after_their_tolerations() {
    let world = with_nodes(2).await;
    world.order(&Order {
        pool: OTHER,
        ..Order::default()
    });
    until(&world, "three nodes", |w| w.ready_nodes() == 3).await;
    world.apply_value(&deployment("web", 3, "2")).await.unwrap();
    until(&world, "one pod per node", |w| w.ready() == 3).await;
    world.spot().with(|p| {
        p.control(Control::SetSick {
            pool: OTHER.into(),
            sick: true,
        });
    });
    let took = until(&world, "the node is unknown", |w| {
        w.values("nodes")
            .iter()
            .any(|n| n["status"]["conditions"].to_string().contains("NodeStatusUnknown"))
    })
    .await;
    assert!((40..=60).contains(&took.as_secs()), "{took:?}");
    until(&world, "it is tainted, its pod not ready", |w| {
        w.values("nodes")
            .iter()
            .any(|n| n["spec"]["taints"].to_string().contains("unreachable"))
            && w.ready() == 2
    })
    .await;
    let took = until(&world, "its pod is evicted", |w| {
        w.pods().iter().any(|p| p.metadata.deletion_timestamp.is_some())
    })
    .await;
    assert!(
        (290..=310).contains(&took.as_secs()),
        "the default toleration is five minutes: {took:?}"
    );
    world.spot().with(|p| {
        p.control(Control::SetSick {
            pool: OTHER.into(),
            sick: false,
        });
    });
    until(&world, "the node is back and free of taints", |w| {
        w.ready_nodes() == 3
            && w.values("nodes")
                .iter()
                .all(|n| !n["spec"]["taints"].to_string().contains("unreachable"))
    })
    .await;
    until(&world, "all run again", |w| w.ready() == 3 && w.pods().len() == 3).await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_is_gone_are_collected_and_replaced() {
    let world = with_nodes(1).await;
    world.apply_value(&deployment("web", 1, "100m")).await.unwrap();
    until(&world, "the pod is ready", |w| w.ready() == 1).await;
    let first = names(&world);
    world.spot().with(|p| p.control(Control::Kill { pool: POOL.into() }));
    world
        .spot()
        .with(|p| p.control(Control::VanishPool { pool: POOL.into() }));
    until(&world, "the node is gone", |w| w.nodes().is_empty()).await;
    until(&world, "another pod waits", |w| {
        w.pods().len() == 1 && names(w) != first && w.pending() == 1
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_cordoned_node_takes_no_pods_until_it_is_uncordoned() {
    let world = with_nodes(1).await;
    let node = world.nodes()[0].metadata.name.clone().unwrap();
    let cordon = |on: bool| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "spec": {"unschedulable": on}});
    world.apply_value(&cordon(true)).await.unwrap();
    until(&world, "the taint is there", |w| {
        object(w, "nodes", &node)["spec"]["taints"]
            .to_string()
            .contains("unschedulable")
    })
    .await;
    world.apply_value(&deployment("web", 1, "100m")).await.unwrap();
    until(&world, "the pod is told", |w| {
        w.values("pods")
            .iter()
            .any(|p| p["status"]["conditions"].to_string().contains("were unschedulable"))
    })
    .await;
    world.apply_value(&cordon(false)).await.unwrap();
    until(&world, "the pod runs", |w| w.ready() == 1).await;
    assert!(object(&world, "nodes", &node)["spec"]["taints"].is_null());
}

#[tokio::test(start_paused = true)]
async fn gated_pods_wait_and_priority_goes_first() {
    let world = world(1).await;
    let pod = |name: &str, more: Value| {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [
            {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "3"}}}]}});
        for (key, value) in more.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        pod
    };
    world
        .apply_value(&pod("gated", json!({"schedulingGates": [{"name": "wait"}]})))
        .await
        .unwrap();
    world.apply_value(&pod("plain", json!({}))).await.unwrap();
    world
        .apply_value(&pod(
            "important",
            json!({"priorityClassName": "system-cluster-critical"}),
        ))
        .await
        .unwrap();
    world.order(&Order::default());
    until(&world, "one runs", |w| w.ready() == 1).await;
    world.pass(MINUTE).await;
    let on = |w: &World, name: &str| object(w, "pods", name)["spec"]["nodeName"].is_string();
    assert_eq!(
        (on(&world, "gated"), on(&world, "plain"), on(&world, "important")),
        (false, false, true)
    );
    world.delete("pod/important").await.unwrap();
    until(&world, "the next one runs", |w| on(w, "plain")).await;
}

#[tokio::test(start_paused = true)]
async fn pods_move_between_pending_and_bound_when_a_claim_waits_for_them() {
    let world = with_nodes(1).await;
    world
        .apply(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: a}]\n  volumes:\n  - {name: v, persistentVolumeClaim: {claimName: data}}\n  \
             - name: tmp\n    ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}}}\n",
        )
        .await
        .unwrap();
    until(&world, "the pod runs", |w| w.ready() == 1).await;
    let claim = object(&world, "persistentvolumeclaims", "data");
    assert!(claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].is_string());
    assert_eq!(
        object(&world, "persistentvolumeclaims", "p-tmp")["status"]["phase"],
        "Bound"
    );
    world.delete("pod/p").await.unwrap();
    until(&world, "the ephemeral claim goes with its pod, the other stays", |w| {
        w.values("persistentvolumeclaims").len() == 1 && w.values("persistentvolumes").len() == 1
    })
    .await;
}

/// A whole run of a seed, on a runtime of its own: what an earlier world left in a shared one would change who is polled first.
fn log_and_end(seed: u64) -> (Vec<String>, String) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = world(seed).await;
        world.apply_value(&deployment("web", 4, "1")).await.unwrap();
        world.order(&Order {
            desired: 2,
            ..Order::default()
        });
        until(&world, "pods run", |w| w.ready() == 4).await;
        world.spot().with(|p| p.control(Control::Preempt { pool: POOL.into() }));
        world.pass(20 * MINUTE).await;
        (world.log(), world.state())
    })
}

#[test]
fn the_same_seed_gives_the_same_log_and_the_same_end() {
    let [first, second, other] = [7, 7, 8].map(log_and_end);
    let difference = first.0.iter().zip(&second.0).find(|(a, b)| a != b);
    assert_eq!(difference, None);
    assert_eq!(first.0.len(), second.0.len());
    assert_eq!(first.1, second.1);
    assert_ne!(first.1, other.1, "another seed is another run");
}

#[tokio::test(start_paused = true)]
async fn an_idle_day_is_quiet() {
    let world = world(1).await;
    world.pass(MINUTE).await;
    let before = world.api().audit().len();
    world.pass(24 * 60 * MINUTE).await;
    let asked = world.api().audit().len() - before;
    assert!(asked < 2000, "{asked} requests in an idle day");
}

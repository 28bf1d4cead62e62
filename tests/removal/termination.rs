//! Draining, volumes, machines: in what order a node goes, and what holds it.

use crate::world::{KARPENTER, World, merge, owned_by, protected, seconds};
use karpenter::cloud::fake::Leaving;
use serde_json::{Value, json};

/// A machine that consolidation leaves alone.
async fn machine(world: &World, patch: &Value) -> String {
    let budgets = json!({ "spec": { "disruption": { "budgets": [{ "nodes": "0" }] } } });
    world.patch(KARPENTER, "NodePool", "", "default", budgets).await;
    world.machine("a", patch).await
}

async fn pod_is_gone(world: &World, name: &str) -> bool {
    world.get("v1", "Pod", "default", name).await.is_none()
}

#[tokio::test(start_paused = true)]
async fn a_node_deleted_by_hand_takes_its_claim_and_machine_along() {
    let world = World::start().await;
    let uid = machine(&world, &json!({})).await;
    world.pod("p", "a", &owned_by("ReplicaSet")).await;
    world.delete("v1", "Node", "", "a").await;
    let took = world.until("all is gone", 120, || world.is_gone("a", &uid)).await;
    assert!(took.as_secs() >= 10, "the pod had its grace period; took {took:?}");
    assert_eq!(
        world.events("Evicted", "p").await,
        ["Evicted pod: Forceful Termination"]
    );
    let metrics = &world.metrics;
    assert!((metrics.pods.drained.get(["Forceful Termination"]) - 1.0).abs() < 1e-9);
    assert!((metrics.nodes.drained.get(["default"]) - 1.0).abs() < 1e-9);
}

/// Seeds 1026 and 1571 of the bad days.
#[tokio::test(start_paused = true)]
async fn a_node_whose_labels_are_wiped_while_it_goes_goes_all_the_same() {
    let world = World::start().await;
    let uid = machine(&world, &json!({})).await;
    world.pod("p", "a", &owned_by("ReplicaSet")).await;
    world.delete("v1", "Node", "", "a").await;
    world.until("it is tainted", 10, || world.is_tainted("a")).await;
    let wiped = json!({ "karpenter.rackspace.com/rackspacespotnodeclass": null, "karpenter.rackspace.com/nodeclaim-uid": null,
        "karpenter.sh/nodepool": null, "karpenter.sh/capacity-type": null });
    let wiped = json!({ "metadata": { "labels": wiped } });
    world.patch("v1", "Node", "", "a", wiped).await;
    world.until("all is gone", 120, || world.is_gone("a", &uid)).await;
}

/// Seed 4986 of the bad days: somebody took the claim's finalizer away, and the platform the Node's labels.
#[tokio::test(start_paused = true)]
async fn a_node_whose_claim_is_gone_and_whose_labels_are_wiped_goes_all_the_same() {
    let world = World::start().await;
    machine(&world, &json!({})).await;
    world.pod("p", "a", &protected()).await;
    world.delete(KARPENTER, "NodeClaim", "", "a").await;
    world.until("it is tainted", 10, || world.is_tainted("a")).await;
    let freed = json!({ "metadata": { "finalizers": null } });
    world.patch(KARPENTER, "NodeClaim", "", "a", freed).await;
    assert!(world.claim("a").await.is_none());
    // what says for which claim it was ordered is the platform's own
    let wiped = json!({ "karpenter.rackspace.com/rackspacespotnodeclass": null, "karpenter.sh/nodepool": null,
        "karpenter.sh/capacity-type": null });
    let wiped = json!({ "metadata": { "labels": wiped } });
    world.patch("v1", "Node", "", "a", wiped).await;
    seconds(30).await;
    world.delete("v1", "Pod", "default", "p").await;
    let node_is_gone = async || world.node("a").await.is_none();
    world.until("the node is gone", 120, node_is_gone).await;
}

/// lifecycle 0.4: another Karpenter may run beside this one.
#[tokio::test(start_paused = true)]
async fn a_node_of_another_provider_keeps_its_finalizer() {
    let world = World::start().await;
    let owner = |uid: &str| json!([{ "apiVersion": KARPENTER, "kind": "NodeClaim", "name": "theirs", "uid": uid }]);
    let ours = json!({ "karpenter.rackspace.com/nodeclaim-uid": "u" });
    for (name, labels, owners) in [("unlabelled", json!({}), owner("u")), ("of-others", ours, owner("v"))] {
        let node = json!({ "metadata": { "name": name, "labels": labels, "finalizers": ["karpenter.sh/termination"], "ownerReferences": owners } });
        world.create("v1", "Node", node).await;
        world.delete("v1", "Node", "", name).await;
    }
    seconds(600).await;
    for name in ["unlabelled", "of-others"] {
        assert!(world.node(name).await.is_some(), "{name}");
        assert!(!world.is_tainted(name).await, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn even_an_empty_node_is_drained_for_five_seconds() {
    let world = World::start().await;
    let uid = machine(&world, &json!({})).await;
    world.delete(KARPENTER, "NodeClaim", "", "a").await;
    let tainted = world.until("it is tainted", 10, || world.is_tainted("a")).await;
    assert!(tainted.as_secs() < 2);
    seconds(3).await;
    assert!(
        !world.provider.calls().contains(&format!("delete {uid}")),
        "the machine is left alone while pods may still come"
    );
    world.until("all is gone", 60, || world.is_gone("a", &uid)).await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_holds_the_drain_until_it_lets_go() {
    let world = World::start().await;
    let uid = machine(&world, &json!({})).await;
    let budget = json!({
        "metadata": { "name": "b", "namespace": "default" },
        "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "web" } } },
    });
    world.create("policy/v1", "PodDisruptionBudget", budget).await;
    let labels = json!({ "metadata": { "labels": { "app": "web" } } });
    world.pod("p", "a", &labels).await;
    world.delete(KARPENTER, "NodeClaim", "", "a").await;
    seconds(300).await;
    assert!(!pod_is_gone(&world, "p").await && world.node("a").await.is_some());
    let told = world.events("FailedDraining", "a").await;
    let violated = "Failed to drain node, evicting pod violates a PDB (Pod=default/p)".to_owned();
    let waiting = "Failed to drain node, 1 pods are waiting to be evicted".to_owned();
    assert!(told.contains(&violated) || told.contains(&waiting), "{told:?}");
    assert!(world.metrics.pods.eviction_requests.get(["429"]) > 10.0);
    world.delete("policy/v1", "PodDisruptionBudget", "default", "b").await;
    world.until("all is gone", 60, || world.is_gone("a", &uid)).await;
}

#[tokio::test(start_paused = true)]
async fn a_protected_pod_holds_the_drain_until_the_protection_is_lifted() {
    let world = World::start().await;
    let uid = machine(&world, &json!({})).await;
    world.pod("p", "a", &protected()).await;
    world.delete(KARPENTER, "NodeClaim", "", "a").await;
    seconds(600).await;
    assert!(!pod_is_gone(&world, "p").await && world.node("a").await.is_some());
    let lift = json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": null } } });
    world.patch("v1", "Pod", "default", "p", lift).await;
    world.until("all is gone", 60, || world.is_gone("a", &uid)).await;
}

#[tokio::test(start_paused = true)]
async fn the_grace_period_of_the_claim_forces_protected_pods_out() {
    let world = World::start().await;
    let uid = machine(&world, &json!({ "spec": { "terminationGracePeriod": "120s" } })).await;
    world.pod("p", "a", &protected()).await;
    world.delete(KARPENTER, "NodeClaim", "", "a").await;
    seconds(105).await;
    assert!(!pod_is_gone(&world, "p").await, "its own ten seconds begin at 110");
    world.until("the pod is gone", 20, || pod_is_gone(&world, "p")).await;
    assert_eq!(world.events("Disrupted", "p").await.len(), 1);
    assert!(!world.events("TerminationGracePeriodExpiring", "a").await.is_empty());
    world.until("all is gone", 60, || world.is_gone("a", &uid)).await;
}

#[tokio::test(start_paused = true)]
async fn pods_leave_in_groups_and_those_that_tolerate_stay() {
    let world = World::start().await;
    let uid = machine(&world, &json!({})).await;
    world.pod("plain", "a", &json!({})).await;
    world.pod("daemon", "a", &owned_by("DaemonSet")).await;
    let mut stays = owned_by("DaemonSet");
    merge(
        &mut stays,
        &json!({ "spec": { "tolerations": [{ "operator": "Exists" }] } }),
    );
    world.pod("stays", "a", &stays).await;
    world.delete(KARPENTER, "NodeClaim", "", "a").await;
    let terminating = |name: &'static str| {
        let world = &world;
        async move {
            let pod = world.get("v1", "Pod", "default", name).await;
            pod.is_none_or(|pod| pod["metadata"].get("deletionTimestamp").is_some())
        }
    };
    world.until("the plain pod is asked", 10, || terminating("plain")).await;
    seconds(5).await;
    assert!(
        !terminating("daemon").await,
        "the DaemonSet's pod waits for the plain one"
    );
    world
        .until("the node is gone", 120, || async { world.node("a").await.is_none() })
        .await;
    world.until("all is gone", 60, || world.is_gone("a", &uid)).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_kubelet_is_silent_holds_the_node_for_a_minute_longer() {
    let world = World::start().await;
    let uid = machine(&world, &json!({})).await;
    world.pod("p", "a", &json!({})).await;
    world.freeze_kubelets();
    world.delete(KARPENTER, "NodeClaim", "", "a").await;
    seconds(65).await;
    assert!(!world.provider.calls().contains(&format!("delete {uid}")));
    world.until("all is gone", 30, || world.is_gone("a", &uid)).await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_waited_for_until_it_is_detached() {
    let world = World::start().await;
    let uid = machine(&world, &json!({})).await;
    attach(&world).await;
    world.delete(KARPENTER, "NodeClaim", "", "a").await;
    seconds(300).await;
    assert_eq!(world.condition("a", "Drained").await.as_deref(), Some("True"));
    assert_eq!(
        world.condition("a", "VolumesDetached").await.as_deref(),
        Some("Unknown")
    );
    assert!(!world.provider.calls().contains(&format!("delete {uid}")));
    let told = world.events("AwaitingVolumeDetachment", "a").await;
    assert_eq!(told[0], "Awaiting deletion of bound volumeattachments (va)");
    world.delete("storage.k8s.io/v1", "VolumeAttachment", "", "va").await;
    world.until("all is gone", 60, || world.is_gone("a", &uid)).await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_not_waited_for_beyond_the_grace_period() {
    let world = World::start().await;
    let uid = machine(&world, &json!({ "spec": { "terminationGracePeriod": "120s" } })).await;
    attach(&world).await;
    world.delete(KARPENTER, "NodeClaim", "", "a").await;
    seconds(110).await;
    assert!(!world.is_gone("a", &uid).await);
    world.until("all is gone", 30, || world.is_gone("a", &uid)).await;
}

async fn attach(world: &World) {
    let attachment = json!({
        "metadata": { "name": "va" },
        "spec": { "attacher": "csi", "nodeName": "a", "source": { "persistentVolumeName": "pv" } },
    });
    world.create("storage.k8s.io/v1", "VolumeAttachment", attachment).await;
}

#[tokio::test(start_paused = true)]
async fn the_finalizers_stay_until_the_machine_is_gone() {
    let world = World::start().await;
    let uid = machine(&world, &json!({})).await;
    world.provider.set_leaving(Leaving::WhenTold);
    world.delete(KARPENTER, "NodeClaim", "", "a").await;
    seconds(1800).await;
    assert_eq!(
        world.condition("a", "InstanceTerminating").await.as_deref(),
        Some("True")
    );
    assert!(world.node("a").await.is_some() && world.claim("a").await.is_some());
    world.provider.finish_deletion(&uid);
    world.until("all is gone", 30, || world.is_gone("a", &uid)).await;
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_cannot_be_asked_is_waited_for() {
    let world = World::start().await;
    let uid = machine(&world, &json!({})).await;
    let down = json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] } });
    world.patch_status("v1", "Node", "", "a", down).await;
    world.provider.set_reachable(false);
    world.delete(KARPENTER, "NodeClaim", "", "a").await;
    seconds(600).await;
    assert!(world.node("a").await.is_some() && world.claim("a").await.is_some());
    world.provider.set_reachable(true);
    world.until("all is gone", 60, || world.is_gone("a", &uid)).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_without_machine_is_let_go_without_a_drain() {
    let world = World::start().await;
    let uid = machine(&world, &json!({})).await;
    world.pod("p", "a", &protected()).await;
    let down = json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] } });
    world.patch_status("v1", "Node", "", "a", down).await;
    world.provider.lose(&uid);
    world.delete("v1", "Node", "", "a").await;
    let took = world.until("all is gone", 30, || world.is_gone("a", &uid)).await;
    assert!(took.as_secs() < 10, "took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_expired_claim_is_drained_like_any_other() {
    let world = World::start().await;
    let uid = machine(&world, &json!({ "spec": { "expireAfter": "1h" } })).await;
    world.pod("p", "a", &json!({})).await;
    seconds(3500).await;
    assert!(world.claim("a").await.is_some());
    world.until("all is gone", 300, || world.is_gone("a", &uid)).await;
    assert_eq!(world.events("Evicted", "p").await.len(), 1);
    assert!(
        (world
            .metrics
            .nodeclaims
            .disrupted
            .get(["expired", "default", "on-demand"])
            - 1.0)
            .abs()
            < 1e-9
    );
}

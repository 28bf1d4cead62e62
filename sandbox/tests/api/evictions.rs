//! Binding, budgets and evictions.

use super::support::{code, message, object, pod, world};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, EvictParams, Patch, PatchParams, PostParams};
use sandbox::api::ApiServer;
use serde_json::{Value, json};

async fn settle() {
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
}

async fn running(server: &ApiServer, name: &str, ready: &str) {
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let mut wish = pod(name);
    wish["metadata"]["labels"] = json!({"app": "web"});
    wish["spec"]["nodeName"] = "n".into();
    pods.create(&PostParams::default(), &object(wish)).await.unwrap();
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

async fn budget(server: &ApiServer, name: &str, spec: Value) -> Api<PodDisruptionBudget> {
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(server.client());
    let mut wish = json!({"metadata": {"name": name}, "spec": spec});
    wish["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    budgets.create(&PostParams::default(), &object(wish)).await.unwrap();
    budgets
}

#[tokio::test(start_paused = true)]
async fn a_budget_lets_go_what_it_can_spare_and_refuses_the_rest() {
    let server = world();
    for name in ["a", "b", "c"] {
        running(&server, name, "True").await;
    }
    let budgets = budget(&server, "web", json!({"minAvailable": 2})).await;
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    settle().await;
    let status = budgets.get("web").await.unwrap().status.unwrap();
    assert_eq!(
        (
            status.current_healthy,
            status.desired_healthy,
            status.disruptions_allowed,
            status.expected_pods
        ),
        (3, 2, 1, 3)
    );
    pods.evict("a", &EvictParams::default()).await.unwrap();
    assert!(pods.get("a").await.unwrap().metadata.deletion_timestamp.is_some());
    let refused = pods.evict("b", &EvictParams::default()).await.unwrap_err();
    let kube::Error::Api(status) = &refused else { panic!() };
    let cause = &status.details.as_ref().unwrap().causes[0];
    assert_eq!(
        (status.code, status.reason.as_str(), cause.reason.as_str()),
        (429, "TooManyRequests", "DisruptionBudget")
    );
    assert_eq!(
        status.message,
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    assert_eq!(
        cause.message,
        "The disruption budget web needs 2 healthy pods and has 2 currently"
    );
    running(&server, "d", "True").await;
    settle().await;
    pods.evict("b", &EvictParams::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_budgets_are_an_error_and_finished_pods_need_none() {
    let server = world();
    running(&server, "a", "True").await;
    budget(&server, "one", json!({"maxUnavailable": 0})).await;
    budget(&server, "two", json!({"maxUnavailable": 0})).await;
    settle().await;
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let refused = pods.evict("a", &EvictParams::default()).await.unwrap_err();
    assert_eq!(
        (code(&refused), message(&refused).as_str()),
        (
            500,
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    );
    pods.patch_status(
        "a",
        &PatchParams::default(),
        &Patch::Merge(json!({"status": {"phase": "Succeeded"}})),
    )
    .await
    .unwrap();
    pods.evict("a", &EvictParams::default()).await.unwrap();
    assert_eq!(
        code(&pods.evict("gone", &EvictParams::default()).await.unwrap_err()),
        404
    );
}

#[tokio::test(start_paused = true)]
async fn unhealthy_pods_go_by_policy() {
    let server = world();
    running(&server, "sick", "False").await;
    running(&server, "ill", "False").await;
    let budgets = budget(&server, "web", json!({"minAvailable": 1})).await;
    settle().await;
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    assert_eq!(
        code(&pods.evict("sick", &EvictParams::default()).await.unwrap_err()),
        429
    );
    let always = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}});
    budgets
        .patch("web", &PatchParams::default(), &Patch::Merge(always))
        .await
        .unwrap();
    settle().await;
    pods.evict("sick", &EvictParams::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn percentages_count_what_the_controllers_want() {
    let server = world();
    let set = server.handle().create(&json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rs"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}})).unwrap();
    running(&server, "a", "True").await;
    running(&server, "b", "True").await;
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let owner = json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs",
        "uid": set["metadata"]["uid"], "controller": true}]}});
    for name in ["a", "b"] {
        pods.patch(name, &PatchParams::default(), &Patch::Merge(&owner))
            .await
            .unwrap();
    }
    let budgets = budget(&server, "web", json!({"maxUnavailable": "50%"})).await;
    settle().await;
    let status = budgets.get("web").await.unwrap().status.unwrap();
    assert_eq!(
        (status.expected_pods, status.desired_healthy, status.disruptions_allowed),
        (3, 1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_its_node_by_binding_once() {
    let server = world();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let made = pods.create(&PostParams::default(), &object(pod("p"))).await.unwrap();
    let spec = made.spec.unwrap();
    assert_eq!(
        (
            spec.priority,
            spec.tolerations.unwrap().len(),
            spec.termination_grace_period_seconds
        ),
        (Some(0), 2, Some(30))
    );
    assert_eq!(made.status.unwrap().phase.as_deref(), Some("Pending"));
    let direct = json!({"spec": {"nodeName": "n"}});
    assert_eq!(
        code(
            &pods
                .patch("p", &PatchParams::default(), &Patch::Merge(&direct))
                .await
                .unwrap_err()
        ),
        422
    );
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let bind = async || {
        pods.create_subresource::<Value, Value>("binding", "p", &PostParams::default(), &binding)
            .await
    };
    bind().await.unwrap();
    let bound = pods.get("p").await.unwrap();
    assert_eq!(bound.spec.unwrap().node_name.as_deref(), Some("n"));
    assert_eq!(bound.status.unwrap().conditions.unwrap()[0].type_, "PodScheduled");
    let again = bind().await.unwrap_err();
    assert_eq!(
        (code(&again), message(&again).contains("already assigned to node \"n\"")),
        (409, true)
    );
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "wait"}]);
    pods.create(&PostParams::default(), &object(gated)).await.unwrap();
    let refused = pods
        .create_subresource::<Value, Value>("binding", "gated", &PostParams::default(), &binding)
        .await
        .unwrap_err();
    assert_eq!(code(&refused), 409);
}

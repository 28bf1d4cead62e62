//! The real control plane itself: does the harness start it, does it do what the other tests rely on, and does it end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

mod support;

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;

use support::controlplane::process::{Guardian, Process};
use support::controlplane::{ControlPlane, Options, Part, Use, eventually, missing_from};

const WITHIN: Duration = Duration::from_mins(1);

async fn deploy(client: &Client, namespace: &str, replicas: i32) {
    let deployment = serde_json::from_value::<Deployment>(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [
                    {"name": "web", "image": "web", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
                ]},
            },
        },
    }));
    let deployments = Api::<Deployment>::namespaced(client.clone(), namespace);
    deployments
        .create(&PostParams::default(), &deployment.unwrap())
        .await
        .unwrap();
}

fn ready_node(name: &str) -> Node {
    let room = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }))
    .unwrap()
}

fn is_unschedulable(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|one| one.type_ == "PodScheduled" && one.reason.as_deref() == Some("Unschedulable"))
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

async fn pods(client: &Client, namespace: &str) -> Vec<Pod> {
    Api::<Pod>::namespaced(client.clone(), namespace)
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
}

#[tokio::test]
async fn three_pending_replicas_are_bound_when_a_ready_node_appears() {
    let plane = ControlPlane::start().await;
    let client = plane.client().await;
    let namespace = plane.namespace("smoke").await;
    deploy(&client, &namespace, 3).await;

    eventually("three pods that the scheduler finds no node for", WITHIN, async || {
        let pods = pods(&client, &namespace).await;
        (pods.len() == 3 && pods.iter().all(is_unschedulable)).then_some(())
    })
    .await;

    let node = ready_node("by-hand");
    Api::<Node>::all(client.clone())
        .create(&PostParams::default(), &node)
        .await
        .unwrap();

    eventually("all three are bound to the node", WITHIN, async || {
        pods(&client, &namespace)
            .await
            .iter()
            .all(|pod| node_of(pod) == Some("by-hand"))
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_server_reports_the_pinned_version() {
    let plane = ControlPlane::shared().await;
    let version = plane.client().await.apiserver_version().await.unwrap();
    // A borrowed control plane may be another one; a built one has the version of its go.mod.
    if std::env::var_os("KUBEBUILDER_ASSETS").is_none() {
        let manifest = include_str!("controlplane/modules/kubernetes/go.mod");
        let pinned = manifest
            .lines()
            .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"))
            .unwrap();
        assert_eq!(version.git_version, format!("v{}", pinned.split(' ').next().unwrap()));
    }
    assert_ne!(version.git_version, "v0.0.0-master+$Format:%H$");
}

#[tokio::test]
async fn a_service_account_has_only_the_rights_it_was_given_and_the_audit_log_tells_which_it_used() {
    let plane = ControlPlane::shared().await;
    let namespace = plane.namespace("rights").await;
    let granted = format!(
        r"
apiVersion: v1
kind: ServiceAccount
metadata: {{name: reader}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {namespace}}}
rules: [{{apiGroups: [''], resources: [pods], verbs: [list, watch]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {namespace}}}
subjects: [{{kind: ServiceAccount, name: reader, namespace: {namespace}}}]
"
    );
    plane.apply(&granted, &namespace).await;

    let kubeconfig = plane.kubeconfig_for(&namespace, "reader").await;
    let client = client_of(&kubeconfig).await;
    // The server's authorizer learns of a new binding through a watch.
    eventually("the reader may list pods", WITHIN, async || {
        Api::<Pod>::all(client.clone())
            .list(&ListParams::default())
            .await
            .ok()
            .map(drop)
    })
    .await;
    let refused = Api::<Node>::all(client).list(&ListParams::default()).await.unwrap_err();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 403),
        "{refused}"
    );

    let right = |resource: &str| Use {
        api_group: String::new(),
        resource: resource.to_owned(),
        verb: "list".to_owned(),
    };
    let user = format!("system:serviceaccount:{namespace}:reader");
    assert_eq!(plane.rights_used_by(&user), [right("pods")].into());
    assert!(plane.rights_refused_to(&user).contains(&right("nodes")));
}

async fn client_of(kubeconfig: &Path) -> Client {
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    Client::try_from(
        kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
            .await
            .unwrap(),
    )
    .unwrap()
}

#[tokio::test]
async fn a_killed_api_server_comes_back_with_its_data_and_all_programs_end_with_the_harness() {
    let options = Options::default()
        .without(Part::Scheduler)
        .without(Part::ControllerManager);
    let mut plane = ControlPlane::start_with(options).await;
    let namespace = plane.namespace("kept").await;

    plane.kill(Part::ApiServer);
    assert!(
        plane.client().await.apiserver_version().await.is_err(),
        "a killed server answers"
    );
    plane.resume(Part::ApiServer).await;
    let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(plane.client().await);
    namespaces.get(&namespace).await.unwrap();

    let ids = [Part::Etcd, Part::ApiServer].map(|part| plane.process_id(part));
    let data = plane.admin_kubeconfig().parent().unwrap().to_owned();
    drop(plane);
    assert!(!data.exists(), "{} is left over", data.display());
    for id in ids {
        assert!(!is_running(id), "process {id} is left over");
    }
}

/// `kill -0` asks whether a process is there and does nothing to it.
fn is_running(id: u32) -> bool {
    let question = std::process::Command::new("sh")
        .args(["-c", &format!("kill -0 {id} 2>&-")])
        .status();
    question.unwrap().success()
}

#[tokio::test]
async fn a_test_that_is_killed_leaves_neither_processes_nor_data_behind() {
    let folder = std::env::temp_dir().join(format!("karpenter-guardian-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let mut guardian = Guardian::start(&folder).unwrap();
    let log = folder.join("sleep.log");
    let mut sleep = Process::start(Path::new("sleep"), vec!["1000".to_owned()], log, &mut guardian).unwrap();
    assert!(sleep.exited().unwrap().is_none(), "ended too early");

    // What the guardian sees of a killed test is that its pipe closes.
    drop(guardian);

    eventually("the process ends", WITHIN, async || sleep.exited().unwrap()).await;
    eventually("the folder goes", WITHIN, async || (!folder.exists()).then_some(())).await;
}

#[test]
fn missing_programs_are_named_together_with_what_to_do() {
    let nowhere = missing_from(Path::new("/nonexistent")).unwrap();
    assert!(nowhere.contains("no etcd, kube-apiserver, kube-scheduler, kube-controller-manager in /nonexistent"));
    assert!(
        nowhere.contains("make control-plane") && nowhere.contains("KUBEBUILDER_ASSETS"),
        "{nowhere}"
    );
}

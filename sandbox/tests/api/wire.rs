//! What kubectl asks and sees, over a real socket: discovery, tables, tokens. Real time.

use super::served::{Served, served};
use sandbox::api::{Exposure, kubeconfig};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const TABLE: &str =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

async fn get(served: &Served, path: &str, accept: &str) -> Value {
    let client = reqwest::Client::new();
    let request = client
        .get(format!("http://{}{path}", served.address))
        .header("accept", accept)
        .bearer_auth("secret");
    request.send().await.unwrap().json().await.unwrap()
}

#[tokio::test]
async fn discovery_names_what_kubectl_looks_for() {
    let served = served().await;
    assert_eq!(get(&served, "/api", "*/*").await["versions"], json!(["v1"]));
    let groups = get(&served, "/apis", "application/json").await;
    let names: Vec<&str> = groups["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|g| g["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"karpenter.sh") && names.contains(&"apps") && !names.contains(&""));
    let kinds = get(&served, "/apis/karpenter.sh/v1", "application/json").await;
    let pool = kinds["resources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|r| r["name"] == "nodepools")
        .unwrap();
    assert_eq!(
        (&pool["categories"], &pool["namespaced"]),
        (&json!(["karpenter"]), &json!(false))
    );
    assert!(
        kinds["resources"]
            .as_array()
            .unwrap()
            .iter()
            .any(|r| r["name"] == "nodepools/scale" && r["group"] == "autoscaling")
    );
    let index = get(&served, "/openapi/v3", "application/json").await;
    let url = index["paths"]["apis/karpenter.sh/v1"]["serverRelativeURL"]
        .as_str()
        .unwrap();
    let document = get(&served, url, "application/json").await;
    let parameters = document["paths"]["/apis/karpenter.sh/v1/nodepools/{name}"]["patch"]["parameters"]
        .as_array()
        .unwrap();
    assert!(
        parameters.iter().any(|p| p["name"] == "fieldValidation"),
        "so kubectl lets the server validate"
    );
    assert_eq!(get(&served, "/version", "*/*").await["major"], "1");
    assert_eq!(get(&served, "/nothing", "*/*").await["code"], 404);
}

#[tokio::test]
async fn tables_have_the_columns_of_the_definition() {
    // surface §1.2
    let served = served().await;
    let pools = get(&served, "/apis/karpenter.sh/v1/nodepools", TABLE).await;
    assert_eq!(pools["kind"], "Table");
    let columns: Vec<(&str, i64)> = pools["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["name"].as_str().unwrap(), c["priority"].as_i64().unwrap()))
        .collect();
    let wanted = [
        ("Name", 0),
        ("NodeClass", 0),
        ("Nodes", 0),
        ("Ready", 0),
        ("Age", 0),
        ("Weight", 1),
        ("CPU", 1),
        ("Memory", 1),
    ];
    assert_eq!(columns, wanted);
    assert_eq!(pools["rows"][0]["cells"][0], "general");
    assert_eq!(pools["rows"][0]["cells"][1], "default");
    assert_eq!(pools["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let pods = get(&served, "/api/v1/namespaces/default/pods?limit=1", TABLE).await;
    assert_eq!(
        pods["rows"][0]["cells"].as_array().unwrap()[..4],
        [json!("one"), json!("0/1"), json!("Pending"), json!("0")]
    );
    assert!(pods["metadata"]["continue"].is_string());
    let one = get(&served, "/api/v1/namespaces/default/pods/two", TABLE).await;
    assert_eq!(one["rows"].as_array().unwrap().len(), 1);
    let watched = get(
        &served,
        "/api/v1/pods?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dtwo",
        TABLE,
    )
    .await;
    assert_eq!(
        (&watched["type"], &watched["object"]["rows"][0]["cells"][0]),
        (&json!("ADDED"), &json!("two"))
    );
}

#[tokio::test]
async fn a_client_comes_in_by_token_and_only_from_this_machine() {
    let served = served().await;
    let config: kube::config::Kubeconfig = serde_saphyr::from_str(&kubeconfig(served.address, "secret")).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default())
        .await
        .unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::default_namespaced(client);
    assert_eq!(
        pods.list(&kube::api::ListParams::default()).await.unwrap().items.len(),
        2
    );
    assert_eq!(served.server.audit().last().unwrap().user, "admin");
    let refused = reqwest::Client::new()
        .get(format!("http://{}/api/v1/pods", served.address))
        .bearer_auth("wrong");
    assert_eq!(refused.send().await.unwrap().status(), 401);
    let open = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused = served
        .server
        .serve(open, Exposure::Loopback, std::future::ready(()))
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    let open = TcpListener::bind("0.0.0.0:0").await.unwrap();
    served
        .server
        .serve(open, Exposure::Anywhere, std::future::ready(()))
        .await
        .unwrap();
}

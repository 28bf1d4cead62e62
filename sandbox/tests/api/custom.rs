//! Custom kinds: our definitions judge as upstream's do, and the server treats their objects as a real one.

use super::support::{code, install_crds, message, node_pool, node_pools, reason, world};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use sandbox::api::ApiServer;
use serde_json::{Value, json};

fn examples() -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/crd-examples");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let read = |path| serde_json::from_str::<Vec<Value>>(&std::fs::read_to_string(path).unwrap()).unwrap();
    files.into_iter().flat_map(read).collect()
}

fn plural(kind: &str) -> &'static str {
    match kind {
        "NodePool" => "nodepools.karpenter.sh",
        "NodeClaim" => "nodeclaims.karpenter.sh",
        "NodeOverlay" => "nodeoverlays.karpenter.sh",
        _ => "rackspacespotnodeclasses.karpenter.rackspace.com",
    }
}

/// Creates what an update starts from.
fn version_of_new(server: &ApiServer, object: &Value) -> Value {
    let stored = server
        .handle()
        .create(object)
        .expect("what an update starts from is valid");
    stored["metadata"]["resourceVersion"].clone()
}

/// Sends one example; what was stored, or why not.
fn verdict(server: &ApiServer, example: &Value) -> Result<Value, String> {
    let handle = server.handle();
    let object = &example["object"];
    let name = object["metadata"]["name"].as_str().unwrap();
    let result = match example.get("update_from") {
        None => handle.create(object),
        Some(before) => {
            let mut next = object.clone();
            next["metadata"]["resourceVersion"] = version_of_new(server, before);
            handle.update(&next)
        }
    };
    // Whether a status is fine shows only when it is written.
    let result = result.and_then(|stored| match object.get("status") {
        None => Ok(stored),
        Some(status) => {
            let mut next = stored;
            next["status"] = status.clone();
            handle.update_status(&next)
        }
    });
    let _cleared = handle.delete(plural(example["kind"].as_str().unwrap()), "", name, &Value::Null);
    result.map_err(|e| e.message)
}

#[tokio::test(start_paused = true)]
async fn every_example_gets_upstreams_verdict() {
    // surface §1.7
    let server = world();
    install_crds(&server);
    let examples = examples();
    assert!(examples.len() > 400);
    let mut wrong = Vec::new();
    for example in &examples {
        let wanted = example["accepted"].as_bool().unwrap();
        let outcome = verdict(&server, example);
        if outcome.is_ok() != wanted {
            wrong.push(format!("{} {}: {:?}", example["kind"], example["name"], outcome.err()));
        } else if let (Ok(stored), Some(Value::Object(parts))) = (&outcome, example.get("stored")) {
            for (key, part) in parts {
                if stored["spec"].get(key) != Some(part) {
                    wrong.push(format!(
                        "{} {}: {key} is {}",
                        example["kind"], example["name"], stored["spec"][key]
                    ));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        examples.len(),
        wrong.join("\n")
    );
}

#[tokio::test(start_paused = true)]
async fn generation_counts_the_spec_and_status_is_apart() {
    let server = world();
    install_crds(&server);
    let pools = node_pools(server.client());
    let mut wish = node_pool("p");
    wish["status"] = json!({"nodes": 7});
    let wish = serde_json::from_value(wish).unwrap();
    let made = pools.create(&PostParams::default(), &wish).await.unwrap();
    assert_eq!(made.metadata.generation, Some(1));
    assert_eq!(made.data.pointer("/status/nodes"), None, "a status is not created");
    assert_eq!(made.data["spec"]["disruption"]["budgets"][0]["nodes"], "10%");
    assert_eq!(made.data["spec"]["template"]["spec"]["expireAfter"], "720h");
    let params = PatchParams::default();
    let labelled = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}, "status": {"nodes": 3}}));
    let labelled = pools.patch("p", &params, &labelled).await.unwrap();
    assert_eq!(
        (labelled.metadata.generation, labelled.data.pointer("/status/nodes")),
        (Some(1), None)
    );
    let status =
        Patch::Merge(json!({"spec": {"weight": 9}, "metadata": {"labels": {"c": "d"}}, "status": {"nodes": 3}}));
    let status = pools.patch_status("p", &params, &status).await.unwrap();
    assert_eq!(
        (status.metadata.generation, &status.data["status"]["nodes"]),
        (Some(1), &json!(3))
    );
    assert_eq!(status.data.pointer("/spec/weight"), None);
    assert!(!status.metadata.labels.unwrap().contains_key("c"));
    let weight = pools
        .patch("p", &params, &Patch::Merge(json!({"spec": {"weight": 9}})))
        .await
        .unwrap();
    assert_eq!(
        (weight.metadata.generation, &weight.data["status"]["nodes"]),
        (Some(2), &json!(3))
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_says_where_and_why() {
    let server = world();
    install_crds(&server);
    let pools = node_pools(server.client());
    let mut bad = node_pool("p");
    bad["spec"]["weight"] = json!(101);
    bad["spec"]["disruption"] = json!({"consolidateAfter": "soon"});
    let refused = pools
        .create(&PostParams::default(), &serde_json::from_value(bad).unwrap())
        .await
        .unwrap_err();
    assert_eq!((code(&refused), reason(&refused).as_str()), (422, "Invalid"));
    let words = message(&refused);
    assert!(
        words.starts_with("NodePool.karpenter.sh \"p\" is invalid: ["),
        "{words}"
    );
    assert!(
        words.contains("spec.weight: Invalid value: 101: spec.weight in body should be less than or equal to 100"),
        "{words}"
    );
    assert!(
        words.contains("spec.disruption.consolidateAfter: Invalid value: \"soon\""),
        "{words}"
    );
    let mut bad = node_pool("p");
    bad["spec"]["template"]["spec"]["requirements"] = json!([{"key": "a", "operator": "In", "values": []}]);
    let refused = pools
        .create(&PostParams::default(), &serde_json::from_value(bad).unwrap())
        .await
        .unwrap_err();
    assert!(message(&refused).contains("spec.template.spec.requirements: Invalid value: \"array\": requirements with operator 'In' must have a value defined"), "{}", message(&refused));
    let kube::Error::Api(status) = &refused else { panic!() };
    assert_eq!(
        status.details.as_ref().unwrap().causes[0].field,
        "spec.template.spec.requirements"
    );
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_dropped_or_refused_as_the_client_asks() {
    let server = world();
    install_crds(&server);
    let mut odd = node_pool("p");
    odd["spec"]["foo"] = json!(1);
    let pools = node_pools(server.client());
    let made = pools
        .create(&PostParams::default(), &serde_json::from_value(odd.clone()).unwrap())
        .await
        .unwrap();
    assert_eq!(made.data["spec"].get("foo"), None);
    odd["metadata"]["name"] = json!("q");
    let request = http::Request::post("/apis/karpenter.sh/v1/nodepools?fieldValidation=Strict")
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&odd).unwrap())
        .unwrap();
    let refused = server.client().request::<Value>(request).await.unwrap_err();
    assert_eq!(code(&refused), 400);
    assert!(
        message(&refused).contains("strict decoding error: unknown field \"spec.foo\""),
        "{}",
        message(&refused)
    );
}

#[tokio::test(start_paused = true)]
async fn an_update_needs_a_version_and_keeps_what_cannot_change() {
    let server = world();
    install_crds(&server);
    let pools = node_pools(server.client());
    let blind = serde_json::from_value(node_pool("p")).unwrap();
    pools.create(&PostParams::default(), &blind).await.unwrap();
    let refused = pools.replace("p", &PostParams::default(), &blind).await.unwrap_err();
    assert!(
        message(&refused).contains("metadata.resourceVersion: Invalid value: 0x0: must be specified for an update")
    );
    let group = json!({"spec": {"template": {"spec": {"nodeClassRef": {"group": "other"}}}}});
    let refused = pools
        .patch("p", &PatchParams::default(), &Patch::Merge(group))
        .await
        .unwrap_err();
    assert_eq!(code(&refused), 422);
    assert!(
        message(&refused).contains("nodeClassRef.group is immutable"),
        "{}",
        message(&refused)
    );
    let strategic = pools
        .patch("p", &PatchParams::default(), &Patch::Strategic(json!({})))
        .await
        .unwrap_err();
    assert_eq!(code(&strategic), 415);
}

#[tokio::test(start_paused = true)]
async fn the_scale_of_a_static_pool_is_its_replicas() {
    let server = world();
    install_crds(&server);
    let pools = node_pools(server.client());
    let mut wish = node_pool("p");
    wish["spec"]["replicas"] = json!(2);
    pools
        .create(&PostParams::default(), &serde_json::from_value(wish).unwrap())
        .await
        .unwrap();
    pools
        .patch_status(
            "p",
            &PatchParams::default(),
            &Patch::Merge(json!({"status": {"nodes": 1}})),
        )
        .await
        .unwrap();
    let scale = pools.get_scale("p").await.unwrap();
    assert_eq!(
        (scale.spec.unwrap().replicas, scale.status.unwrap().replicas),
        (Some(2), 1)
    );
    pools
        .patch_scale(
            "p",
            &PatchParams::default(),
            &Patch::Merge(json!({"spec": {"replicas": 5}})),
        )
        .await
        .unwrap();
    let after = pools.get("p").await.unwrap();
    assert_eq!(
        (&after.data["spec"]["replicas"], after.metadata.generation),
        (&json!(5), Some(2))
    );
}

#[tokio::test(start_paused = true)]
async fn a_removed_definition_takes_its_objects_and_its_paths() {
    let server = world();
    install_crds(&server);
    let pools = node_pools(server.client());
    pools
        .create(&PostParams::default(), &serde_json::from_value(node_pool("p")).unwrap())
        .await
        .unwrap();
    server
        .handle()
        .delete(
            "customresourcedefinitions.apiextensions.k8s.io",
            "",
            "nodepools.karpenter.sh",
            &Value::Null,
        )
        .unwrap();
    let gone = pools.list(&ListParams::default()).await.unwrap_err();
    assert_eq!(
        (code(&gone), message(&gone).as_str()),
        (404, "the server could not find the requested resource")
    );
    assert_eq!(
        code(&pools.delete("p", &DeleteParams::default()).await.unwrap_err()),
        404
    );
}

//! The examples of `tests/data/crd-examples` get from the real kube-apiserver the verdict that is written beside them.
//!
//! The in-process API server is held to the same file, so the two agree. When this test fails the server is right: correct
//! the CRD when the rule is wrong, else the example.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

mod support;

use std::fs;
use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde::Deserialize;
use serde_json::{Value, json};

use support::controlplane::{ControlPlane, Options, Part};

/// One example, as the files have it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Example {
    /// What it shows.
    name: String,
    kind: String,
    object: Value,
    /// The object is an update of this one, which the server accepts.
    update_from: Option<Value>,
    accepted: bool,
    /// What fields of the spec become; without it they stay as they are given.
    stored: Option<Value>,
    /// Where in the reference it comes from.
    source: String,
    /// The verdict of the operator's own validation, which is not the server's.
    #[serde(rename = "runtime")]
    _runtime: Option<bool>,
}

fn examples() -> Vec<Example> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/crd-examples");
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let parse = |file: &Path| -> Vec<Example> {
        let text = fs::read_to_string(file).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    };
    files.iter().flat_map(|file| parse(file)).collect()
}

/// The API of the example's kind; all kinds of the project are cluster-wide.
fn api_of(client: &Client, crds: &[CustomResourceDefinition], example: &Example) -> Api<DynamicObject> {
    let crd = crds.iter().find(|crd| crd.spec.names.kind == example.kind);
    let crd = crd.unwrap_or_else(|| panic!("{}: no CRD for {}", example.name, example.kind));
    assert_eq!(crd.spec.scope, "Cluster", "{}", example.kind);
    let version = &crd.spec.versions.iter().find(|version| version.storage).unwrap().name;
    let kind = GroupVersionKind::gvk(&crd.spec.group, version, &example.kind);
    Api::all_with(
        client.clone(),
        &ApiResource::from_gvk_with_plural(&kind, &crd.spec.names.plural),
    )
}

/// What the server would store, or why it refuses.
async fn verdict(api: &Api<DynamicObject>, example: &Example) -> Result<Value, String> {
    let tried = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let mut object = example.typed(&example.object);
    let answer = match &example.update_from {
        None => api.create(&tried, &object).await,
        Some(before) => {
            let before = api.create(&PostParams::default(), &example.typed(before)).await;
            let before = before.unwrap_or_else(|error| panic!("{}: what it updates is refused: {error}", example.name));
            let name = before.metadata.name.unwrap();
            object.metadata.resource_version = before.metadata.resource_version;
            let answer = api.replace(&name, &tried, &object).await;
            remove(api, &name).await;
            answer
        }
    };
    match answer {
        Ok(stored) => Ok(serde_json::to_value(stored).unwrap()),
        // Only a validation is a refusal; any other failure is one of the test.
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => Err(status.message),
        Err(other) => panic!("{}: neither accepted nor refused: {other}", example.name),
    }
}

async fn remove(api: &Api<DynamicObject>, name: &str) {
    let without_finalizers = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch(name, &PatchParams::default(), &without_finalizers)
        .await
        .unwrap();
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

impl Example {
    fn typed(&self, object: &Value) -> DynamicObject {
        serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

/// Where `stored` lacks or changed what `given` has; what it has more are defaults.
fn changed(path: &str, given: &Value, stored: &Value) -> Vec<String> {
    match (given, stored) {
        (Value::Object(given), Value::Object(stored)) => {
            let at = |(key, value): (&String, &Value)| {
                changed(&format!("{path}.{key}"), value, stored.get(key).unwrap_or(&Value::Null))
            };
            given.iter().flat_map(at).collect()
        }
        (Value::Array(given), Value::Array(stored)) if given.len() == stored.len() => {
            let at = |(index, (given, stored))| changed(&format!("{path}[{index}]"), given, stored);
            given.iter().zip(stored).enumerate().flat_map(at).collect()
        }
        _ if given == stored => Vec::new(),
        _ => vec![format!("{path}: {given} became {stored}")],
    }
}

impl Example {
    /// What is not as it should be in an accepted object.
    fn badly_stored(&self, stored: &Value) -> Vec<String> {
        let Some(expected) = self.stored.as_ref().and_then(Value::as_object) else {
            // surface T21: `720h` stays `720h`; and a field that the schema lacks would be pruned without a word.
            return changed("spec", &self.object["spec"], &stored["spec"]);
        };
        let differs = expected
            .iter()
            .filter(|(field, value)| stored["spec"].get(field) != Some(value));
        let describe =
            |(field, value): (&String, &Value)| format!("spec.{field}: {} instead of {value}", stored["spec"][field]);
        differs.map(describe).collect()
    }

    fn differences(&self, verdict: Result<Value, String>) -> Vec<String> {
        match (verdict, self.accepted) {
            (Ok(stored), true) => self.badly_stored(&stored),
            (Ok(_), false) => vec!["is accepted".to_owned()],
            (Err(reason), true) => vec![format!("is refused: {reason}")],
            (Err(_), false) => Vec::new(),
        }
    }
}

#[tokio::test]
async fn every_example_gets_its_verdict_from_the_real_api_server_which_keeps_what_users_wrote() {
    let options = Options::default()
        .without(Part::Scheduler)
        .without(Part::ControllerManager);
    let plane = ControlPlane::start_with(options).await;
    let client = plane.client().await;
    let crds = plane.apply_crds().await;
    let examples = examples();
    assert!(!examples.is_empty(), "no examples in tests/data/crd-examples");

    let mut differences = Vec::new();
    for example in &examples {
        let verdict = verdict(&api_of(&client, &crds, example), example).await;
        let title = format!("{} ({}): {}", example.kind, example.source, example.name);
        differences.extend(
            example
                .differences(verdict)
                .iter()
                .map(|what| format!("{title}: {what}")),
        );
    }
    let (count, of) = (differences.len(), examples.len());
    assert!(
        differences.is_empty(),
        "{count} differences in {of} examples:\n{}",
        differences.join("\n")
    );
}

//! Golden and by example: our CustomResourceDefinitions against upstream's, and what they accept.
//!
//! When `our_definitions_equal_upstreams` fails: a schema changed. If the change was not meant, undo it. If it was (upstream's new version), replace
//! `tests/data/observed/crd-skeletons.json` by the new one, correct `src/api/crd`, run `cargo xtask generate` and add examples of what changed.
//! When `generated_files_are_up_to_date` fails: run `cargo xtask generate` and commit.
//!
//! What the definitions accept is in `crds/examples.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

use karpenter::api::{NodePool, crd, validation};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[path = "crds/examples.rs"]
mod examples;
#[path = "crds/structural.rs"]
mod structural;

/// Where our definitions may differ from upstream's, and why. Descriptions may differ everywhere: the wording is ours.
const ALLOWED_DIFFERENCES: &[(&str, &str)] = &[];

fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read_json(path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(repository(path)).unwrap()).unwrap()
}

fn without_descriptions(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                // a property may be called description; a keyword of that name holds a text
                .filter(|(key, value)| !(*key == "description" && value.is_string()))
                .map(|(key, value)| (key.clone(), without_descriptions(value)))
                .collect(),
        ),
        Value::Array(items) => items.iter().map(without_descriptions).collect(),
        other => other.clone(),
    }
}

/// Every path at which two values differ, with both sides.
fn differences(ours: &Value, theirs: &Value, path: &str, found: &mut BTreeMap<String, String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()) {
                let (left, right) = (a.get(key), b.get(key));
                let below = format!("{path}/{key}");
                if let (Some(left), Some(right)) = (left, right) {
                    differences(left, right, &below, found);
                } else {
                    found.insert(below, format!("ours {left:?}, upstream {right:?}"));
                }
            }
        }
        // the order of `required` means nothing
        (Value::Array(a), Value::Array(b)) if path.ends_with("/required") => {
            let sorted = |list: &[Value]| {
                let mut list: Vec<String> = list.iter().map(ToString::to_string).collect();
                list.sort();
                list
            };
            if sorted(a) != sorted(b) {
                found.insert(path.to_owned(), format!("ours {a:?}, upstream {b:?}"));
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (left, right)) in a.iter().zip(b).enumerate() {
                differences(left, right, &format!("{path}/{index}"), found);
            }
        }
        _ if ours != theirs => {
            found.insert(path.to_owned(), format!("ours {ours}, upstream {theirs}"));
        }
        _ => {}
    }
}

#[test]
fn our_definitions_equal_upstreams() {
    let upstream = read_json("tests/data/observed/crd-skeletons.json");
    let mut found = BTreeMap::new();
    for (kind, skeleton) in upstream.as_object().unwrap() {
        let ours = crd::all()
            .into_iter()
            .find(|definition| definition.kind() == *kind)
            .unwrap();
        differences(
            &without_descriptions(&ours.manifest["spec"]),
            skeleton,
            kind,
            &mut found,
        );
    }
    found.retain(|path, _| !ALLOWED_DIFFERENCES.iter().any(|(allowed, _)| path == allowed));
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn every_field_is_described() {
    fn visit(schema: &Value, path: &str, missing: &mut Vec<String>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let below = format!("{path}.{name}");
            if !property["description"].is_string() && !["", ".metadata"].contains(&below.as_str()) {
                missing.push(below.clone());
            }
            visit(property, &below, missing);
        }
        if schema["items"].is_object() {
            visit(&schema["items"], &format!("{path}[]"), missing);
        }
    }
    let mut missing = Vec::new();
    for definition in crd::all() {
        visit(definition.schema(), "", &mut missing);
    }
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn the_class_of_rackspace_spot_is_as_the_go_provider_has_it() {
    // surface §1.1, surface §1.2, surface §1.4
    let class = crd::all()
        .into_iter()
        .find(|definition| definition.kind() == "RackspaceSpotNodeClass")
        .unwrap();
    let spec = &class.manifest["spec"];
    assert_eq!(class.file_name, "karpenter.rackspace.com_rackspacespotnodeclasses.yaml");
    assert_eq!(spec["names"]["shortNames"], json!(["rsnc", "rsncs"]));
    assert_eq!(spec["names"]["listKind"], "RackspaceSpotNodeClassList");
    assert_eq!(spec["scope"], "Cluster");
    assert!(
        class.schema().get("required").is_none(),
        "neither spec nor status is required"
    );
    assert!(
        !class.manifest.to_string().contains("x-kubernetes-validations"),
        "no CEL at all"
    );
    let conditions = &class.schema()["properties"]["status"]["properties"]["conditions"];
    assert_eq!(conditions["x-kubernetes-list-type"], "map");
    assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
}

#[test]
fn every_definition_is_one_that_kubernetes_can_read() {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    let names: Vec<String> = crd::all()
        .into_iter()
        .map(|definition| {
            let crd: CustomResourceDefinition = serde_json::from_value(definition.manifest).unwrap();
            assert_eq!(
                crd.metadata.name,
                Some(format!("{}.{}", crd.spec.names.plural, crd.spec.group))
            );
            definition.file_name
        })
        .collect();
    assert_eq!(
        names,
        [
            "karpenter.rackspace.com_rackspacespotnodeclasses.yaml",
            "karpenter.sh_nodeclaims.yaml",
            "karpenter.sh_nodeoverlays.yaml",
            "karpenter.sh_nodepools.yaml",
        ]
    );
}

#[test]
fn generated_files_are_up_to_date() {
    for folder in ["crds", "charts/karpenter/crds"] {
        let mut present: Vec<String> = std::fs::read_dir(repository(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        present.sort();
        let definitions = crd::all();
        assert_eq!(
            present,
            definitions
                .iter()
                .map(|definition| definition.file_name.clone())
                .collect::<Vec<_>>()
        );
        for definition in definitions {
            let text = std::fs::read_to_string(repository(folder).join(&definition.file_name)).unwrap();
            let written: Value = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(written, definition.manifest, "{folder}/{}", definition.file_name);
        }
    }
}

#[test]
fn the_samples_apply_as_they_are() {
    let schemas: BTreeMap<String, Value> = crd::all()
        .into_iter()
        .map(|definition| (definition.kind(), definition.schema().clone()))
        .collect();
    let mut kinds = Vec::new();
    let mut files: Vec<PathBuf> = std::fs::read_dir(repository("config/samples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for file in files {
        let object: Value = serde_saphyr::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let kind = object["kind"].as_str().unwrap().to_owned();
        if let Some(schema) = schemas.get(&kind) {
            let faults = examples::admission_faults(schema, &json!({ "object": object }));
            assert!(faults.is_empty(), "{}: {faults:?}", file.display());
            assert_eq!(pruned(schema, &object, ""), Vec::<String>::new(), "{}", file.display());
        } else {
            let deployment: k8s_openapi::api::apps::v1::Deployment = serde_json::from_value(object).unwrap();
            assert_eq!(deployment.metadata.name.as_deref(), Some("inflate"));
        }
        if kind == "NodePool" {
            let pool: NodePool = serde_saphyr::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
            assert!(validation::validate_nodepool(&pool).is_valid());
        }
        kinds.push(kind);
    }
    assert_eq!(kinds, ["Deployment", "RackspaceSpotNodeClass", "NodePool"]);
}

/// Fields that the schema does not know, so that the API server would drop them silently.
fn pruned(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let (Value::Object(fields), Some(properties)) = (value, schema["properties"].as_object()) else {
        return Vec::new();
    };
    fields
        .iter()
        .filter(|(name, _)| !(path.is_empty() && *name == "metadata"))
        .flat_map(|(name, value)| match properties.get(name) {
            None => vec![format!("{path}.{name}")],
            Some(property) => pruned(property, value, &format!("{path}.{name}")),
        })
        .collect()
}

//! Golden and by example: our CustomResourceDefinitions against upstream's, and what they accept.
//!
//! When `our_definitions_equal_upstreams` fails: a schema changed. If the change was not meant, undo it. If it was (upstream's new version), replace
//! `tests/data/observed/crd-skeletons.json` by the new one, correct `src/api/crd`, run `cargo xtask generate` and add examples of what changed.
//! When `generated_files_are_up_to_date` fails: run `cargo xtask generate` and commit.
//!
//! The examples are in `tests/data/crd-examples`: each file is a list of objects with the verdict of admission (`accepted`), of the runtime validation
//! (`runtime`, where one is known), what an accepted object's spec must hold once stored (`stored`), and where the row comes from (`source`).
//! `update_from` is the object that is there before. The same files are run against the in-process API server and the real one.

use karpenter::api::{self, NodeOverlay, NodePool, crd, validation};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

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
                match (left, right) {
                    (Some(left), Some(right)) => differences(left, right, &below, found),
                    _ => {
                        found.insert(below, format!("ours {left:?}, upstream {right:?}"));
                    }
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
    // surface §1.1, §1.2, §1.4
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

fn examples() -> Vec<Value> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(repository("tests/data/crd-examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    let examples: Vec<Value> = files
        .iter()
        .flat_map(|path| serde_json::from_str::<Vec<Value>>(&std::fs::read_to_string(path).unwrap()).unwrap())
        .collect();
    assert!(examples.len() > 400, "only {} examples", examples.len());
    examples
}

fn label(example: &Value) -> String {
    format!("{}: {} ({})", example["kind"], example["name"], example["source"])
}

/// The object as the API server keeps it. A default may itself have defaults inside (`disruption`), which `kube_cel` fills in only the second time.
fn defaulted(schema: &Value, object: &Value) -> Value {
    kube_cel::apply_defaults(schema, &kube_cel::apply_defaults(schema, object))
}

/// What admission has against an object: the schema's faults, then those of its CEL rules.
fn admission_faults(schema: &Value, example: &Value) -> Vec<String> {
    let object = defaulted(schema, &example["object"]);
    let mut faults = structural::faults(schema, &object);
    if let Err(errors) = kube_cel::Validator::new().validate(schema, &object, example.get("update_from")) {
        faults.extend(
            errors
                .iter()
                .map(|error| format!("{}: {}", error.field_path, error.message)),
        );
    }
    faults
}

#[test]
fn admission_accepts_and_rejects_what_upstream_does() {
    // surface §1.7
    let schemas: BTreeMap<String, Value> = crd::all()
        .into_iter()
        .map(|definition| (definition.kind(), definition.schema().clone()))
        .collect();
    let mut wrong = Vec::new();
    for example in examples() {
        let schema = &schemas[example["kind"].as_str().unwrap()];
        let faults = admission_faults(schema, &example);
        if faults.is_empty() != example["accepted"].as_bool().unwrap() {
            wrong.push(format!("{}: {faults:?}", label(&example)));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} verdicts differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn what_is_stored_has_the_defaults_and_the_users_spelling() {
    // surface §1.4, T5, T21
    let schemas: BTreeMap<String, Value> = crd::all()
        .into_iter()
        .map(|definition| (definition.kind(), definition.schema().clone()))
        .collect();
    let mut checked = 0;
    for example in examples() {
        let Some(stored) = example["stored"].as_object() else {
            continue;
        };
        checked += 1;
        let kept = defaulted(&schemas[example["kind"].as_str().unwrap()], &example["object"]);
        for (field, expected) in stored {
            assert_eq!(&kept["spec"][field], expected, "{}", label(&example));
        }
    }
    assert!(checked >= 5);
}

#[test]
fn the_runtime_validation_says_what_upstreams_says() {
    // surface §1.6, §1.7
    let mut wrong = Vec::new();
    let mut checked = 0;
    for example in examples() {
        let Some(expected) = example["runtime"].as_bool() else {
            continue;
        };
        checked += 1;
        let object = example["object"].clone();
        let findings = match example["kind"].as_str().unwrap() {
            "NodePool" => validation::validate_nodepool(&api::decode::<NodePool>(object).unwrap()),
            "NodeOverlay" => validation::validate_nodeoverlay(&api::decode::<NodeOverlay>(object).unwrap()),
            other => panic!("{other} has no runtime validation"),
        };
        if findings.is_valid() != expected {
            wrong.push(format!("{}: {:?}", label(&example), findings.message()));
        }
    }
    assert!(checked > 150, "only {checked}");
    assert!(
        wrong.is_empty(),
        "{} verdicts differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn what_admission_accepts_can_be_read_and_is_written_back_as_it_was() {
    // surface T21; nulls and empty collections aside, nothing that the user wrote changes or gets lost
    for example in examples() {
        if example["accepted"] != true {
            continue;
        }
        let object = example["object"].clone();
        let written = match example["kind"].as_str().unwrap() {
            "NodePool" => round_trip::<NodePool>(object.clone()),
            "NodeClaim" => round_trip::<api::NodeClaim>(object.clone()),
            "NodeOverlay" => round_trip::<NodeOverlay>(object.clone()),
            "RackspaceSpotNodeClass" => round_trip::<api::RackspaceSpotNodeClass>(object.clone()),
            other => panic!("unknown kind {other}"),
        };
        let mut lost = Vec::new();
        if let Some(spec) = object.get("spec") {
            missing(spec, &written["spec"], "spec", &mut lost);
        }
        // pruned by the API server before we would ever see it
        lost.retain(|path| !path.starts_with("spec.bidPrice") && !path.starts_with("spec.cloudspaceName"));
        assert!(lost.is_empty(), "{}: {lost:?}", label(&example));
    }
}

fn round_trip<K: serde::de::DeserializeOwned + serde::Serialize>(object: Value) -> Value {
    serde_json::to_value(api::decode::<K>(object).unwrap()).unwrap()
}

/// What `before` has and `after` has not, or has otherwise.
fn missing(before: &Value, after: &Value, path: &str, lost: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(a), _) => {
            for (key, value) in a {
                missing(value, &after[key], &format!("{path}.{key}"), lost);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (left, right)) in a.iter().zip(b).enumerate() {
                missing(left, right, &format!("{path}[{index}]"), lost);
            }
        }
        (Value::Array(a), Value::Null) if a.is_empty() => {}
        // an integer quantity is written as the same number in a string, as Karpenter writes it
        (Value::Number(number), Value::String(text)) if number.to_string() == *text => {}
        _ if before != after => lost.push(format!("{path}: {before} became {after}")),
        _ => {}
    }
}

//! What our definitions accept and refuse, by example (surface §1.7).
//!
//! The examples are in `tests/data/crd-examples`: each file is a list of objects with the verdict of admission (`accepted`), of the runtime validation
//! (`runtime`, where one is known), what an accepted object's spec must hold once stored (`stored`), and where the row comes from (`source`).
//! `update_from` is the object that is there before. The same files are run against the in-process API server and the real one.

use super::{repository, structural};
use karpenter::api::{self, NodeOverlay, NodePool, crd, validation};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

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
pub fn admission_faults(schema: &Value, example: &Value) -> Vec<String> {
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
    // surface §1.7, OVV-18 to OVV-23
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
    // surface §1.4, surface T5, surface T21
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
    // surface §1.6, surface §1.7
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

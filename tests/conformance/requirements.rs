//! The requirement algebra, and what is built on it: validation, order by price, `minValues`.

use crate::algebra::{Found, parsed};
use crate::scenario::{instance_type, requirement, requirements};
use k8s_openapi::api::core::v1 as core;
use karpenter::scheduling::requirements::validate;
use karpenter::scheduling::selection::{self, Truncation};
use karpenter::scheduling::{
    InstanceType, MinValuesPolicy, Pod, Preferences, Requirement, Requirements, Spec, Ties, Undefined, WellKnownLabels,
};
use serde_json::{Value, json};
use std::sync::Arc;

fn serialised(spec: &Spec) -> Value {
    let mut result = json!({"key": spec.key, "operator": spec.operator.as_str()});
    if !spec.values.is_empty() {
        result["values"] = json!(spec.values);
    }
    if let Some(least) = spec.min_values {
        result["minValues"] = json!(least);
    }
    result
}

fn length(requirement: &Requirement) -> String {
    if requirement.is_complement() {
        format!("max-{}", i64::MAX as u64 - requirement.len())
    } else {
        requirement.len().to_string()
    }
}

fn shown(found: &mut Found, what: &str, expected: &Value, ours: &Requirement) {
    let text = |field: &str| expected[field].as_str().unwrap();
    found.equal(&format!("{what} text"), &text("text"), &ours.to_string());
    found.equal(&format!("{what} key"), &text("key"), &ours.key());
    found.equal(
        &format!("{what} operator"),
        &text("operator"),
        &ours.operator().as_str(),
    );
    found.equal(&format!("{what} length"), &text("len"), &length(ours));
    let values: Vec<&str> = ours.values().collect();
    found.equal(&format!("{what} values"), &expected["values"], &json!(values));
    let specs: Vec<Value> = ours.to_specs().map(|spec| serialised(&spec)).collect();
    found.equal(&format!("{what} serialised"), &expected["serialised"], &json!(specs));
}

/// Two requirements on one key.
pub fn pair(case: &Value, found: &mut Found) {
    let (a, b) = (requirement(&case["a"]), requirement(&case["b"]));
    let both = a.intersection(&b);
    shown(found, "a", &case["aOut"], &a);
    shown(found, "b", &case["bOut"], &b);
    shown(found, "intersection", &case["intersection"], &both);
    found.equal(
        "has intersection",
        &case["hasIntersection"].as_bool().unwrap(),
        &a.has_intersection(&b),
    );
    for (probe, expected) in case["has"].as_object().unwrap() {
        let ours = json!([a.has(probe), b.has(probe), both.has(probe)]);
        found.equal(&format!("has {probe:?}"), expected, &ours);
    }
}

/// Several requirements folded from the left.
pub fn chain(case: &Value, found: &mut Found) {
    let links = case["chain"].as_array().unwrap().iter().map(requirement);
    let result = links.reduce(|sum, next| next.intersection(&sum)).unwrap();
    shown(found, "result", &case["out"], &result);
}

/// Two sets.
pub fn sets(case: &Value, found: &mut Found) {
    let (a, b) = (requirements(&case["a"]), requirements(&case["b"]));
    let well_known = WellKnownLabels::default();
    let flag = |field: &str| case[field].as_bool().unwrap();
    found.equal(
        "strictly",
        &flag("compatibleStrict"),
        &a.compatible(&b, Undefined::Strict).is_ok(),
    );
    let allowing = a.compatible(&b, Undefined::Allow(&well_known)).is_ok();
    found.equal("with well-known", &flag("compatibleAllowWellKnown"), &allowing);
    let meets = a.intersects(&b);
    found.equal("intersects", &flag("intersects"), &meets.is_ok());
    if let (Some(expected), Err(ours)) = (case["intersectsError"].as_str(), &meets) {
        found.equal("error", &expected, &ours.to_string());
    }
    found.equal("a", &case["aText"].as_str().unwrap(), &a.to_string());
    found.equal("b", &case["bText"].as_str().unwrap(), &b.to_string());
    let sum = a.and(&b);
    found.equal("sum", &case["sumText"].as_str().unwrap(), &sum.to_string());
    found.equal("has minValues", &flag("hasMinValues"), &a.has_min_values());
    let specs: Vec<Value> = sum.to_specs().iter().map(serialised).collect();
    found.equal("sum serialised", &case["sumSerialised"], &json!(specs));
}

/// What a pod wants of its node.
pub fn of_pods(case: &Value, found: &mut Found) {
    let spec = json!({"containers": [], "nodeSelector": case["nodeSelector"], "affinity": case["affinity"]});
    let spec: core::PodSpec = serde_json::from_value(spec).unwrap();
    let constraints = Pod::from_parts(
        &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta::default(),
        &spec,
    )
    .constraints;
    let text = |preferences| constraints.node_requirements(preferences).to_string();
    found.equal("all", &case["all"].as_str().unwrap(), &text(Preferences::Respect));
    found.equal("strict", &case["strict"].as_str().unwrap(), &text(Preferences::Ignore));
}

/// Whether a requirement makes sense.
pub fn validated(case: &Value, found: &mut Found) {
    let written = &case["requirement"];
    let text = |field: &str| written[field].as_str().unwrap();
    let least = written
        .get("minValues")
        .and_then(Value::as_u64)
        .map(|least| u32::try_from(least).unwrap());
    let values: Vec<String> = parsed(&written["values"]);
    let wrong = validate(
        text("key"),
        text("operator"),
        &values,
        least,
        &WellKnownLabels::default(),
    );
    found.equal("valid", &case["valid"].as_bool().unwrap(), &wrong.is_empty());
}

type Priced = Vec<(String, Option<f64>)>;

fn priced(kinds: &[Arc<InstanceType>], wanted: &Requirements) -> Priced {
    let well_known = WellKnownLabels::default();
    kinds
        .iter()
        .map(|kind| (kind.name.clone(), kind.price(wanted, &well_known)))
        .collect()
}

fn recorded(value: &Value) -> Priced {
    let entries = value.as_array().into_iter().flatten();
    entries
        .map(|entry| (entry["name"].as_str().unwrap().to_owned(), entry["price"].as_f64()))
        .collect()
}

/// Order by price, compatible types, `minValues`, truncation, worst launch price.
pub fn instance_order(case: &Value, found: &mut Found) {
    let well_known = WellKnownLabels::default();
    let wanted = requirements(&case["requirements"]);
    let kinds: Vec<Arc<InstanceType>> = case["types"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| Arc::new(instance_type(kind)))
        .collect();
    let ordered = selection::by_price(&kinds, &wanted, Ties::ByName, &well_known);
    found.equal("ordered", &recorded(&case["ordered"]), &priced(&ordered, &wanted));
    let compatible: Vec<_> = kinds
        .iter()
        .filter(|kind| kind.available(&wanted, &well_known).next().is_some())
        .cloned()
        .collect();
    found.equal(
        "compatible",
        &recorded(&case["compatible"]),
        &priced(&compatible, &wanted),
    );
    min_values(case, &kinds, &wanted, found);
    let most = usize::try_from(case["maxItems"].as_u64().unwrap()).unwrap();
    for (field, policy) in [
        ("truncateStrict", MinValuesPolicy::Strict),
        ("truncateBestEffort", MinValuesPolicy::BestEffort),
    ] {
        let expected = &case[field];
        let truncation = Truncation {
            most,
            policy,
            ties: Ties::ByName,
        };
        match selection::truncated(&kinds, &wanted, truncation, &well_known) {
            Ok(kept) => {
                found.equal(field, &expected["ok"], &json!(true));
                found.equal(field, &recorded(&expected["names"]), &priced(&kept, &wanted));
            }
            Err(_) => found.equal(field, &expected["ok"], &json!(false)),
        }
    }
    for (name, expected) in case["worstLaunchPrice"].as_object().unwrap() {
        let kind = kinds.iter().find(|kind| &kind.name == name).unwrap();
        found.equal(
            "worst launch price",
            &expected.as_f64(),
            &kind.worst_launch_price(&wanted, &well_known),
        );
    }
}

fn min_values(case: &Value, kinds: &[Arc<InstanceType>], wanted: &Requirements, found: &mut Found) {
    let expected = &case["minValues"];
    let ours = selection::min_values(kinds, wanted);
    found.equal(
        "minValues ok",
        &expected["ok"].as_bool().unwrap(),
        &ours.short.is_empty(),
    );
    if ours.short.is_empty() {
        found.equal(
            "types needed",
            &expected["needed"].as_u64().unwrap(),
            &(ours.needed as u64),
        );
    }
    let unsatisfied = if ours.short.is_empty() {
        Value::Null
    } else {
        json!(ours.short)
    };
    found.equal("unsatisfied", &expected["unsatisfied"], &unsatisfied);
}

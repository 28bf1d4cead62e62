//! Messages and the vectors; the examples of surface §1.7 are in `tests/crds.rs`.

#![allow(
    clippy::needless_pass_by_value,
    reason = "json! literals as arguments read best without a borrow"
)]

use super::*;
use crate::api::decode;
use serde_json::{Value, json};

fn pool(template: Value) -> NodePool {
    decode(json!({ "metadata": { "name": "p" }, "spec": { "template": template } })).unwrap()
}

fn with_requirements(requirements: Value) -> NodePool {
    pool(
        json!({ "spec": { "nodeClassRef": { "group": "g", "kind": "K", "name": "n" }, "requirements": requirements } }),
    )
}

fn vectors(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn requirements_are_judged_as_upstream_judges_them() {
    let vectors = vectors(include_str!(
        "../../../tests/data/vectors/algebra/validate-requirement.jsonl"
    ));
    assert!(vectors.len() > 15, "the vectors are incomplete");
    for vector in vectors {
        let requirement = decode(vector["requirement"].clone()).unwrap();
        let findings = validate_requirement(&requirement);
        assert_eq!(
            findings.is_valid(),
            vector["valid"].as_bool().unwrap(),
            "{}: {}",
            vector["id"],
            findings.message()
        );
    }
}

#[test]
fn labels_are_sorted_as_upstream_sorts_them() {
    // surface §2.3
    for vector in vectors(include_str!("../../../tests/data/vectors/algebra/labels.jsonl")) {
        let label = vector["label"].as_str().unwrap();
        assert_eq!(labels::domain(label), vector["domain"].as_str().unwrap(), "{label}");
        assert_eq!(
            labels::is_restricted(label),
            vector["restricted"].as_bool().unwrap(),
            "{label}"
        );
        assert_eq!(
            labels::is_well_known(label),
            vector["wellKnown"].as_bool().unwrap(),
            "{label}"
        );
        assert_eq!(
            labels::normalize(label),
            vector["normalised"].as_str().unwrap_or(label),
            "{label}"
        );
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let findings = validate_nodepool(&pool(json!({
        "metadata": { "labels": { "karpenter.sh/nodepool": "x", "bad key": "v" } },
        "spec": {
            "nodeClassRef": { "group": "g", "kind": "K", "name": "n" },
            "requirements": [{ "key": "a", "operator": "Near" }],
            "taints": [{ "key": "t", "effect": "NoSchedule" }],
            "startupTaints": [{ "key": "t", "effect": "NoSchedule" }],
        },
    })));
    assert_eq!(findings.faults.len(), 4, "{}", findings.message());
    let message = findings.message();
    for part in [
        "karpenter.sh/nodepool",
        "\"bad key\"",
        "\"Near\"",
        "duplicate taint t",
        "; ",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
}

#[test]
fn an_unknown_value_beside_known_ones_is_only_a_warning() {
    let findings = validate_nodepool(&with_requirements(json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "xspot"] },
    ])));
    assert!(findings.is_valid());
    assert_eq!(findings.warnings.len(), 1);
    assert_eq!(findings.warnings[0].values, ["xspot"]);
    assert_eq!(findings.warnings[0].valid, ["on-demand"]);
}

#[test]
fn too_few_known_values_for_min_values_is_a_fault() {
    let findings = validate_nodepool(&with_requirements(json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "xspot"], "minValues": 2 },
    ])));
    assert!(matches!(
        findings.faults[..],
        [Fault::TooFewKnownValues {
            count: 1,
            min_values: 2,
            ..
        }]
    ));
}

#[test]
fn the_present_name_of_an_old_label_is_judged() {
    // surface §2.3: normalised first, so the message names the label that will be used
    let findings = validate_nodepool(&with_requirements(json!([
        { "key": "beta.kubernetes.io/arch", "operator": "In" },
    ])));
    assert!(findings.message().contains("kubernetes.io/arch"));
    assert!(!findings.message().contains("beta."));
}

#[test]
fn a_taint_may_have_no_effect_and_no_value() {
    let findings = validate_nodepool(&pool(json!({ "spec": {
        "nodeClassRef": { "group": "g", "kind": "K", "name": "n" },
        "taints": [{ "key": "t", "effect": "", "value": "" }],
    } })));
    assert!(findings.is_valid(), "{}", findings.message());
}

#[test]
fn a_limit_that_cannot_be_read_is_a_fault_and_not_no_limit() {
    let limited = |cpu: &str| {
        let mut pool = with_requirements(json!([]));
        let quantity = k8s_openapi::apimachinery::pkg::api::resource::Quantity(cpu.into());
        pool.spec.limits = [("cpu".to_owned(), quantity)].into();
        validate_nodepool(&pool)
    };
    assert!(limited("10").is_valid());
    let words = limited("ten").message();
    assert!(words.contains("invalid limit \"ten\" for cpu"), "{words}");
}

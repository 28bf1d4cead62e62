//! Compares what we declare with what upstream showed while it ran (`tests/data/observed/metrics.json`).
//!
//! When this fails: a family's name, type, labels or buckets are part of the interface that dashboards and alerts rest on, so the declaration is wrong
//! unless surface §5 says otherwise. A family that upstream shows and we do not belongs into `not_yet.rs` with its reason.

use super::{Absent, BuildInfo, Declaration, Exposition, Metrics, NOT_YET};
use std::collections::{BTreeMap, BTreeSet};

#[derive(serde::Deserialize)]
struct Observed {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    labels: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    buckets: Vec<String>,
    #[serde(default)]
    quantiles: Vec<String>,
}

/// Labels that the provider of the observed run adds to nodes, and its node class.
const OTHER_PROVIDER: [&str; 4] = ["instance_cpu", "instance_family", "instance_memory", "instance_size"];
const OTHER_CLASS: &str = "karpenter_kwok_sh_kwoknodeclass";

fn observed() -> Vec<Observed> {
    serde_json::from_str(include_str!("../../tests/data/observed/metrics.json")).unwrap()
}

fn declared() -> BTreeMap<String, Declaration> {
    let exposition = Exposition::new();
    let build = BuildInfo {
        version: "1",
        commit: "",
        arch: "amd64",
        compiler: "",
        node_class_kind: "testnodeclass",
        node_class_label: "class_label",
    };
    Metrics::new(&exposition, build).unwrap();
    exposition
        .declarations()
        .into_iter()
        .map(|declaration| (declaration.name.clone(), declaration))
        .collect()
}

/// Declared by the Kubernetes border; a scrape of the running operator is compared in `tests/binary.rs`.
const BORDER: [&str; 3] = ["controller_runtime_", "workqueue_", "client_go_"];

fn expected_labels(observed: &Observed) -> BTreeSet<String> {
    observed
        .labels
        .keys()
        .filter(|label| !OTHER_PROVIDER.contains(&label.as_str()))
        .map(|label| {
            if label == OTHER_CLASS {
                "class_label".to_owned()
            } else {
                label.clone()
            }
        })
        .collect()
}

fn same(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-9 * right.abs()
}

#[test]
fn every_family_that_upstream_showed_is_declared_or_listed_as_absent() {
    let declared = declared();
    for family in observed() {
        let absent = NOT_YET.iter().any(|(name, _)| *name == family.name);
        if !absent && BORDER.iter().any(|prefix| family.name.starts_with(prefix)) {
            continue;
        }
        assert_ne!(
            declared.contains_key(&family.name),
            absent,
            "{} is neither declared nor listed, or both",
            family.name
        );
    }
}

#[test]
fn types_labels_and_bounds_are_those_that_upstream_showed() {
    let declared = declared();
    let mut compared = 0;
    for family in observed() {
        let Some(ours) = declared.get(&family.name) else {
            continue;
        };
        compared += 1;
        assert_eq!(ours.kind.as_str(), family.kind, "type of {}", family.name);
        let labels: BTreeSet<String> = ours.labels.iter().cloned().collect();
        assert_eq!(labels, expected_labels(&family), "labels of {}", family.name);
        let bounds: Vec<f64> = family
            .buckets
            .iter()
            .chain(&family.quantiles)
            .filter(|b| *b != "+Inf")
            .map(|b| b.parse().unwrap())
            .collect();
        assert!(
            bounds.len() == ours.bounds.len()
                && bounds
                    .iter()
                    .zip(&ours.bounds)
                    .all(|(theirs, ours)| same(*ours, *theirs)),
            "bounds of {}: upstream {bounds:?}, ours {:?}",
            family.name,
            ours.bounds
        );
    }
    assert!(compared > 60, "only {compared} families were compared");
}

#[test]
fn no_family_is_both_declared_and_absent() {
    let declared = declared();
    for (name, _) in NOT_YET {
        assert!(
            !declared.contains_key(*name),
            "{name} is declared: take it off the list"
        );
    }
}

#[test]
fn the_list_of_absent_families_is_sorted_within_its_reasons_and_has_no_twins() {
    let names: BTreeSet<&str> = NOT_YET.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), NOT_YET.len());
    assert!(NOT_YET.iter().any(|(_, reason)| *reason == Absent::Never));
}

#[test]
fn every_declared_family_says_what_it_means_in_one_sentence() {
    for declaration in declared().values() {
        assert!(
            declaration.help.ends_with('.'),
            "{}: {}",
            declaration.name,
            declaration.help
        );
    }
}

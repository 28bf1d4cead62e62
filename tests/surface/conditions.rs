//! Conditions: the table, a run, and what upstream showed (surface §3).

use crate::events::sources;
use crate::world::shown;
use karpenter::operator::reference::{CONDITIONS, ConditionRow};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;

/// Conditions of upstream that are not set here, and why.
const NOT_HERE: &[(&str, &str)] = &[];

fn is_known(kind: &str, type_: &str, status: &str, reason: &str) -> bool {
    let fits =
        |row: &&ConditionRow| row.kind == kind && row.type_ == type_ && row.status == status && row.reason == reason;
    CONDITIONS.iter().any(|row| fits(&row))
}

#[test]
fn every_condition_of_a_run_is_in_the_table() {
    for [kind, type_, status, reason, message] in &shown().conditions {
        assert!(
            is_known(kind, type_, status, reason),
            "{kind} {type_}={status} {reason}: {message}"
        );
    }
    let types: BTreeSet<&str> = shown()
        .conditions
        .iter()
        .map(|condition| condition[1].as_str())
        .collect();
    for type_ in [
        "Launched",
        "Registered",
        "Initialized",
        "Consolidatable",
        "Drained",
        "VolumesDetached",
        "InstanceTerminating",
        "NodeClassReady",
    ] {
        assert!(types.contains(type_), "{type_} was not seen: {types:?}");
    }
}

#[test]
fn every_condition_that_upstream_showed_is_in_the_table_with_the_same_words() {
    let observed: Value = serde_json::from_str(include_str!("../data/observed/objects.json")).unwrap();
    for (kind, plural) in [("NodeClaim", "nodeclaims"), ("NodePool", "nodepools")] {
        for condition in observed[plural]["conditions"].as_array().unwrap() {
            let text = |field: &str| condition[field].as_str().unwrap();
            let (type_, status, reason) = (text("type"), text("status"), text("reason"));
            if NOT_HERE.iter().any(|(absent, _)| *absent == type_) {
                continue;
            }
            assert!(
                is_known(kind, type_, status, reason),
                "{kind} {type_}={status} {reason}"
            );
            let theirs: Vec<&str> = condition["messages"]
                .as_array()
                .unwrap()
                .iter()
                .map(|m| m.as_str().unwrap())
                .collect();
            // A text that upstream always wrote the same is not made anew from names.
            let [fixed] = theirs.as_slice() else { continue };
            if fixed.contains(['"', '=']) {
                continue;
            }
            for ours in &shown().conditions {
                if ours[0] == kind && ours[1] == type_ && ours[2] == status && ours[3] == reason {
                    assert_eq!(ours[4], *fixed, "message of {kind} {type_}={status} {reason}");
                }
            }
        }
    }
}

#[test]
fn every_reason_of_the_table_is_in_the_code() {
    let sources = sources();
    for row in CONDITIONS {
        let literal = format!("\"{}\"", row.reason);
        assert!(sources.contains(&literal), "{literal} is in no source: {row:?}");
    }
}

/// Words in the code that look like reasons and are none.
const OTHER_WORDS: &[&str] = &[
    "AlwaysAllow",
    "DaemonSet",
    "DoesNotExist",
    "GetInstanceTypes",
    "InsufficientCapacityError",
    "IsDrifted",
    "KubeletReady",
    "NetworkUnavailable",
    "NoExecute",
    "NoSchedule",
    "NoToken",
    "NodeClaim",
    "NodeClaimNotFoundError",
    "NodeClassNotReadyError",
    "NodeOverlay",
    "NodePool",
    "NotIn",
    "OnDemandNodePool",
    "PodDisruptionBudget",
    "PodScheduled",
    "PreferNoSchedule",
    "RackspaceSpotNodeClass",
    "ReplicaSet",
    "ScheduleAnyway",
    "SpotNodePool",
    "StatefulSet",
];

/// The sources of the modules that decide about conditions.
fn deciding_sources() -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = String::new();
    for folder in [
        "controllers/node",
        "controllers/nodeclaim",
        "controllers/nodepool",
        "lifecycle",
        "cloud",
        "cloud/spot",
    ] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                all.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    for file in [
        "controllers/nodeclass.rs",
        "controllers/nodeoverlay.rs",
        "api/validation.rs",
    ] {
        all.push_str(&std::fs::read_to_string(root.join(file)).unwrap());
    }
    all
}

#[test]
fn every_word_in_the_code_that_could_be_a_reason_is_in_a_table() {
    let word = Regex::new(r#""((?:[A-Z][a-z]+){2,}(?:UID)?)""#).unwrap();
    let conditions = CONDITIONS.iter().flat_map(|row| [row.type_, row.reason]);
    let events = karpenter::operator::reference::EVENTS.iter().map(|row| row.reason);
    let known: BTreeSet<&str> = conditions.chain(events).chain(OTHER_WORDS.iter().copied()).collect();
    let sources = deciding_sources();
    let unknown: BTreeSet<&str> = word
        .captures_iter(&sources)
        .map(|found| found.get(1).unwrap().as_str())
        .filter(|found| !known.contains(found))
        .filter(|found| !NOT_HERE.iter().any(|(absent, _)| absent == found))
        .collect();
    assert!(
        unknown.is_empty(),
        "give them a row, or name them as other words: {unknown:?}"
    );
}

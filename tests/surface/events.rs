//! Events: code, the table, a run, and what upstream showed (surface §4).

use crate::world::shown;
use karpenter::operator::reference::{CONDITIONS, EVENTS, EventRow};
use regex::Regex;
use std::collections::BTreeSet;
use std::path::Path;

#[derive(serde::Deserialize)]
struct Observed {
    kind: String,
    #[serde(rename = "type")]
    type_: String,
    reason: String,
    messages: Vec<String>,
}

/// Upstream's texts that are not told here, and why.
const NOT_HERE: &[(&str, &str)] = &[
    (
        "Can't remove without creating ",
        "consolidation of nodes that are not empty is not built",
    ),
    (
        "NodePool \"<name>\" has non-empty ",
        "consolidation of nodes that are not empty is not built",
    ),
    (
        "Not all pods would schedule, ",
        "no node is replaced yet, neither to consolidate nor because of drift",
    ),
];

/// Reasons of Karpenter v1.12.1 (surface §4.2) that are never told here, and why.
const REASONS_NOT_HERE: &[(&str, &str)] = &[
    (
        "ConsolidationCandidate",
        "consolidation of nodes that are not empty is not built",
    ),
    (
        "ConsolidationRejected",
        "consolidation of nodes that are not empty is not built",
    ),
    ("NodeRepairBlocked", "node repair is not built"),
    (
        "UnregisteredTaintMissing",
        "no taint is expected of a machine that cannot set one (surface T19)",
    ),
];

/// Reasons that Karpenter does not have, and why they are here.
const OURS: &[(&str, &str)] = &[
    ("NoPrice", "nothing is ordered of a server class without a price"),
    (
        "UnclaimedMachine",
        "a machine of which nothing proves that it is ours is left alone",
    ),
    ("Unreadable", "one object that cannot be read stops nothing else"),
];

/// What Karpenter v1.12.1 tells: reason, type, and what makes two of them the same where the window is not all (surface §4.2).
#[rustfmt::skip] // a table: one row per line
const UPSTREAM: &[(&str, &str, &str)] = &[
    ("<ConditionType>", "Normal", "each"),
    ("AwaitingVolumeDetachment", "Normal", "node"),
    ("ConsolidationCandidate", "Normal", "object and command"),
    ("ConsolidationRejected", "Normal", "object, command and reason"),
    ("Disrupted", "Normal", "pod name"),
    ("DisruptionBlocked", "Normal", "object"),
    ("DisruptionLaunching", "Normal", "claim and reason"),
    ("DisruptionTerminating", "Normal", "object and reason"),
    ("DisruptionWaitingReadiness", "Normal", "claim"),
    ("DoNotDisruptGracePeriodElapsed", "Normal", "pod"),
    ("DoNotDisruptUntil", "Normal", "pod and time"),
    ("Evicted", "Normal", "pod name"),
    ("FailedConsistencyCheck", "Warning", "claim and text"),
    ("FailedDraining", "Warning", "node"),
    ("FailedScheduling", "Warning", "pod"),
    ("Finalized", "Normal", "each"),
    ("InsufficientCapacityError", "Warning", "claim"),
    ("InvalidDoNotDisruptAnnotation", "Warning", "pod and text"),
    ("LeaderElection", "Normal", "each"),
    ("NoCompatibleInstanceTypes", "Warning", "NodePool"),
    ("NodeRepairBlocked", "Warning", "object"),
    ("Nominated", "Normal", "pod"),
    ("TerminationGracePeriodExpiring", "Warning", "object"),
    ("Unconsolidatable", "Normal", "object"),
    ("UnregisteredTaintMissing", "Warning", "claim"),
];

#[test]
fn every_reason_of_upstream_is_told_alike_or_listed() {
    let rows = |reason: &'static str| EVENTS.iter().filter(move |row| row.reason == reason);
    for (reason, type_, same) in UPSTREAM {
        let listed = REASONS_NOT_HERE.iter().any(|(absent, _)| absent == reason);
        assert_ne!(rows(reason).next().is_some(), listed, "{reason}");
        for row in rows(reason) {
            assert_eq!(row.type_, *type_, "{reason}");
            let begins = row.repeats.strip_prefix(same);
            let ends = begins.is_some_and(|rest| rest.starts_with([',', ' ']));
            assert!(ends, "{reason}: {same} makes two the same, not {:?}", row.repeats);
        }
    }
    let upstream: BTreeSet<&str> = UPSTREAM.iter().map(|(reason, _, _)| *reason).collect();
    let beyond: BTreeSet<&str> = EVENTS
        .iter()
        .map(|row| row.reason)
        .filter(|reason| !upstream.contains(reason))
        .collect();
    assert_eq!(beyond, OURS.iter().map(|(reason, _)| *reason).collect());
}

fn shape(message: &str) -> Regex {
    let placeholder = Regex::new("<[^>]*>").unwrap();
    let parts: Vec<String> = placeholder.split(message).map(regex::escape).collect();
    Regex::new(&format!("(?s)^{}$", parts.join(".*"))).unwrap()
}

/// Whether an Event is what the table says. The reasons of condition transitions are the conditions' types.
fn fits(row: &EventRow, kind: &str, type_: &str, reason: &str, message: &str) -> bool {
    let transition = row.reason == "<ConditionType>" && message.starts_with("Status condition transitioned, Type: ");
    (row.reason == reason || transition)
        && row.type_ == type_
        && row.objects.contains(&kind)
        && row.messages.iter().any(|text| shape(text).is_match(message))
}

fn is_known(kind: &str, type_: &str, reason: &str, message: &str) -> bool {
    EVENTS.iter().any(|row| fits(row, kind, type_, reason, message))
}

#[test]
fn every_event_of_a_run_is_in_the_table() {
    let mut reasons = BTreeSet::new();
    for event in &shown().events {
        // those of Kubernetes' own controllers and the scheduler are not ours
        if event["source"]["component"] != "karpenter" {
            continue;
        }
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let (kind, type_) = (text(&event["involvedObject"]["kind"]), text(&event["type"]));
        let (reason, message) = (text(&event["reason"]), text(&event["message"]));
        let message = message
            .trim_start_matches("(combined from similar events): ")
            .to_owned();
        assert!(
            is_known(&kind, &type_, &reason, &message),
            "{kind} {type_} {reason}: {message}"
        );
        assert_eq!(event["reportingComponent"], "karpenter", "{event}");
        reasons.insert(reason);
    }
    for reason in [
        "Nominated",
        "FailedScheduling",
        "FailedDraining",
        "Evicted",
        "DisruptionTerminating",
        "Launched",
        "Ready",
        "Finalized",
    ] {
        assert!(reasons.contains(reason), "{reason} was not told: {reasons:?}");
    }
}

#[test]
fn every_event_that_upstream_showed_would_be_told_the_same_way_here() {
    let observed: Vec<Observed> = serde_json::from_str(include_str!("../data/observed/events.json")).unwrap();
    for event in observed {
        for message in &event.messages {
            if NOT_HERE.iter().any(|(start, _)| message.starts_with(start)) {
                continue;
            }
            assert!(
                is_known(&event.kind, &event.type_, &event.reason, message),
                "{} {} {}: {message}",
                event.kind,
                event.type_,
                event.reason
            );
        }
    }
}

/// All sources of the product, joined.
pub fn sources() -> String {
    product_sources().concat()
}

/// All sources of the product, without the tests in them.
pub fn product_sources() -> Vec<String> {
    fn read(folder: &Path, all: &mut Vec<String>) {
        let mut entries: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        entries.sort();
        for path in entries {
            if path.is_dir() && !path.ends_with("reference") {
                read(&path, all);
            } else if is_product(&path) {
                let text = std::fs::read_to_string(path).unwrap();
                let product = text.split("#[cfg(test)]\nmod tests").next().unwrap();
                all.push(product.to_owned());
            }
        }
    }
    let mut all = Vec::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
    all
}

fn is_product(path: &Path) -> bool {
    let stem = path.file_stem().unwrap().to_str().unwrap();
    path.extension().is_some_and(|extension| extension == "rs") && !stem.ends_with("tests")
}

#[test]
fn every_event_in_the_code_has_its_row_and_every_row_its_code() {
    let sources = sources();
    let made = Regex::new(r#"EventType::(?:Normal|Warning),\s*"([A-Za-z]+)""#).unwrap();
    let in_code: BTreeSet<String> = made.captures_iter(&sources).map(|found| found[1].to_owned()).collect();
    let rows: BTreeSet<String> = EVENTS
        .iter()
        .map(|row| row.reason.to_owned())
        .filter(|reason| !reason.starts_with('<'))
        .collect();
    // the lease's Event has a source of its own, so it is not made like the others
    let of_the_lease = sources
        .contains("\"reason\": \"LeaderElection\"")
        .then(|| "LeaderElection".to_owned());
    let told: BTreeSet<String> = in_code.into_iter().chain(of_the_lease).collect();
    assert_eq!(told, rows);
}

#[test]
fn a_transition_is_named_after_a_type_of_a_condition() {
    let types: BTreeSet<&str> = CONDITIONS.iter().map(|row| row.type_).collect();
    for event in &shown().events {
        let message = event["message"].as_str().unwrap();
        if event["source"]["component"] == "karpenter"
            && message.starts_with("Status condition transitioned")
            && event["involvedObject"]["kind"] != "Node"
        {
            let reason = event["reason"].as_str().unwrap();
            assert!(types.contains(reason), "{reason}");
        }
    }
}

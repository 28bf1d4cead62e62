//! Log lines that users grep for: a run, the code, and what upstream showed (surface §8.2).

use crate::events::sources;
use crate::world::shown;
use serde_json::Value;
use std::collections::BTreeSet;

#[derive(serde::Deserialize)]
struct Observed {
    level: String,
    message: String,
    controller: String,
    fields: Vec<String>,
}

fn observed() -> Vec<Observed> {
    serde_json::from_str(include_str!("../data/observed/logs.json")).unwrap()
}

/// Lines of upstream that are not written here, and why.
const NOT_HERE: &[(&str, &str)] = &[
    (
        "Starting metrics server",
        "there is one line, Serving metrics server, once the port is open",
    ),
    (
        "starting server",
        "the same for the probes: Serving health probe server",
    ),
    ("failed creating node from nodeclaim", "a test's own provider wrote it"),
    (
        "deprovisioning nodeclaims to satisfy replica count",
        "static pools are not built",
    ),
    ("nodepool node limit reached", "static pools are not built"),
    (
        "provisioning nodeclaims to satisfy replica count",
        "static pools are not built",
    ),
    (
        "failed terminating nodes while executing a disruption command",
        "no command with replacements is carried out yet",
    ),
];

#[test]
fn every_line_that_upstream_wrote_is_in_the_code_or_listed() {
    let sources = sources();
    for line in observed() {
        if NOT_HERE.iter().any(|(message, _)| *message == line.message) {
            continue;
        }
        // the server's name is put into its line
        let message = line
            .message
            .replace("Serving metrics server", "Serving {server} server");
        assert!(
            sources.contains(&format!("\"{message}\"")),
            "no source writes {:?}",
            line.message
        );
    }
}

/// Lines that another controller writes too, and why.
const OTHER_CONTROLLERS: &[(&str, &str, &str)] = &[(
    "tainted node",
    "disruption",
    "the taint of a node that will go is told where it is put, also by disruption",
)];

/// What is wrong with a line that upstream has too.
fn faults(line: &Value, twins: &[&Observed]) -> Option<String> {
    let message = line["message"].as_str()?;
    let controller = line["controller"].as_str().unwrap_or_default();
    let own = twins.iter().find(|theirs| theirs.controller == controller);
    let other = OTHER_CONTROLLERS
        .iter()
        .any(|(m, c, _)| *m == message && controller.starts_with(c));
    let Some(theirs) = own.or_else(|| twins.first().filter(|_| other)) else {
        return Some(format!("controller {controller}: {line}"));
    };
    if line["level"] != theirs.level.as_str() {
        return Some(format!("level: {line}"));
    }
    let objects = ["controllerGroup", "controllerKind", "Node", "NodeClaim"];
    let missing: Vec<&str> = theirs
        .fields
        .iter()
        .map(String::as_str)
        .filter(|field| line.get(field).is_none() && !(other && objects.contains(field)))
        .collect();
    (!missing.is_empty()).then(|| format!("{missing:?} are missing: {line}"))
}

#[test]
fn lines_of_a_run_have_upstreams_level_controller_and_fields() {
    let observed = observed();
    let mut compared = BTreeSet::new();
    let mut wrong = Vec::new();
    for line in &shown().lines {
        let message = line["message"].as_str().unwrap();
        let twins: Vec<&Observed> = observed.iter().filter(|theirs| theirs.message == message).collect();
        // whichever controller waits or fails says so
        if twins.is_empty() || message == "Reconciler error" || message.starts_with("cluster is waiting on sync") {
            continue;
        }
        compared.insert(message.to_owned());
        wrong.extend(faults(line, &twins));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for message in [
        "created nodeclaim",
        "launched nodeclaim",
        "registered nodeclaim",
        "initialized nodeclaim",
        "deleted nodeclaim",
        "tainted node",
        "deleted node",
        "disrupting node(s)",
        "found provisionable pod(s)",
    ] {
        assert!(compared.contains(message), "{message:?} was not written: {compared:?}");
    }
}

// surface §8.1
#[test]
fn every_line_begins_with_the_fixed_keys_in_their_order() {
    for line in &shown().lines {
        let keys: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        let first: BTreeSet<&str> = keys.iter().copied().collect();
        for key in ["level", "time", "logger", "message"] {
            assert!(first.contains(key), "{key} is missing in {line}");
        }
        assert!(
            matches!(line["level"].as_str(), Some("DEBUG" | "INFO" | "ERROR")),
            "{line}"
        );
        let time = line["time"].as_str().unwrap();
        assert_eq!((time.len(), &time[19..20], &time[23..]), (24, ".", "Z"), "{time}");
        assert!(line.get("error").is_none_or(Value::is_string), "{line}");
    }
}

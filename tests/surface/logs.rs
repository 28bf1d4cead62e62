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
    ("deleting unhealthy node", "node repair is not built"),
    (
        "node claim registration error",
        "no taint is expected of a machine that cannot set one (surface T19)",
    ),
    ("awaiting registration hooks", "there are no hooks"),
    (
        "deferring scheduling decision for provisionable pod(s) to future simulation due to limited reserved offering capacity",
        "reserved capacity is not built",
    ),
    (
        "instance types were excluded because they would breach limits",
        "FailedScheduling says it",
    ),
    (
        "relaxing soft constraints for pod since it previously failed to schedule",
        "the solver is pure and logs nothing",
    ),
    (
        "scheduling simulation timed out",
        "the solver is pure and logs nothing; the pods that it left are told",
    ),
    (
        "abnormal time between runs",
        "the watchdog tells of a loop that stands still",
    ),
    (
        "prioritizing nodepools that have not yet been considered due to timeouts in previous runs",
        "consolidation of nodes that are not empty is not built",
    ),
    (
        "failed checking cluster state sync",
        "the check cannot fail: it asks no server",
    ),
    ("failed consistency check", "the consistency check is not built"),
    (
        "failed parsing pod deletion cost",
        "a cost that means nothing counts as none",
    ),
    (
        "offering price unknown after retry",
        "a type without price is not offered; a metric counts them",
    ),
    (
        "skipping, node overlays are not applied",
        "one line tells that overlays are not evaluated yet",
    ),
    ("Starting EventSource", "a watch tells of itself in metrics"),
    ("Starting Controller", "the framework's own line"),
    ("Starting workers", "the framework's own line"),
    (
        "percentile lookup failed, falling back to market*1.2",
        "the built-in prices are used instead, and told",
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

/// Lines that people search for (surface §8.2), as far as they begin the same way for everybody.
const SEARCHED: &[&str] = &[
    "found provisionable pod(s)",
    "computing scheduling decision for provisionable pod(s)",
    "computed new nodeclaim(s) to fit pod(s)",
    "computed unready node(s) will fit pod(s)",
    "created nodeclaim",
    "launched nodeclaim",
    "registered nodeclaim",
    "initialized nodeclaim",
    "annotated nodeclaim",
    "deleted nodeclaim",
    "disrupting node(s)",
    "command succeeded",
    "failed terminating nodes while executing a disruption command",
    "tainted node",
    "deleted node",
    "deleting pod",
    "deleting unhealthy node",
    "deleting expired nodeclaim",
    "garbage collecting nodeclaim with no cloudprovider representation",
    "terminating due to timeout",
    "failed launching nodeclaim",
    "node claim registration error",
    "awaiting registration hooks",
    "could not schedule pod",
    "ignoring pod",
    "skipping pod with Dynamic Resource Allocation requirements, not yet supported by Karpenter",
    "ignoring nodepool, not ready",
    "no dynamic nodepools found",
    "deferring scheduling decision for provisionable pod(s) to future simulation due to limited reserved offering capacity",
    "skipping, no resolved instance types found",
    "skipping, unable to resolve instance types",
    "skipping, nodepool requirements filtered out all instance types",
    "skipping, awaiting nodeoverlay evaluation",
    "instance types were excluded because they would breach limits",
    "relaxing soft constraints for pod since it previously failed to schedule",
    "scheduling simulation timed out",
    "marking drifted",
    "removing drifted status condition, not drifted",
    "removing drift status condition, isn't launched",
    "marking consolidatable",
    "removing consolidatable status condition",
    "abnormal time between runs",
    "prioritizing nodepools that have not yet been considered due to timeouts in previous runs",
    "detected disruption budget errors",
    "cluster is waiting on sync for extended duration",
    "failed checking cluster state sync",
    "failed consistency check",
    "provisioning nodeclaims to satisfy replica count",
    "deprovisioning nodeclaims to satisfy replica count",
    "nodepool node limit reached",
    "please correct found invalid values, proceeding with valid values",
    "failed parsing pod deletion cost",
    "offering price unknown after retry",
    "skipping, node overlays are not applied",
    "failed listing instance types",
    "discovered karpenter version",
    "Starting EventSource",
    "Starting Controller",
    "Starting workers",
    "Serving {server} server",
    "Reconciler error",
    "authenticated to Rackspace Spot",
    "resolved cloudspace",
    "rewrote NodeClaim providerID",
    "server class discovery failed",
    "percentile lookup failed, falling back to market*1.2",
];

#[test]
fn every_line_that_people_search_for_is_in_the_code_or_listed() {
    let sources = sources();
    for message in SEARCHED {
        let written = sources.contains(&format!("\"{message}"));
        let absent = NOT_HERE.iter().any(|(listed, _)| listed == message);
        assert!(written || absent, "{message:?} is neither written nor listed");
        assert!(!(written && absent), "{message:?} is written: take it off the list");
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

//! Log lines that users grep for: a run, the code, and what upstream showed (surface §8.2).

use crate::events::{product_sources, sources};
use crate::world::shown;
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::OnceLock;

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
        "abandoning single-node consolidation due to timeout",
        "consolidation of nodes that are not empty is not built",
    ),
    (
        "failed to find a multi-node consolidation after timeout",
        "consolidation of nodes that are not empty is not built",
    ),
    (
        "stopping multi-node consolidation after timeout",
        "consolidation of nodes that are not empty is not built",
    ),
    (
        "failed checking cluster state sync",
        "the check cannot fail: it asks no server",
    ),
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

/// Lines that people search for: level, message, and the keys of its own (surface §8.2).
#[rustfmt::skip] // a table: one row per line
const SEARCHED: &[(&str, &str, &str)] = &[
    ("INFO", "found provisionable pod(s)", "Pods duration"),
    ("DEBUG", "computing scheduling decision for provisionable pod(s)", "pending-pods deleting-pods"),
    ("INFO", "computed new nodeclaim(s) to fit pod(s)", "nodeclaims pods"),
    ("INFO", "computed unready node(s) will fit pod(s)", "nodes pods"),
    ("INFO", "created nodeclaim", "NodePool NodeClaim requests instance-types"),
    ("INFO", "launched nodeclaim", "provider-id instance-type zone capacity-type allocatable"),
    ("INFO", "registered nodeclaim", "provider-id Node"),
    ("INFO", "initialized nodeclaim", "provider-id Node allocatable"),
    ("INFO", "annotated nodeclaim", "karpenter.sh/nodeclaim-termination-timestamp"),
    ("INFO", "deleted nodeclaim", "provider-id Node"),
    ("INFO", "disrupting node(s)", "command decision disrupted-node-count replacement-node-count pod-count disrupted-nodes replacement-nodes"),
    ("DEBUG", "command succeeded", ""),
    ("ERROR", "failed terminating nodes while executing a disruption command", "error"),
    ("INFO", "tainted node", "taint.Key taint.Value taint.Effect"),
    ("INFO", "deleted node", "NodeClaim"),
    ("DEBUG", "deleting pod", "namespace name pod.terminationGracePeriodSeconds delete.gracePeriodSeconds nodeclaim.terminationTime"),
    ("INFO", "deleting unhealthy node", ""),
    ("DEBUG", "deleting expired nodeclaim", ""),
    ("DEBUG", "garbage collecting nodeclaim with no cloudprovider representation", "NodeClaim Node provider-id"),
    ("DEBUG", "terminating due to timeout", "timeout reason"),
    ("ERROR", "failed launching nodeclaim", "error"),
    ("ERROR", "node claim registration error", "taint"),
    ("DEBUG", "awaiting registration hooks", "hooks"),
    ("ERROR", "could not schedule pod", "Pod error"),
    ("DEBUG", "ignoring pod", "Pod error"),
    ("INFO", "skipping pod with Dynamic Resource Allocation requirements, not yet supported by Karpenter", "Pod"),
    ("ERROR", "ignoring nodepool, not ready", "NodePool"),
    ("INFO", "no dynamic nodepools found", ""),
    ("DEBUG", "deferring scheduling decision for provisionable pod(s) to future simulation due to limited reserved offering capacity", "Pods"),
    ("INFO", "skipping, no resolved instance types found", "NodePool"),
    ("ERROR", "skipping, unable to resolve instance types", "NodePool error"),
    ("INFO", "skipping, nodepool requirements filtered out all instance types", "NodePool"),
    ("DEBUG", "skipping, awaiting nodeoverlay evaluation", "NodePool"),
    ("DEBUG", "instance types were excluded because they would breach limits", "NodePool excluded total"),
    ("INFO", "pod(s) have a preferred Anti-Affinity which can prevent consolidation", "pods"),
    ("INFO", "pod(s) have a preferred TopologySpreadConstraint which can prevent consolidation", "pods"),
    ("DEBUG", "relaxing soft constraints for pod since it previously failed to schedule", "Pod reason"),
    ("DEBUG", "scheduling simulation timed out", "duration scheduling-id"),
    ("DEBUG", "marking drifted", "reason"),
    ("DEBUG", "removing drifted status condition, not drifted", ""),
    ("DEBUG", "removing drift status condition, isn't launched", ""),
    ("DEBUG", "marking consolidatable", ""),
    ("DEBUG", "removing consolidatable status condition{why}", ""),
    ("DEBUG", "abandoning empty node consolidation attempt due to pod churn, command is no longer valid", ""),
    ("DEBUG", "abandoning single-node consolidation due to timeout", "candidates_evaluated"),
    ("DEBUG", "failed to find a multi-node consolidation after timeout", "last_batch_size"),
    ("DEBUG", "stopping multi-node consolidation after timeout", "last_batch_size"),
    ("DEBUG", "abnormal time between runs", "name time_since"),
    ("DEBUG", "prioritizing nodepools that have not yet been considered due to timeouts in previous runs", "nodepools"),
    ("ERROR", "detected disruption budget errors", "error"),
    ("ERROR", "cluster is waiting on sync for extended duration", "duration"),
    ("ERROR", "failed checking cluster state sync", "error"),
    ("INFO", "failed consistency check", "issue"),
    ("INFO", "provisioning nodeclaims to satisfy replica count", "current desired provision-count"),
    ("INFO", "deprovisioning nodeclaims to satisfy replica count", "current desired deprovision-count"),
    ("INFO", "nodepool node limit reached", ""),
    ("ERROR", "please correct found invalid values, proceeding with valid values", "key valid-values invalid-values"),
    ("ERROR", "failed parsing pod deletion cost", "annotation value pod"),
    ("ERROR", "offering price unknown after retry", "error"),
    ("ERROR", "skipping, node overlays are not applied", "NodePool error"),
    ("ERROR", "failed listing instance types", "nodepool error"),
    ("DEBUG", "discovered karpenter version", "version"),
    ("INFO", "Starting EventSource", "source"),
    ("INFO", "Starting Controller", ""),
    ("INFO", "Starting workers", ""),
    ("INFO", "Serving {server} server", "bindAddress"),
    ("ERROR", "Reconciler error", "error"),
    ("INFO", "authenticated to Rackspace Spot", ""),
    ("INFO", "resolved cloudspace", "name region"),
    ("INFO", "rewrote NodeClaim providerID", "node nodeClaim providerID"),
    ("ERROR", "server class discovery failed", "nodeclass error"),
    ("DEBUG", "percentile lookup failed, falling back to market*1.2", "err instanceType"),
];

/// What is written with a message: level and everything between the brackets of the macro.
fn calls(message: &str) -> Vec<(String, String)> {
    static CALLS: OnceLock<Vec<(String, String)>> = OnceLock::new();
    let all = CALLS.get_or_init(|| {
        let call = Regex::new(r"tracing::(error|info|debug|warn|trace)!\(").unwrap();
        let mut all = Vec::new();
        for source in product_sources() {
            for found in call.captures_iter(&source) {
                let rest = &source[found.get(0).unwrap().end()..];
                all.push((found[1].to_uppercase(), arguments(rest).to_owned()));
            }
        }
        all
    });
    let written = format!("\"{message}\"");
    all.iter()
        .filter(|(_, arguments)| arguments.contains(&written))
        .cloned()
        .collect()
}

/// The text up to the bracket that ends a call.
fn arguments(text: &str) -> &str {
    let (mut depth, mut quoted, mut escaped) = (1, false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
    }
    text
}

#[test]
fn every_line_that_people_search_for_is_written_with_its_level_and_keys_or_listed() {
    let sources = sources();
    for (level, message, keys) in SEARCHED {
        let absent = NOT_HERE.iter().any(|(listed, _)| listed == message);
        let calls = calls(message);
        let written = !calls.is_empty() || sources.contains(&format!("\"{message}\""));
        assert!(written || absent, "{message:?} is neither written nor listed");
        assert!(!(written && absent), "{message:?} is written: take it off the list");
        for (written, arguments) in &calls {
            assert_eq!(written, level, "{message:?}");
            for key in keys.split_whitespace() {
                let named = Regex::new(&format!(r#"(?:^|[\s,%?])"?{}"?(?:\s*=|,|$)"#, regex::escape(key))).unwrap();
                assert!(named.is_match(arguments), "{key} is missing: {arguments}");
            }
        }
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

// surface §8.1: LOG_LEVEL=debug shows the caller, and a build that nobody made has no commit
#[test]
fn every_line_begins_with_the_fixed_keys_in_their_order() {
    let begin = concat!(
        r#"^\{"level":"(?:DEBUG|INFO|ERROR)","time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","#,
        r#""logger":"controller(?:\.controller-runtime\.[a-z-]+)?","caller":"[^"]+:\d+","message":""#
    );
    let begin = Regex::new(begin).unwrap();
    for line in &shown().written {
        assert!(begin.is_match(line), "{line}");
    }
    for line in &shown().lines {
        assert!(line.get("error").is_none_or(Value::is_string), "{line}");
    }
}

/// Lists of resources are objects, not texts of their own.
#[test]
fn resources_of_a_line_are_shown_as_objects() {
    for (message, key) in [
        ("created nodeclaim", "requests"),
        ("launched nodeclaim", "allocatable"),
        ("initialized nodeclaim", "allocatable"),
    ] {
        let line = shown().lines.iter().find(|line| line["message"] == message);
        let line = line.unwrap_or_else(|| panic!("{message} was not written"));
        assert!(line[key]["cpu"].is_string() && line[key]["pods"].is_string(), "{line}");
    }
}

/// What a reconcile says of itself comes before the line's own keys.
#[test]
fn a_line_of_a_reconcile_names_its_object_before_its_own_keys() {
    let order = [
        "controller",
        "controllerGroup",
        "controllerKind",
        "NodeClaim",
        "namespace\":\"\",\"name",
        "reconcileID",
        "provider-id",
    ];
    let line = shown()
        .written
        .iter()
        .find(|line| line.contains(r#""message":"launched nodeclaim""#));
    let line = line.expect("it was launched");
    let places: Vec<Option<usize>> = order.iter().map(|key| line.find(&format!("\"{key}\":"))).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{places:?} in {line}"
    );
}

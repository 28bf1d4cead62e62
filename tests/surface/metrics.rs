//! Metrics: code, a scrape, and what upstream showed while it ran (surface §5, `tests/data/observed/metrics.json`).
//!
//! When something differs: a family's name, type, labels or buckets are part of the interface that dashboards and alerts rest on, so the declaration is
//! wrong unless surface §5 says otherwise. A family that upstream shows and we do not belongs into `src/telemetry/not_yet.rs` with its reason.

use crate::scrape::{Family, families};
use crate::world::{Stage, class, deployment, on_a_paused_clock, pool, shown};
use karpenter::operator::reference::{describes_objects, metrics};
use karpenter::telemetry::{Absent, Declaration, NOT_YET};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

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

/// Labels of the observed run's own provider.
const OTHER_PROVIDER: [&str; 4] = ["instance_cpu", "instance_family", "instance_memory", "instance_size"];

fn observed() -> Vec<Observed> {
    serde_json::from_str(include_str!("../data/observed/metrics.json")).unwrap()
}

fn declared() -> BTreeMap<String, Declaration> {
    let all = metrics().unwrap();
    all.into_iter().map(|family| (family.name.clone(), family)).collect()
}

fn is_absent(name: &str) -> bool {
    NOT_YET.iter().any(|(absent, _)| *absent == name)
}

fn ours(label: &str) -> String {
    label.replace(
        "karpenter_kwok_sh_kwoknodeclass",
        "karpenter_rackspace_com_rackspacespotnodeclass",
    )
}

/// Families that this run has no reason to show, and why.
const NOT_IN_THIS_RUN: &[(&str, &str)] = &[
    (
        "karpenter_cloudprovider_price_feed_failures_total",
        "the feed answers well",
    ),
    ("karpenter_events_dropped_total", "no Event is dropped"),
    (
        "karpenter_nodepools_cost_tracker_errors_total",
        "the provider can always be asked",
    ),
    (
        "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
        "a pass takes no time on a paused clock",
    ),
    (
        "karpenter_scheduler_unfinished_work_seconds",
        "a pass takes no time on a paused clock",
    ),
    (
        "karpenter_voluntary_disruption_queue_failures_total",
        "no command fails",
    ),
    ("karpenter_watchdog_stalled", "nothing stalls"),
    ("leader_election_master_status", "there is one replica"),
    (
        "operator_nodepool_termination_current_time_seconds",
        "a NodePool without finalizer goes at once",
    ),
    (
        "operator_nodepool_termination_duration_seconds",
        "a NodePool without finalizer goes at once",
    ),
    (
        "operator_rackspacespotnodeclass_status_condition_transition_seconds",
        "the class is ready from the first look on",
    ),
    (
        "operator_rackspacespotnodeclass_termination_current_time_seconds",
        "the class stays",
    ),
    (
        "operator_rackspacespotnodeclass_termination_duration_seconds",
        "the class stays",
    ),
    ("karpenter_watch_undecodable_objects_total", "all objects can be read"),
    ("karpenter_watch_unserved", "all kinds are served"),
    ("karpenter_workqueue_full_total", "no queue is full"),
];

#[test]
fn every_family_of_a_scrape_is_declared_with_its_type_labels_and_bounds() {
    let declared = declared();
    for text in [&shown().waiting, &shown().busy, &shown().quiet] {
        for (name, family) in families(text) {
            let declaration = declared.get(&name).unwrap_or_else(|| panic!("{name} is not declared"));
            assert_eq!(family.kind, declaration.kind.as_str(), "type of {name}");
            assert_eq!(family.help, declaration.help, "help of {name}");
            let labels: BTreeSet<String> = declaration.labels.iter().cloned().collect();
            assert_eq!(family.labels, labels, "labels of {name}");
            assert_same(&name, &family.bounds, &declaration.bounds);
        }
    }
}

#[test]
fn every_declared_family_is_fed() {
    let scrapes = [&shown().waiting, &shown().busy, &shown().quiet];
    let seen: BTreeSet<String> = scrapes.iter().flat_map(|text| families(text).into_keys()).collect();
    let excused: BTreeSet<&str> = NOT_IN_THIS_RUN.iter().map(|(name, _)| *name).collect();
    let missing: Vec<String> = declared()
        .into_keys()
        .filter(|name| !seen.contains(name) && !excused.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "declared and not shown: {missing:#?}");
    let shown_after_all: Vec<&str> = excused.iter().copied().filter(|name| seen.contains(*name)).collect();
    assert!(shown_after_all.is_empty(), "take off the list: {shown_after_all:?}");
}

#[test]
fn what_upstream_showed_has_the_same_type_labels_and_bounds_here() {
    let declared = declared();
    let mut compared = 0;
    for family in observed() {
        let Some(declaration) = declared.get(&family.name) else {
            assert!(
                is_absent(&family.name),
                "{} is neither declared nor listed as absent",
                family.name
            );
            continue;
        };
        assert!(!is_absent(&family.name), "{} is both declared and absent", family.name);
        assert_eq!(declaration.kind.as_str(), family.kind, "type of {}", family.name);
        let labels: BTreeSet<String> = declaration.labels.iter().cloned().collect();
        let theirs = family
            .labels
            .keys()
            .filter(|label| !OTHER_PROVIDER.contains(&label.as_str()));
        assert_eq!(
            labels,
            theirs.map(|label| ours(label)).collect(),
            "labels of {}",
            family.name
        );
        let bounds = family
            .buckets
            .iter()
            .chain(&family.quantiles)
            .filter(|bound| *bound != "+Inf");
        let bounds: Vec<f64> = bounds.map(|bound| bound.parse().unwrap()).collect();
        assert_same(&family.name, &declaration.bounds, &bounds);
        compared += 1;
    }
    assert!(compared > 60, "only {compared} families were compared");
}

#[test]
fn no_family_is_both_declared_and_absent_and_the_list_of_absent_ones_has_no_twins() {
    let declared = declared();
    let names: BTreeSet<&str> = NOT_YET.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), NOT_YET.len());
    let both: Vec<_> = names.iter().filter(|name| declared.contains_key(**name)).collect();
    assert!(both.is_empty(), "declared: take them off the list: {both:?}");
    assert!(NOT_YET.iter().any(|(_, reason)| *reason == Absent::Never));
}

#[test]
fn every_declared_family_says_what_it_means_in_one_sentence() {
    for declaration in declared().values() {
        let help = &declaration.help;
        assert!(help.ends_with('.'), "{}: {help}", declaration.name);
    }
}

fn assert_same(name: &str, ours: &[f64], theirs: &[f64]) {
    let same = ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| (a - b).abs() <= 1e-9 * b.abs());
    assert!(same, "bounds of {name}: {ours:?}, wanted {theirs:?}");
}

/// Labels whose words are upstream's, and the words that are ours.
const VOCABULARIES: &[(&str, &[&str])] = &[
    ("consolidation_type", &[]),
    ("decision", &[]),
    ("method", &["LIST", "Get"]),
    ("phase", &["Succeeded", "Failed", ""]),
    ("result", &[]),
    ("status", &["True", "False", "Unknown"]),
];

#[test]
fn labels_with_a_closed_vocabulary_use_upstreams_words() {
    let (busy, quiet) = (families(&shown().busy), families(&shown().quiet));
    for family in observed() {
        for (label, more) in VOCABULARIES {
            let Some(words) = family.labels.get(*label).filter(|words| !words.is_empty()) else {
                continue;
            };
            let of = |all: &BTreeMap<String, Family>| -> BTreeSet<String> {
                let series = all
                    .get(&family.name)
                    .into_iter()
                    .flat_map(|family| family.series.clone());
                series.filter_map(|series| series.get(*label).cloned()).collect()
            };
            for word in of(&busy).union(&of(&quiet)) {
                let known = words.contains(word) || more.contains(&word.as_str());
                assert!(known, "{}{{{label}={word:?}}}: upstream has {words:?}", family.name);
            }
        }
    }
}

// surface §5: series go with their objects
#[test]
fn nothing_of_an_object_that_is_gone_is_left() {
    let quiet = families(&shown().quiet);
    assert!(shown().names.len() >= 4, "{:?}", shown().names);
    for (name, family) in &quiet {
        for series in &family.series {
            for value in series.values() {
                assert!(
                    !shown().names.contains(value),
                    "{name} still tells of {value}: {series:?}"
                );
            }
        }
    }
    for family in [
        "karpenter_pods_state",
        "karpenter_nodes_allocatable",
        "karpenter_nodepools_limit",
    ] {
        assert!(families(&shown().busy).contains_key(family), "{family} was shown");
        assert!(!quiet.contains_key(family), "{family} is left");
    }
}

#[test]
fn a_busy_scrape_adds_up() {
    let busy = families(&shown().busy);
    let has = |family: &str, wanted: &[(&str, &str)]| {
        let series = &busy[family].series;
        series.iter().any(|series| {
            wanted
                .iter()
                .all(|(label, value)| series.get(*label).is_some_and(|found| found == value))
        })
    };
    assert!(has(
        "karpenter_pods_state",
        &[("scheduled", "false"), ("phase", "Pending"), ("node", "")]
    ));
    assert!(has(
        "karpenter_pods_state",
        &[
            ("nodepool", "default"),
            ("capacity_type", "on-demand"),
            ("ready", "true")
        ]
    ));
    assert!(has("karpenter_pods_unbound_time_seconds", &[("namespace", "default")]));
    assert!(has(
        "operator_nodeclaim_status_condition_count",
        &[("type", "Drained"), ("status", "Unknown"), ("reason", "Draining")]
    ));
    assert!(has(
        "operator_nodepool_status_condition_count",
        &[("name", "lost"), ("type", "Ready"), ("status", "False")]
    ));
    assert!(has(
        "operator_nodeclaim_termination_current_time_seconds",
        &[("karpenter_sh_nodepool", "default")]
    ));
    assert!(has(
        "karpenter_nodepools_usage",
        &[("nodepool", "default"), ("resource_type", "nodes")]
    ));
}

/// The families that describe single objects, as the reference marks them (surface §5, †); those of status conditions, `operator_`, come on top.
const OF_OBJECTS: &[&str] = &[
    "karpenter_cluster_utilization_percent",
    "karpenter_nodepools_cost_total",
    "karpenter_nodepools_limit",
    "karpenter_nodepools_usage",
    "karpenter_nodes_allocatable",
    "karpenter_nodes_current_lifetime_seconds",
    "karpenter_nodes_system_overhead",
    "karpenter_nodes_total_daemon_limits",
    "karpenter_nodes_total_daemon_requests",
    "karpenter_nodes_total_pod_limits",
    "karpenter_nodes_total_pod_requests",
    "karpenter_pods_bound_duration_seconds",
    "karpenter_pods_provisioning_bound_duration_seconds",
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
    "karpenter_pods_provisioning_startup_duration_seconds",
    "karpenter_pods_provisioning_unbound_time_seconds",
    "karpenter_pods_provisioning_unstarted_time_seconds",
    "karpenter_pods_startup_duration_seconds",
    "karpenter_pods_state",
    "karpenter_pods_unbound_time_seconds",
    "karpenter_pods_unstarted_time_seconds",
];

// surface T28
#[test]
fn without_observability_its_families_and_events_are_left_out() {
    let marked: BTreeSet<String> = declared()
        .into_keys()
        .filter(|name| describes_objects(name))
        .filter(|name| !name.starts_with("operator_"))
        .collect();
    assert_eq!(marked, OF_OBJECTS.iter().map(|name| (*name).to_owned()).collect());
    let (text, events) = on_a_paused_clock(|| async {
        let stage = Stage::start(&[("DISABLE_CLUSTER_STATE_OBSERVABILITY", "true")]).await;
        stage.apply(class()).await;
        stage.apply(pool("default", "default")).await;
        stage.apply(deployment("web", 1, &json!({}))).await;
        stage.until("the pod runs", 20, |w| w.ready() == 1).await;
        stage.world.pass(Duration::from_mins(1)).await;
        stage.world.scale("deployment/web", 0).await.unwrap();
        stage.until("the claim is gone", 20, |w| w.claims().is_empty()).await;
        (stage.scrape().await, stage.world.values("events"))
    });
    let present: Vec<String> = families(&text)
        .into_keys()
        .filter(|name| describes_objects(name))
        .collect();
    assert!(present.is_empty(), "{present:?}");
    assert!(families(&text).contains_key("karpenter_cluster_state_node_count"));
    let told = |event: &serde_json::Value| {
        event["message"]
            .as_str()
            .unwrap()
            .starts_with("Status condition transitioned")
    };
    assert!(!events.iter().any(told));
    assert!(!events.iter().any(|event| event["reason"] == "Finalized"));
    assert!(events.iter().any(|event| event["reason"] == "Nominated"));
}

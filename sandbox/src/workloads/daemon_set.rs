//! DaemonSets: one pod on every node that suits.
//!
//! Differs: updates replace one pod at a time (maxUnavailable 1, no surge).

use super::act::{Act, Plan, Sort};
use super::hash;
use super::owned::{available_at, count, host, is_finished, is_going, is_ready, pod_from, put};
use super::seen::Seen;
use crate::binder::{Ignored, NodeFacts, PodFacts, matches_node, untolerated};
use crate::observe::Name;
use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{Node, Pod, Toleration};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const REVISION: &str = "controller-revision-hash";

/// What every daemon tolerates.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A daemon belongs here.
    Wanted,
    /// One that is here may stay.
    Tolerated,
    /// None may be here.
    Unwanted,
}

pub(crate) fn plan(seen: &Seen, name: &Name, now: DateTime<Utc>) -> Plan {
    let mut plan = Plan::default();
    let Some(set) = seen.daemon_sets.get(name) else {
        return plan;
    };
    let spec = set.spec.clone().unwrap_or_default();
    let revision = hash::of(&spec.template);
    let sample = sample(&spec, &name.namespace);
    let mut on_node: BTreeMap<String, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in seen.pods_of(set.metadata.uid.as_ref()) {
        on_node.entry(target(pod).unwrap_or_default()).or_default().push(pod);
    }
    let mut places: BTreeMap<String, Place> = BTreeMap::new();
    for (node, object) in seen.nodes.all() {
        places.insert(node.name.clone(), place(&sample, object));
    }
    if set.metadata.deletion_timestamp.is_none() {
        for (node, place) in &places {
            let pods = on_node.get(node).map_or(&[][..], Vec::as_slice);
            settle(&mut plan, set, &spec, &revision, node, *place, pods);
        }
        for pod in on_node
            .iter()
            .filter(|(node, _)| !places.contains_key(*node))
            .flat_map(|(_, pods)| pods)
        {
            // Not bound to the node that went: nobody else would remove it.
            if host(pod).is_none() {
                delete(&mut plan, pod);
            }
        }
        if plan.acts.is_empty() {
            update(&mut plan, &spec, &revision, &on_node, now);
        }
    }
    if plan.acts.is_empty() {
        tell(&mut plan, name, set, &places, &on_node, &revision, now);
    }
    plan
}

/// A pod of the template, to ask the scheduler's rules about.
fn sample(spec: &DaemonSetSpec, namespace: &str) -> PodFacts {
    let mut pod = Pod {
        metadata: spec.template.metadata.clone().unwrap_or_default(),
        spec: spec.template.spec.clone(),
        status: None,
    };
    pod.metadata.namespace = Some(namespace.to_owned());
    let host_network = pod.spec.as_ref().and_then(|s| s.host_network) == Some(true);
    if let Some(spec) = &mut pod.spec {
        spec.tolerations
            .get_or_insert_default()
            .extend(tolerations(host_network));
    }
    PodFacts::of(&pod)
}

fn tolerations(host_network: bool) -> Vec<Toleration> {
    let network = host_network.then_some(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    TOLERATED
        .into_iter()
        .chain(network)
        .map(|(key, effect)| Toleration {
            key: Some(key.into()),
            operator: Some("Exists".into()),
            effect: Some(effect.into()),
            ..Toleration::default()
        })
        .collect()
}

fn place(sample: &PodFacts, node: &Node) -> Place {
    let facts = NodeFacts::of(node);
    let tolerations = sample.tolerations.as_slice();
    if !matches_node(sample, &facts) || untolerated(&facts.taints, tolerations, Ignored::AllButEviction).is_some() {
        Place::Unwanted
    } else if untolerated(&facts.taints, tolerations, Ignored::Preferences).is_some() {
        Place::Tolerated
    } else {
        Place::Wanted
    }
}

/// The node a daemon is for: bound to it, or pinned to it.
fn target(pod: &Pod) -> Option<String> {
    if let Some(host) = host(pod) {
        return Some(host.to_owned());
    }
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields = required
        .node_selector_terms
        .iter()
        .flat_map(|t| t.match_fields.iter().flatten());
    fields
        .filter(|f| f.key == "metadata.name")
        .find_map(|f| f.values.as_ref()?.first().cloned())
}

fn delete(plan: &mut Plan, pod: &Pod) {
    if !is_going(pod) {
        plan.acts
            .push(Act::delete(Sort::Pod, &Name::of(pod), pod.metadata.uid.as_ref(), None));
    }
}

fn settle(
    plan: &mut Plan,
    set: &DaemonSet,
    spec: &DaemonSetSpec,
    revision: &str,
    node: &str,
    place: Place,
    pods: &[&Arc<Pod>],
) {
    let mut working: Vec<&&Arc<Pod>> = pods.iter().filter(|p| !is_finished(p)).collect();
    for pod in pods.iter().filter(|p| is_finished(p)) {
        delete(plan, pod);
    }
    if place == Place::Unwanted {
        for pod in &working {
            delete(plan, pod);
        }
        return;
    }
    // Of several, the oldest stays; one that is on its way out still holds the place.
    working.sort_by_key(|p| {
        (
            is_going(p),
            p.metadata.creation_timestamp.as_ref().map(|t| t.0),
            Name::of(&****p),
        )
    });
    for pod in working.iter().skip(1) {
        delete(plan, pod);
    }
    if working.is_empty() && place == Place::Wanted {
        plan.acts.push(Act::create(
            Sort::Pod,
            &Name::of(set).namespace,
            daemon(set, spec, revision, node),
        ));
    }
}

fn daemon(set: &DaemonSet, spec: &DaemonSetSpec, revision: &str, node: &str) -> Value {
    let mut pod = pod_from(set, &spec.template);
    put(
        &mut pod,
        "/metadata",
        "generateName",
        format!("{}-", Name::of(set).name),
    );
    put(&mut pod, "/metadata/labels", REVISION, revision);
    let mut own = pod
        .pointer("/spec/tolerations")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let host_network = pod.pointer("/spec/hostNetwork").and_then(Value::as_bool) == Some(true);
    own.extend(tolerations(host_network).into_iter().map(|t| json!(t)));
    put(&mut pod, "/spec", "tolerations", own);
    // Names of nodes are matched as a field, in place of whatever terms the template has.
    let pin = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}}}});
    if let Some(spec) = pod.get_mut("spec") {
        json_patch::merge(spec, &pin);
    }
    pod
}

fn is_old(pod: &Pod, revision: &str) -> bool {
    pod.metadata
        .labels
        .as_ref()
        .and_then(|l| l.get(REVISION))
        .is_none_or(|r| r != revision)
}

fn is_available(pod: &Pod, spec: &DaemonSetSpec, plan: &mut Plan, now: DateTime<Utc>) -> bool {
    !is_going(pod) && available_at(pod, spec.min_ready_seconds).is_some_and(|at| plan.due(at, now))
}

fn update(
    plan: &mut Plan,
    spec: &DaemonSetSpec,
    revision: &str,
    on_node: &BTreeMap<String, Vec<&Arc<Pod>>>,
    now: DateTime<Utc>,
) {
    if spec.update_strategy.as_ref().and_then(|s| s.type_.as_deref()) == Some("OnDelete") {
        return;
    }
    let pods: Vec<&Arc<Pod>> = on_node.values().flatten().copied().collect();
    let (old, new): (Vec<&Arc<Pod>>, Vec<&Arc<Pod>>) = pods.into_iter().partition(|p| is_old(p, revision));
    // An old one that does not work is replaced at once, a working one when all the others work.
    let broken = old.iter().find(|p| !is_going(p) && !is_ready(p));
    let all_work = new.iter().chain(&old).all(|p| is_available(p, spec, plan, now));
    if let Some(pod) = broken.or_else(|| old.first().filter(|_| all_work)) {
        delete(plan, pod);
    }
}

fn tell(
    plan: &mut Plan,
    name: &Name,
    set: &DaemonSet,
    places: &BTreeMap<String, Place>,
    on_node: &BTreeMap<String, Vec<&Arc<Pod>>>,
    revision: &str,
    now: DateTime<Utc>,
) {
    let spec = set.spec.clone().unwrap_or_default();
    let wanted: Vec<&String> = places
        .iter()
        .filter(|(_, p)| **p == Place::Wanted)
        .map(|(n, _)| n)
        .collect();
    let firsts: Vec<&&Arc<Pod>> = wanted.iter().filter_map(|n| on_node.get(*n)?.first()).collect();
    let ready = firsts.iter().filter(|p| is_ready(p)).count();
    let available = firsts.iter().filter(|p| is_available(p, &spec, plan, now)).count();
    let updated = firsts.iter().filter(|p| !is_old(p, revision)).count();
    let misplaced = places
        .iter()
        .filter(|(n, p)| **p != Place::Wanted && on_node.contains_key(*n))
        .count();
    let truth = json!({
        "observedGeneration": set.metadata.generation, "desiredNumberScheduled": count(wanted.len()),
        "currentNumberScheduled": count(firsts.len()), "numberMisscheduled": count(misplaced), "numberReady": count(ready),
        "numberAvailable": count(available), "numberUnavailable": count(wanted.len().saturating_sub(available)),
        "updatedNumberScheduled": count(updated),
    });
    let shown = json!(set.status.clone().unwrap_or_default());
    let mut merged = shown.clone();
    json_patch::merge(&mut merged, &truth);
    if merged != shown {
        plan.acts
            .push(Act::status(Sort::DaemonSet, name, json!({ "status": truth })));
    }
}

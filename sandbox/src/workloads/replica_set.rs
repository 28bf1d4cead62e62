//! ReplicaSets: as many pods as wished.

use super::act::{Act, Plan, Sort};
use super::deletion_order;
use super::owned::{available_at, controller, count, is_active, is_ready, many, pod_from, put};
use super::seen::Seen;
use crate::observe::Name;
use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use std::sync::Arc;

/// How many pods are made or deleted before the number is looked at again.
const BURST: usize = 500;

pub(crate) fn plan(seen: &Seen, name: &Name, now: DateTime<Utc>) -> Plan {
    let mut plan = Plan::default();
    let Some(set) = seen.replica_sets.get(name) else {
        return plan;
    };
    let Some(spec) = &set.spec else { return plan };
    let pods = seen.pods_of(set.metadata.uid.as_ref());
    let active: Vec<&Arc<Pod>> = pods.into_iter().filter(|p| is_active(p)).collect();
    if set.metadata.deletion_timestamp.is_none() {
        let wished = many(spec.replicas.unwrap_or(1));
        for _ in active.len()..wished.min(active.len().saturating_add(BURST)) {
            let mut pod = pod_from(&**set, &spec.template.clone().unwrap_or_default());
            put(&mut pod, "/metadata", "generateName", format!("{}-", name.name));
            plan.acts.push(Act::create(Sort::Pod, &name.namespace, pod));
        }
        let doomed = deletion_order::sorted(&active, &neighbours(seen, set));
        for pod in doomed.into_iter().take(active.len().saturating_sub(wished).min(BURST)) {
            plan.acts.push(Act::delete(
                Sort::Pod,
                &Name::of(&**pod),
                pod.metadata.uid.as_ref(),
                None,
            ));
        }
    }
    if plan.acts.is_empty() {
        tell(&mut plan, name, set, &active, now);
    }
    plan
}

/// All active pods of the same Deployment.
fn neighbours<'a>(seen: &'a Seen, set: &ReplicaSet) -> Vec<&'a Arc<Pod>> {
    let owner = |set: &ReplicaSet| controller(&set.metadata).map(|o| o.uid.clone());
    let own = owner(set);
    let related = seen
        .replica_sets
        .all()
        .filter(|(_, other)| other.metadata.uid == set.metadata.uid || (own.is_some() && owner(other) == own));
    let pods = related.flat_map(|(_, other)| seen.pods_of(other.metadata.uid.as_ref()));
    pods.filter(|p| is_active(p)).collect()
}

fn tell(plan: &mut Plan, name: &Name, set: &ReplicaSet, active: &[&Arc<Pod>], now: DateTime<Utc>) {
    let spec = set.spec.clone().unwrap_or_default();
    let labels = spec
        .template
        .and_then(|t| t.metadata)
        .and_then(|m| m.labels)
        .unwrap_or_default();
    let labelled = active.iter().filter(|p| {
        let own = p.metadata.labels.as_ref();
        labels
            .iter()
            .all(|(key, value)| own.and_then(|l| l.get(key)) == Some(value))
    });
    let labelled = labelled.count();
    let ready = active.iter().filter(|p| is_ready(p)).count();
    let mut available = 0;
    for at in active.iter().filter_map(|p| available_at(p, spec.min_ready_seconds)) {
        if plan.due(at, now) {
            available += 1;
        }
    }
    let status = set.status.clone().unwrap_or_default();
    let shown = (
        status.replicas,
        status.fully_labeled_replicas.unwrap_or(0),
        status.ready_replicas.unwrap_or(0),
        status.available_replicas.unwrap_or(0),
        status.observed_generation,
    );
    let truth = (
        count(active.len()),
        count(labelled),
        count(ready),
        count(available),
        set.metadata.generation,
    );
    if shown != truth {
        let status = json!({"replicas": truth.0, "fullyLabeledReplicas": truth.1, "readyReplicas": truth.2,
            "availableReplicas": truth.3, "observedGeneration": truth.4});
        plan.acts
            .push(Act::status(Sort::ReplicaSet, name, json!({ "status": status })));
    }
}

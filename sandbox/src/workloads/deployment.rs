//! Deployments: one ReplicaSet per template, rolled over from the old to the new.

use super::act::{Act, Plan, Sort};
use super::conditions::{Wanted, condition};
use super::hash;
use super::owned::{controller, count, many, reference};
use super::rollout::{Round, Share, Strategy, next, share};
use super::seen::Seen;
use crate::observe::Name;
use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::json;
use std::sync::Arc;

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

pub(crate) fn plan(seen: &Seen, name: &Name, now: DateTime<Utc>) -> Plan {
    let mut plan = Plan::default();
    let Some(deployment) = seen
        .deployments
        .get(name)
        .filter(|d| d.metadata.deletion_timestamp.is_none())
    else {
        return plan;
    };
    let Some(spec) = &deployment.spec else { return plan };
    let sets = sets_of(seen, deployment);
    let newest = sets.iter().find(|s| template_of(s) == spec.template).copied();
    let Some(newest) = newest else {
        plan.acts.push(new_set(deployment, &sets));
        return plan;
    };
    let old: Vec<&Arc<ReplicaSet>> = sets.iter().filter(|s| !Arc::ptr_eq(s, newest)).copied().collect();
    let wished = spec.replicas.unwrap_or(1);
    let shares: Vec<Share> = old.iter().map(|s| share_of(seen, s)).collect();
    let strategy = if spec.paused == Some(true) {
        None
    } else {
        Some(strategy_of(deployment))
    };
    let (up, down) = match strategy {
        Some(strategy) => next(strategy, wished, &share_of(seen, newest), &shares),
        // A paused Deployment is scaled, but not rolled on.
        None => (
            wished.saturating_sub(shares.iter().fold(0, |n, s| n.saturating_add(s.wished))),
            Vec::new(),
        ),
    };
    scale(&mut plan, newest, up);
    for (set, number) in old.iter().zip(&down) {
        scale(&mut plan, set, *number);
    }
    forget_history(&mut plan, deployment, &old);
    if plan.acts.is_empty() {
        tell(&mut plan, name, deployment, newest, &old, now);
    }
    plan
}

/// Its ReplicaSets, oldest first.
fn sets_of<'a>(seen: &'a Seen, deployment: &Deployment) -> Vec<&'a Arc<ReplicaSet>> {
    let owned = seen
        .replica_sets
        .all()
        .map(|(_, set)| set)
        .filter(|set| controller(&set.metadata).is_some_and(|o| Some(&o.uid) == deployment.metadata.uid.as_ref()));
    let mut sets: Vec<&Arc<ReplicaSet>> = owned.collect();
    sets.sort_by_key(|set| (revision_of(set), set.metadata.name.clone()));
    sets
}

fn revision_of(set: &ReplicaSet) -> u64 {
    let text = set.metadata.annotations.as_ref().and_then(|a| a.get(REVISION));
    text.and_then(|r| r.parse().ok()).unwrap_or(0)
}

/// The template as the Deployment wrote it.
fn template_of(set: &ReplicaSet) -> PodTemplateSpec {
    let mut template = set.spec.as_ref().and_then(|s| s.template.clone()).unwrap_or_default();
    if let Some(labels) = template.metadata.as_mut().and_then(|m| m.labels.as_mut()) {
        labels.remove(HASH);
    }
    template
}

fn new_set(deployment: &Deployment, sets: &[&Arc<ReplicaSet>]) -> Act {
    let name = Name::of(deployment);
    let spec = deployment.spec.clone().unwrap_or_default();
    let hash = hash::of(&spec.template);
    let mut template = json!(spec.template);
    let mut selector = json!(spec.selector);
    json_patch::merge(&mut template, &json!({"metadata": {"labels": {HASH: hash}}}));
    json_patch::merge(&mut selector, &json!({"matchLabels": {HASH: hash}}));
    let labels = template.pointer("/metadata/labels").cloned();
    let revision = sets.iter().map(|s| revision_of(s)).max().unwrap_or(0).saturating_add(1);
    Act::create(
        Sort::ReplicaSet,
        &name.namespace,
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": format!("{}-{hash}", name.name), "labels": labels,
                "annotations": {REVISION: revision.to_string()}, "ownerReferences": [reference(deployment)]},
            "spec": {"replicas": 0, "selector": selector, "template": template, "minReadySeconds": spec.min_ready_seconds},
        }),
    )
}

fn share_of(seen: &Seen, set: &ReplicaSet) -> Share {
    let status = set.status.clone().unwrap_or_default();
    Share {
        wished: wished_of(set),
        available: status.available_replicas.unwrap_or(0),
        existing: count(seen.pods_of(set.metadata.uid.as_ref()).len()),
    }
}

fn wished_of(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1)
}

fn strategy_of(deployment: &Deployment) -> Strategy {
    let spec = deployment.spec.clone().unwrap_or_default();
    let wished = spec.replicas.unwrap_or(1);
    let strategy = spec.strategy.unwrap_or_default();
    if strategy.type_.as_deref() == Some("Recreate") {
        return Strategy::Recreate;
    }
    let rolling = strategy.rolling_update.unwrap_or_default();
    let surge = share(rolling.max_surge.as_ref(), wished, Round::Up);
    Strategy::rolling(surge, share(rolling.max_unavailable.as_ref(), wished, Round::Down))
}

fn scale(plan: &mut Plan, set: &ReplicaSet, number: i32) {
    if wished_of(set) != number.max(0) {
        let patch = json!({"spec": {"replicas": number.max(0)}});
        plan.acts.push(Act::patch(Sort::ReplicaSet, &Name::of(set), patch));
    }
}

/// Deletes the oldest of the sets that are empty and too many to be kept.
fn forget_history(plan: &mut Plan, deployment: &Deployment, old: &[&Arc<ReplicaSet>]) {
    let limit = deployment
        .spec
        .as_ref()
        .and_then(|s| s.revision_history_limit)
        .unwrap_or(10);
    let empty = |s: &&&Arc<ReplicaSet>| wished_of(s) == 0 && s.status.as_ref().is_none_or(|st| st.replicas == 0);
    let excess = old.len().saturating_sub(many(limit));
    for set in old.iter().take(excess).filter(empty) {
        plan.acts.push(Act::delete(
            Sort::ReplicaSet,
            &Name::of(&***set),
            set.metadata.uid.as_ref(),
            None,
        ));
    }
}

fn availability(enough: bool) -> Wanted<'static> {
    let (reason, message) = if enough {
        ("MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        (
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    Wanted {
        kind: "Available",
        holds: enough,
        reason,
        message,
    }
}

fn tell(
    plan: &mut Plan,
    name: &Name,
    deployment: &Deployment,
    newest: &ReplicaSet,
    old: &[&Arc<ReplicaSet>],
    now: DateTime<Utc>,
) {
    let spec = deployment.spec.clone().unwrap_or_default();
    let wished = spec.replicas.unwrap_or(1);
    let status = |s: &ReplicaSet| s.status.clone().unwrap_or_default();
    let all: Vec<_> = old.iter().map(|s| status(s)).chain([status(newest)]).collect();
    let total = |of: fn(&k8s_openapi::api::apps::v1::ReplicaSetStatus) -> i32| {
        all.iter().fold(0_i32, |n, s| n.saturating_add(of(s)))
    };
    let (replicas, ready) = (total(|s| s.replicas), total(|s| s.ready_replicas.unwrap_or(0)));
    let (available, updated) = (total(|s| s.available_replicas.unwrap_or(0)), status(newest).replicas);
    let unavailable = match strategy_of(deployment) {
        Strategy::Rolling { unavailable, .. } => unavailable,
        Strategy::Recreate => 0,
    };
    let enough = available >= wished.saturating_sub(unavailable);
    let done = updated == wished && replicas == wished && available == wished;
    let shown = deployment.status.clone().unwrap_or_default();
    let conditions = shown.conditions.as_ref();
    let set = newest.metadata.name.clone().unwrap_or_default();
    let (reason, progress) = if done {
        ("NewReplicaSetAvailable", "has successfully progressed")
    } else {
        ("ReplicaSetUpdated", "is progressing")
    };
    let progressing = Wanted {
        kind: "Progressing",
        holds: true,
        reason,
        message: &format!("ReplicaSet \"{set}\" {progress}."),
    };
    let zero_is_absent = |n: i32| Some(n).filter(|n| *n != 0);
    let truth = json!({
        "observedGeneration": deployment.metadata.generation, "replicas": zero_is_absent(replicas),
        "updatedReplicas": zero_is_absent(updated), "readyReplicas": zero_is_absent(ready),
        "availableReplicas": zero_is_absent(available),
        "unavailableReplicas": zero_is_absent(wished.max(replicas).saturating_sub(available).max(0)),
        "conditions": [condition(conditions, availability(enough), now), condition(conditions, progressing, now)],
    });
    let mut merged = json!(shown);
    json_patch::merge(&mut merged, &truth);
    if merged != json!(shown) {
        plan.acts
            .push(Act::status(Sort::Deployment, name, json!({ "status": truth })));
    }
}

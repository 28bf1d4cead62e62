//! Pods, whoever owns them: claims of ephemeral volumes, readiness on lost nodes, eviction by taints, collection after their node is gone.

use super::act::{Act, Plan, Sort};
use super::node_lifecycle::{is_unknown, ready};
use super::options::WorkloadOptions;
use super::owned::{host, instant, is_finished, is_going, later, phase, reference, text};
use super::seen::Seen;
use crate::binder::tolerates;
use crate::observe::Name;
use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition, Taint};
use serde_json::{Value, json};

/// Why a pod on a silent node is not ready; the kubelet would say otherwise once it speaks again.
const LOST: &str = "NodeNotReady";

pub(crate) fn plan(seen: &mut Seen, name: &Name, options: &WorkloadOptions, now: DateTime<Utc>) -> Plan {
    let mut plan = Plan::default();
    let Some(pod) = seen.pods.get(name).cloned() else {
        seen.since.remove(&orphan(name));
        return plan;
    };
    make_ephemeral_claims(&mut plan, seen, name, &pod);
    let Some(host) = host(&pod) else { return plan };
    match seen.nodes.get(&Name::new("", host)).cloned() {
        None => {
            let since = *seen.since.entry(orphan(name)).or_insert(now);
            if plan.due(later(since, i64::from(options.orphan_seconds)), now) {
                plan.acts
                    .push(Act::delete(Sort::Pod, name, pod.metadata.uid.as_ref(), Some(0)));
            }
        }
        Some(node) => {
            seen.since.remove(&orphan(name));
            mark_ready(&mut plan, name, &pod, &node, now);
            evict(&mut plan, name, &pod, &node, now);
        }
    }
    plan
}

fn orphan(name: &Name) -> String {
    format!("orphan {name}")
}

fn make_ephemeral_claims(plan: &mut Plan, seen: &Seen, name: &Name, pod: &Pod) {
    let volumes = pod.spec.as_ref().and_then(|s| s.volumes.as_ref()).into_iter().flatten();
    for volume in volumes.filter(|_| !is_going(pod) && !is_finished(pod)) {
        let Some(template) = volume.ephemeral.as_ref().and_then(|e| e.volume_claim_template.as_ref()) else {
            continue;
        };
        let claim = Name::new(&name.namespace, &format!("{}-{}", name.name, volume.name));
        if seen.claims.get(&claim).is_none() {
            let meta = template.metadata.clone().unwrap_or_default();
            plan.acts.push(Act::create(
                Sort::Claim,
                &claim.namespace,
                json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "metadata": {"name": claim.name, "labels": meta.labels, "annotations": meta.annotations,
                        "ownerReferences": [reference(pod)]},
                    "spec": template.spec,
                }),
            ));
        }
    }
}

fn mark_ready(plan: &mut Plan, name: &Name, pod: &Pod, node: &Node, now: DateTime<Utc>) {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|s| s.conditions.clone())
        .unwrap_or_default();
    let Some(own) = conditions.iter().find(|c| c.type_ == "Ready") else {
        return;
    };
    let status = if is_unknown(node) && own.status == "True" {
        "False"
    } else if ready(node) == "True" && own.status == "False" && own.reason.as_deref() == Some(LOST) {
        "True"
    } else {
        return;
    };
    if phase(pod) != "Running" {
        return;
    }
    let version = &pod.metadata.resource_version;
    let patch =
        json!({"metadata": {"resourceVersion": version}, "status": {"conditions": turned(&conditions, status, now)}});
    plan.acts.push(Act::status(Sort::Pod, name, patch));
}

fn turned(conditions: &[PodCondition], status: &str, now: DateTime<Utc>) -> Vec<Value> {
    let mut list: Vec<Value> = conditions
        .iter()
        .filter(|c| c.type_ != "Ready")
        .map(|c| json!(c))
        .collect();
    let reason = Some(LOST).filter(|_| status == "False");
    list.push(json!({"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": text(now)}));
    list
}

fn evict(plan: &mut Plan, name: &Name, pod: &Pod, node: &Node, now: DateTime<Utc>) {
    if is_going(pod) || is_finished(pod) {
        return;
    }
    let taints = node.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default();
    let ends = taints
        .iter()
        .filter(|t| t.effect == "NoExecute")
        .filter_map(|t| end_under(t, pod, now))
        .min();
    if ends.is_some_and(|at| plan.due(at, now)) {
        plan.acts
            .push(Act::delete(Sort::Pod, name, pod.metadata.uid.as_ref(), None));
    }
}

/// When a pod has to leave because of a taint; never if a toleration has no end.
fn end_under(taint: &Taint, pod: &Pod, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let tolerations = pod
        .spec
        .as_ref()
        .and_then(|s| s.tolerations.as_deref())
        .unwrap_or_default();
    let mut patience: Vec<Option<i64>> = tolerations
        .iter()
        .filter(|t| tolerates(t, taint))
        .map(|t| t.toleration_seconds)
        .collect();
    if patience.is_empty() {
        patience.push(Some(0));
    }
    // Several tolerations of one taint: the shortest limit counts.
    let seconds = patience.into_iter().flatten().min()?;
    Some(later(instant(taint.time_added.as_ref()).unwrap_or(now), seconds.max(0)))
}

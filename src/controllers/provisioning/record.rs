//! Tells what a pass decided: Events, log lines, metrics, nominations (scheduling 22-1, surface §4.2, §8.2).

use super::create::{plans, some_of};
use super::observe::Question;
use crate::api::NodePool;
use crate::cluster::MachineId;
use crate::cluster::Snapshot;
use crate::controllers::Kit;
use crate::k8s::cluster_task::Closed;
use crate::k8s::events::{Event, EventType, Involved, Limit, Window};
use crate::scheduling::validation::{is_worth_an_event, joined};
use crate::scheduling::{Pod, Reason, Results};
use chrono::{DateTime, TimeDelta, Utc};
use std::sync::Arc;
use std::time::Duration;

/// For how long a pod is told only once that it cannot be placed (scheduling §0).
const FAILED_WINDOW: Duration = Duration::from_mins(5);
/// For how long a pool is told only once that none of its types will do (scheduling §0).
const UNUSABLE_WINDOW: Duration = Duration::from_mins(1);
/// Why a pod waits when no pool may open a claim (scheduling 2-2.6).
pub(super) const NO_POOLS: &str = "no dynamic nodepools found";
/// Pods and nodes that a log line names.
pub(super) const SHOWN: usize = 5;

/// What the pass could not place, and why.
pub(super) fn failures(kit: &Kit, question: &Question, results: &Results) {
    for (pod, findings) in &question.invalid {
        if is_worth_an_event(findings) {
            let text = joined(findings);
            tracing::debug!(Pod = %pod.meta.key, error = text, "ignoring pod");
            kit.recorder.publish(failed_scheduling(&pod.pod, &text));
        }
    }
    for error in &results.errors {
        let text = text_of(question, &error.reason);
        let name = name_of(&error.pod);
        match error.reason {
            Reason::DeviceClaims => tracing::info!(
                Pod = name,
                "skipping pod with Dynamic Resource Allocation requirements, not yet supported by Karpenter"
            ),
            // said once for the whole pass
            Reason::NoPools if question.pools.is_empty() => {}
            _ => tracing::error!(Pod = name, error = text, "could not schedule pod"),
        }
        kit.recorder.publish(failed_scheduling(&error.pod, &text));
    }
    for unusable in &results.unusable_pools {
        tracing::info!(
            NodePool = unusable.name,
            "skipping, nodepool requirements filtered out all instance types"
        );
        if let Some(pool) = question.pools.get(&unusable.name) {
            kit.recorder
                .publish(no_compatible_types(&pool.facts, unusable.due_to_min_values));
        }
    }
    #[allow(clippy::cast_precision_loss)] // counts of pods
    {
        kit.metrics
            .scheduler
            .ignored_pods
            .set([], question.invalid.len() as f64);
        kit.metrics
            .scheduler
            .unschedulable_pods
            .set(["provisioner"], results.errors.len() as f64);
    }
}

/// The words for the pod's Event.
fn text_of(question: &Question, reason: &Reason) -> String {
    if *reason == Reason::NoPools && question.pools.is_empty() {
        return NO_POOLS.to_owned();
    }
    reason.to_string()
}

/// Nominates what exists and got pods; says which machines and how many pods.
pub(super) async fn nominations(
    kit: &Kit,
    snapshot: &Snapshot,
    question: &Question,
    results: &Results,
    until: DateTime<Utc>,
) -> Result<(), Closed> {
    let mut unready = Vec::new();
    for placement in &results.existing {
        let Some(Some(id)) = question.machines.get(placement.node) else {
            continue;
        };
        kit.cluster.nominate(id.clone(), until).await?;
        let machine = snapshot.machine(id);
        if let (MachineId::Claim(name), Some(false)) = (id, machine.map(|machine| machine.is_resolved())) {
            // it takes no more than it was asked for: the next pass must know what that is for
            kit.cluster.plan(plans(name, &placement.pods)).await?;
        }
        let claim = machine
            .and_then(|machine| machine.claim.as_ref())
            .map(|claim| claim.name());
        let node = machine
            .and_then(|machine| machine.node.as_ref())
            .map(|node| node.name());
        for pod in &placement.pods {
            kit.recorder.publish(nominated(pod, claim, node));
        }
        if machine.is_some_and(|machine| !machine.is_initialized()) {
            unready.push(placement);
        }
    }
    if !unready.is_empty() {
        let pods: usize = unready.iter().map(|placement| placement.pods.len()).sum();
        tracing::info!(nodes = unready.len(), pods, "computed unready node(s) will fit pod(s)");
    }
    Ok(())
}

/// Tells that pods will get new claims (surface §8.2).
pub(super) fn new_claims(question: &Question, results: &Results, took: Duration) {
    if results.new_claims.is_empty() {
        return;
    }
    let pending: Vec<String> = question
        .problem
        .pods
        .iter()
        .take(question.pending)
        .map(|pod| name_of(pod))
        .collect();
    let names: Vec<&str> = pending.iter().map(String::as_str).collect();
    tracing::info!(Pods = some_of(&names, SHOWN), duration = ?took, "found provisionable pod(s)");
    let pods: usize = results.new_claims.iter().map(|claim| claim.pods.len()).sum();
    tracing::info!(
        nodeclaims = results.new_claims.len(),
        pods,
        "computed new nodeclaim(s) to fit pod(s)"
    );
}

/// Until when a machine that was promised pods is left in peace (lifecycle 16.6).
pub(super) fn nominated_until(now: DateTime<Utc>, longest_batch: Duration) -> DateTime<Utc> {
    let window = longest_batch.saturating_mul(2).max(Duration::from_secs(10));
    let window = TimeDelta::from_std(window).unwrap_or(TimeDelta::MAX);
    now.checked_add_signed(window).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// `namespace/name`.
pub(super) fn name_of(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

fn involved(pod: &Pod) -> Involved {
    Involved {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        uid: pod.uid.to_string(),
    }
}

/// surface §4.2: Nominated.
pub(super) fn nominated(pod: &Pod, claim: Option<&str>, node: Option<&str>) -> Event {
    let parts: Vec<String> = [
        claim.map(|name| format!("nodeclaim/{name}")),
        node.map(|name| format!("node/{name}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let message = format!("Pod should schedule on: {}", parts.join(", "));
    Event::new(EventType::Normal, "Nominated", involved(pod), message)
        .deduped_by([&*pod.uid])
        .limited(Limit::NOMINATION)
}

/// surface §4.2: FailedScheduling.
fn failed_scheduling(pod: &Pod, text: &str) -> Event {
    let message = format!("Failed to schedule pod, {text}");
    Event::new(EventType::Warning, "FailedScheduling", involved(pod), message)
        .deduped_by([&*pod.uid])
        .within(Window::For(FAILED_WINDOW))
}

/// surface §4.2: NoCompatibleInstanceTypes.
fn no_compatible_types(pool: &NodePool, due_to_min_values: bool) -> Event {
    let mut message = "NodePool requirements filtered out all compatible available instance types".to_owned();
    if due_to_min_values {
        message.push_str(" due to minValues incompatibility");
    }
    let uid = pool.metadata.uid.clone().unwrap_or_default();
    Event::new(
        EventType::Warning,
        "NoCompatibleInstanceTypes",
        Involved::object(pool),
        message,
    )
    .deduped_by([uid])
    .within(Window::For(UNUSABLE_WINDOW))
}

/// The Events that name a new claim to its pods (scheduling 2-6.8).
pub(super) fn promised(kit: &Kit, pods: &[Arc<Pod>], claim: &MachineId) {
    if let MachineId::Claim(name) = claim {
        for pod in pods {
            kit.recorder.publish(nominated(pod, Some(name), None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nomination_names_what_there_is() {
        let pod = Pod::default();
        assert_eq!(
            nominated(&pod, Some("c"), None).message,
            "Pod should schedule on: nodeclaim/c"
        );
        assert_eq!(
            nominated(&pod, Some("c"), Some("n")).message,
            "Pod should schedule on: nodeclaim/c, node/n"
        );
        assert_eq!(
            nominated(&pod, None, Some("n")).message,
            "Pod should schedule on: node/n"
        );
    }

    #[test]
    fn a_nomination_lasts_two_batches_and_at_least_ten_seconds() {
        let now = DateTime::UNIX_EPOCH;
        assert_eq!(
            nominated_until(now, Duration::from_secs(10)),
            now + TimeDelta::seconds(20)
        );
        assert_eq!(
            nominated_until(now, Duration::from_secs(1)),
            now + TimeDelta::seconds(10)
        );
    }
}

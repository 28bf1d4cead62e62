//! What a kubelet does next with one pod that is bound to its machine. Pure.

use super::birth::seconds;
use super::node_plan::instant;
use super::options::MachineOptions;
use crate::spot::fnv;
use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};
use std::time::Duration;

/// Pods with this annotation end successfully after so many seconds.
pub const RUN_SECONDS: &str = "sandbox/run-seconds";

/// What to do with a pod.
#[derive(Debug, Clone, PartialEq)]
pub enum PodStep {
    /// Nothing.
    Rest,
    /// Look again then.
    WaitUntil(DateTime<Utc>),
    /// Merge-patch its status.
    Patch(Value),
    /// Delete it with grace 0.
    Remove,
}

/// The next step; `seen` is when the kubelet first saw the pod.
pub fn next_step(pod: &Pod, seen: DateTime<Utc>, host: &str, options: &MachineOptions, now: DateTime<Utc>) -> PodStep {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Pending");
    if let Some(end) = instant(pod.metadata.deletion_timestamp.as_ref()) {
        return end_step(pod, phase, end, options, now);
    }
    match phase {
        "Pending" => at_or_after(after(seen, options.pod_start_seconds), now, || {
            PodStep::Patch(running(pod, host, now))
        }),
        "Running" => {
            let annotations = pod.metadata.annotations.as_ref();
            let run = annotations
                .and_then(|all| all.get(RUN_SECONDS))
                .and_then(|text| text.parse::<f64>().ok());
            let started = instant(pod.status.as_ref().and_then(|status| status.start_time.as_ref())).unwrap_or(seen);
            run.map_or(PodStep::Rest, |run| {
                at_or_after(after(started, run), now, || PodStep::Patch(succeeded(pod, now)))
            })
        }
        _ => PodStep::Rest,
    }
}

fn end_step(pod: &Pod, phase: &str, end: DateTime<Utc>, options: &MachineOptions, now: DateTime<Utc>) -> PodStep {
    if phase != "Running" {
        return PodStep::Remove;
    }
    // The deletionTimestamp is the end of the grace period.
    let grace = TimeDelta::seconds(pod.metadata.deletion_grace_period_seconds.unwrap_or_default());
    let asked = end.checked_sub_signed(grace).unwrap_or(end);
    let end = options.pod_stop_seconds.map_or(end, |stop| after(asked, stop).min(end));
    at_or_after(end, now, || PodStep::Remove)
}

fn at_or_after(at: DateTime<Utc>, now: DateTime<Utc>, step: impl FnOnce() -> PodStep) -> PodStep {
    if at <= now { step() } else { PodStep::WaitUntil(at) }
}

fn after(at: DateTime<Utc>, seconds: f64) -> DateTime<Utc> {
    let delay = Duration::try_from_secs_f64(seconds)
        .ok()
        .and_then(|delay| TimeDelta::from_std(delay).ok());
    delay.and_then(|delay| at.checked_add_signed(delay)).unwrap_or(at)
}

fn running(pod: &Pod, host: &str, now: DateTime<Utc>) -> Value {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let [_, _, _, _, _, a, b, c] = fnv(0, uid.as_bytes()).to_be_bytes();
    let ip = format!("10.{}.{b}.{}", 128 | (a & 127), c.max(1));
    let kept = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone())
        .unwrap_or_default();
    let kept = kept.into_iter().filter(|condition| condition.type_ == "PodScheduled");
    let mut conditions: Vec<Value> = kept
        .filter_map(|condition| serde_json::to_value(condition).ok())
        .collect();
    conditions.extend(
        ["PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"]
            .map(|kind| condition(kind, "True", None, now)),
    );
    let spec = pod.spec.clone().unwrap_or_default();
    let state = json!({"running": {"startedAt": seconds(now)}});
    let done = json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": seconds(now), "finishedAt": seconds(now)}});
    json!({"status": {
        "phase": "Running", "conditions": conditions, "hostIP": host, "hostIPs": [{"ip": host}], "podIP": ip, "podIPs": [{"ip": ip}],
        "startTime": seconds(now),
        "containerStatuses": spec.containers.iter().map(|c| container(c, &state, true)).collect::<Vec<_>>(),
        "initContainerStatuses": spec.init_containers.iter().flatten().map(|c| {
            let sidecar = c.restart_policy.as_deref() == Some("Always");
            container(c, if sidecar { &state } else { &done }, true)
        }).collect::<Vec<_>>(),
    }})
}

fn succeeded(pod: &Pod, now: DateTime<Utc>) -> Value {
    let kept = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone())
        .unwrap_or_default();
    let kept = kept
        .into_iter()
        .filter(|condition| !matches!(condition.type_.as_str(), "Ready" | "ContainersReady"));
    let mut conditions: Vec<Value> = kept
        .filter_map(|condition| serde_json::to_value(condition).ok())
        .collect();
    conditions.extend(["ContainersReady", "Ready"].map(|kind| condition(kind, "False", Some("PodCompleted"), now)));
    let spec = pod.spec.clone().unwrap_or_default();
    let state = json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": seconds(now), "finishedAt": seconds(now)}});
    let containers: Vec<Value> = spec.containers.iter().map(|c| container(c, &state, false)).collect();
    json!({"status": {"phase": "Succeeded", "conditions": conditions, "containerStatuses": containers}})
}

fn condition(kind: &str, status: &str, reason: Option<&str>, now: DateTime<Utc>) -> Value {
    let mut condition =
        json!({"type": kind, "status": status, "lastTransitionTime": seconds(now), "lastProbeTime": null});
    if let (Some(reason), Some(condition)) = (reason, condition.as_object_mut()) {
        condition.insert("reason".into(), json!(reason));
    }
    condition
}

fn container(container: &Container, state: &Value, ready: bool) -> Value {
    let image = container.image.clone().unwrap_or_default();
    json!({"name": container.name, "image": image, "imageID": image, "containerID": format!("containerd://{:016x}", fnv(1, container.name.as_bytes())),
           "ready": ready, "started": ready, "restartCount": 0, "state": state})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
    }

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    fn step(pod: &Pod, options: &MachineOptions, second: i64) -> PodStep {
        next_step(pod, at(0), "10.0.0.1", options, at(second))
    }

    #[test]
    fn a_bound_pod_runs_after_the_start_delay_and_is_ready() {
        let pod = pod(json!({"metadata": {"uid": "u"}, "spec": {"nodeName": "n", "containers": [{"name": "c"}]}}));
        let options = MachineOptions::default();
        assert_eq!(step(&pod, &options, 0), PodStep::WaitUntil(at(1)));
        let PodStep::Patch(patch) = step(&pod, &options, 1) else {
            panic!("not started")
        };
        assert_eq!(patch["status"]["phase"], "Running");
        assert!(
            patch["status"]["conditions"]
                .as_array()
                .unwrap()
                .iter()
                .any(|c| c["type"] == "Ready" && c["status"] == "True")
        );
        assert!(patch["status"]["podIP"].as_str().unwrap().starts_with("10."));
    }

    #[test]
    fn a_deleted_pod_vanishes_at_the_end_of_its_grace_period_or_sooner_if_it_stops_fast() {
        let pod = pod(json!({
            "metadata": {"uid": "u", "deletionTimestamp": seconds(at(30)), "deletionGracePeriodSeconds": 30},
            "spec": {"containers": []}, "status": {"phase": "Running"}}));
        let mut options = MachineOptions::default();
        assert_eq!(step(&pod, &options, 29), PodStep::WaitUntil(at(30)));
        assert_eq!(step(&pod, &options, 30), PodStep::Remove);
        options.pod_stop_seconds = Some(2.0);
        assert_eq!(step(&pod, &options, 1), PodStep::WaitUntil(at(2)));
        assert_eq!(step(&pod, &options, 2), PodStep::Remove);
    }

    #[test]
    fn a_pod_with_an_end_succeeds() {
        let pod = pod(json!({
            "metadata": {"uid": "u", "annotations": {RUN_SECONDS: "5"}}, "spec": {"containers": [{"name": "c"}]},
            "status": {"phase": "Running", "startTime": seconds(at(2))}}));
        let options = MachineOptions::default();
        assert_eq!(step(&pod, &options, 6), PodStep::WaitUntil(at(7)));
        let PodStep::Patch(patch) = step(&pod, &options, 7) else {
            panic!("not ended")
        };
        assert_eq!(patch["status"]["phase"], "Succeeded");
    }
}

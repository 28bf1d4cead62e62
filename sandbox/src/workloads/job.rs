//! Jobs: pods that end, until enough have ended well.
//!
//! Differs: no indexes, no pod failure policy, no back-off between failures, no deadline.

use super::act::{Act, Plan, Sort};
use super::conditions::{Wanted, condition, without_update_time};
use super::owned::{count, instant, is_active, is_going, is_ready, later, many, phase, pod_from, put, text};
use super::seen::Seen;
use crate::observe::Name;
use chrono::{DateTime, Utc};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Running,
    Complete,
    Failed,
}

pub(crate) fn plan(seen: &Seen, name: &Name, now: DateTime<Utc>) -> Plan {
    let mut plan = Plan::default();
    let Some(job) = seen.jobs.get(name).filter(|j| j.metadata.deletion_timestamp.is_none()) else {
        return plan;
    };
    let spec = job.spec.clone().unwrap_or_default();
    let shown = job.status.clone().unwrap_or_default();
    let pods = seen.pods_of(job.metadata.uid.as_ref());
    let active: Vec<&Arc<Pod>> = pods.iter().filter(|p| is_active(p)).copied().collect();
    let ended = |what: &str| count(pods.iter().filter(|p| phase(p) == what).count());
    // Pods that were counted once stay counted when they are collected.
    let succeeded = ended("Succeeded").max(shown.succeeded.unwrap_or(0));
    let failed = ended("Failed").max(shown.failed.unwrap_or(0));
    let verdict = verdict(job, &spec, active.len(), succeeded, failed);
    if verdict == Verdict::Running && spec.suspend != Some(true) {
        let going = pods
            .iter()
            .filter(|p| is_going(p) && !matches!(phase(p), "Succeeded" | "Failed"))
            .count();
        top_up(&mut plan, job, &spec, active.len().saturating_add(going), succeeded);
        let wanted = many(spec.parallelism.unwrap_or(1));
        for pod in active.iter().skip(wanted) {
            delete(&mut plan, pod);
        }
    } else {
        for pod in &active {
            delete(&mut plan, pod);
        }
    }
    if plan.acts.is_empty() {
        tell(&mut plan, name, job, &active, (succeeded, failed), verdict, now);
    }
    expire(&mut plan, name, job, &spec, now);
    plan
}

fn has(job: &Job, kind: &str) -> bool {
    let conditions = job.status.as_ref().and_then(|s| s.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|c| c.type_ == kind && c.status == "True")
}

fn verdict(job: &Job, spec: &JobSpec, active: usize, succeeded: i32, failed: i32) -> Verdict {
    let enough = match spec.completions {
        Some(wanted) => succeeded >= wanted,
        // A work queue is done when one has ended well and none is left.
        None => succeeded > 0 && active == 0,
    };
    if has(job, "Failed") || failed > spec.backoff_limit.unwrap_or(6) {
        Verdict::Failed
    } else if has(job, "Complete") || enough {
        Verdict::Complete
    } else {
        Verdict::Running
    }
}

fn top_up(plan: &mut Plan, job: &Job, spec: &JobSpec, present: usize, succeeded: i32) {
    let name = Name::of(job);
    let missing = match spec.completions {
        Some(wanted) => many(wanted.saturating_sub(succeeded)),
        None if succeeded > 0 => 0,
        None => usize::MAX,
    };
    for _ in present..many(spec.parallelism.unwrap_or(1)).min(missing) {
        let mut pod = pod_from(job, &spec.template);
        put(&mut pod, "/metadata", "generateName", format!("{}-", name.name));
        let uid = job.metadata.uid.clone().unwrap_or_default();
        for prefix in ["", "batch.kubernetes.io/"] {
            put(
                &mut pod,
                "/metadata/labels",
                &format!("{prefix}job-name"),
                name.name.clone(),
            );
            put(
                &mut pod,
                "/metadata/labels",
                &format!("{prefix}controller-uid"),
                uid.clone(),
            );
        }
        plan.acts.push(Act::create(Sort::Pod, &name.namespace, pod));
    }
}

fn delete(plan: &mut Plan, pod: &Pod) {
    plan.acts
        .push(Act::delete(Sort::Pod, &Name::of(pod), pod.metadata.uid.as_ref(), None));
}

fn tell(
    plan: &mut Plan,
    name: &Name,
    job: &Job,
    active: &[&Arc<Pod>],
    (succeeded, failed): (i32, i32),
    verdict: Verdict,
    now: DateTime<Utc>,
) {
    let shown = job.status.clone().unwrap_or_default();
    let conditions = conditions(job, verdict, now);
    let done = verdict == Verdict::Complete && !has(job, "Complete");
    let mut truth = json!({
        "active": count(active.len()), "ready": count(active.iter().filter(|p| is_ready(p)).count()),
        "succeeded": succeeded, "failed": failed, "conditions": conditions,
    });
    if shown.start_time.is_none() {
        put(&mut truth, "", "startTime", text(now));
    }
    if done {
        put(&mut truth, "", "completionTime", text(now));
    }
    let mut merged = json!(shown);
    json_patch::merge(&mut merged, &truth);
    if merged != json!(shown) {
        plan.acts.push(Act::status(Sort::Job, name, json!({ "status": truth })));
    }
}

/// What the status says about the verdict; nothing while the job runs.
fn conditions(job: &Job, verdict: Verdict, now: DateTime<Utc>) -> Option<Vec<Value>> {
    let old = job.status.as_ref().and_then(|status| status.conditions.as_ref());
    let named = |kind, reason, message| Wanted {
        kind,
        holds: true,
        reason,
        message,
    };
    let suspended = job.spec.as_ref().and_then(|s| s.suspend) == Some(true);
    let wanted = match verdict {
        Verdict::Running if suspended => vec![named("Suspended", "JobSuspended", "")],
        Verdict::Running => return None,
        Verdict::Complete => {
            let met = named(
                "SuccessCriteriaMet",
                "CompletionsReached",
                "Reached expected number of succeeded pods",
            );
            vec![met, named("Complete", met.reason, met.message)]
        }
        Verdict::Failed => {
            let words = "Job has reached the specified backoff limit";
            vec![named("Failed", "BackoffLimitExceeded", words)]
        }
    };
    let conditions = wanted.into_iter().map(|wanted| condition(old, wanted, now));
    Some(conditions.map(without_update_time).collect())
}

fn expire(plan: &mut Plan, name: &Name, job: &Job, spec: &JobSpec, now: DateTime<Utc>) {
    let Some(seconds) = spec.ttl_seconds_after_finished else {
        return;
    };
    let conditions = job.status.as_ref().and_then(|s| s.conditions.as_ref());
    let finished = conditions
        .into_iter()
        .flatten()
        .find(|c| c.status == "True" && matches!(c.type_.as_str(), "Complete" | "Failed"));
    let Some(at) = finished.and_then(|c| instant(c.last_transition_time.as_ref())) else {
        return;
    };
    if plan.due(later(at, i64::from(seconds)), now) {
        plan.acts
            .push(Act::delete(Sort::Job, name, job.metadata.uid.as_ref(), None));
    }
}

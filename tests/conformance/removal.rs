//! Disruption's small questions: budgets, their windows, what it costs to take a node away.

use crate::algebra::{Found, parsed};
use chrono::{DateTime, TimeDelta, Utc};
use karpenter::api::NillableDuration;
use karpenter::api::nodepool::{Budget, DisruptionReason};
use karpenter::disruption::budgets::{UNLIMITED, allowed, allowed_for, is_active};
use karpenter::disruption::cost::{deletion_cost, eviction_cost, lifetime_remaining};
use karpenter::disruption::cron::Schedule;
use serde_json::Value;

fn now(case: &Value) -> DateTime<Utc> {
    case["now"].as_str().unwrap().parse().unwrap()
}

fn nodes(case: &Value) -> usize {
    usize::try_from(case["numNodes"].as_u64().unwrap()).unwrap()
}

/// A number, or `unlimited`.
fn bound(value: &Value) -> i64 {
    value.as_i64().unwrap_or(UNLIMITED)
}

/// One budget.
pub fn budget(case: &Value, found: &mut Found) {
    let budget: Budget = serde_json::from_value(case["budget"].clone()).unwrap();
    let active = is_active(&budget, now(case));
    found.equal("error", &case.get("error").is_some(), &active.is_err());
    found.equal("active", &case["active"].as_bool().unwrap(), &active.unwrap_or(false));
    let allowed = allowed(&budget, nodes(case), now(case));
    found.equal(
        "error of allowed",
        &case.get("allowedError").is_some(),
        &allowed.is_err(),
    );
    found.equal("allowed", &bound(&case["allowed"]), &allowed.unwrap_or(0));
}

/// All budgets of a pool, for a reason.
pub fn budgets(case: &Value, found: &mut Found) {
    let budgets: Vec<Budget> = parsed(&case["budgets"]);
    let reason = DisruptionReason::from(case["reason"].as_str().unwrap());
    let ours = allowed_for(&budgets, &reason, nodes(case), now(case));
    found.equal("error", &case.get("error").is_some(), &ours.is_err());
    found.equal("allowed", &bound(&case["mustAllowed"]), &ours.unwrap_or(0));
}

/// A schedule's next hit.
pub fn cron(case: &Value, found: &mut Found) {
    let schedule = Schedule::parse(case["schedule"].as_str().unwrap());
    found.equal("ok", &case["ok"].as_bool().unwrap(), &schedule.is_ok());
    if let Ok(schedule) = schedule {
        let expected: Option<DateTime<Utc>> = case["next"].as_str().map(|text| text.parse().unwrap());
        found.equal("next", &expected, &schedule.next_after(now(case)));
    }
}

/// What it costs to evict a pod.
pub fn eviction(case: &Value, found: &mut Found) {
    let priority = case["priority"].as_i64().map(|value| i32::try_from(value).unwrap());
    let ours = eviction_cost(deletion_cost(case["podDeletionCost"].as_str()), priority);
    close("eviction cost", &case["evictionCost"], ours, found);
}

/// The share of a life that is left.
pub fn lifetime(case: &Value, found: &mut Found) {
    let life = NillableDuration::parse(case["expireAfter"].as_str().unwrap()).unwrap();
    let age = TimeDelta::seconds(case["ageSeconds"].as_i64().unwrap());
    let ours = lifetime_remaining(life.value().map(karpenter::api::GoDuration::as_time_delta), age);
    close("remaining", &case["remaining"], ours, found);
}

fn close(what: &str, expected: &Value, ours: f64, found: &mut Found) {
    let expected = expected.as_f64().unwrap();
    found.equal(what, &format!("{expected:.12}"), &format!("{ours:.12}"));
}

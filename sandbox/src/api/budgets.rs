//! The disruption controller, reduced: keeps the status of PodDisruptionBudgets.
//!
//! Runs a moment after pods or budgets changed ([`super::background`]), as the real one does; evictions read what it wrote.

use super::core::Core;
use super::object;
use super::selectors::LabelSelector;
use super::store::{ObjectKey, Stored};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const TABLE: &str = "poddisruptionbudgets.policy";

/// How long an evicted pod that is still there counts as disrupted.
const DISRUPTED_FOR: TimeDelta = TimeDelta::minutes(2);

/// Whether a budget's selector takes in a pod. An absent selector takes in none, an empty one all.
pub(crate) fn covers(budget: &Value, pod: &Value) -> bool {
    budget
        .pointer("/spec/selector")
        .is_some_and(|s| LabelSelector::from_object(s).matches(pod))
}

/// Whether a pod's Ready condition is true.
pub(crate) fn is_ready(pod: &Value) -> bool {
    object::condition(pod, "Ready") == "True"
}

/// Brings the budgets of one namespace up to date.
pub(crate) fn refresh(core: &mut Core, namespace: &str, now: DateTime<Utc>) {
    let budgets: Vec<Arc<Stored>> = core.store.in_namespace(TABLE, namespace).cloned().collect();
    if budgets.is_empty() {
        return;
    }
    let pods: Vec<Arc<Stored>> = core.store.in_namespace("pods", namespace).cloned().collect();
    for budget in budgets {
        let new = refreshed(core, budget.value(), &pods, now);
        if new != *budget.value() {
            let key = ObjectKey::new(namespace, object::name(&new));
            core.store.put(TABLE, &key, new, now);
        }
    }
}

fn refreshed(core: &Core, budget: &Value, pods: &[Arc<Stored>], now: DateTime<Utc>) -> Value {
    let selector = budget.pointer("/spec/selector").map(LabelSelector::from_object);
    let covered: Vec<&Value> = pods
        .iter()
        .map(|p| p.value())
        .filter(|p| selector.as_ref().is_some_and(|s| s.matches(p)))
        .collect();
    let disrupted = still_disrupted(budget, &covered, now);
    let healthy = |p: &&&Value| is_ready(p) && !object::is_deleting(p) && !disrupted.contains_key(object::name(p));
    let current = count(covered.iter().filter(healthy).count());
    let (expected, desired) = wanted(core, budget, &covered);
    let allowed = if expected <= 0 {
        0
    } else {
        current.saturating_sub(desired).max(0)
    };
    let mut new = budget.clone();
    object::edit_at(&mut new, "status", |status| {
        for (field, value) in [
            ("currentHealthy", current),
            ("desiredHealthy", desired),
            ("expectedPods", expected),
            ("disruptionsAllowed", allowed),
            ("observedGeneration", object::generation(budget).unwrap_or(0)),
        ] {
            status.insert(field.into(), value.into());
        }
        if disrupted.is_empty() {
            status.remove("disruptedPods");
        } else {
            status.insert("disruptedPods".into(), Value::Object(disrupted));
        }
    });
    set_condition(&mut new, now);
    new
}

fn still_disrupted(budget: &Value, covered: &[&Value], now: DateTime<Utc>) -> Map<String, Value> {
    let before = budget.pointer("/status/disruptedPods").and_then(Value::as_object);
    let counts = |name: &str, since: &Value| {
        let present = covered
            .iter()
            .any(|p| object::name(p) == name && !object::is_deleting(p));
        let recent = object::parse_time(since.as_str().unwrap_or_default())
            .and_then(|at| at.checked_add_signed(DISRUPTED_FOR))
            .is_some_and(|end| end > now);
        present && recent
    };
    let kept = before.into_iter().flatten().filter(|(name, since)| counts(name, since));
    kept.map(|(name, since)| (name.clone(), since.clone())).collect()
}

/// (expected, desired) healthy pods.
fn wanted(core: &Core, budget: &Value, covered: &[&Value]) -> (i64, i64) {
    let spec = |field: &str| budget.pointer(&format!("/spec/{field}"));
    if let Some(most) = spec("maxUnavailable") {
        let expected = expected_by_controllers(core, covered);
        let down = share(most, expected);
        return (expected, expected.saturating_sub(down).max(0));
    }
    match spec("minAvailable") {
        Some(Value::Number(least)) => (count(covered.len()), least.as_i64().unwrap_or(0)),
        Some(least) => {
            let expected = expected_by_controllers(core, covered);
            (expected, share(least, expected))
        }
        // Upstream's API defaults an empty budget to minAvailable 1.
        None => (count(covered.len()), 1),
    }
}

/// A number, or a percentage of `total` rounded up.
fn share(value: &Value, total: i64) -> i64 {
    if let Some(number) = value.as_i64() {
        return number;
    }
    let percent: i64 = value
        .as_str()
        .and_then(|t| t.strip_suffix('%'))
        .and_then(|t| t.parse().ok())
        .unwrap_or(0);
    let hundredfold = percent.saturating_mul(total);
    hundredfold.saturating_add(99).checked_div(100).unwrap_or(0)
}

/// The pods that the controllers of the covered pods want; pods without a controller count for themselves.
fn expected_by_controllers(core: &Core, covered: &[&Value]) -> i64 {
    let mut controllers: BTreeMap<String, i64> = BTreeMap::new();
    let mut alone = 0_i64;
    for pod in covered {
        match controller_scale(core, pod) {
            Some((uid, replicas)) => {
                controllers.insert(uid, replicas);
            }
            None => alone = alone.saturating_add(1),
        }
    }
    controllers.values().fold(alone, |sum, n| sum.saturating_add(*n))
}

fn controller_scale(core: &Core, object: &Value) -> Option<(String, i64)> {
    let is_controller = |o: &&Value| o.get("controller").and_then(Value::as_bool) == Some(true);
    let owner = object::list(object, "/metadata/ownerReferences")
        .iter()
        .find(is_controller)?;
    let (table, key) = core.store.by_uid(object::text(owner, "/uid"))?;
    let found = core.store.get(table, key)?;
    // A ReplicaSet of a Deployment: the Deployment's number is the one that is wanted.
    if let Some(above) = controller_scale(core, found.value()) {
        return Some(above);
    }
    let replicas = object::number(found.value(), "/spec/replicas")?;
    Some((object::uid(found.value()).to_owned(), replicas))
}

/// Sets `DisruptionAllowed` from the counts.
pub(crate) fn set_condition(budget: &mut Value, now: DateTime<Utc>) {
    let allowed = object::number(budget, "/status/disruptionsAllowed").unwrap_or(0);
    let generation = object::generation(budget).unwrap_or(0);
    let (status, reason) = if allowed > 0 {
        ("True", "SufficientPods")
    } else {
        ("False", "InsufficientPods")
    };
    let before = object::list(budget, "/status/conditions")
        .iter()
        .find(|c| object::text(c, "/type") == "DisruptionAllowed");
    let since = match before {
        Some(old) if object::text(old, "/status") == status => object::text(old, "/lastTransitionTime").to_owned(),
        _ => object::time_text(now),
    };
    let condition = json!({ "type": "DisruptionAllowed", "status": status, "reason": reason, "message": "",
        "observedGeneration": generation, "lastTransitionTime": since });
    object::edit_at(budget, "status", |s| s.insert("conditions".into(), json!([condition])));
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

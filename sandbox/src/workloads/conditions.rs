//! Conditions of workloads: the transition time moves only when the status does.

use super::owned::text;
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Value, json};

/// A condition as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted<'a> {
    pub(crate) kind: &'a str,
    pub(crate) holds: bool,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

/// The condition, with the time of the one that was there if it says the same.
pub(crate) fn condition<C: Serialize>(old: Option<&Vec<C>>, wanted: Wanted<'_>, now: DateTime<Utc>) -> Value {
    let status = if wanted.holds { "True" } else { "False" };
    let before = old.into_iter().flatten().map(|c| json!(c));
    let same = before
        .into_iter()
        .find(|c| c["type"] == wanted.kind && c["status"] == status);
    let time = |key: &str, fallback: Value| {
        same.as_ref()
            .map(|c| c[key].clone())
            .filter(|v| !v.is_null())
            .unwrap_or(fallback)
    };
    let since = time("lastTransitionTime", text(now).into());
    let unchanged = same
        .as_ref()
        .is_some_and(|c| c["reason"] == wanted.reason && c["message"] == wanted.message);
    let updated = if unchanged {
        time("lastUpdateTime", text(now).into())
    } else {
        text(now).into()
    };
    json!({"type": wanted.kind, "status": status, "reason": wanted.reason, "message": wanted.message,
        "lastTransitionTime": since, "lastUpdateTime": updated})
}

/// Without the field that only Deployments have.
pub(crate) fn without_update_time(mut condition: Value) -> Value {
    if let Some(map) = condition.as_object_mut() {
        map.remove("lastUpdateTime");
    }
    condition
}

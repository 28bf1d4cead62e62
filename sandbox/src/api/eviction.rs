//! The `eviction` subresource: a deletion that a PodDisruptionBudget may refuse.
//!
//! Relies on the budgets' status, which [`super::budgets`] keeps; called by [`super::core`].

use super::budgets;
use super::core::{Answer, Core};
use super::deletion::DeleteOptions;
use super::error::{ApiError, Cause};
use super::object;
use super::route::Call;
use super::store::{ObjectKey, Stored};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

const BUDGETS: &str = "poddisruptionbudgets.policy";
/// Upstream refuses further evictions when the controller lags behind by so many.
const MOST_DISRUPTED: usize = 2000;

impl Core {
    pub(crate) fn evict(&mut self, call: &Call, now: DateTime<Utc>) -> Result<Answer, ApiError> {
        let eviction: Value = serde_json::from_slice(&call.body)
            .map_err(|e| ApiError::bad_request(format!("error decoding Eviction: {e}")))?;
        let named = object::name(&eviction);
        if !named.is_empty() && named != call.name {
            return Err(ApiError::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        let mut options = DeleteOptions::from_value(eviction.get("deleteOptions").unwrap_or(&Value::Null))?;
        options.dry_run |= call.params.dry_run();
        let pod = self.named(call)?;
        if !ignores_budgets(pod.value()) {
            let budgets = self.budgets_of(pod.value());
            match budgets.as_slice() {
                [] => {}
                [budget] => self.spend(budget, pod.value(), options.dry_run, now)?,
                _ => {
                    let words = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                    return Err(ApiError::new(500, "", words));
                }
            }
        }
        self.delete_object(&call.resource, &pod, &options, now)?;
        let done = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
        Ok(Answer::Value { code: 201, value: done })
    }

    fn budgets_of(&self, pod: &Value) -> Vec<Arc<Stored>> {
        let namespace = object::namespace(pod);
        self.store
            .in_namespace(BUDGETS, namespace)
            .filter(|b| budgets::covers(b.value(), pod))
            .cloned()
            .collect()
    }

    /// Takes one disruption from the budget, or says why not.
    fn spend(&mut self, budget: &Arc<Stored>, pod: &Value, dry_run: bool, now: DateTime<Utc>) -> Result<(), ApiError> {
        let value = budget.value();
        let status = |field: &str| object::number(value, &format!("/status/{field}")).unwrap_or(0);
        if !budgets::is_ready(pod) {
            let always = object::text(value, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
            let healthy = status("currentHealthy") >= status("desiredHealthy") && status("desiredHealthy") > 0;
            if always || healthy {
                return Ok(());
            }
        }
        let name = object::name(value);
        if status("observedGeneration") < object::generation(value).unwrap_or(0) {
            let words = format!("The disruption budget {name} is still being processed by the server.");
            let cause = budget_cause(words);
            let words = "Cannot evict pod as it would violate the pod's disruption budget.";
            return Err(ApiError::too_many_requests(words, 10).with_causes(&[cause]));
        }
        if object::list(value, "/status/disruptedPods").len() > MOST_DISRUPTED {
            return Err(ApiError::new(
                403,
                "Forbidden",
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            ));
        }
        if status("disruptionsAllowed") <= 0 {
            let needs = format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                status("desiredHealthy"),
                status("currentHealthy")
            );
            let words = "Cannot evict pod as it would violate the pod's disruption budget.";
            return Err(ApiError::too_many_requests(words, 0).with_causes(&[budget_cause(needs)]));
        }
        if dry_run {
            return Ok(());
        }
        let left = status("disruptionsAllowed").saturating_sub(1);
        let mut new = value.clone();
        object::edit_at(&mut new, "status", |status| {
            status.insert("disruptionsAllowed".into(), left.into());
            let disrupted = status.entry("disruptedPods").or_insert_with(|| json!({}));
            if let Value::Object(map) = disrupted {
                map.insert(object::name(pod).to_owned(), object::time_text(now).into());
            }
        });
        if left == 0 {
            budgets::set_condition(&mut new, now);
        }
        let key = ObjectKey::new(object::namespace(value), name);
        self.store.put(BUDGETS, &key, new, now);
        Ok(())
    }
}

fn budget_cause(message: String) -> Cause {
    Cause {
        field: String::new(),
        reason: Cow::Borrowed("DisruptionBudget"),
        message,
    }
}

/// Pods that are over, not begun or already going disrupt nobody.
fn ignores_budgets(pod: &Value) -> bool {
    matches!(object::text(pod, "/status/phase"), "Succeeded" | "Failed" | "Pending") || object::is_deleting(pod)
}

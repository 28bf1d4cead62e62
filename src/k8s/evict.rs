//! Asking a pod to go through the Eviction API, and what the API server answers (lifecycle 14.5).
//!
//! Relies on the [`Writer`]'s way of sending; the eviction queue calls it.

use super::write::{Target, Writer};
use super::write_error::{Cause, WriteError};
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use serde_json::json;
use std::time::Duration;

type Source = dyn std::error::Error + Send + Sync;

/// How an eviction went.
#[derive(Debug)]
pub enum Eviction {
    /// The pod is asked to go.
    Accepted,
    /// There is no such pod any more, or its name belongs to another one.
    Gone,
    /// A PodDisruptionBudget allows nothing now.
    BlockedByBudget {
        /// When to ask again, if the server said so.
        after: Option<Duration>,
    },
    /// Several PodDisruptionBudgets match the pod, which the Eviction API does not support.
    SeveralBudgets,
}

impl Eviction {
    /// The HTTP code that the eviction metrics count it by.
    pub const fn code(&self) -> u16 {
        match self {
            Self::Accepted => 201,
            Self::Gone => 404,
            Self::BlockedByBudget { .. } => 429,
            Self::SeveralBudgets => 500,
        }
    }
}

impl Writer {
    /// Asks a pod to go; only the pod of the target's UID.
    pub async fn evict(&self, target: &Target) -> Result<Eviction, WriteError> {
        let failed = |cause| WriteError::new("evicting", format!("Pod {}", target.name), cause);
        let uid = Some(target.uid.as_str()).filter(|uid| !uid.is_empty());
        let body = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "name": target.name, "namespace": target.namespace },
            "deleteOptions": { "preconditions": { "uid": uid } },
        });
        let path = format!(
            "{}/{}/eviction",
            Pod::url_path(&(), target.namespace.as_deref()),
            target.name
        );
        let request = http::Request::post(path).header(http::header::CONTENT_TYPE, "application/json");
        let request = request
            .body(body.to_string().into_bytes())
            .map_err(|e| failed(Cause::Malformed(Box::new(e))))?;
        match self.send::<Pod>("evicting", target, request).await {
            Ok(_) => Ok(Eviction::Accepted),
            Err(error) => outcome(error),
        }
    }
}

/// Tells the answers that are part of normal life from failures.
fn outcome(error: WriteError) -> Result<Eviction, WriteError> {
    match error.cause() {
        Cause::NotFound(_) | Cause::Conflict(_) => Ok(Eviction::Gone),
        Cause::Throttled { after, source } if is_about_a_budget(source.as_ref()) => {
            Ok(Eviction::BlockedByBudget { after: *after })
        }
        Cause::UnknownOutcome(Some(source)) if is_about_several_budgets(source.as_ref()) => {
            Ok(Eviction::SeveralBudgets)
        }
        _ => Err(error),
    }
}

fn status(source: &Source) -> Option<&kube::core::Status> {
    source.downcast_ref::<kube::core::Status>()
}

/// A 429 names the budget as its cause; one of the server's own throttling does not.
fn is_about_a_budget(source: &Source) -> bool {
    let causes = status(source)
        .and_then(|status| status.details.as_ref())
        .map(|details| details.causes.as_slice());
    causes
        .unwrap_or_default()
        .iter()
        .any(|cause| cause.reason == "DisruptionBudget")
}

/// The API server answers several budgets with a bare 500; its own errors carry the reason `InternalError`.
fn is_about_several_budgets(source: &Source) -> bool {
    status(source).is_some_and(|status| status.code == 500 && status.reason.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::{
        Status,
        response::{StatusCause, StatusDetails},
    };

    fn answered(code: u16, reason: &str, cause: &str) -> Result<Eviction, WriteError> {
        let cause = StatusCause {
            reason: cause.to_owned(),
            message: String::new(),
            field: String::new(),
        };
        let details = StatusDetails {
            causes: vec![cause],
            retry_after_seconds: 10,
            ..empty_details()
        };
        let status = Status::failure("words", reason).with_code(code).with_details(details);
        outcome(WriteError::from_kube(
            "evicting",
            "Pod p".to_owned(),
            kube::Error::Api(status.boxed()),
        ))
    }

    fn empty_details() -> StatusDetails {
        serde_json::from_value(json!({})).unwrap()
    }

    #[test]
    fn what_belongs_to_normal_life_is_no_error() {
        // lifecycle 14.5
        assert!(matches!(answered(404, "NotFound", ""), Ok(Eviction::Gone)));
        assert!(matches!(answered(409, "Conflict", ""), Ok(Eviction::Gone)));
        let blocked = answered(429, "TooManyRequests", "DisruptionBudget");
        assert!(
            matches!(blocked, Ok(Eviction::BlockedByBudget { after: Some(after) }) if after == Duration::from_secs(10))
        );
        assert!(matches!(answered(500, "", ""), Ok(Eviction::SeveralBudgets)));
    }

    #[test]
    fn a_server_that_throttles_or_fails_is_not_taken_for_a_budget() {
        assert!(answered(429, "TooManyRequests", "").is_err());
        assert!(answered(500, "InternalError", "").is_err());
        assert!(answered(403, "Forbidden", "").is_err());
    }
}

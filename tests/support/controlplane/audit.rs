//! What was asked of the API server, by whom: to compare with what RBAC grants.
//!
//! The scheduler, the controllers and the server itself are left out of the log; everybody else is in it.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;

use serde::Deserialize;

use super::ControlPlane;

/// The audit policy, as JSON.
pub(super) fn policy() -> String {
    serde_json::json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "users": ["system:apiserver", "kube-scheduler", "kube-controller-manager"]},
            {"level": "Metadata"},
        ],
    })
    .to_string()
}

/// One request and its answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// The path and query.
    #[serde(rename = "requestURI")]
    pub uri: String,
    /// Who asked.
    pub user: AuditUser,
    /// What program asked, as it says of itself.
    #[serde(default)]
    pub user_agent: String,
    /// What was asked for; absent for paths such as `/readyz`.
    pub object_ref: Option<AuditObject>,
    /// The answer; absent while a watch is open.
    pub response_status: Option<AuditAnswer>,
}

/// Who asked.
#[derive(Clone, Debug, Deserialize)]
pub struct AuditUser {
    /// `system:serviceaccount:<namespace>:<name>` for a ServiceAccount.
    pub username: String,
}

/// What was asked for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditObject {
    /// Empty for the core group.
    pub api_group: String,
    /// The plural.
    pub resource: String,
    /// `status`, `eviction` and so on, or empty.
    pub subresource: String,
    /// Empty for cluster-wide objects.
    pub namespace: String,
    /// Empty for lists and for names that the server generates.
    pub name: String,
}

/// The answer.
#[derive(Clone, Debug, Deserialize)]
pub struct AuditAnswer {
    /// The HTTP status.
    pub code: u16,
}

/// A right that was used, in the words of an RBAC rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// Empty for the core group.
    pub api_group: String,
    /// The plural, with `/subresource` where there is one.
    pub resource: String,
    /// The verb.
    pub verb: String,
}

impl fmt::Display for Use {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = if self.api_group.is_empty() {
            "core"
        } else {
            &self.api_group
        };
        write!(out, "{group} {} {}", self.resource, self.verb)
    }
}

impl AuditEvent {
    fn right(&self) -> Option<Use> {
        let object = self.object_ref.as_ref()?;
        let resource = match object.subresource.as_str() {
            "" => object.resource.clone(),
            subresource => format!("{}/{subresource}", object.resource),
        };
        Some(Use {
            api_group: object.api_group.clone(),
            resource,
            verb: self.verb.clone(),
        })
    }

    fn was_forbidden(&self) -> bool {
        self.response_status.as_ref().is_some_and(|answer| answer.code == 403)
    }
}

impl ControlPlane {
    /// All requests so far, in the order of their answers.
    pub fn audit_events(&self) -> Vec<AuditEvent> {
        self.audit_lines(|_| true)
    }

    fn audit_lines(&self, wanted: impl Fn(&str) -> bool) -> Vec<AuditEvent> {
        let log = fs::read_to_string(self.audit_log()).unwrap_or_default();
        // The last line may be half written.
        let complete = log.rfind('\n').map_or("", |end| &log[..end]);
        complete
            .lines()
            .filter(|line| wanted(line))
            .map(|line| serde_json::from_str(line).expect("a line of the audit log"))
            .collect()
    }

    /// The rights that a user made use of; `system:serviceaccount:<namespace>:<name>` for a ServiceAccount.
    pub fn rights_used_by(&self, user: &str) -> BTreeSet<Use> {
        Self::uses(&self.audit_events(), user, |event| !event.was_forbidden())
    }

    /// The rights that a user asked for and does not have.
    pub fn rights_refused_to(&self, user: &str) -> BTreeSet<Use> {
        // The log of many scenarios is long, and refusals are few.
        let refused = self.audit_lines(|line| line.contains("\"code\":403"));
        Self::uses(&refused, user, AuditEvent::was_forbidden)
    }

    /// Whether a user asked for anything.
    pub fn has_asked(&self, user: &str) -> bool {
        let quoted = format!("\"{user}\"");
        let log = fs::read_to_string(self.audit_log()).unwrap_or_default();
        log.contains(&quoted)
    }

    fn uses(events: &[AuditEvent], user: &str, wanted: impl Fn(&AuditEvent) -> bool) -> BTreeSet<Use> {
        let events = events
            .iter()
            .filter(|event| event.user.username == user && wanted(event));
        events.filter_map(AuditEvent::right).collect()
    }
}

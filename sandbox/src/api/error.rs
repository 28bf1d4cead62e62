//! What a refused request answers: a `Status` with the code, reason and words that kube-apiserver would use.
//!
//! Relies on nothing; every operation of this module returns it, and [`super::render`] writes it on the wire.

use super::kinds::Resource;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// One field that was wrong, as listed in `details.causes`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// Where, as a dotted path.
    pub field: String,
    /// Machine-readable kind, such as `FieldValueInvalid`.
    pub reason: Cow<'static, str>,
    /// What is wrong, in words.
    pub message: String,
}

/// A refusal, in the vocabulary of Kubernetes.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, such as `Conflict`; empty when upstream gives none.
    pub reason: Cow<'static, str>,
    /// The words.
    pub message: String,
    /// The `details` object.
    pub details: Map<String, Value>,
    /// Seconds for the `Retry-After` header.
    pub retry_after: Option<u32>,
}

impl ApiError {
    /// A refusal without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: Cow::Borrowed(reason),
            message: message.into(),
            details: Map::new(),
            retry_after: None,
        }
    }

    /// A refusal about one object, named in the details.
    pub fn about(resource: &Resource, name: &str, code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let mut error = Self::new(code, reason, message);
        error.details.insert("name".into(), name.into());
        if !resource.group.is_empty() {
            error.details.insert("group".into(), resource.group.clone().into());
        }
        error.details.insert("kind".into(), resource.plural.clone().into());
        error
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 404 for an object.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        Self::about(
            resource,
            name,
            404,
            "NotFound",
            format!("{} \"{name}\" not found", resource.qualified()),
        )
    }

    /// 404 for a path that nothing serves.
    pub fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// 409 on create.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Self::about(resource, name, 409, "AlreadyExists", message)
    }

    /// 409 on a lost race.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            resource.qualified()
        );
        Self::about(resource, name, 409, "Conflict", message)
    }

    /// 409 with the words that every optimistic writer knows.
    pub fn modified(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// 403.
    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", resource.qualified());
        Self::about(resource, name, 403, "Forbidden", message)
    }

    /// 422 with its causes.
    pub fn invalid(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
        let lines: Vec<String> = causes
            .iter()
            .map(|c| {
                if c.field.is_empty() {
                    c.message.clone()
                } else {
                    format!("{}: {}", c.field, c.message)
                }
            })
            .collect();
        let list = match lines.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let what = resource.qualified_kind();
        let mut error = Self::about(
            resource,
            name,
            422,
            "Invalid",
            format!("{what} \"{name}\" is invalid: {list}"),
        );
        error.details.insert("kind".into(), resource.kind.clone().into());
        error.details.insert("causes".into(), causes_json(causes));
        error
    }

    /// 410: the revision asked for is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 429 with seconds to wait.
    pub fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Self {
        let mut error = Self::new(429, "TooManyRequests", message);
        if retry_after > 0 {
            error.details.insert("retryAfterSeconds".into(), retry_after.into());
            error.retry_after = Some(retry_after);
        }
        error
    }

    /// 504: the server gave up waiting.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(504, "Timeout", message)
    }

    /// 500.
    pub fn internal(message: &str) -> Self {
        let mut error = Self::new(500, "InternalError", format!("Internal error occurred: {message}"));
        error.details.insert("causes".into(), json!([{ "message": message }]));
        error
    }

    /// Adds causes to the details.
    pub fn with_causes(mut self, causes: &[Cause]) -> Self {
        self.details.insert("causes".into(), causes_json(causes));
        self
    }

    /// The `Status` object.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if let Value::Object(map) = &mut status {
            if !self.reason.is_empty() {
                map.insert("reason".into(), self.reason.as_ref().into());
            }
            if !self.details.is_empty() {
                map.insert("details".into(), Value::Object(self.details.clone()));
            }
        }
        status
    }
}

fn causes_json(causes: &[Cause]) -> Value {
    let one = |c: &Cause| {
        let mut map = Map::new();
        map.insert("reason".into(), c.reason.as_ref().into());
        map.insert("message".into(), c.message.clone().into());
        if !c.field.is_empty() {
            map.insert("field".into(), c.field.clone().into());
        }
        Value::Object(map)
    };
    Value::Array(causes.iter().map(one).collect())
}

impl Cause {
    /// A value that is there and wrong. `shown` is the value as JSON text.
    pub fn invalid(field: impl Into<String>, shown: &str, why: impl AsRef<str>) -> Self {
        let message = format!("Invalid value: {shown}: {}", why.as_ref());
        Self {
            field: field.into(),
            reason: Cow::Borrowed("FieldValueInvalid"),
            message,
        }
    }

    /// A value that has to be there.
    pub fn required(field: impl Into<String>, why: impl AsRef<str>) -> Self {
        let why = why.as_ref();
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        Self {
            field: field.into(),
            reason: Cow::Borrowed("FieldValueRequired"),
            message,
        }
    }

    /// A change that is not allowed.
    pub fn forbidden(field: impl Into<String>, why: impl AsRef<str>) -> Self {
        let message = format!("Forbidden: {}", why.as_ref());
        Self {
            field: field.into(),
            reason: Cow::Borrowed("FieldValueForbidden"),
            message,
        }
    }

    /// An element that may be there only once.
    pub fn duplicate(field: impl Into<String>, shown: &str) -> Self {
        let message = format!("Duplicate value: {shown}");
        Self {
            field: field.into(),
            reason: Cow::Borrowed("FieldValueDuplicate"),
            message,
        }
    }
}

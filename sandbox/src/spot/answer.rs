//! Calls and answers of the simulated platform, as values (rackspace-spot 3.0).
//!
//! The HTTP layer turns requests into [`Call`]s and [`Answer`]s into responses; everything between is pure.

use serde_json::{Value, json};
use std::time::Duration;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Call {
    /// Upper-case method.
    pub method: String,
    /// Path without query.
    pub path: String,
    /// Query without `?`.
    pub query: String,
    /// `Authorization`, if any.
    pub authorization: Option<String>,
    /// `Content-Type`, if any.
    pub content_type: Option<String>,
    /// `If-None-Match`, if any.
    pub if_none_match: Option<String>,
    /// `If-Modified-Since`, if any.
    pub if_modified_since: Option<String>,
    /// Body.
    pub body: Vec<u8>,
}

impl Call {
    /// The first value of a query parameter, decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        form(&self.query)
            .into_iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    }
}

/// What the gateway does besides answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timing {
    /// Answers at once.
    #[default]
    AtOnce,
    /// Answers after a while.
    Late(Duration),
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status code.
    pub code: u16,
    /// Headers besides the content type.
    pub headers: Vec<(&'static str, String)>,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// Body.
    pub body: Vec<u8>,
    /// When it is sent.
    pub timing: Timing,
}

impl Answer {
    /// A JSON answer.
    pub fn json(code: u16, body: &Value) -> Self {
        Self {
            code,
            headers: Vec::new(),
            content_type: "application/json",
            body: body.to_string().into_bytes(),
            timing: Timing::AtOnce,
        }
    }

    /// A plain text answer, as the gateway gives (row 2).
    pub fn text(code: u16, body: &str) -> Self {
        Self {
            code,
            headers: Vec::new(),
            content_type: "text/plain",
            body: body.as_bytes().to_vec(),
            timing: Timing::AtOnce,
        }
    }

    /// A Status of failure about no object in particular.
    pub fn failure(code: u16, reason: &str, message: &str) -> Self {
        Self::json(code, &status(code, reason, message, &json!({})))
    }

    /// The body as text, for logs and tests.
    pub fn body_text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// What an answer is about: the plural of the kind and, mostly, a name.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Plural, e.g. `spotnodepools`.
    pub plural: &'a str,
    /// Kind, e.g. `SpotNodePool`.
    pub kind: &'a str,
    /// Name of the object.
    pub name: &'a str,
}

/// One violation of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Path of the field.
    pub field: String,
    /// `FieldValueInvalid`, `FieldValueRequired`, `FieldValueTypeInvalid`.
    pub reason: &'static str,
    /// What is wrong.
    pub message: String,
}

impl Subject<'_> {
    fn details(&self) -> Value {
        json!({"name": self.name, "group": "ngpc.rxt.io", "kind": self.plural})
    }

    fn fail(&self, code: u16, reason: &str, message: &str) -> Answer {
        Answer::json(code, &status(code, reason, message, &self.details()))
    }

    /// 404.
    pub fn not_found(&self) -> Answer {
        self.fail(
            404,
            "NotFound",
            &format!("{}.ngpc.rxt.io \"{}\" not found", self.plural, self.name),
        )
    }

    /// 409 for a name that is taken.
    pub fn already_exists(&self) -> Answer {
        self.fail(
            409,
            "AlreadyExists",
            &format!("{}.ngpc.rxt.io \"{}\" already exists", self.plural, self.name),
        )
    }

    /// 409 for a stale resourceVersion.
    pub fn conflict(&self) -> Answer {
        self.fail(
            409,
            "Conflict",
            &format!(
                "Operation cannot be fulfilled on {}.ngpc.rxt.io \"{}\": the object has been modified; please apply your changes to the latest version and try again",
                self.plural, self.name
            ),
        )
    }

    /// A webhook's denial, under the code that is set (row 3).
    pub fn denied(&self, code: u16, webhook: &str, text: &str) -> Answer {
        let reason = match code {
            400 => "BadRequest",
            422 => "Invalid",
            _ => "Forbidden",
        };
        self.fail(
            code,
            reason,
            &format!("admission webhook \"{webhook}\" denied the request: {text}"),
        )
    }

    /// 422 for violations of the schema.
    pub fn invalid(&self, causes: &[Cause]) -> Answer {
        let list: Vec<String> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        let joined = if let [one] = list.as_slice() {
            one.clone()
        } else {
            format!("[{}]", list.join(", "))
        };
        let mut details = self.details();
        if let Some(details) = details.as_object_mut() {
            details.insert("kind".into(), json!(self.kind));
            details.insert(
                "causes".into(),
                causes
                    .iter()
                    .map(|c| json!({"reason": c.reason, "message": c.message, "field": c.field}))
                    .collect(),
            );
        }
        let message = format!("{}.ngpc.rxt.io \"{}\" is invalid: {joined}", self.kind, self.name);
        Answer::json(422, &status(422, "Invalid", &message, &details))
    }

    /// The Status that says a deletion was taken.
    pub fn deleted(&self, uid: &str) -> Answer {
        let details = json!({"name": self.name, "group": "ngpc.rxt.io", "kind": self.plural, "uid": uid});
        Answer::json(
            200,
            &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}),
        )
    }
}

fn status(code: u16, reason: &str, message: &str, details: &Value) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "details": details, "code": code,
    })
}

/// Decodes `a=b&c=d`.
pub(crate) fn form(text: &str) -> Vec<(String, String)> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (unescape(key), unescape(value))
        })
        .collect()
}

/// Decodes percent escapes and `+`; what is no escape stays as it is.
pub(crate) fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        let escaped = (*first == b'%')
            .then(|| tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok()))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (escaped, *first) {
            (Some(byte), _) => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            (None, b'+') => bytes.push(b' '),
            (None, byte) => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_and_queries_are_decoded() {
        let call = Call {
            query: "labelSelector=ngpc.rxt.io%2Fcloudspace%3Da+b&limit=5&%zz=1".into(),
            ..Call::default()
        };
        assert_eq!(
            call.parameter("labelSelector").as_deref(),
            Some("ngpc.rxt.io/cloudspace=a b")
        );
        assert_eq!(call.parameter("limit").as_deref(), Some("5"));
        assert_eq!(call.parameter("%zz").as_deref(), Some("1"));
    }
}

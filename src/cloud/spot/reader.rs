//! Reads the platform's JSON by path, so that a missing or wrong field is reported where it is.
//!
//! The platform's published interface and its answers differ in both directions (rackspace-spot §3.3: fields missing from the document, present
//! live), so unknown fields are ignored and only what is used is required. Called by `types`.

use chrono::{DateTime, Utc};
use serde_json::Value;
use std::collections::BTreeMap;
use thiserror::Error;

/// A field that is missing or not what it must be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{path}: {problem}")]
pub struct FieldError {
    /// Where, from the top of the answer.
    pub path: String,
    /// What is wrong.
    pub problem: &'static str,
}

/// A place in an answer.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    value: Option<&'a Value>,
    path: String,
}

impl<'a> Reader<'a> {
    /// The top of an answer.
    pub fn new(value: &'a Value) -> Self {
        Self {
            value: Some(value),
            path: String::new(),
        }
    }

    /// The place below; absent when there is none.
    pub fn at(&self, field: &str) -> Self {
        let path = if self.path.is_empty() {
            field.to_owned()
        } else {
            format!("{}.{field}", self.path)
        };
        Self {
            value: self.value.and_then(|v| v.get(field)),
            path,
        }
    }

    /// Whether something other than `null` is there.
    pub fn is_present(&self) -> bool {
        self.raw().is_some()
    }

    fn error(&self, problem: &'static str) -> FieldError {
        let path = if self.path.is_empty() {
            "(top)".to_owned()
        } else {
            self.path.clone()
        };
        FieldError { path, problem }
    }

    /// A text that must be there and not be empty.
    pub fn text(&self) -> Result<&'a str, FieldError> {
        match self.raw() {
            None => Err(self.error("is missing")),
            Some(Value::String(text)) if text.is_empty() => Err(self.error("is empty")),
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(self.error("is not a string")),
        }
    }

    /// A text that may be missing; of another type it counts as missing.
    pub fn optional_text(&self) -> Option<&'a str> {
        self.value.and_then(Value::as_str)
    }

    /// A whole number that may be missing; also written as a string.
    pub fn optional_integer(&self) -> Option<i64> {
        let value = self.value?;
        value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
    }

    /// A value as it is, if there and not `null`.
    pub fn raw(&self) -> Option<&'a Value> {
        self.value.filter(|value| !value.is_null())
    }

    /// An instant in RFC 3339 that may be missing.
    pub fn optional_instant(&self) -> Option<DateTime<Utc>> {
        DateTime::parse_from_rfc3339(self.optional_text()?)
            .ok()
            .map(|t| t.with_timezone(&Utc))
    }

    /// A map of texts; empty when missing, entries of other types are left out.
    pub fn text_map(&self) -> BTreeMap<String, String> {
        let Some(Value::Object(map)) = self.value else {
            return BTreeMap::new();
        };
        map.iter()
            .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
            .collect()
    }

    /// The keys of an object; empty when missing.
    pub fn keys(&self) -> Result<Vec<&'a str>, FieldError> {
        match self.raw() {
            None => Ok(Vec::new()),
            Some(Value::Object(map)) => Ok(map.keys().map(String::as_str).collect()),
            Some(_) => Err(self.error("is not an object")),
        }
    }

    /// The entries of a list that must be there (`null` is an empty list, as Go writes it).
    pub fn items(&self) -> Result<Vec<Self>, FieldError> {
        match self.value {
            None => Err(self.error("is missing")),
            Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => Ok(items
                .iter()
                .enumerate()
                .map(|(i, value)| Self {
                    value: Some(value),
                    path: format!("{}[{i}]", self.path),
                })
                .collect()),
            Some(_) => Err(self.error("is not a list")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_field_is_reported_by_its_path() {
        let value = serde_json::json!({"items": [{"spec": {"region": "r"}}, {"spec": {}}]});
        let items = Reader::new(&value).at("items").items().unwrap();
        assert_eq!(items[0].at("spec").at("region").text().unwrap(), "r");
        let error = items[1].at("spec").at("region").text().unwrap_err();
        assert_eq!(error.to_string(), "items[1].spec.region: is missing");
        let wrong = serde_json::json!({"metadata": {"name": 7}});
        assert_eq!(
            Reader::new(&wrong)
                .at("metadata")
                .at("name")
                .text()
                .unwrap_err()
                .to_string(),
            "metadata.name: is not a string"
        );
    }
}

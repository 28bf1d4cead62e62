//! Fields of spans and events as JSON values, in the order in which they were given.
//!
//! Used by [`LogLayer`](super::LogLayer). Numbers and booleans stay what they are, everything else is a text, except two things that upstream shows as
//! objects: references (`NodeClaim="default-x"` becomes `{"name":"default-x"}`) and what is wrapped in [`Structured`](crate::telemetry::Structured).

use crate::telemetry::{Structured, with_causes};
use serde_json::{Value, json};
use std::fmt::Debug;
use tracing::field::{Field, Visit};

/// Keys whose text is the name of an object, or `namespace/name`.
const REFERENCES: [&str; 5] = ["NodeClaim", "NodePool", "Node", "Pod", "RackspaceSpotNodeClass"];

/// Fields in order; a key that comes again replaces the value and keeps the place.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields {
    pub(super) message: String,
    pub(super) entries: Vec<(&'static str, Value)>,
}

impl Fields {
    pub(super) fn put(&mut self, key: &'static str, value: Value) {
        match self.entries.iter_mut().find(|(present, _)| *present == key) {
            Some((_, present)) => *present = value,
            None => self.entries.push((key, value)),
        }
    }

    fn put_text(&mut self, key: &'static str, text: &str) {
        if key == "message" {
            text.clone_into(&mut self.message);
        } else if REFERENCES.contains(&key) {
            self.put(key, reference(text));
        } else {
            self.put(
                key,
                Structured::decode(text).unwrap_or_else(|| Value::String(text.to_owned())),
            );
        }
    }
}

fn reference(text: &str) -> Value {
    if let Some(structured) = Structured::decode(text) {
        return structured;
    }
    match text.split_once('/') {
        Some((namespace, name)) => json!({ "name": name, "namespace": namespace }),
        None => json!({ "name": text }),
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_text(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put_text(field.name(), &with_causes(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put_text(field.name(), &format!("{value:?}"));
    }
}

//! Schema defaults: filled in from the outside inwards, so that the defaults of a defaulted object apply too.
//!
//! A null where the schema has a default and does not allow null counts as absent. Called by [`super::super::defaults`].

use super::rules::CustomSchema;
use super::schema::Schema;
use serde_json::Value;

/// Fills in the defaults of a custom kind.
pub(crate) fn apply_schema_defaults(schema: &CustomSchema, object: &mut Value) {
    fill(&schema.compiled.schema, object);
}

fn fill(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, below) in &schema.properties {
                let Some(default) = &below.default else { continue };
                let absent = map.get(key).is_none_or(|v| v.is_null() && !below.nullable);
                if absent {
                    map.insert(key.clone(), default.clone());
                }
            }
            for (key, child) in map.iter_mut() {
                if let Some(below) = schema.properties.get(key).or(schema.additional.as_deref()) {
                    fill(below, child);
                }
            }
        }
        Value::Array(items) => {
            if let Some(below) = &schema.items {
                for item in items {
                    fill(below, item);
                }
            }
        }
        _ => {}
    }
}

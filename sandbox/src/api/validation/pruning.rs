//! Dropping the fields that a schema does not know, and naming them for strict clients.
//!
//! Called by [`super::rules`].

use super::schema::Schema;
use serde_json::Value;

/// Prunes an object; returns the paths of what was dropped.
pub(crate) fn prune(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut dropped = Vec::new();
    walk(schema, object, "", Root::Yes, &mut dropped);
    dropped
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Root {
    Yes,
    No,
}

fn walk(schema: &Schema, value: &mut Value, path: &str, root: Root, dropped: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let object_meta = root == Root::Yes || schema.embedded;
            let known = |key: &str| {
                schema.properties.contains_key(key)
                    || (object_meta && matches!(key, "apiVersion" | "kind" | "metadata"))
            };
            if schema.additional.is_none() && !schema.preserve_unknown {
                let unknown: Vec<String> = map.keys().filter(|k| !known(k)).cloned().collect();
                for key in unknown {
                    map.remove(&key);
                    dropped.push(join(path, &key));
                }
            }
            for (key, child) in map.iter_mut() {
                if object_meta && key == "metadata" {
                    continue;
                }
                let below = schema.properties.get(key).or(schema.additional.as_deref());
                if let Some(below) = below {
                    walk(below, child, &join(path, key), Root::No, dropped);
                }
            }
        }
        Value::Array(items) => {
            if let Some(below) = &schema.items {
                for (at, item) in items.iter_mut().enumerate() {
                    walk(below, item, &format!("{path}[{at}]"), Root::No, dropped);
                }
            }
        }
        _ => {}
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

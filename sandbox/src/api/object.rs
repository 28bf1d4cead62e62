//! Reading and editing the metadata of a JSON object without ever failing on its shape.
//!
//! Relies on bodies having been checked to be objects with an object `metadata` ([`super::write`]); anything else reads as absent.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The text at a JSON pointer, or "".
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a JSON pointer.
pub(crate) fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

/// The list at a JSON pointer, empty when absent.
pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub(crate) fn resource_version(object: &Value) -> &str {
    text(object, "/metadata/resourceVersion")
}

pub(crate) fn generation(object: &Value) -> Option<i64> {
    number(object, "/metadata/generation")
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|v| !v.is_null())
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    list(object, "/metadata/finalizers")
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

/// The labels at a JSON pointer, sorted.
pub(crate) fn labels_at<'a>(object: &'a Value, pointer: &str) -> BTreeMap<&'a str, &'a str> {
    let map = object.pointer(pointer).and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)))
        .collect()
}

/// One label.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// The status of a condition, "" when absent.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    let found = list(object, "/status/conditions")
        .iter()
        .find(|c| text(c, "/type") == kind);
    found.map_or("", |c| text(c, "/status"))
}

/// Edits `metadata`, which is made when absent.
pub(crate) fn edit_meta<T: Default>(object: &mut Value, edit: impl FnOnce(&mut Map<String, Value>) -> T) -> T {
    edit_at(object, "metadata", edit)
}

/// Edits the object under a key of the root, which is made when absent.
pub(crate) fn edit_at<T: Default>(object: &mut Value, key: &str, edit: impl FnOnce(&mut Map<String, Value>) -> T) -> T {
    let Value::Object(root) = object else {
        return T::default();
    };
    let slot = root.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(map) => edit(map),
        _ => T::default(),
    }
}

/// Sets a metadata field.
pub(crate) fn set_meta(object: &mut Value, key: &str, value: impl Into<Value>) {
    let value = value.into();
    edit_meta(object, |m| {
        m.insert(key.to_owned(), value);
    });
}

/// Removes a metadata field.
pub(crate) fn remove_meta(object: &mut Value, key: &str) {
    edit_meta(object, |m| {
        m.remove(key);
    });
}

/// Copies the value under a root key from another object, absence included.
pub(crate) fn copy_root(target: &mut Value, source: &Value, key: &str) {
    let Value::Object(root) = target else { return };
    match source.get(key) {
        Some(value) => {
            root.insert(key.to_owned(), value.clone());
        }
        None => {
            root.remove(key);
        }
    }
}

/// Copies a metadata field from another object, absence included.
pub(crate) fn copy_meta(target: &mut Value, source: &Value, key: &str) {
    match source.get("metadata").and_then(|m| m.get(key)) {
        Some(value) => set_meta(target, key, value.clone()),
        None => remove_meta(target, key),
    }
}

/// An instant as `metav1.Time` writes it: whole seconds.
pub(crate) fn time_text(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Reads an instant.
pub(crate) fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|t| t.with_timezone(&Utc))
}

/// Sets a default under a map when the key is absent or null.
pub(crate) fn default_to(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), value.into());
    }
}

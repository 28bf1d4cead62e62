//! Server-side apply as a three-way merge: what this manager applied before, what it applies now, what is there.
//!
//! Differs from upstream: who owns which field is remembered per manager as its last applied object, not per field; managers do not conflict.

use super::super::error::ApiError;
use super::super::kinds::Resource;
use super::super::store::ObjectKey;
use super::strategic::{ListMerge, key_of, list_merge, merge};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

type Slot = (String, ObjectKey, String);

/// What each field manager applied last, by kind, object and manager.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    last: BTreeMap<Slot, Value>,
}

impl Applied {
    pub(crate) fn get(&self, slot: &Slot) -> Option<&Value> {
        self.last.get(slot)
    }

    pub(crate) fn set(&mut self, slot: Slot, applied: Value) {
        self.last.insert(slot, applied);
    }
}

/// Reads a body as YAML, of which JSON is a part.
pub(crate) fn parse_yaml(body: &[u8]) -> Result<Value, ApiError> {
    let text = std::str::from_utf8(body).map_err(|e| ApiError::bad_request(format!("error decoding body: {e}")))?;
    let value: Value =
        serde_saphyr::from_str(text).map_err(|e| ApiError::bad_request(format!("error decoding body: {e}")))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(ApiError::bad_request("the body is not an object"))
    }
}

/// The object after an apply.
pub(crate) fn three_way(resource: &Resource, before: Option<&Value>, wanted: &Value, current: &Value) -> Value {
    let lists = if resource.built_in().is_some() {
        Lists::Merged
    } else {
        Lists::Atomic
    };
    let mut new = current.clone();
    if let Some(before) = before {
        withdraw(&mut new, before, wanted, lists);
    }
    match lists {
        Lists::Merged => merge(&mut new, wanted),
        Lists::Atomic => json_patch::merge(&mut new, wanted),
    }
    new
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lists {
    Merged,
    Atomic,
}

/// Takes away what was applied before and is not applied any more.
fn withdraw(current: &mut Value, before: &Value, wanted: &Value, lists: Lists) {
    let (Value::Object(present), Value::Object(before)) = (current, before) else {
        return;
    };
    let none = Value::Object(Map::new());
    for (name, old) in before {
        let next = wanted.get(name);
        let Some(slot) = present.get_mut(name) else { continue };
        match (old, next) {
            (Value::Object(_), _) if slot.is_object() => {
                withdraw(slot, old, next.unwrap_or(&none), lists);
                if next.is_none() && slot.as_object().is_some_and(Map::is_empty) {
                    present.remove(name);
                }
            }
            (Value::Array(old), Some(Value::Array(next))) if lists == Lists::Merged => {
                withdraw_elements(slot, old, next, list_merge(name));
            }
            (_, None) => {
                present.remove(name);
            }
            _ => {}
        }
    }
}

fn withdraw_elements(slot: &mut Value, old: &[Value], next: &[Value], how: ListMerge) {
    let Value::Array(present) = slot else { return };
    let kept = |item: &Value| {
        let in_list = |list: &[Value]| match how {
            ListMerge::ByKey(keys) => {
                key_of(item, keys).is_some_and(|(k, id)| list.iter().any(|o| o.get(k) == Some(id)))
            }
            ListMerge::Set | ListMerge::Replace => list.contains(item),
        };
        in_list(next) || !in_list(old)
    };
    present.retain(kept);
}

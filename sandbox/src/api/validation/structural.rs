//! The structural part of a schema: types, required fields, enums, patterns, bounds, list types.
//!
//! What did not change since the old object is not judged again (ratcheting, as upstream since 1.33): an update may keep what a newer schema
//! would refuse. Called by [`super::rules`].

use super::super::error::Cause;
use super::formats;
use super::schema::{ListType, Schema, type_name};
use serde_json::Value;
use std::borrow::Cow;

/// All that is wrong with an object.
pub(crate) fn judge(schema: &Schema, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    walk(schema, object, old, "", &mut causes);
    causes
}

/// Whether rules cannot be evaluated because of a cause.
pub(crate) fn blocks_rules(cause: &Cause) -> bool {
    matches!(
        cause.reason.as_ref(),
        "FieldValueRequired" | "FieldValueTooLong" | "FieldValueTooMany" | "FieldValueTypeInvalid"
    )
}

fn walk(schema: &Schema, value: &Value, old: Option<&Value>, path: &str, causes: &mut Vec<Cause>) {
    if old == Some(value) {
        return;
    }
    if value.is_null() && schema.nullable {
        return;
    }
    if !type_fits(schema, value, path, causes) {
        return;
    }
    one_of_values(schema, value, path, causes);
    match value {
        Value::String(text) => string(schema, text, path, causes),
        Value::Number(number) => bounds(schema, number, path, causes),
        Value::Array(items) => array(schema, items, old, path, causes),
        Value::Object(map) => object(schema, map, old, path, causes),
        Value::Null | Value::Bool(_) => {}
    }
    combinations(schema, value, path, causes);
}

fn named(path: &str) -> &str {
    if path.is_empty() { "<nil>" } else { path }
}

fn cause(path: &str, reason: &'static str, message: String) -> Cause {
    Cause {
        field: named(path).to_owned(),
        reason: Cow::Borrowed(reason),
        message,
    }
}

fn type_fits(schema: &Schema, value: &Value, path: &str, causes: &mut Vec<Cause>) -> bool {
    let is = type_name(value);
    match schema.kind {
        Some(kind) if !kind.fits(value) => {
            let message = format!(
                "Invalid value: \"{is}\": {path} in body must be of type {}: \"{is}\"",
                kind.name()
            );
            causes.push(cause(path, "FieldValueTypeInvalid", message));
            false
        }
        _ => true,
    }
}

fn one_of_values(schema: &Schema, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if let Some(values) = &schema.values
        && !values.contains(value)
    {
        let supported = values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
        let message = format!("Unsupported value: {value}: supported values: {supported}");
        causes.push(cause(path, "FieldValueNotSupported", message));
    }
}

fn string(schema: &Schema, text: &str, path: &str, causes: &mut Vec<Cause>) {
    let shown = Value::from(text).to_string();
    let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    if let Some(most) = schema.limits.max_length.filter(|m| length > *m) {
        causes.push(cause(
            path,
            "FieldValueTooLong",
            format!("Too long: may not be more than {most} bytes"),
        ));
    }
    if let Some(least) = schema.limits.min_length.filter(|m| length < *m) {
        let why = format!("{path} in body should be at least {least} chars long");
        causes.push(Cause::invalid(named(path), &shown, why));
    }
    if let Some((source, regex)) = &schema.pattern
        && !regex.as_ref().is_some_and(|r| r.is_match(text))
    {
        causes.push(Cause::invalid(
            named(path),
            &shown,
            format!("{path} in body should match '{source}'"),
        ));
    }
    if !formats::fits(&schema.format, text) {
        let why = format!("{path} in body must be of type {}: {shown}", schema.format);
        causes.push(Cause::invalid(named(path), &shown, why));
    }
}

fn bounds(schema: &Schema, number: &serde_json::Number, path: &str, causes: &mut Vec<Cause>) {
    let shown = number.to_string();
    let Some(value) = number.as_f64() else { return };
    let mut refuse = |why: String| causes.push(Cause::invalid(named(path), &shown, why));
    let limits = &schema.limits;
    if let Some(least) = limits.minimum {
        if limits.exclusive_minimum && value <= least {
            refuse(format!("{path} in body should be greater than {least}"));
        } else if value < least {
            refuse(format!("{path} in body should be greater than or equal to {least}"));
        }
    }
    if let Some(most) = limits.maximum {
        if limits.exclusive_maximum && value >= most {
            refuse(format!("{path} in body should be less than {most}"));
        } else if value > most {
            refuse(format!("{path} in body should be less than or equal to {most}"));
        }
    }
    if let Some(step) = limits.multiple_of.filter(|s| *s != 0.0 && (value / s).fract() != 0.0) {
        refuse(format!("{path} in body should be a multiple of {step}"));
    }
    let too_wide = schema.format == "int32" && number.as_i64().is_none_or(|n| i32::try_from(n).is_err());
    if too_wide {
        refuse(format!("{path} in body must be of type int32: \"{shown}\""));
    }
}

fn array(schema: &Schema, items: &[Value], old: Option<&Value>, path: &str, causes: &mut Vec<Cause>) {
    let length = u64::try_from(items.len()).unwrap_or(u64::MAX);
    if let Some(most) = schema.limits.max_items.filter(|m| length > *m) {
        causes.push(cause(
            path,
            "FieldValueTooMany",
            format!("Too many: {length}: must have at most {most} items"),
        ));
    }
    if let Some(least) = schema.limits.min_items.filter(|m| length < *m) {
        let why = format!("{path} in body should have at least {least} items");
        causes.push(Cause::invalid(named(path), &length.to_string(), why));
    }
    duplicates(schema, items, path, causes);
    let Some(below) = &schema.items else { return };
    for (at, item) in items.iter().enumerate() {
        walk(
            below,
            item,
            same_element(schema, item, old),
            &format!("{path}[{at}]"),
            causes,
        );
    }
}

fn keys_of<'a>(item: &'a Value, keys: &[String]) -> Vec<Option<&'a Value>> {
    keys.iter().map(|k| item.get(k)).collect()
}

/// The element of the old list that an element is compared with; only lists with keys have one.
fn same_element<'a>(schema: &Schema, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
    let (Some(ListType::Map(keys)), Some(Value::Array(before))) = (&schema.list, old) else {
        return None;
    };
    before.iter().find(|b| keys_of(b, keys) == keys_of(item, keys))
}

fn duplicates(schema: &Schema, items: &[Value], path: &str, causes: &mut Vec<Cause>) {
    for (at, item) in items.iter().enumerate() {
        let before = items.iter().take(at);
        let (again, shown) = match &schema.list {
            Some(ListType::Set) => (before.into_iter().any(|b| b == item), item.to_string()),
            Some(ListType::Map(keys)) => {
                let own = keys_of(item, keys);
                let shown: serde_json::Map<String, Value> = keys
                    .iter()
                    .filter_map(|k| Some((k.clone(), item.get(k)?.clone())))
                    .collect();
                (
                    before.into_iter().any(|b| keys_of(b, keys) == own),
                    Value::Object(shown).to_string(),
                )
            }
            _ => return,
        };
        if again {
            causes.push(Cause::duplicate(format!("{path}[{at}]"), &shown));
        }
    }
}

fn object(
    schema: &Schema,
    map: &serde_json::Map<String, Value>,
    old: Option<&Value>,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    let below = |key: &str| {
        if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}.{key}")
        }
    };
    for key in &schema.required {
        if !map.contains_key(key) {
            causes.push(Cause::required(below(key), ""));
        }
    }
    let length = u64::try_from(map.len()).unwrap_or(u64::MAX);
    if let Some(most) = schema.limits.max_properties.filter(|m| length > *m) {
        causes.push(cause(
            path,
            "FieldValueTooMany",
            format!("Too many: {length}: must have at most {most} items"),
        ));
    }
    if let Some(least) = schema.limits.min_properties.filter(|m| length < *m) {
        let why = format!("{path} in body should have at least {least} properties");
        causes.push(Cause::invalid(named(path), &length.to_string(), why));
    }
    for (key, child) in map {
        if path.is_empty() && key == "metadata" {
            // Metadata has rules of its own.
            continue;
        }
        if let Some(schema) = schema.properties.get(key).or(schema.additional.as_deref()) {
            walk(schema, child, old.and_then(|o| o.get(key)), &below(key), causes);
        }
    }
}

fn combinations(schema: &Schema, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let fits = |s: &Schema| {
        let mut inner = Vec::new();
        walk(s, value, None, path, &mut inner);
        inner.is_empty()
    };
    for part in &schema.all_of {
        walk(part, value, None, path, causes);
    }
    let shown = || format!("\"{}\"", type_name(value));
    if !schema.any_of.is_empty() && !schema.any_of.iter().any(fits) {
        let why = format!("{path} in body must validate at least one schema (anyOf)");
        causes.push(Cause::invalid(named(path), &shown(), why));
    }
    if !schema.one_of.is_empty() && schema.one_of.iter().filter(|s| fits(s)).count() != 1 {
        let why = format!("{path} in body must validate one and only one schema (oneOf)");
        causes.push(Cause::invalid(named(path), &shown(), why));
    }
    if schema.not.as_deref().is_some_and(fits) {
        let why = format!("{path} in body must not validate the schema (not)");
        causes.push(Cause::invalid(named(path), &shown(), why));
    }
}

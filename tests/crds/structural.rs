//! A small judge of structural schemas: what the API server checks before CEL, as far as our schemas use it.
//!
//! It shares no code with the in-process API server, so that each shows the other's misreadings.

use regex::Regex;
use serde_json::Value;

/// Everything in `value` that the schema does not allow. Fields that the schema does not know are pruned by the server, so they are no fault.
pub fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(schema, value, "", &mut faults);
    faults
}

fn check(schema: &Value, value: &Value, path: &str, faults: &mut Vec<String>) {
    if schema["x-kubernetes-int-or-string"] == true {
        if !value.is_string() && !value.is_i64() && !value.is_u64() {
            faults.push(format!("{path}: neither integer nor string"));
        }
    } else if !is_of_type(schema["type"].as_str().unwrap_or_default(), value) {
        faults.push(format!("{path}: not of type {}", schema["type"]));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        faults.push(format!("{path}: {value} is none of {allowed:?}"));
    }
    match value {
        Value::String(text) => check_text(schema, text, path, faults),
        Value::Number(number) => check_number(schema, number.as_f64().unwrap(), path, faults),
        Value::Array(items) => check_list(schema, items, path, faults),
        Value::Object(fields) => check_object(schema, fields, path, faults),
        Value::Null | Value::Bool(_) => {}
    }
}

fn is_of_type(name: &str, value: &Value) -> bool {
    match name {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        other => panic!("the schema has a type that this judge does not know: {other:?}"),
    }
}

fn check_text(schema: &Value, text: &str, path: &str, faults: &mut Vec<String>) {
    if let Some(pattern) = schema["pattern"].as_str()
        && !Regex::new(pattern).unwrap().is_match(text)
    {
        faults.push(format!("{path}: {text:?} does not match {pattern}"));
    }
    let length = text.chars().count() as u64;
    outside(schema, ["minLength", "maxLength"], length, path, faults);
    if schema["format"] == "date-time" && chrono::DateTime::parse_from_rfc3339(text).is_err() {
        faults.push(format!("{path}: {text:?} is not a time"));
    }
}

fn check_number(schema: &Value, number: f64, path: &str, faults: &mut Vec<String>) {
    if schema["minimum"].as_f64().is_some_and(|minimum| number < minimum)
        || schema["maximum"].as_f64().is_some_and(|maximum| number > maximum)
    {
        faults.push(format!("{path}: {number} is out of range"));
    }
}

fn check_list(schema: &Value, items: &[Value], path: &str, faults: &mut Vec<String>) {
    outside(schema, ["minItems", "maxItems"], items.len() as u64, path, faults);
    for (index, item) in items.iter().enumerate() {
        check(&schema["items"], item, &format!("{path}[{index}]"), faults);
    }
}

fn check_object(schema: &Value, fields: &serde_json::Map<String, Value>, path: &str, faults: &mut Vec<String>) {
    outside(
        schema,
        ["minProperties", "maxProperties"],
        fields.len() as u64,
        path,
        faults,
    );
    for required in schema["required"].as_array().into_iter().flatten() {
        if !fields.contains_key(required.as_str().unwrap()) {
            faults.push(format!("{path}: {required} is missing"));
        }
    }
    for (name, value) in fields {
        let below = match (schema["properties"].get(name), schema.get("additionalProperties")) {
            (Some(property), _) => property,
            (None, Some(values)) => values,
            (None, None) => continue,
        };
        check(below, value, &format!("{path}.{name}"), faults);
    }
}

fn outside(schema: &Value, [least, most]: [&str; 2], size: u64, path: &str, faults: &mut Vec<String>) {
    if schema[least].as_u64().is_some_and(|least| size < least) {
        faults.push(format!("{path}: {size} is below {least}"));
    }
    if schema[most].as_u64().is_some_and(|most| size > most) {
        faults.push(format!("{path}: {size} is above {most}"));
    }
}

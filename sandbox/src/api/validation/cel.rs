//! The rules in `x-kubernetes-validations`, evaluated by kube-cel.
//!
//! Differs from upstream: no cost budget. Rules of what did not change are not held against an update (ratcheting), unless they compare with
//! the old object. Called by [`super::rules`].

use super::super::error::Cause;
use super::rules::Compiled;
use super::schema::type_name;
use kube_cel::{ValidationError, Validator};
use serde_json::Value;
use std::borrow::Cow;

/// The evaluator, with all functions registered once.
#[derive(Debug, Default)]
pub(crate) struct CelEngine {
    validator: Validator,
}

impl CelEngine {
    /// All rules that an object breaks.
    pub(crate) fn judge(&self, schema: &Compiled, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let Err(broken) = self.validator.validate_compiled(&schema.rules, object, old) else {
            return Vec::new();
        };
        let held = broken.into_iter().filter(|e| !is_unchanged(e, object, old));
        // The compiled schema keeps its properties unordered.
        let mut causes: Vec<Cause> = held.map(|e| cause(e, object)).collect();
        causes.sort();
        causes
    }
}

fn cause(error: ValidationError, object: &Value) -> Cause {
    let kind = at(object, &error.field_path).map_or("object", type_name);
    let message = format!("Invalid value: \"{kind}\": {}", error.message);
    let reason = error.reason.map_or(Cow::Borrowed("FieldValueInvalid"), Cow::Owned);
    Cause {
        field: error.field_path,
        reason,
        message,
    }
}

fn is_unchanged(error: &ValidationError, object: &Value, old: Option<&Value>) -> bool {
    let Some(old) = old.filter(|_| !error.rule.contains("oldSelf")) else {
        return false;
    };
    // Elements of lists cannot be told apart, so the list around them decides.
    let path = error.field_path.split('[').next().unwrap_or_default();
    at(object, path) == at(old, path)
}

/// The value at a dotted path; keys that hold dots (labels) are found by taking as much as fits.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() {
        return Some(object);
    }
    let path = path.strip_prefix('.').unwrap_or(path);
    if let Some(list) = path.strip_prefix('[') {
        let (index, rest) = list.split_once(']')?;
        return at(object.get(index.parse::<usize>().ok()?)?, rest);
    }
    let mut end = path.len();
    loop {
        let key = path.get(..end)?;
        if let Some(found) = object.get(key) {
            return at(found, path.get(end..)?);
        }
        end = key.rfind(['.', '['])?;
    }
}

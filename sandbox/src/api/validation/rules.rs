//! The order of judgement: known fields, then metadata, structure and rules, or the built-in checks.
//!
//! Called by [`super::super::write`] for every create and update.

use super::super::error::{ApiError, Cause};
use super::super::kinds::{Origin, Resource};
use super::super::object;
use super::super::quantity;
use super::super::write::Part;
use super::cel::CelEngine;
use super::schema::Schema;
use super::{core, metadata, pruning, structural};
use kube_cel::CompiledSchema;
use serde_json::Value;

/// What happens to fields that the kind does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// They are dropped.
    Drop,
    /// The request is refused.
    Refuse,
}

impl Strictness {
    pub(crate) fn parse(field_validation: &str) -> Self {
        if field_validation == "Strict" {
            Self::Refuse
        } else {
            Self::Drop
        }
    }
}

/// The rules of a custom kind.
pub struct CustomSchema {
    /// The schema as written, for `kubectl explain`.
    pub(crate) source: Value,
    pub(crate) schema: Schema,
    pub(crate) rules: CompiledSchema,
    has_rules: bool,
    status_has_rules: bool,
    /// UID and generation of the definition that it was read from.
    pub(crate) definition: String,
    pub(crate) generation: i64,
}

impl std::fmt::Debug for CustomSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CustomSchema")
            .field("definition", &self.definition)
            .finish_non_exhaustive()
    }
}

impl CustomSchema {
    pub(crate) fn compile(source: &Value, definition: &str, generation: i64) -> Self {
        let marked = |v: &Value| v.to_string().contains("x-kubernetes-validations");
        Self {
            schema: Schema::compile(source),
            rules: kube_cel::compile_schema(source),
            has_rules: marked(source),
            status_has_rules: source.pointer("/properties/status").is_some_and(marked),
            source: source.clone(),
            definition: definition.to_owned(),
            generation,
        }
    }
}

/// Keeps only the fields that exist.
pub(crate) fn shape(resource: &Resource, mut new: Value, strictness: Strictness) -> Result<Value, ApiError> {
    let (new, dropped) = match &resource.origin {
        Origin::Custom(schema) => {
            let dropped = pruning::prune(&schema.schema, &mut new);
            (new, dropped)
        }
        Origin::BuiltIn(kind) => {
            quantity::numbers_to_text(&mut new);
            let typed = (kind.decode)(&new).map_err(|e| {
                let kind = &resource.kind;
                let version = resource.api_version();
                ApiError::bad_request(format!(
                    "{kind} in version {version:?} cannot be handled as a {kind}: {e}"
                ))
            })?;
            let mut dropped = Vec::new();
            if strictness == Strictness::Refuse {
                missing(&new, &typed, "", &mut dropped);
            }
            (typed, dropped)
        }
    };
    if strictness == Strictness::Refuse && !dropped.is_empty() {
        let list: Vec<String> = dropped.iter().map(|path| format!("unknown field {path:?}")).collect();
        let words = format!(
            "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
            resource.kind,
            resource.version,
            resource.kind,
            list.join(", ")
        );
        return Err(ApiError::bad_request(words));
    }
    Ok(new)
}

/// The paths that are in `wide` and not in `narrow`.
fn missing(wide: &Value, narrow: &Value, path: &str, found: &mut Vec<String>) {
    match (wide, narrow) {
        (Value::Object(wide), Value::Object(narrow)) => {
            for (key, value) in wide.iter().filter(|(_, v)| !v.is_null()) {
                let below = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                match narrow.get(key) {
                    Some(other) => missing(value, other, &below, found),
                    None => found.push(below),
                }
            }
        }
        (Value::Array(wide), Value::Array(narrow)) => {
            for (at, (value, other)) in wide.iter().zip(narrow).enumerate() {
                missing(value, other, &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}

/// Judges an object that is to be stored.
pub(crate) fn check(
    cel: &mut CelEngine,
    resource: &Resource,
    new: &Value,
    old: Option<&Value>,
    part: Part,
) -> Result<(), ApiError> {
    let mut causes = metadata::judge(resource, new, old);
    match &resource.origin {
        Origin::BuiltIn(_) => causes.extend(core::judge(resource, new, old, part)),
        Origin::Custom(schema) => {
            let found = structural::judge(&schema.schema, new, old);
            let blocked = found.iter().any(structural::blocks_rules);
            causes.extend(found);
            // A status write cannot break a rule of the spec.
            let concerned = if part == Part::Status {
                schema.status_has_rules
            } else {
                schema.has_rules
            };
            if blocked && concerned {
                let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
                causes.push(Cause::invalid("<nil>", "null", why));
            } else if concerned {
                causes.extend(cel.judge(schema, new, old));
            }
        }
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid(resource, object::name(new), &causes))
    }
}

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
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// So many schemas are kept ready.
const MOST_KNOWN: usize = 32;

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

/// A schema made ready for use. To make it costs as much as a small world, and many worlds have the same ones.
pub(crate) struct Compiled {
    /// The schema as written, for `kubectl explain`.
    pub(crate) source: Value,
    pub(crate) schema: Schema,
    pub(crate) rules: CompiledSchema,
    has_rules: bool,
    status_has_rules: bool,
    root_has_rules: bool,
    /// Fields of the root with rules, and whether these must be asked even where nothing changed.
    ruled: BTreeMap<String, Unchanged>,
}

/// The rules of a custom kind.
pub struct CustomSchema {
    pub(crate) compiled: Arc<Compiled>,
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
        Self {
            compiled: Compiled::shared(source),
            definition: definition.to_owned(),
            generation,
        }
    }
}

impl Compiled {
    /// The same for all who bring the same source.
    fn shared(source: &Value) -> Arc<Self> {
        static KNOWN: Mutex<Vec<Arc<Compiled>>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.iter().find(|known| known.source == *source) {
            return Arc::clone(found);
        }
        let fresh = Arc::new(Self::of(source));
        if known.len() >= MOST_KNOWN {
            known.remove(0);
        }
        known.push(Arc::clone(&fresh));
        fresh
    }

    fn of(source: &Value) -> Self {
        let properties = source.get("properties").and_then(Value::as_object);
        let fields = properties.into_iter().flatten();
        let mut root = source.clone();
        if let Value::Object(root) = &mut root {
            root.remove("properties");
        }
        Self {
            schema: Schema::compile(source),
            rules: kube_cel::compile_schema(source),
            has_rules: has_rules(source),
            status_has_rules: source.pointer("/properties/status").is_some_and(has_rules),
            root_has_rules: has_rules(&root),
            ruled: fields
                .filter(|(_, schema)| has_rules(schema))
                .map(|(name, schema)| (name.clone(), Unchanged::under(schema)))
                .collect(),
            source: source.clone(),
        }
    }

    /// Whether no rule can be broken by a change from one object to another: none concerns what changed, and what did not is left alone
    /// (ratcheting).
    fn is_unconcerned(&self, new: &Value, old: &Value) -> bool {
        let unconcerned =
            |(name, unchanged): (&String, &Unchanged)| *unchanged == Unchanged::Holds && new.get(name) == old.get(name);
        !self.root_has_rules && self.ruled.iter().all(unconcerned)
    }
}

fn has_rules(schema: &Value) -> bool {
    schema.to_string().contains("x-kubernetes-validations")
}

/// What rules say of a value that did not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unchanged {
    /// They hold, or are not held against it (ratcheting).
    Holds,
    /// Nobody knows: one compares with the old value, and not just for equality.
    IsAsked,
}

impl Unchanged {
    fn under(schema: &Value) -> Self {
        let asked = match schema {
            Value::Object(map) => map.iter().any(|(key, value)| match value {
                Value::String(rule) if key == "rule" => rule.contains("oldSelf") && rule != "self == oldSelf",
                below => Self::under(below) == Self::IsAsked,
            }),
            Value::Array(items) => items.iter().any(|item| Self::under(item) == Self::IsAsked),
            _ => false,
        };
        if asked { Self::IsAsked } else { Self::Holds }
    }
}

/// Keeps only the fields that exist.
pub(crate) fn shape(resource: &Resource, mut new: Value, strictness: Strictness) -> Result<Value, ApiError> {
    let (new, dropped) = match &resource.origin {
        Origin::Custom(schema) => {
            let dropped = pruning::prune(&schema.compiled.schema, &mut new);
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
            let schema = &schema.compiled;
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
            } else if concerned && !old.is_some_and(|old| schema.is_unconcerned(new, old)) {
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

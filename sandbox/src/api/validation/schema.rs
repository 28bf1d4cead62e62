//! A CRD's OpenAPI schema, read once: what [`super::structural`], [`super::pruning`] and [`super::defaulting`] walk.
//!
//! Only what structural schemas may hold. Patterns are compiled here; one that does not compile rejects every value, so it cannot pass unseen.

use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a JSON value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// Either, as quantities and percentages are (`x-kubernetes-int-or-string`).
    IntOrString,
}

impl Type {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntOrString => "integer,string",
        }
    }

    pub(crate) fn fits(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Object, Value::Object(_))
            | (Self::Array, Value::Array(_))
            | (Self::String | Self::IntOrString, Value::String(_))
            | (Self::Number, Value::Number(_))
            | (Self::Boolean, Value::Bool(_)) => true,
            (Self::Integer | Self::IntOrString, Value::Number(n)) => {
                n.is_i64() || n.is_u64() || n.as_f64().is_some_and(|f| f.fract() == 0.0)
            }
            _ => false,
        }
    }
}

/// The name of a value's own type, as error texts say it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// How the elements of a list are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListType {
    Atomic,
    Set,
    Map(Vec<String>),
}

/// Counts and bounds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) minimum: Option<f64>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<f64>,
}

/// One node of a schema.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schema {
    pub(crate) kind: Option<Type>,
    pub(crate) nullable: bool,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded: bool,
    pub(crate) properties: BTreeMap<String, Schema>,
    pub(crate) additional: Option<Box<Schema>>,
    pub(crate) items: Option<Box<Schema>>,
    pub(crate) required: Vec<String>,
    pub(crate) values: Option<Vec<Value>>,
    pub(crate) pattern: Option<(String, Option<Regex>)>,
    pub(crate) format: String,
    pub(crate) limits: Limits,
    pub(crate) default: Option<Value>,
    pub(crate) list: Option<ListType>,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Box<Schema>>,
}

impl Schema {
    /// Reads a schema.
    pub(crate) fn compile(source: &Value) -> Self {
        let flag = |key: &str| source.get(key).and_then(Value::as_bool) == Some(true);
        let text = |key: &str| source.get(key).and_then(Value::as_str).unwrap_or_default();
        let many = |key: &str| source.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let texts = |key: &str| {
            many(key)
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let schemas = |key: &str| many(key).iter().map(Self::compile).collect::<Vec<_>>();
        let properties = source.get("properties").and_then(Value::as_object);
        let additional = match source.get("additionalProperties") {
            Some(Value::Bool(true)) => Some(Box::new(Self {
                preserve_unknown: true,
                ..Self::default()
            })),
            Some(schema @ Value::Object(_)) => Some(Box::new(Self::compile(schema))),
            _ => None,
        };
        let pattern = Some(text("pattern")).filter(|p| !p.is_empty());
        Self {
            kind: if flag("x-kubernetes-int-or-string") {
                Some(Type::IntOrString)
            } else {
                Type::parse(text("type"))
            },
            nullable: flag("nullable"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            properties: properties
                .into_iter()
                .flatten()
                .map(|(k, v)| (k.clone(), Self::compile(v)))
                .collect(),
            additional,
            items: source
                .get("items")
                .filter(|i| i.is_object())
                .map(|i| Box::new(Self::compile(i))),
            required: texts("required"),
            values: source.get("enum").and_then(Value::as_array).cloned(),
            pattern: pattern.map(|p| (p.to_owned(), Regex::new(p).ok())),
            format: text("format").to_owned(),
            limits: limits(source),
            default: source.get("default").cloned(),
            list: match text("x-kubernetes-list-type") {
                "set" => Some(ListType::Set),
                "map" => Some(ListType::Map(texts("x-kubernetes-list-map-keys"))),
                "atomic" => Some(ListType::Atomic),
                _ => None,
            },
            all_of: schemas("allOf"),
            any_of: schemas("anyOf"),
            one_of: schemas("oneOf"),
            not: source.get("not").map(|n| Box::new(Self::compile(n))),
        }
    }
}

fn limits(source: &Value) -> Limits {
    let count = |key: &str| source.get(key).and_then(Value::as_u64);
    let bound = |key: &str| source.get(key).and_then(Value::as_f64);
    let flag = |key: &str| source.get(key).and_then(Value::as_bool) == Some(true);
    Limits {
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        minimum: bound("minimum"),
        maximum: bound("maximum"),
        exclusive_minimum: flag("exclusiveMinimum"),
        exclusive_maximum: flag("exclusiveMaximum"),
        multiple_of: bound("multipleOf"),
    }
}

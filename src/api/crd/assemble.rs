//! From a type to a definition: the derived schema, tidied, with fragments laid over it by path.
//!
//! Relies on schemars; called by `kinds`.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// One CustomResourceDefinition, ready to be written or served.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The name of its file, as upstream names it.
    pub file_name: String,
    /// The whole manifest.
    pub manifest: Value,
}

impl Definition {
    /// Puts the definition's parts together.
    pub(in crate::api) fn new(mut manifest: Value, schema: &Schema) -> Self {
        let kind = text(&manifest, "/spec/names/kind");
        let (group, plural) = (text(&manifest, "/spec/group"), text(&manifest, "/spec/names/plural"));
        if let Some(names) = manifest.pointer_mut("/spec/names") {
            names["listKind"] = json!(format!("{kind}List"));
        }
        if let Some(version) = manifest.pointer_mut("/spec/versions/0") {
            version["schema"] = json!({ "openAPIV3Schema": schema.0 });
        }
        Self {
            file_name: format!("{group}_{plural}.yaml"),
            manifest: sorted(manifest),
        }
    }

    /// The kind that it defines.
    pub fn kind(&self) -> String {
        text(&self.manifest, "/spec/names/kind")
    }

    /// The schema of its only version.
    pub fn schema(&self) -> &Value {
        self.manifest
            .pointer("/spec/versions/0/schema/openAPIV3Schema")
            .unwrap_or(&Value::Null)
    }
}

fn text(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// A structural schema under construction.
///
/// Paths name properties, separated by dots; `[]` steps into the items of a list, `{}` into the values of a map.
pub(in crate::api) struct Schema(Value);

impl Schema {
    /// The schema that a type derives, without what Kubernetes does not take or upstream does not have.
    pub(in crate::api) fn of<T: JsonSchema>() -> Self {
        let generator = SchemaSettings::openapi3()
            .with(|settings| {
                settings.inline_subschemas = true;
                settings.meta_schema = None;
            })
            .into_generator();
        let mut schema = generator.into_root_schema_for::<T>().to_value();
        tidy(&mut schema);
        Self(schema)
    }

    /// The schema of a whole object.
    pub(in crate::api) fn object(description: &str, required: &[&str], spec: Self, status: Self) -> Self {
        let mut schema = json!({
            "description": description,
            "properties": {
                "apiVersion": { "description": "Version of the schema that the object is written in.", "type": "string" },
                "kind": { "description": "Kind of the object.", "type": "string" },
                "metadata": { "type": "object" },
            },
            "type": "object",
        });
        schema["properties"]["spec"] = spec.0;
        schema["properties"]["status"] = status.0;
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        Self(schema)
    }

    /// Lays the fragment's keywords over what is at the path.
    pub(in crate::api) fn merge(mut self, path: &str, fragment: Value) -> Self {
        let place = locate(&mut self.0, path);
        if let (Value::Object(place), Value::Object(fragment)) = (place, fragment) {
            place.extend(fragment);
        }
        self
    }

    /// Puts the fragment in the place of what is at the path; only a description of its own survives.
    pub(in crate::api) fn replace(mut self, path: &str, mut fragment: Value) -> Self {
        let place = locate(&mut self.0, path);
        if let (Some(description), Value::Object(fragment)) = (place.get("description").cloned(), &mut fragment) {
            fragment.entry("description").or_insert(description);
        }
        *place = fragment;
        self
    }
}

/// The subschema at a path; a path that leads nowhere makes one, which the golden test then shows.
fn locate<'s>(schema: &'s mut Value, path: &str) -> &'s mut Value {
    path.split('.')
        .filter(|step| !step.is_empty())
        .fold(schema, |schema, step| {
            let name = step.trim_end_matches("[]").trim_end_matches("{}");
            let property = if name.is_empty() {
                schema
            } else {
                &mut schema["properties"][name]
            };
            match step.get(name.len()..) {
                Some("[]") => &mut property["items"],
                Some("{}") => &mut property["additionalProperties"],
                _ => property,
            }
        })
}

/// Removes what schemars says and a Kubernetes schema of ours does not: null, titles, serde's defaults; keeps the first paragraph of a description.
fn tidy(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    for keyword in ["nullable", "title", "default", "$schema"] {
        keywords.remove(keyword);
    }
    if let Some(Value::String(description)) = keywords.get_mut("description") {
        let first = description.split("\n\n").next().unwrap_or_default();
        *description = first.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    if let Some(Value::Object(properties)) = keywords.get_mut("properties") {
        properties.values_mut().for_each(tidy);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = keywords.get_mut(keyword) {
            tidy(inner);
        }
    }
}

/// The same value with the keys of every object in alphabetical order, however the map keeps them.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(String, Value)> = map.into_iter().collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(
                entries
                    .into_iter()
                    .map(|(key, value)| (key, sorted(value)))
                    .collect::<Map<_, _>>(),
            )
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

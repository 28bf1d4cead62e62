//! The `scale` subresource: the one number of a workload, read and written alone.
//!
//! Relies on the paths in [`super::kinds::ScalePaths`]. Called by [`super::core`].

use super::core::{Answer, Core};
use super::error::{ApiError, Cause};
use super::kinds::{Resource, ScalePaths};
use super::object;
use super::patch;
use super::route::{Call, PatchKind, Verb};
use super::selectors::LabelSelector;
use super::write::Part;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use std::sync::Arc;

impl Core {
    pub(crate) fn get_scale(&mut self, call: &Call) -> Result<Answer, ApiError> {
        let paths = paths(&call.resource)?;
        let object = self.named(call)?;
        Ok(Answer::Value {
            code: 200,
            value: scale_of(paths, object.value()),
        })
    }

    pub(crate) fn write_scale(&mut self, call: &Call, now: DateTime<Utc>) -> Result<Answer, ApiError> {
        let resource = Arc::clone(&call.resource);
        let paths = paths(&resource)?;
        let old = self.named(call)?;
        let present = scale_of(paths, old.value());
        let wish: Value = match (call.verb, call.patch) {
            (Verb::Patch, Some(PatchKind::Apply)) => {
                let mut merged = present.clone();
                json_patch::merge(&mut merged, &patch::parse_yaml(&call.body)?);
                merged
            }
            (Verb::Patch, Some(kind)) => {
                // A Scale has no lists, so strategic and plain merge are the same.
                let kind = if kind == PatchKind::Strategic {
                    PatchKind::Merge
                } else {
                    kind
                };
                patch::apply(kind, &resource, &present, &call.body)?
            }
            (Verb::Patch, None) => return Err(ApiError::new(415, "UnsupportedMediaType", "unknown patch format")),
            _ => serde_json::from_slice(&call.body)
                .map_err(|e| ApiError::bad_request(format!("error decoding Scale: {e}")))?,
        };
        let version = object::resource_version(&wish);
        if !version.is_empty() && version != object::resource_version(old.value()) {
            return Err(ApiError::modified(&resource, &call.name));
        }
        let replicas = object::number(&wish, "/spec/replicas").unwrap_or(0);
        if replicas < 0 {
            let why = "must be greater than or equal to 0";
            let causes = vec![Cause::invalid("spec.replicas", &replicas.to_string(), why)];
            return Err(ApiError::invalid(&resource, &call.name, &causes));
        }
        let mut new = old.value().clone();
        set_number(&mut new, &paths.spec, replicas);
        let answer = self.replace(call, &old, new, Part::Main, now)?;
        let code = answer.code();
        Ok(Answer::Value {
            code,
            value: scale_of(paths, &answer.into_value()),
        })
    }
}

fn paths(resource: &Resource) -> Result<&ScalePaths, ApiError> {
    resource.scale.as_ref().ok_or_else(ApiError::no_such_path)
}

fn scale_of(paths: &ScalePaths, object: &Value) -> Value {
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        object::edit_at(&mut metadata, "metadata", |m| {
            if let Some(value) = object.get("metadata").and_then(|o| o.get(field)) {
                m.insert(field.to_owned(), value.clone());
            }
        });
    }
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": metadata.get("metadata"),
        "spec": { "replicas": object::number(object, &paths.spec).unwrap_or(0) },
        "status": { "replicas": object::number(object, &paths.status).unwrap_or(0) },
    });
    let selector = paths.selector.as_ref().and_then(|p| object.pointer(p));
    let selector = selector.map(|s| s.as_str().map_or_else(|| LabelSelector::text_of(s), str::to_owned));
    if let Some(selector) = selector {
        object::edit_at(&mut scale, "status", |s| s.insert("selector".into(), selector.into()));
    }
    scale
}

fn set_number(object: &mut Value, pointer: &str, number: i64) {
    let (parent, field) = pointer.rsplit_once('/').unwrap_or(("", pointer));
    let mut at = object;
    for key in parent.split('/').filter(|k| !k.is_empty()) {
        let Value::Object(map) = at else { return };
        at = map.entry(key).or_insert_with(|| json!({}));
    }
    if let Value::Object(map) = at {
        map.insert(field.to_owned(), number.into());
    }
}

//! Writes: create, update and patch, with everything that stands between a body and the store.
//!
//! ```text
//! body → metadata checks → status isolation → fields that exist → defaults → validation → no-op? → generation → finalizers → store
//! ```
//!
//! Relies on [`super::validation`] for what is allowed and on [`super::patch`] for patches. Called by [`super::core`] and the subresources.

use super::core::{Answer, Core};
use super::defaults;
use super::error::{ApiError, Cause};
use super::kinds::{Origin, Resource, Scope};
use super::object;
use super::patch;
use super::route::{Call, PatchKind};
use super::store::{ObjectKey, Stored};
use super::validation::{self, Strictness};
use super::{admission, builtin};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use std::sync::Arc;

/// Which part of the object a write may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All but the status.
    Main,
    /// The status only.
    Status,
}

impl Core {
    pub(crate) fn create(&mut self, call: &Call, now: DateTime<Utc>) -> Result<Answer, ApiError> {
        let body = decode(call)?;
        self.create_object(call, body, now)
    }

    fn create_object(&mut self, call: &Call, mut new: Value, now: DateTime<Utc>) -> Result<Answer, ApiError> {
        let resource = Arc::clone(&call.resource);
        if !object::resource_version(&new).is_empty() {
            return Err(ApiError::new(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        place(call, &mut new)?;
        if object::name(&new).is_empty() {
            let prefix = object::text(&new, "/metadata/generateName").to_owned();
            if prefix.is_empty() {
                let causes = vec![Cause::required("metadata.name", "name or generateName is required")];
                return Err(ApiError::invalid(&resource, "", &causes));
            }
            object::set_meta(&mut new, "name", format!("{prefix}{}", self.ids.suffix()));
        }
        self.namespace_is_open(&resource, &new)?;
        object::edit_meta(&mut new, |m| {
            for field in [
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "selfLink",
                "managedFields",
                "generation",
            ] {
                m.remove(field);
            }
        });
        object::set_meta(&mut new, "uid", self.ids.uid());
        object::set_meta(&mut new, "creationTimestamp", object::time_text(now));
        if counts_generation(&resource) {
            object::set_meta(&mut new, "generation", 1);
        }
        if matches!(resource.origin, Origin::Custom(_)) && resource.has_status() {
            object::copy_root(&mut new, &Value::Null, "status");
        }
        defaults::reset_status(&resource, &mut new);
        let new = self.finish(call, new, None, Part::Main)?;
        let new = admission::on_create(self, &resource, new, now)?;
        let key = ObjectKey::new(object::namespace(&new), object::name(&new));
        if self.store.get(&call.table(), &key).is_some() {
            return Err(ApiError::already_exists(&resource, &key.name));
        }
        if call.params.dry_run() {
            return Ok(Answer::Value { code: 201, value: new });
        }
        let stored = self.store.put(&call.table(), &key, new, now);
        Ok(Answer::Object {
            code: 201,
            object: stored,
        })
    }

    pub(crate) fn update(&mut self, call: &Call, now: DateTime<Utc>) -> Result<Answer, ApiError> {
        let mut new = decode(call)?;
        place(call, &mut new)?;
        let wanted = object::name(&new);
        if !wanted.is_empty() && wanted != call.name {
            let words = format!(
                "the name of the object ({wanted}) does not match the name on the URL ({})",
                call.name
            );
            return Err(ApiError::bad_request(words));
        }
        let old = match self.named(call) {
            Ok(old) => old,
            // Leases and events may be created by an update.
            Err(_) if call.resource.is("coordination.k8s.io", "Lease") || call.resource.is("", "Event") => {
                object::set_meta(&mut new, "name", call.name.clone());
                return self.create_object(call, new, now);
            }
            Err(missing) => return Err(missing),
        };
        if object::resource_version(&new).is_empty() && needs_version(&call.resource) {
            let causes = vec![Cause::invalid(
                "metadata.resourceVersion",
                "0x0",
                "must be specified for an update",
            )];
            return Err(ApiError::invalid(&call.resource, &call.name, &causes));
        }
        self.replace(call, &old, new, part_of(call), now)
    }

    pub(crate) fn patch(&mut self, call: &Call, now: DateTime<Utc>) -> Result<Answer, ApiError> {
        let Some(kind) = call.patch else {
            let words = "the body of the request was in an unknown format - accepted media types include: \
                         application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
            return Err(ApiError::new(415, "UnsupportedMediaType", words));
        };
        if kind == PatchKind::Apply {
            return self.apply(call, now);
        }
        let old = self.named(call)?;
        let new = patch::apply(kind, &call.resource, old.value(), &call.body)?;
        self.replace(call, &old, new, part_of(call), now)
    }

    /// Server-side apply, as a three-way merge per field manager.
    ///
    /// Differs from upstream: ownership is not shared between managers, so nothing is ever a conflict of fields (every apply is forced).
    fn apply(&mut self, call: &Call, now: DateTime<Utc>) -> Result<Answer, ApiError> {
        let manager = call.params.get("fieldManager").to_owned();
        if manager.is_empty() {
            let words =
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
            return Err(ApiError::new(422, "Invalid", words));
        }
        let mut wanted = patch::parse_yaml(&call.body)?;
        place(call, &mut wanted)?;
        object::set_meta(&mut wanted, "name", call.name.clone());
        let key = Self::key(call);
        let slot = (call.table(), key.clone(), format!("{manager}/{}", call.subresource));
        let answer = match self.store.get(&call.table(), &key).cloned() {
            None => self.create_object(call, wanted.clone(), now)?,
            Some(old) => {
                let before = self.applied.get(&slot);
                let new = patch::three_way(&call.resource, before, &wanted, old.value());
                self.replace(call, &old, new, part_of(call), now)?
            }
        };
        if !call.params.dry_run() {
            self.applied.set(slot, wanted);
        }
        Ok(answer)
    }

    /// Puts `new` in the place of `old`, or finds that nothing changed.
    pub(crate) fn replace(
        &mut self,
        call: &Call,
        old: &Arc<Stored>,
        mut new: Value,
        part: Part,
        now: DateTime<Utc>,
    ) -> Result<Answer, ApiError> {
        let resource = Arc::clone(&call.resource);
        let before = old.value();
        same_object(&resource, before, &new)?;
        for field in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "resourceVersion",
        ] {
            object::copy_meta(&mut new, before, field);
        }
        object::copy_meta(&mut new, before, "name");
        object::copy_meta(&mut new, before, "namespace");
        object::remove_meta(&mut new, "managedFields");
        object::remove_meta(&mut new, "selfLink");
        isolate(&resource, before, &mut new, part);
        let mut new = self.finish(call, new, Some(before), part)?;
        if new == *before {
            return Ok(Answer::Object {
                code: 200,
                object: Arc::clone(old),
            });
        }
        count_generation(&resource, before, &mut new);
        let key = ObjectKey::new(object::namespace(before), object::name(before));
        if call.params.dry_run() {
            return Ok(Answer::Value { code: 200, value: new });
        }
        if object::is_deleting(&new) && object::finalizers(&new).is_empty() && grace_is_over(&new) {
            // The last finalizer went: the object goes in the same step.
            self.store.remove(&call.table(), &key, Some(new.clone()), now);
            return Ok(Answer::Value { code: 200, value: new });
        }
        let stored = self.store.put(&call.table(), &key, new, now);
        Ok(Answer::Object {
            code: 200,
            object: stored,
        })
    }

    fn finish(&mut self, call: &Call, new: Value, old: Option<&Value>, part: Part) -> Result<Value, ApiError> {
        let strictness = Strictness::parse(call.params.get("fieldValidation"));
        let resource = &call.resource;
        let new = validation::shape(resource, new, strictness)?;
        let new = defaults::apply(resource, new, old);
        validation::check(&mut self.cel, resource, &new, old, part)?;
        Ok(new)
    }

    fn namespace_is_open(&self, resource: &Resource, new: &Value) -> Result<(), ApiError> {
        if resource.scope == Scope::Cluster {
            return Ok(());
        }
        let name = object::namespace(new);
        let Some(namespace) = self.store.get("namespaces", &ObjectKey::new("", name)) else {
            let missing = self.registry.get("namespaces");
            return Err(missing.map_or_else(ApiError::no_such_path, |r| ApiError::not_found(r, name)));
        };
        if object::is_deleting(namespace.value()) {
            let why = format!("unable to create new content in namespace {name} because it is being terminated");
            let cause = Cause {
                field: "metadata.namespace".into(),
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {name} is being terminated"),
            };
            return Err(ApiError::forbidden(resource, object::name(new), &why).with_causes(&[cause]));
        }
        Ok(())
    }
}

fn part_of(call: &Call) -> Part {
    if call.subresource == "status" {
        Part::Status
    } else {
        Part::Main
    }
}

/// Differs from upstream: protobuf bodies are refused, so `kubectl create namespace x` must be `kubectl create -f`.
fn decode(call: &Call) -> Result<Value, ApiError> {
    if call.body.starts_with(b"k8s\0") {
        let words = "the body is protobuf, and only JSON and YAML are accepted: use create -f or apply -f";
        return Err(ApiError::new(415, "UnsupportedMediaType", words));
    }
    // YAML is a superset, and kubectl may send it; JSON is tried first because it is what clients send.
    let value: Value = match serde_json::from_slice(&call.body) {
        Ok(value) => value,
        Err(_) => patch::parse_yaml(&call.body)?,
    };
    let kind = object::text(&value, "/kind");
    let version = object::text(&value, "/apiVersion");
    if kind.is_empty() || version.is_empty() {
        let what = if kind.is_empty() { "Kind" } else { "apiVersion" };
        return Err(ApiError::bad_request(format!("Object '{what}' is missing in the body")));
    }
    if kind != call.resource.kind || version != call.resource.api_version() {
        let words = format!(
            "{version} {kind} does not match the expected {} {}",
            call.resource.api_version(),
            call.resource.kind
        );
        return Err(ApiError::bad_request(words));
    }
    if value.get("metadata").is_some_and(|m| !m.is_object()) {
        return Err(ApiError::bad_request("metadata must be an object"));
    }
    Ok(value)
}

fn place(call: &Call, new: &mut Value) -> Result<(), ApiError> {
    match call.resource.scope {
        Scope::Cluster => object::remove_meta(new, "namespace"),
        Scope::Namespaced => {
            let own = object::namespace(new);
            if !own.is_empty() && own != call.namespace {
                let words = "the namespace of the provided object does not match the namespace sent on the request";
                return Err(ApiError::bad_request(words));
            }
            object::set_meta(new, "namespace", call.namespace.clone());
        }
    }
    Ok(())
}

fn same_object(resource: &Resource, before: &Value, new: &Value) -> Result<(), ApiError> {
    let name = object::name(before);
    let (uid, wanted) = (object::uid(before), object::uid(new));
    if !wanted.is_empty() && wanted != uid {
        let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
        return Err(ApiError::conflict(resource, name, &why));
    }
    let version = object::resource_version(new);
    if !version.is_empty() && version != object::resource_version(before) {
        return Err(ApiError::modified(resource, name));
    }
    if !object::name(new).is_empty() && object::name(new) != name {
        return Err(ApiError::bad_request(
            "the name of the object does not match the name on the URL",
        ));
    }
    Ok(())
}

/// Keeps a write inside its part.
fn isolate(resource: &Resource, before: &Value, new: &mut Value, part: Part) {
    match part {
        Part::Main if resource.has_status() => object::copy_root(new, before, "status"),
        Part::Main => {}
        Part::Status => {
            // The kubelet labels nodes and pods through their status; for other kinds metadata is left alone.
            let labelled = resource.is("", "Pod") || resource.is("", "Node");
            let own = |key: &str| key == "status" || (labelled && key == "metadata");
            keep(new, before, own);
            if labelled {
                let kept = |key: &str| matches!(key, "labels" | "annotations");
                if let (Some(metadata), Some(before)) = (new.get_mut("metadata"), before.get("metadata")) {
                    keep(metadata, before, kept);
                }
            }
        }
    }
}

/// Makes all fields but its own what they were before.
fn keep(new: &mut Value, before: &Value, own: impl Fn(&str) -> bool) {
    let (Value::Object(new), Value::Object(before)) = (new, before) else {
        return;
    };
    new.retain(|key, _| own(key) || before.contains_key(key));
    for (key, value) in before.iter().filter(|(key, _)| !own(key)) {
        if new.get(key) != Some(value) {
            new.insert(key.clone(), value.clone());
        }
    }
}

fn needs_version(resource: &Resource) -> bool {
    match &resource.origin {
        Origin::BuiltIn(b) => b.blind_update == builtin::BlindUpdate::Refused,
        Origin::Custom(_) => true,
    }
}

fn counts_generation(resource: &Resource) -> bool {
    resource
        .built_in()
        .is_none_or(|b| b.generation == builtin::Generation::Counted)
}

fn count_generation(resource: &Resource, before: &Value, new: &mut Value) {
    if counts_generation(resource) && content(resource, before) != content(resource, new) {
        let next = object::generation(before).unwrap_or(0).saturating_add(1);
        object::set_meta(new, "generation", next);
    }
}

/// What of an object is counted by its generation.
fn content<'a>(resource: &Resource, object: &'a Value) -> Vec<(&'a String, &'a Value)> {
    let counts = |key: &str| key != "metadata" && !(key == "status" && resource.has_status());
    let fields = object.as_object().into_iter().flatten();
    fields.filter(|(key, _)| counts(key)).collect()
}

fn grace_is_over(object: &Value) -> bool {
    object::number(object, "/metadata/deletionGracePeriodSeconds").unwrap_or(0) == 0
}

/// The `Status` that says that something was done.
pub(crate) fn success(resource: &Resource, name: &str, uid: &str) -> Value {
    let mut details = json!({ "name": name, "kind": resource.plural, "uid": uid });
    if let (Value::Object(map), false) = (&mut details, resource.group.is_empty()) {
        map.insert("group".into(), resource.group.clone().into());
    }
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}

//! Deletion: preconditions, finalizers, the grace that pods get, propagation.
//!
//! ```text
//! no finalizers, no grace → gone        finalizers → deletionTimestamp, gone with the last one        pod on a node → gone when its kubelet says so
//! ```
//!
//! Called by [`super::core`], the eviction and the garbage collector.

use super::core::{Answer, Core};
use super::error::ApiError;
use super::kinds::Resource;
use super::object;
use super::read::selection;
use super::route::Call;
use super::store::{ObjectKey, Stored};
use super::write::success;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use std::sync::Arc;

/// What happens to the objects owned by the one that goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// `DeleteOptions`, from the body and the query.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    pub(crate) fn of(call: &Call) -> Result<Self, ApiError> {
        let body: Value = if call.body.is_empty() {
            Value::Null
        } else {
            let bad = |e| ApiError::bad_request(format!("error decoding DeleteOptions: {e}"));
            serde_json::from_slice(&call.body).map_err(bad)?
        };
        let mut options = Self::from_value(&body)?;
        options.grace = options.grace.or_else(|| call.params.number("gracePeriodSeconds"));
        if options.propagation.is_none() {
            options.propagation = propagation(call.params.get("propagationPolicy"))?;
        }
        options.dry_run |= call.params.dry_run();
        Ok(options)
    }

    pub(crate) fn from_value(body: &Value) -> Result<Self, ApiError> {
        let own = |pointer: &str| Some(object::text(body, pointer).to_owned()).filter(|t| !t.is_empty());
        let mut wish = propagation(object::text(body, "/propagationPolicy"))?;
        if wish.is_none() && body.get("orphanDependents").and_then(Value::as_bool) == Some(true) {
            wish = Some(Propagation::Orphan);
        }
        Ok(Self {
            grace: object::number(body, "/gracePeriodSeconds"),
            propagation: wish,
            uid: own("/preconditions/uid"),
            resource_version: own("/preconditions/resourceVersion"),
            dry_run: object::list(body, "/dryRun").iter().any(|v| v == "All"),
        })
    }
}

fn propagation(text: &str) -> Result<Option<Propagation>, ApiError> {
    match text {
        "" => Ok(None),
        "Background" => Ok(Some(Propagation::Background)),
        "Foreground" => Ok(Some(Propagation::Foreground)),
        "Orphan" => Ok(Some(Propagation::Orphan)),
        other => {
            let words = format!(
                "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: {other:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
            );
            Err(ApiError::new(422, "Invalid", words))
        }
    }
}

impl Core {
    pub(crate) fn delete(&mut self, call: &Call, now: DateTime<Utc>) -> Result<Answer, ApiError> {
        let options = DeleteOptions::of(call)?;
        let old = self.named(call)?;
        self.delete_object(&call.resource, &old, &options, now)
    }

    pub(crate) fn delete_collection(&mut self, call: &Call, now: DateTime<Utc>) -> Result<Answer, ApiError> {
        let options = DeleteOptions::of(call)?;
        let selection = selection(call)?;
        let matching = |o: &Arc<Stored>| selection.matches(o.value());
        let doomed: Vec<Arc<Stored>> = self
            .store
            .objects(&call.table())
            .map(|(_, o)| Arc::clone(o))
            .filter(matching)
            .collect();
        for object in doomed {
            self.delete_object(&call.resource, &object, &options, now)?;
        }
        Ok(Answer::Value {
            code: 200,
            value: json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}),
        })
    }

    /// Deletes one object as far as it can go now.
    pub(crate) fn delete_object(
        &mut self,
        resource: &Arc<Resource>,
        old: &Arc<Stored>,
        options: &DeleteOptions,
        now: DateTime<Utc>,
    ) -> Result<Answer, ApiError> {
        let before = old.value();
        preconditions(resource, before, options)?;
        let same = || Answer::Object {
            code: 200,
            object: Arc::clone(old),
        };
        let mut new = before.clone();
        let grace = resource.is("", "Pod").then(|| pod_grace(before, options.grace));
        let pending = object::number(before, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
        let mut finalizers: Vec<String> = object::finalizers(before).iter().map(|f| (*f).to_owned()).collect();
        if !object::is_deleting(before) {
            dependents_finalizer(resource, options.propagation, &mut finalizers);
            mark(&mut new, grace.unwrap_or(0), now);
        } else if pending > 0 {
            // Only a shorter grace may be asked for.
            match options.grace {
                Some(wish) if wish.max(0) < pending => shorten(&mut new, pending, wish.max(0)),
                _ => return Ok(same()),
            }
        }
        set_finalizers(&mut new, &finalizers);
        if resource.is("", "Namespace") {
            object::edit_at(&mut new, "status", |s| s.insert("phase".into(), "Terminating".into()));
        }
        let grace_left = object::number(&new, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
        let stays = !finalizers.is_empty() || grace_left > 0 || resource.is("", "Namespace");
        if options.dry_run {
            return Ok(Answer::Value { code: 200, value: new });
        }
        let table = resource.qualified();
        let key = ObjectKey::new(object::namespace(before), object::name(before));
        if stays {
            if new == *before {
                return Ok(same());
            }
            let stored = self.store.put(&table, &key, new, now);
            return Ok(Answer::Object {
                code: 200,
                object: stored,
            });
        }
        // A pod's last state says that it was being deleted; other kinds go as they were.
        let state = Some(new).filter(|_| grace.is_some());
        let last = self
            .store
            .remove(&table, &key, state, now)
            .unwrap_or_else(|| Arc::clone(old));
        Ok(deleted_answer(resource, &last))
    }
}

fn deleted_answer(resource: &Resource, last: &Arc<Stored>) -> Answer {
    // Upstream returns the object itself for these kinds, a Status for all others.
    let whole = resource.group.is_empty()
        && matches!(
            resource.kind.as_str(),
            "Pod" | "PersistentVolume" | "PersistentVolumeClaim" | "ServiceAccount" | "Service"
        );
    if whole {
        return Answer::Object {
            code: 200,
            object: Arc::clone(last),
        };
    }
    let value = success(resource, object::name(last.value()), object::uid(last.value()));
    Answer::Value { code: 200, value }
}

fn preconditions(resource: &Resource, before: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    let name = object::name(before);
    if let Some(uid) = &options.uid
        && uid != object::uid(before)
    {
        let is = object::uid(before);
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {is}");
        return Err(ApiError::conflict(resource, name, &why));
    }
    if let Some(version) = &options.resource_version
        && version != object::resource_version(before)
    {
        let is = object::resource_version(before);
        let why = format!(
            "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {is}"
        );
        return Err(ApiError::conflict(resource, name, &why));
    }
    Ok(())
}

/// The seconds a pod gets; zero when nothing on a node has to end.
fn pod_grace(pod: &Value, asked: Option<i64>) -> i64 {
    let own = object::number(pod, "/spec/terminationGracePeriodSeconds").unwrap_or(0);
    let unscheduled = object::text(pod, "/spec/nodeName").is_empty();
    let finished = matches!(object::text(pod, "/status/phase"), "Succeeded" | "Failed");
    let period = if unscheduled || finished {
        0
    } else {
        asked.unwrap_or(own)
    };
    if period < 0 { 1 } else { period }
}

fn mark(object: &mut Value, grace: i64, now: DateTime<Utc>) {
    let end = TimeDelta::try_seconds(grace)
        .and_then(|d| now.checked_add_signed(d))
        .unwrap_or(now);
    object::set_meta(object, "deletionTimestamp", object::time_text(end));
    object::set_meta(object, "deletionGracePeriodSeconds", grace);
    if let Some(generation) = object::generation(object).filter(|g| *g > 0) {
        object::set_meta(object, "generation", generation.saturating_add(1));
    }
}

fn shorten(object: &mut Value, pending: i64, wish: i64) {
    let end = object::parse_time(object::text(object, "/metadata/deletionTimestamp"));
    let earlier = TimeDelta::try_seconds(pending.saturating_sub(wish));
    if let Some(end) = end.zip(earlier).and_then(|(end, by)| end.checked_sub_signed(by)) {
        object::set_meta(object, "deletionTimestamp", object::time_text(end));
    }
    object::set_meta(object, "deletionGracePeriodSeconds", wish);
}

fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    if finalizers.is_empty() {
        object::remove_meta(object, "finalizers");
    } else {
        object::set_meta(object, "finalizers", finalizers.to_vec());
    }
}

fn dependents_finalizer(resource: &Resource, wish: Option<Propagation>, finalizers: &mut Vec<String>) {
    let kept = finalizers.iter().any(|f| f == "orphan" || f == "foregroundDeletion");
    let wish = match wish {
        Some(wish) => wish,
        None if kept => return,
        // batch/v1 keeps its old default.
        None if resource.is("batch", "Job") => Propagation::Orphan,
        None => Propagation::Background,
    };
    finalizers.retain(|f| f != "orphan" && f != "foregroundDeletion");
    match wish {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push("foregroundDeletion".into()),
        Propagation::Orphan => finalizers.push("orphan".into()),
    }
}

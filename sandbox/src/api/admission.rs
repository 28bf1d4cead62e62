//! What the default admission plugins do that a node autoscaler can see.
//!
//! Priority of pods, default tolerations, the default StorageClass, the taint of new nodes, and the life of old Events. Called by
//! [`super::write`] after validation, for creates only.

use super::core::Core;
use super::error::ApiError;
use super::kinds::Resource;
use super::object;
use super::options::NewNodes;
use super::store::ObjectKey;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Map, Value, json};

/// Admits a new object, possibly changed.
pub(crate) fn on_create(
    core: &mut Core,
    resource: &Resource,
    mut new: Value,
    now: DateTime<Utc>,
) -> Result<Value, ApiError> {
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Pod") => {
            pod_priority(core, resource, &mut new)?;
            object::edit_at(&mut new, "spec", default_tolerations);
        }
        ("", "Node") if core.options.new_nodes == NewNodes::TaintedNotReady => {
            object::edit_at(&mut new, "spec", not_ready_taint);
        }
        ("", "PersistentVolumeClaim") => default_storage_class(core, &mut new),
        ("", "Event") => forget_old_events(core, now),
        _ => {}
    }
    Ok(new)
}

fn pod_priority(core: &Core, resource: &Resource, pod: &mut Value) -> Result<(), ApiError> {
    const CLASSES: &str = "priorityclasses.scheduling.k8s.io";
    let name = object::text(pod, "/spec/priorityClassName").to_owned();
    let class = if name.is_empty() {
        core.store
            .objects(CLASSES)
            .map(|(_, c)| c)
            .find(|c| c.value().get("globalDefault") == Some(&Value::Bool(true)))
    } else {
        let found = core.store.get(CLASSES, &ObjectKey::new("", &name));
        if found.is_none() {
            let why = format!("no PriorityClass with name {name} was found");
            return Err(ApiError::forbidden(resource, object::name(pod), &why));
        }
        found
    };
    let class = class.map(|c| c.value().clone());
    object::edit_at(pod, "spec", |spec| {
        let text = |key: &str| class.as_ref().and_then(|c| c.get(key)).cloned();
        if let Some(class) = &class {
            spec.insert("priorityClassName".into(), object::name(class).into());
        }
        spec.insert("priority".into(), text("value").unwrap_or_else(|| 0.into()));
        let policy = text("preemptionPolicy").unwrap_or_else(|| "PreemptLowerPriority".into());
        object::default_to(spec, "preemptionPolicy", policy);
    });
    Ok(())
}

/// Five minutes on a node that is not ready or unreachable, unless the pod says otherwise.
fn default_tolerations(spec: &mut Map<String, Value>) {
    let list = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Value::Array(tolerations) = list else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covered = tolerations.iter().any(|t| {
            let (own, effect) = (object::text(t, "/key"), object::text(t, "/effect"));
            (own == key || own.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !covered {
            tolerations
                .push(json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 }));
        }
    }
}

fn not_ready_taint(spec: &mut Map<String, Value>) {
    const KEY: &str = "node.kubernetes.io/not-ready";
    let list = spec.entry("taints").or_insert_with(|| json!([]));
    if let Value::Array(taints) = list
        && !taints
            .iter()
            .any(|t| object::text(t, "/key") == KEY && object::text(t, "/effect") == "NoSchedule")
    {
        taints.push(json!({ "key": KEY, "effect": "NoSchedule" }));
    }
}

fn default_storage_class(core: &Core, claim: &mut Value) {
    if claim.pointer("/spec/storageClassName").is_some() {
        return;
    }
    let is_default = |class: &Value| {
        let annotations = object::labels_at(class, "/metadata/annotations");
        annotations.get("storageclass.kubernetes.io/is-default-class") == Some(&"true")
    };
    let found = core
        .store
        .objects("storageclasses.storage.k8s.io")
        .find(|(_, c)| is_default(c.value()));
    if let Some((key, _)) = found {
        let name = key.name.clone();
        object::edit_at(claim, "spec", |s| s.insert("storageClassName".into(), name.into()));
    }
}

/// Events expire; looking when one comes, once a minute, keeps the store small without a timer.
fn forget_old_events(core: &mut Core, now: DateTime<Utc>) {
    let pause = TimeDelta::minutes(1);
    if core.events_swept.is_some_and(|last| now - last < pause) {
        return;
    }
    core.events_swept = Some(now);
    let horizon = now
        .checked_sub_signed(core.options.event_ttl)
        .unwrap_or(DateTime::<Utc>::MIN_UTC);
    // the server writes these instants itself, all alike, so that their texts are in the order of time
    let horizon = object::time_text(horizon);
    let old: Vec<ObjectKey> = core
        .store
        .objects("events")
        .filter(|(_, event)| object::text(event.value(), "/metadata/creationTimestamp") < horizon.as_str())
        .map(|(key, _)| key.clone())
        .collect();
    for key in old {
        core.store.remove("events", &key, None, now);
    }
}

//! The few rules of built-in kinds that an autoscaler can run into.
//!
//! Immutable fields of pods, nodes and workloads, taints, selectors; not the whole of upstream's validation. Called by [`super::rules`].

use super::super::error::Cause;
use super::super::kinds::Resource;
use super::super::object::{self, list, text};
use super::super::selectors::LabelSelector;
use super::super::write::Part;
use super::metadata::{is_label_value, is_qualified};
use serde_json::{Map, Value, json};

/// All that is wrong with a built-in object.
pub(crate) fn judge(resource: &Resource, new: &Value, old: Option<&Value>, part: Part) -> Vec<Cause> {
    let mut causes = Vec::new();
    if part == Part::Status {
        return causes;
    }
    match resource.kind.as_str() {
        "Pod" => pod(new, old, &mut causes),
        "Node" => node(new, old, &mut causes),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => workload(resource, new, old, &mut causes),
        "PodDisruptionBudget" => budget(new, &mut causes),
        "CustomResourceDefinition" => definition(new, &mut causes),
        _ => {}
    }
    causes
}

fn pod(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    containers(list(new, "/spec/containers"), "spec.containers", causes);
    let Some(old) = old else {
        let gated = !list(new, "/spec/schedulingGates").is_empty();
        if gated && !text(new, "/spec/nodeName").is_empty() {
            causes.push(Cause::forbidden(
                "spec.nodeName",
                "cannot be set until all schedulingGates have been cleared",
            ));
        }
        return;
    };
    if changeable_removed(new) != changeable_removed(old) {
        let why = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        causes.push(Cause::forbidden("spec", why));
    }
    let added = |pointer: &str| list(new, pointer).iter().any(|g| !list(old, pointer).contains(g));
    if added("/spec/schedulingGates") {
        causes.push(Cause::forbidden(
            "spec.schedulingGates",
            "only deletion is allowed, but found new scheduling gate",
        ));
    }
    let kept = |t: &Value| list(new, "/spec/tolerations").contains(t);
    if !list(old, "/spec/tolerations").iter().all(kept) {
        causes.push(Cause::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
}

/// A pod's spec without what an update may change.
fn changeable_removed(pod: &Value) -> Value {
    let mut spec = pod.get("spec").cloned().unwrap_or_else(|| json!({}));
    if let Value::Object(map) = &mut spec {
        let gated = map
            .get("schedulingGates")
            .and_then(Value::as_array)
            .is_some_and(|g| !g.is_empty());
        for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
            map.remove(key);
        }
        if gated {
            // Gated pods may still be narrowed; that they only get narrower is not checked.
            map.remove("nodeSelector");
            map.remove("affinity");
        }
        for key in ["containers", "initContainers"] {
            let items = map.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
            for container in items.filter_map(Value::as_object_mut) {
                container.remove("image");
            }
        }
    }
    spec
}

fn containers(items: &[Value], path: &str, causes: &mut Vec<Cause>) {
    if items.is_empty() {
        causes.push(Cause::required(path, ""));
    }
    for (at, container) in items.iter().enumerate() {
        let name = text(container, "/name");
        if name.is_empty() {
            causes.push(Cause::required(format!("{path}[{at}].name"), ""));
        } else if items.iter().take(at).any(|c| text(c, "/name") == name) {
            causes.push(Cause::duplicate(
                format!("{path}[{at}].name"),
                &Value::from(name).to_string(),
            ));
        }
        if text(container, "/image").is_empty() {
            causes.push(Cause::required(format!("{path}[{at}].image"), ""));
        }
    }
}

fn node(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    taints(list(new, "/spec/taints"), causes);
    let Some(old) = old else { return };
    let (before, after) = (text(old, "/spec/providerID"), text(new, "/spec/providerID"));
    if !before.is_empty() && before != after {
        let why = "node updates may not change spec.providerID once it is set";
        causes.push(Cause::forbidden("spec.providerID", why));
    }
}

fn taints(items: &[Value], causes: &mut Vec<Cause>) {
    for (at, taint) in items.iter().enumerate() {
        let path = format!("spec.taints[{at}]");
        let (key, value, effect) = (text(taint, "/key"), text(taint, "/value"), text(taint, "/effect"));
        if !is_qualified(key) {
            causes.push(Cause::invalid(
                format!("{path}.key"),
                &Value::from(key).to_string(),
                "name part must be a qualified name",
            ));
        }
        if !is_label_value(value) {
            causes.push(Cause::invalid(
                format!("{path}.value"),
                &Value::from(value).to_string(),
                "a valid label must be an empty string or consist of alphanumeric characters",
            ));
        }
        if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            let message = format!(
                "Unsupported value: {effect:?}: supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\""
            );
            causes.push(Cause {
                field: format!("{path}.effect"),
                reason: "FieldValueNotSupported".into(),
                message,
            });
        }
        let same = |t: &Value| text(t, "/key") == key && text(t, "/effect") == effect;
        if items.iter().take(at).any(same) {
            causes.push(Cause::duplicate(path, &taint.to_string()));
        }
    }
}

fn workload(resource: &Resource, new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let selector = new.pointer("/spec/selector").cloned().unwrap_or(Value::Null);
    let read = LabelSelector::from_object(&selector);
    if read.is_empty() {
        causes.push(Cause::required("spec.selector", ""));
    } else if !read.matches(new.pointer("/spec/template").unwrap_or(&Value::Null)) {
        let labels = new
            .pointer("/spec/template/metadata/labels")
            .map_or_else(|| "null".into(), Value::to_string);
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid("spec.template.metadata.labels", &labels, why));
    }
    if object::number(new, "/spec/replicas").is_some_and(|n| n < 0) {
        causes.push(Cause::invalid(
            "spec.replicas",
            "-1",
            "must be greater than or equal to 0",
        ));
    }
    containers(
        list(new, "/spec/template/spec/containers"),
        "spec.template.spec.containers",
        causes,
    );
    let Some(old) = old else { return };
    if old.pointer("/spec/selector") != new.pointer("/spec/selector") {
        causes.push(Cause::invalid(
            "spec.selector",
            &selector.to_string(),
            "field is immutable",
        ));
    }
    if resource.kind == "StatefulSet" && fixed(new) != fixed(old) {
        let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        causes.push(Cause::forbidden("spec", why));
    }
}

fn fixed(stateful_set: &Value) -> Map<String, Value> {
    let mut spec = stateful_set
        .get("spec")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    let free = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    spec.retain(|key, _| !free.contains(&key.as_str()));
    spec
}

fn budget(new: &Value, causes: &mut Vec<Cause>) {
    let has = |field: &str| new.pointer(&format!("/spec/{field}")).is_some();
    if has("minAvailable") && has("maxUnavailable") {
        let why = "minAvailable and maxUnavailable cannot be both set";
        causes.push(Cause::invalid("spec", "\"object\"", why));
    }
}

fn definition(new: &Value, causes: &mut Vec<Cause>) {
    let wanted = format!("{}.{}", text(new, "/spec/names/plural"), text(new, "/spec/group"));
    let name = object::name(new);
    if name != wanted {
        let why = format!("must be spec.names.plural+\".\"+spec.group ({wanted})");
        causes.push(Cause::invalid("metadata.name", &Value::from(name).to_string(), why));
    }
    if list(new, "/spec/versions").is_empty() {
        causes.push(Cause::required("spec.versions", "must have at least one version"));
    }
}

//! Strategic merge patch for built-in kinds: merge patch that knows which lists are maps by a key.
//!
//! The keys are those of the Kubernetes API's `patchMergeKey` markers, by field name; a list that is not named here is replaced as a whole
//! (tolerations, taints and volumeClaimTemplates among them, as upstream).

use serde_json::{Map, Value};

/// How a list is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListMerge {
    /// Elements are joined by one of these fields, the first that the element has.
    ByKey(&'static [&'static str]),
    /// A set of plain values.
    Set,
    /// Replaced as a whole.
    Replace,
}

pub(super) fn list_merge(field: &str) -> ListMerge {
    match field {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "env"
        | "volumes"
        | "imagePullSecrets"
        | "schedulingGates"
        | "resourceClaims"
        | "secrets" => ListMerge::ByKey(&["name"]),
        "volumeMounts" => ListMerge::ByKey(&["mountPath"]),
        "volumeDevices" => ListMerge::ByKey(&["devicePath"]),
        "ports" => ListMerge::ByKey(&["containerPort", "port"]),
        "topologySpreadConstraints" => ListMerge::ByKey(&["topologyKey"]),
        "hostAliases" | "podIPs" | "hostIPs" => ListMerge::ByKey(&["ip"]),
        "conditions" | "addresses" => ListMerge::ByKey(&["type"]),
        "ownerReferences" => ListMerge::ByKey(&["uid"]),
        "finalizers" | "podCIDRs" => ListMerge::Set,
        _ => ListMerge::Replace,
    }
}

/// The element's value of the first key it has.
pub(super) fn key_of<'a>(element: &'a Value, keys: &[&'static str]) -> Option<(&'static str, &'a Value)> {
    keys.iter().find_map(|k| element.get(*k).map(|v| (*k, v)))
}

/// Merges a patch into an object.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if patch.get("$patch").and_then(Value::as_str) == Some("replace") {
        *target = Value::Object(without_directives(patch));
        return;
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    retain_keys(fields, patch);
    for (name, wanted) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            delete_plain(fields.get_mut(list), wanted);
        } else if !name.starts_with('$') {
            merge_field(fields, name, wanted);
        }
    }
    for (name, order) in patch {
        if let Some(list) = name.strip_prefix("$setElementOrder/") {
            reorder(fields.get_mut(list), order, list_merge(list));
        }
    }
}

fn merge_field(fields: &mut Map<String, Value>, name: &str, wanted: &Value) {
    match wanted {
        Value::Null => {
            fields.remove(name);
        }
        Value::Object(map) if map.get("$patch").and_then(Value::as_str) == Some("delete") => {
            fields.remove(name);
        }
        Value::Object(_) => merge(fields.entry(name).or_insert_with(|| Value::Object(Map::new())), wanted),
        Value::Array(items) => {
            let slot = fields.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            merge_list(slot, items, list_merge(name));
        }
        _ => {
            fields.insert(name.to_owned(), wanted.clone());
        }
    }
}

fn merge_list(slot: &mut Value, wanted: &[Value], how: ListMerge) {
    let replaces = wanted
        .iter()
        .any(|w| w.get("$patch").and_then(Value::as_str) == Some("replace"));
    if replaces {
        *slot = Value::Array(wanted.iter().filter(|w| w.get("$patch").is_none()).cloned().collect());
        return;
    }
    if !slot.is_array() {
        *slot = Value::Array(Vec::new());
    }
    let Value::Array(present) = slot else { return };
    match how {
        ListMerge::Replace => *present = wanted.to_vec(),
        ListMerge::Set => {
            for item in wanted {
                if !present.contains(item) {
                    present.push(item.clone());
                }
            }
        }
        ListMerge::ByKey(keys) => {
            for item in wanted {
                merge_element(present, item, keys);
            }
        }
    }
}

fn merge_element(present: &mut Vec<Value>, item: &Value, keys: &[&'static str]) {
    let Some((key, id)) = key_of(item, keys) else {
        present.push(item.clone());
        return;
    };
    let at = present.iter().position(|p| p.get(key) == Some(id));
    if item.get("$patch").and_then(Value::as_str) == Some("delete") {
        present.retain(|p| p.get(key) != Some(id));
        return;
    }
    if let Some(found) = at.and_then(|at| present.get_mut(at)) {
        merge(found, item);
    } else {
        let mut fresh = Value::Object(Map::new());
        merge(&mut fresh, item);
        present.push(fresh);
    }
}

fn delete_plain(list: Option<&mut Value>, gone: &Value) {
    if let (Some(Value::Array(list)), Value::Array(gone)) = (list, gone) {
        list.retain(|v| !gone.contains(v));
    }
}

fn retain_keys(fields: &mut Map<String, Value>, patch: &Map<String, Value>) {
    if let Some(Value::Array(kept)) = patch.get("$retainKeys") {
        fields.retain(|name, _| kept.iter().any(|k| k.as_str() == Some(name)));
    }
}

fn reorder(list: Option<&mut Value>, order: &Value, how: ListMerge) {
    let (Some(Value::Array(list)), Value::Array(order)) = (list, order) else {
        return;
    };
    let place = |item: &Value| match how {
        ListMerge::ByKey(keys) => {
            let (key, id) = key_of(item, keys)?;
            order.iter().position(|o| o.get(key) == Some(id))
        }
        _ => order.iter().position(|o| o == item),
    };
    // Stable: elements that the order does not name stay behind those that it does.
    list.sort_by_key(|item| place(item).unwrap_or(usize::MAX));
}

fn without_directives(map: &Map<String, Value>) -> Map<String, Value> {
    map.iter()
        .filter(|(k, _)| !k.starts_with('$'))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(mut target: Value, patch: &Value) -> Value {
        merge(&mut target, patch);
        target
    }

    #[test]
    fn lists_with_a_merge_key_are_merged_and_others_replaced() {
        let target = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}], "tolerations": [{"key": "x"}]}});
        let patch = json!({"spec": {"containers": [{"name": "a", "env": [{"name": "E", "value": "v"}]}, {"name": "c"}],
            "tolerations": [{"key": "y"}]}});
        assert_eq!(
            merged(target, &patch),
            json!({"spec": {"containers": [{"name": "a", "image": "1", "env": [{"name": "E", "value": "v"}]}, {"name": "b"},
                {"name": "c"}], "tolerations": [{"key": "y"}]}})
        );
    }

    #[test]
    fn directives_delete_replace_and_order() {
        let target = json!({"c": 1, "conditions": [{"type": "A"}, {"type": "B"}], "finalizers": ["x", "y"]});
        let patch = json!({"c": null, "conditions": [{"type": "A", "$patch": "delete"}, {"type": "C"}],
            "$setElementOrder/conditions": [{"type": "C"}, {"type": "B"}], "$deleteFromPrimitiveList/finalizers": ["x"], "finalizers": ["z"]});
        assert_eq!(
            merged(target, &patch),
            json!({"conditions": [{"type": "C"}, {"type": "B"}], "finalizers": ["y", "z"]})
        );
        let volumes = json!({"volumes": [{"name": "v", "emptyDir": {}}]});
        let patch =
            json!({"volumes": [{"name": "v", "configMap": {"name": "m"}, "$retainKeys": ["name", "configMap"]}]});
        assert_eq!(
            merged(volumes, &patch),
            json!({"volumes": [{"name": "v", "configMap": {"name": "m"}}]})
        );
        assert_eq!(
            merged(json!({"a": {"b": 1}}), &json!({"a": {"$patch": "replace", "c": 2}})),
            json!({"a": {"c": 2}})
        );
    }
}

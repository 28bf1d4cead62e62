//! A change to a Node in the making: several controllers' wishes become one merge patch, or none if the Node has it all.

use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Wishes about a Node.
pub struct Draft<'a> {
    node: &'a Node,
    labels: BTreeMap<String, Option<String>>,
    annotations: BTreeMap<String, Option<String>>,
    taints: Vec<Taint>,
    provider_id: Option<String>,
}

impl<'a> Draft<'a> {
    /// No wishes yet.
    pub fn of(node: &'a Node) -> Self {
        let taints = node
            .spec
            .as_ref()
            .and_then(|spec| spec.taints.clone())
            .unwrap_or_default();
        Self {
            node,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints,
            provider_id: None,
        }
    }

    /// A label with this value, or none of this key.
    pub fn label(&mut self, key: &str, value: Option<&str>) {
        self.labels.insert(key.into(), value.map(str::to_owned));
    }

    /// An annotation with this value, or none of this key.
    pub fn annotation(&mut self, key: &str, value: Option<&str>) {
        self.annotations.insert(key.into(), value.map(str::to_owned));
    }

    /// The provider ID.
    pub fn provider_id(&mut self, id: &str) {
        self.provider_id = Some(id.into());
    }

    /// No taint of this key.
    pub fn remove_taint(&mut self, key: &str) {
        self.taints.retain(|taint| taint.key != key);
    }

    /// A taint, unless one of this key and effect is there.
    pub fn add_taint(&mut self, key: &str, value: Option<&str>, effect: &str) {
        if !self
            .taints
            .iter()
            .any(|taint| taint.key == key && taint.effect == effect)
        {
            self.taints.push(Taint {
                key: key.into(),
                value: value.map(str::to_owned),
                effect: effect.into(),
                time_added: None,
            });
        }
    }

    /// The patch, if the Node lacks anything; it only applies to the Node as it was seen.
    pub fn patch(self) -> Option<Value> {
        let meta = &self.node.metadata;
        let labels = differing(self.labels, meta.labels.as_ref());
        let annotations = differing(self.annotations, meta.annotations.as_ref());
        let spec = self.node.spec.clone().unwrap_or_default();
        let taints = (self.taints != spec.taints.clone().unwrap_or_default()).then_some(self.taints);
        let provider_id = self.provider_id.filter(|id| spec.provider_id.as_ref() != Some(id));
        if labels.is_empty() && annotations.is_empty() && taints.is_none() && provider_id.is_none() {
            return None;
        }
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".into(), json!(meta.resource_version));
        let mut changed = Map::new();
        for (key, entries) in [("labels", labels), ("annotations", annotations)] {
            if !entries.is_empty() {
                metadata.insert(key.into(), Value::Object(entries));
            }
        }
        if let Some(taints) = taints {
            // An empty list would stay in the object; null removes the field, as the controllers' own writes do.
            changed.insert(
                "taints".into(),
                if taints.is_empty() { Value::Null } else { json!(taints) },
            );
        }
        if let Some(id) = provider_id {
            changed.insert("providerID".into(), json!(id));
        }
        let mut patch = Map::new();
        patch.insert("metadata".into(), Value::Object(metadata));
        if !changed.is_empty() {
            patch.insert("spec".into(), Value::Object(changed));
        }
        Some(Value::Object(patch))
    }
}

fn differing(
    wanted: BTreeMap<String, Option<String>>,
    present: Option<&BTreeMap<String, String>>,
) -> Map<String, Value> {
    wanted
        .into_iter()
        .filter(|(key, value)| present.and_then(|present| present.get(key)) != value.as_ref())
        .map(|(key, value)| (key, json!(value)))
        .collect()
}

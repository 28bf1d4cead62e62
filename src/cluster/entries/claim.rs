//! NodePools and NodeClaims are kept whole (there are few), NodeClasses by what every provider's class has.

use super::node::NodeCondition;
use crate::api::{NodeClaim, NodeOverlay, NodePool, conditions, time};
use crate::cluster::object::{Entry, Meta};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A NodePool, whole.
pub type PoolEntry = Entry<NodePool>;
/// A NodeClaim, whole.
pub type ClaimEntry = Entry<NodeClaim>;
/// A NodeOverlay, whole.
pub type OverlayEntry = Entry<NodeOverlay>;
/// A NodeClass, by what all have.
pub type ClassEntry = Entry<ClassFacts>;

impl PoolEntry {
    /// Takes the object as it came.
    pub fn read(object: NodePool) -> Self {
        Self {
            meta: Meta::read(&object.metadata),
            facts: object,
        }
    }
}

impl ClaimEntry {
    /// Takes the object as it came.
    pub fn read(object: NodeClaim) -> Self {
        Self {
            meta: Meta::read(&object.metadata),
            facts: object,
        }
    }
}

impl OverlayEntry {
    /// Takes the object as it came.
    pub fn read(object: NodeOverlay) -> Self {
        Self {
            meta: Meta::read(&object.metadata),
            facts: object,
        }
    }
}

/// What is known of any provider's NodeClass.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassFacts {
    /// metadata.generation.
    pub generation: i64,
    /// Labels, annotations, finalizers and the rest of the metadata.
    pub metadata: ObjectMeta,
    /// The `Ready` condition, if there is one.
    pub ready: Option<ClassReady>,
    /// All its conditions.
    pub conditions: Vec<NodeCondition>,
}

/// The `Ready` condition of a NodeClass.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassReady {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in one word.
    #[serde(default)]
    pub reason: String,
    /// Why, in words.
    #[serde(default)]
    pub message: String,
    /// The generation that it speaks of.
    #[serde(default)]
    pub observed_generation: Option<i64>,
}

#[derive(Deserialize)]
struct AnyClass {
    metadata: ObjectMeta,
    #[serde(default)]
    status: Option<AnyStatus>,
}

#[derive(Deserialize, Default)]
struct AnyStatus {
    #[serde(default)]
    conditions: Option<Vec<AnyCondition>>,
}

#[derive(Deserialize)]
struct AnyCondition {
    #[serde(rename = "type")]
    type_: String,
    #[serde(flatten)]
    rest: BTreeMap<String, serde_json::Value>,
}

impl AnyCondition {
    fn text(&self, field: &str) -> &str {
        self.rest
            .get(field)
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default()
    }

    fn seen(&self) -> NodeCondition {
        NodeCondition {
            type_: self.type_.clone(),
            status: self.text("status").to_owned(),
            reason: self.text("reason").to_owned(),
            message: self.text("message").to_owned(),
            since: time::parse_rfc3339(self.text("lastTransitionTime")),
        }
    }
}

impl ClassEntry {
    /// Reads any object that has metadata and perhaps conditions; `scope` is the watch's class.
    pub fn read(scope: &str, object: serde_json::Value) -> Result<Self, crate::api::DecodeError> {
        let class: AnyClass = crate::api::decode(object)?;
        let conditions = class.status.and_then(|status| status.conditions).unwrap_or_default();
        let seen = conditions.iter().map(AnyCondition::seen).collect();
        let ready = conditions
            .into_iter()
            .find(|condition| condition.type_ == conditions::READY)
            .and_then(|condition| serde_json::from_value(serde_json::Value::from_iter(condition.rest)).ok());
        let mut metadata = class.metadata;
        metadata.managed_fields = None;
        let meta = Meta::read_in(scope, &metadata);
        Ok(Self {
            meta,
            facts: ClassFacts {
                generation: metadata.generation.unwrap_or_default(),
                metadata,
                ready,
                conditions: seen,
            },
        })
    }
}

impl ClassFacts {
    /// Whether `Ready` is True.
    pub fn is_ready(&self) -> bool {
        self.ready.as_ref().is_some_and(|ready| ready.status == "True")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_class_of_any_provider_is_read_by_its_metadata_and_ready_condition() {
        let object = json!({
            "apiVersion": "x/v1", "kind": "K", "metadata": { "name": "a", "uid": "u", "resourceVersion": "7", "generation": 3 },
            "spec": { "anything": [1, 2] },
            "status": { "conditions": [{ "type": "Other", "status": "True" },
                { "type": "Ready", "status": "False", "reason": "NoToken", "message": "m", "observedGeneration": 3 }] },
        });
        let class = ClassEntry::read("K.x", object).unwrap();
        assert_eq!(class.meta.key.to_string(), "K.x/a");
        assert_eq!(class.generation, 3);
        assert!(!class.is_ready());
        assert_eq!(class.ready.as_ref().unwrap().reason, "NoToken");
        let words: Vec<_> = class
            .conditions
            .iter()
            .map(|seen| (&*seen.type_, &*seen.status))
            .collect();
        assert_eq!(words, [("Other", "True"), ("Ready", "False")]);
    }

    #[test]
    fn a_class_without_status_is_not_ready() {
        let class = ClassEntry::read("K.x", json!({ "metadata": { "name": "a" } })).unwrap();
        assert!(!class.is_ready() && class.ready.is_none());
    }
}

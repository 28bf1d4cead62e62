//! NodePools and NodeClaims are kept whole (there are few), NodeClasses by what every provider's class has.

use crate::api::{NodeClaim, NodeOverlay, NodePool, conditions};
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

impl ClassEntry {
    /// Reads any object that has metadata and perhaps conditions; `scope` is the watch's class.
    pub fn read(scope: &str, object: serde_json::Value) -> Result<Self, crate::api::DecodeError> {
        let class: AnyClass = crate::api::decode(object)?;
        let mut conditions = class
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default()
            .into_iter();
        let ready = conditions
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
    }

    #[test]
    fn a_class_without_status_is_not_ready() {
        let class = ClassEntry::read("K.x", json!({ "metadata": { "name": "a" } })).unwrap();
        assert!(!class.is_ready() && class.ready.is_none());
    }
}

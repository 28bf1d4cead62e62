//! A Node without what kubelets rewrite all the time (heartbeats, images, addresses).

use super::Labels;
use crate::api::{labels, time};
use crate::cluster::object::{Entry, Meta};
use crate::resources::ResourceList;
use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::sync::Arc;

/// A Node, by what decisions look at.
pub type NodeEntry = Entry<NodeFacts>;

/// One of a Node's conditions, without its heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCondition {
    /// `Ready`, `MemoryPressure`, …
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, in words.
    pub message: String,
    /// Since when.
    pub since: Option<DateTime<Utc>>,
}

/// What is known of a Node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeFacts {
    /// Labels.
    pub labels: Arc<Labels>,
    /// Annotations.
    pub annotations: Arc<Labels>,
    /// Finalizers.
    pub finalizers: Vec<String>,
    /// Owner references.
    pub owners: Vec<OwnerReference>,
    /// spec.providerID, if it is not empty.
    pub provider_id: Option<Arc<str>>,
    /// spec.taints.
    pub taints: Vec<Taint>,
    /// spec.unschedulable.
    pub unschedulable: bool,
    /// status.capacity.
    pub capacity: ResourceList,
    /// status.allocatable.
    pub allocatable: ResourceList,
    /// status.conditions.
    pub conditions: Vec<NodeCondition>,
    /// status.phase; no kubelet has written it for years, but whoever pretends to be one may.
    pub phase: Option<Box<str>>,
}

impl NodeEntry {
    /// Reads a Node.
    pub fn read(node: Node) -> Self {
        let meta = Meta::read(&node.metadata);
        let spec = node.spec.unwrap_or_default();
        let status = node.status.unwrap_or_default();
        let conditions = status
            .conditions
            .unwrap_or_default()
            .into_iter()
            .map(|condition| NodeCondition {
                type_: condition.type_,
                status: condition.status,
                reason: condition.reason.unwrap_or_default(),
                message: condition.message.unwrap_or_default(),
                since: condition.last_transition_time.as_ref().map(time::from_k8s),
            });
        let facts = NodeFacts {
            labels: Arc::new(node.metadata.labels.unwrap_or_default()),
            annotations: Arc::new(node.metadata.annotations.unwrap_or_default()),
            finalizers: node.metadata.finalizers.unwrap_or_default(),
            owners: node.metadata.owner_references.unwrap_or_default(),
            provider_id: spec.provider_id.filter(|id| !id.is_empty()).map(Into::into),
            taints: spec.taints.unwrap_or_default(),
            unschedulable: spec.unschedulable.unwrap_or_default(),
            capacity: ResourceList::from_api(status.capacity.iter().flatten()),
            allocatable: ResourceList::from_api(status.allocatable.iter().flatten()),
            conditions: conditions.collect(),
            phase: status.phase.filter(|phase| !phase.is_empty()).map(Into::into),
        };
        Self { meta, facts }
    }
}

impl NodeFacts {
    /// The value of one of its labels.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    /// Whether registration has finished (lifecycle 0.1).
    pub fn is_registered(&self) -> bool {
        self.label(labels::REGISTERED) == Some("true")
    }

    /// Whether initialization has finished (lifecycle 0.1).
    pub fn is_initialized(&self) -> bool {
        self.label(labels::INITIALIZED) == Some("true")
    }

    /// One of its conditions.
    pub fn condition(&self, type_: &str) -> Option<&NodeCondition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether its kubelet says that it is Ready.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready")
            .is_some_and(|condition| condition.status == "True")
    }

    /// Whether it carries our finalizer.
    pub fn has_termination_finalizer(&self) -> bool {
        self.finalizers
            .iter()
            .any(|finalizer| finalizer == labels::TERMINATION_FINALIZER)
    }
}

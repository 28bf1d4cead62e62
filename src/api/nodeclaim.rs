//! NodeClaim: one machine that was asked for, and what became of it.
//!
//! Only the type and questions that its own fields answer (surface §1.4). Relies on the shared pieces of this module; called by nearly everybody.

use super::{
    Condition, NillableDuration, NodeClassKind, NodeClassReference, NodeSelectorRequirementWithMinValues, ResourceList,
    SpelledDuration, conditions, conditions::Conditioned, decode::null_as_default, labels, time,
};
use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// NodeClaimSpec is what a NodeClaim asks for. It never changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::duplicated_attributes)] // each printer column has the same keys
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodeClaim",
    plural = "nodeclaims",
    singular = "nodeclaim",
    category = "karpenter",
    status = "NodeClaimStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "NodeClaim is one machine that was asked for, and what became of it.",
    printcolumn(
        name = "Type",
        type_ = "string",
        json_path = ".metadata.labels.node\\.kubernetes\\.io/instance-type"
    ),
    printcolumn(
        name = "Capacity",
        type_ = "string",
        json_path = ".metadata.labels.karpenter\\.sh/capacity-type"
    ),
    printcolumn(
        name = "Zone",
        type_ = "string",
        json_path = ".metadata.labels.topology\\.kubernetes\\.io/zone"
    ),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "ImageID", type_ = "string", json_path = ".status.imageID", priority = 1),
    printcolumn(name = "ID", type_ = "string", json_path = ".status.providerID", priority = 1),
    printcolumn(
        name = "NodePool",
        type_ = "string",
        json_path = ".metadata.labels.karpenter\\.sh/nodepool",
        priority = 1
    ),
    printcolumn(
        name = "NodeClass",
        type_ = "string",
        json_path = ".spec.nodeClassRef.name",
        priority = 1
    ),
    printcolumn(
        name = "Drifted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Drifted\")].status",
        priority = 1
    )
)]
pub struct NodeClaimSpec {
    /// The NodeClass that tells the provider how to make the machine.
    pub node_class_ref: NodeClassReference,
    /// Which machines will do.
    #[serde(default, deserialize_with = "null_as_default")]
    pub requirements: Vec<NodeSelectorRequirementWithMinValues>,
    /// What the pods that the machine is for need together.
    #[serde(default, skip_serializing_if = "ResourceRequirements::is_empty")]
    pub resources: ResourceRequirements,
    /// Taints that the node keeps.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub taints: Vec<Taint>,
    /// Taints that somebody removes once the node has been prepared.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub startup_taints: Vec<Taint>,
    /// How long the node lives before it is replaced, or Never.
    ///
    /// The API server fills in 720h. Where nobody did, absent means `Never`, as in Karpenter's own types.
    #[serde(default)]
    pub expire_after: NillableDuration,
    /// The most time that pods get to leave the node once it is being deleted; absent means as long as they need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<SpelledDuration>,
}

/// Resources that a claim was made for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRequirements {
    /// The least that the machine must offer to pods.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub requests: ResourceList,
}

impl ResourceRequirements {
    fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

/// NodeClaimStatus is what became of a NodeClaim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// The node that the machine became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The provider's name for the machine.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The image that the machine runs.
    #[serde(default, rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// What the machine has.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub capacity: ResourceList,
    /// What the machine offers to pods.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub allocatable: ResourceList,
    /// When a pod last came to the node or left it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pod_event_time: Option<Time>,
    /// What is known about the claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}

impl NodeClaim {
    /// The value of one of its labels.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(key))
            .map(String::as_str)
    }

    /// The value of one of its annotations.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(key))
            .map(String::as_str)
    }

    /// The NodePool that it belongs to.
    pub fn nodepool(&self) -> Option<&str> {
        self.label(labels::NODEPOOL)
    }

    /// How its machine is paid for: `spot`, `on-demand` or `reserved`.
    pub fn capacity_type(&self) -> Option<&str> {
        self.label(labels::CAPACITY_TYPE)
    }

    /// The instance type it was launched as.
    pub fn instance_type(&self) -> Option<&str> {
        self.label(labels::INSTANCE_TYPE)
    }

    /// The zone it was launched in.
    pub fn zone(&self) -> Option<&str> {
        self.label(labels::ZONE)
    }

    /// The provider's name for its machine, when there is one.
    pub fn provider_id(&self) -> Option<&str> {
        self.status
            .as_ref()
            .and_then(|status| status.provider_id.as_deref())
            .filter(|id| !id.is_empty())
    }

    /// The node that its machine became, when it did.
    pub fn node_name(&self) -> Option<&str> {
        self.status
            .as_ref()
            .and_then(|status| status.node_name.as_deref())
            .filter(|name| !name.is_empty())
    }

    /// Its UID, empty when the API server has not given it one.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Whether its NodeClass is of one of the kinds that we serve (lifecycle 0.4).
    pub fn is_managed(&self, kinds: &[NodeClassKind]) -> bool {
        self.spec.node_class_ref.is_of_any(kinds)
    }

    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether it still carries our finalizer.
    pub fn has_termination_finalizer(&self) -> bool {
        self.metadata
            .finalizers
            .iter()
            .flatten()
            .any(|finalizer| finalizer == labels::TERMINATION_FINALIZER)
    }

    /// When a pod last came to its node or left it.
    pub fn last_pod_event(&self) -> Option<DateTime<Utc>> {
        self.status
            .as_ref()
            .and_then(|status| status.last_pod_event_time.as_ref())
            .map(time::from_k8s)
    }

    /// The instant after which its pods are removed by force, when there is one that can be read.
    pub fn termination_deadline(&self) -> Option<DateTime<Utc>> {
        self.annotation(labels::TERMINATION_TIMESTAMP_ANNOTATION)
            .and_then(time::parse_rfc3339)
    }
}

impl Conditioned for NodeClaim {
    const DEPENDENTS: &'static [&'static str] =
        &[conditions::LAUNCHED, conditions::REGISTERED, conditions::INITIALIZED];

    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.status.get_or_insert_default().conditions
    }
}

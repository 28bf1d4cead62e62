//! NodePool: what nodes may be created, how many, and when they may go again.
//!
//! Only the type (surface §1.4). Relies on the shared pieces of this module; called by nearly everybody.

use super::{
    Condition, NillableDuration, NodeClassKind, NodeClassReference, NodeSelectorRequirementWithMinValues, ResourceList,
    SpelledDuration, conditions, conditions::Conditioned, decode::null_as_default,
};
use k8s_openapi::api::core::v1::Taint;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// NodePoolSpec is what a NodePool asks for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::duplicated_attributes)] // each printer column has the same keys
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    plural = "nodepools",
    singular = "nodepool",
    category = "karpenter",
    status = "NodePoolStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "NodePool says which nodes may be created, how many, and when they may go again.",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.nodes"),
    printcolumn(
        name = "NodeClass",
        type_ = "string",
        json_path = ".spec.template.spec.nodeClassRef.name"
    ),
    printcolumn(name = "Nodes", type_ = "string", json_path = ".status.nodes"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1),
    printcolumn(name = "CPU", type_ = "string", json_path = ".status.resources.cpu", priority = 1),
    printcolumn(
        name = "Memory",
        type_ = "string",
        json_path = ".status.resources.memory",
        priority = 1
    )
)]
pub struct NodePoolSpec {
    /// What the nodes of this pool look like.
    pub template: NodeClaimTemplate,
    /// When nodes of this pool may be removed to save money.
    #[serde(default)]
    pub disruption: Disruption,
    /// The most that all nodes of this pool may offer together, by resource; `nodes` limits their number.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub limits: ResourceList,
    /// Pools with a greater weight are tried first; absent means 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// A fixed number of nodes to keep, whatever pods ask for (alpha); absent means that pods decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
}

/// The part of a NodePool that becomes a NodeClaim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplate {
    /// Labels and annotations for the nodes.
    #[serde(default, skip_serializing_if = "TemplateMetadata::is_empty")]
    pub metadata: TemplateMetadata,
    /// Everything else about the nodes.
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations that the template gives to claims and nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels for claims and nodes.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub labels: BTreeMap<String, String>,
    /// Annotations for claims and nodes.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub annotations: BTreeMap<String, String>,
}

impl TemplateMetadata {
    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }
}

/// What every NodeClaim of the pool starts from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// The NodeClass that tells the provider how to make the machines.
    pub node_class_ref: NodeClassReference,
    /// Which nodes may be created, together with what the pods ask for.
    #[serde(default, deserialize_with = "null_as_default")]
    pub requirements: Vec<NodeSelectorRequirementWithMinValues>,
    /// Taints that the nodes keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub taints: Vec<Taint>,
    /// Taints that somebody removes once a node has been prepared; pods need not tolerate them to be planned.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub startup_taints: Vec<Taint>,
    /// How long a node lives before it is replaced, or Never.
    ///
    /// The API server fills in 720h. Where nobody did, absent means `Never`, as in Karpenter's own types.
    #[serde(default)]
    pub expire_after: NillableDuration,
    /// The most time that pods get to leave a node once it is being deleted; absent means as long as they need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<SpelledDuration>,
}

open_enum! {
    /// Which nodes may be removed to save money.
    #[derive(Default)]
    ConsolidationPolicy {
        /// Only nodes without pods that matter.
        WhenEmpty = "WhenEmpty",
        /// Also nodes whose pods fit elsewhere, or on something cheaper.
        #[default]
        WhenEmptyOrUnderutilized = "WhenEmptyOrUnderutilized",
    }
}

open_enum! {
    /// Why a node is disrupted.
    DisruptionReason {
        /// Its pods fit elsewhere, or on something cheaper.
        Underutilized = "Underutilized",
        /// It has no pods that matter.
        Empty = "Empty",
        /// It is no longer what its pool asks for.
        Drifted = "Drifted",
    }
}

/// When nodes of a pool may be removed to save money.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// How long no pod may have come or gone before a node is considered, or Never.
    #[serde(default = "at_once")]
    pub consolidate_after: NillableDuration,
    /// Which nodes are considered.
    #[serde(default)]
    pub consolidation_policy: ConsolidationPolicy,
    /// How many nodes may be disrupted at the same time; the strictest active budget counts.
    ///
    /// An explicit empty list means no limit and must stay one (surface T5), so it is always written.
    #[serde(default = "default_budgets")]
    pub budgets: Vec<Budget>,
}

impl Default for Disruption {
    fn default() -> Self {
        Self {
            consolidate_after: at_once(),
            consolidation_policy: ConsolidationPolicy::default(),
            budgets: default_budgets(),
        }
    }
}

fn at_once() -> NillableDuration {
    NillableDuration::from(super::GoDuration::ZERO)
}

fn default_budgets() -> Vec<Budget> {
    vec![Budget::default()]
}

fn ten_percent() -> String {
    "10%".to_owned()
}

/// How many nodes of a pool may be disrupted at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// A number of nodes, or a percentage of the pool's nodes (rounded up).
    #[serde(default = "ten_percent")]
    pub nodes: String,
    /// The reasons that this budget limits; absent means all.
    ///
    /// Absent and empty are not the same thing to whoever reads the object again, so both are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<DisruptionReason>>,
    /// When the budget begins to be active, in cron form and UTC; needs a duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// For how long the budget is active after each beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<SpelledDuration>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            nodes: ten_percent(),
            reasons: None,
            schedule: None,
            duration: None,
        }
    }
}

/// NodePoolStatus is what was last seen of a NodePool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// What all nodes of the pool offer together.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub resources: ResourceList,
    /// How many nodes the pool has.
    #[serde(default, deserialize_with = "null_as_default")]
    pub nodes: i64,
    /// The generation of the NodeClass for which registration health was last judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// What is known about the pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}

impl NodePool {
    /// Whether pods do not decide how many nodes there are.
    pub fn is_static(&self) -> bool {
        self.spec.replicas.is_some()
    }

    /// Whether its NodeClass is of one of the kinds that we serve (lifecycle 0.4).
    pub fn is_managed(&self, kinds: &[NodeClassKind]) -> bool {
        self.spec.template.spec.node_class_ref.is_of_any(kinds)
    }

    /// The weight, 0 when none is given.
    pub fn weight(&self) -> i32 {
        self.spec.weight.unwrap_or(0)
    }

    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

impl Conditioned for NodePool {
    const DEPENDENTS: &'static [&'static str] = &[conditions::VALIDATION_SUCCEEDED, conditions::NODE_CLASS_READY];

    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.status.get_or_insert_default().conditions
    }
}

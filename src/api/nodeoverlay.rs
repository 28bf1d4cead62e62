//! NodeOverlay: a user's correction to the price or the capacity of instance types (alpha).
//!
//! Only the type and its schema for now (surface §1.4): nothing applies overlays yet. Relies on the shared pieces of this module.

use super::{Condition, Operator, ResourceList, conditions, conditions::Conditioned, decode::null_as_default};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// NodeOverlaySpec is what an overlay changes, and where.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::duplicated_attributes)] // each printer column has the same keys
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    plural = "nodeoverlays",
    singular = "nodeoverlay",
    shortname = "overlays",
    category = "karpenter",
    status = "NodeOverlayStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "NodeOverlay corrects the price or the capacity of the instance types it selects.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1)
)]
pub struct NodeOverlaySpec {
    /// Which instance types and offerings are changed.
    #[serde(default, deserialize_with = "null_as_default")]
    pub requirements: Vec<NodeSelectorRequirement>,
    /// The price to use instead, per hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// A signed amount or percentage by which the price changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_adjustment: Option<String>,
    /// Further resources that the instance types have; not cpu, memory, ephemeral-storage or pods.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub capacity: ResourceList,
    /// Of overlays that change the same thing the one with the greatest weight counts; absent means 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// A requirement on one node label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelectorRequirement {
    /// The label's key.
    pub key: String,
    /// How the label is compared with the values.
    pub operator: Operator,
    /// Values to compare with: none for Exists and DoesNotExist, one whole number for Gt, Lt, Gte and Lte.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub values: Vec<String>,
}

/// NodeOverlayStatus is what was last seen of an overlay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlayStatus {
    /// What is known about the overlay.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}

impl Conditioned for NodeOverlay {
    const DEPENDENTS: &'static [&'static str] = &[conditions::VALIDATION_SUCCEEDED];

    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.status.get_or_insert_default().conditions
    }
}

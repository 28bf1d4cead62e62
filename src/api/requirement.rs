//! Requirements on node labels as users write them; what they mean is decided in `scheduling`.
//!
//! Relies on nothing; called by the NodePool, NodeClaim and NodeOverlay types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

open_enum! {
    /// How a requirement compares a label with its values.
    Operator {
        /// The number is at least the value.
        Gte = "Gte",
        /// The number is at most the value.
        Lte = "Lte",
        /// The label has one of the values.
        In = "In",
        /// The label has none of the values, or is absent.
        NotIn = "NotIn",
        /// The label is there.
        Exists = "Exists",
        /// The label is not there.
        DoesNotExist = "DoesNotExist",
        /// The number is greater than the value.
        Gt = "Gt",
        /// The number is less than the value.
        Lt = "Lt",
    }
}

impl Operator {
    /// Whether it compares numbers.
    pub fn is_comparison(&self) -> bool {
        matches!(self, Self::Gt | Self::Lt | Self::Gte | Self::Lte)
    }
}

/// A requirement on one node label, optionally with the number of distinct values that must stay possible.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelectorRequirementWithMinValues {
    /// The label's key.
    pub key: String,
    /// How the label is compared with the values.
    pub operator: Operator,
    /// Values to compare with: none for Exists and DoesNotExist, one whole number for Gt, Lt, Gte and Lte.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::decode::null_as_default"
    )]
    pub values: Vec<String>,
    /// How many distinct values must remain to choose from (alpha).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_values: Option<i64>,
}

impl NodeSelectorRequirementWithMinValues {
    /// A requirement without `minValues`.
    pub fn new(
        key: impl Into<String>,
        operator: Operator,
        values: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            key: key.into(),
            operator,
            values: values.into_iter().map(Into::into).collect(),
            min_values: None,
        }
    }
}

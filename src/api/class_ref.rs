//! Which NodeClass an object refers to, and which kinds of NodeClass this operator serves.
//!
//! Relies on nothing; called by the NodePool and NodeClaim types and by whoever asks "is this ours?" (lifecycle 0.4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Reference to a cluster-scoped NodeClass.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassReference {
    /// API group of the NodeClass, without a version.
    #[serde(default)]
    pub group: String,
    /// Kind of the NodeClass.
    #[serde(default)]
    pub kind: String,
    /// Name of the NodeClass.
    #[serde(default)]
    pub name: String,
}

impl NodeClassReference {
    /// Whether the referenced NodeClass is of this kind.
    pub fn is_of(&self, kind: &NodeClassKind) -> bool {
        self.group == kind.group && self.kind == kind.kind
    }

    /// Whether the referenced NodeClass is of one of these kinds.
    pub fn is_of_any(&self, kinds: &[NodeClassKind]) -> bool {
        kinds.iter().any(|kind| self.is_of(kind))
    }

    /// The label that carries the NodeClass's name on claims and nodes (lifecycle 0.1).
    pub fn label_key(&self) -> String {
        label_key(&self.group, &self.kind)
    }
}

/// A kind of NodeClass that a provider serves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeClassKind {
    /// API group.
    pub group: Cow<'static, str>,
    /// Kind.
    pub kind: Cow<'static, str>,
}

impl NodeClassKind {
    /// A kind by its group and name.
    pub const fn new(group: &'static str, kind: &'static str) -> Self {
        Self {
            group: Cow::Borrowed(group),
            kind: Cow::Borrowed(kind),
        }
    }

    /// The label that carries the NodeClass's name on claims and nodes (lifecycle 0.1).
    pub fn label_key(&self) -> String {
        label_key(&self.group, &self.kind)
    }
}

fn label_key(group: &str, kind: &str) -> String {
    format!("{group}/{}", kind.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_is_the_group_and_the_kind_in_lower_case() {
        let kind = NodeClassKind::new("karpenter.rackspace.com", "RackspaceSpotNodeClass");
        assert_eq!(kind.label_key(), "karpenter.rackspace.com/rackspacespotnodeclass");
        let reference = NodeClassReference {
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            name: "default".into(),
        };
        assert_eq!(reference.label_key(), kind.label_key());
        assert!(reference.is_of_any(&[NodeClassKind::new("other", "Class"), kind.clone()]));
        assert!(!reference.is_of_any(&[NodeClassKind::new("other", "RackspaceSpotNodeClass")]));
    }
}

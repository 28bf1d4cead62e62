//! RackspaceSpotNodeClass: what is particular to machines of Rackspace Spot, and the names we use on them.
//!
//! Only the type and constants (surface §1.4, surface §2.1). Relies on the shared pieces of this module; called by the NodeClass controller, the node-link
//! controller and the provider.

use super::crd::{ConditionSchema, Definition, Schema, condition, unchecked_taints};
use super::{Condition, NodeClassKind, conditions, conditions::Conditioned, decode::null_as_default};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::ClusterResourceScope;
use schemars::JsonSchema;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// API group of the provider's own kind and labels.
pub const GROUP: &str = "karpenter.rackspace.com";

/// The kind of NodeClass that we serve.
pub const KIND: NodeClassKind = NodeClassKind::new(GROUP, "RackspaceSpotNodeClass");

/// Label with the NodeClass's name, on claims and nodes; a node that carries it is ours to manage (surface T20).
pub const NODE_CLASS_LABEL: &str = "karpenter.rackspace.com/rackspacespotnodeclass";

/// Label `true` on pools and nodes that we made.
pub const MANAGED_LABEL: &str = "karpenter.rackspace.com/managed";

/// Label with the claim's name, on pools and nodes.
pub const NODECLAIM_NAME_LABEL: &str = "karpenter.rackspace.com/nodeclaim-name";

/// Label with the claim's UID, on pools and nodes.
pub const NODECLAIM_UID_LABEL: &str = "karpenter.rackspace.com/nodeclaim-uid";

/// RackspaceSpotNodeClass says how machines of Rackspace Spot are bid for, and what is put on their nodes.
///
/// Written out rather than derived: kube's derive demands a spec, and here it may be absent (surface §1.4).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct RackspaceSpotNodeClass {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the user asks for; a class without a spec means the defaults.
    #[serde(default, deserialize_with = "null_as_default")]
    pub spec: RackspaceSpotNodeClassSpec,
    /// What was found out.
    #[serde(default)]
    pub status: Option<RackspaceSpotNodeClassStatus>,
}

impl Serialize for RackspaceSpotNodeClass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = 4 + usize::from(self.status.is_some());
        let mut object = serializer.serialize_struct("RackspaceSpotNodeClass", fields)?;
        object.serialize_field("apiVersion", &Self::api_version(&()))?;
        object.serialize_field("kind", &Self::kind(&()))?;
        object.serialize_field("metadata", &self.metadata)?;
        object.serialize_field("spec", &self.spec)?;
        if let Some(status) = &self.status {
            object.serialize_field("status", status)?;
        }
        object.end()
    }
}

impl Resource for RackspaceSpotNodeClass {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.kind
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "rackspacespotnodeclasses".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// RackspaceSpotNodeClassSpec is how machines are bid for, and what Rackspace puts on their nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RackspaceSpotNodeClassSpec {
    /// Which percentile of the class's price history a bid is based on: P20, P50 or P80.
    #[serde(default)]
    pub bid_percentile: BidPercentile,
    /// Labels that Rackspace puts on the nodes; they may replace our own.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub labels: BTreeMap<String, String>,
    /// Annotations that Rackspace puts on the nodes.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub annotations: BTreeMap<String, String>,
    /// Taints that Rackspace puts on the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub taints: Vec<Taint>,
}

open_enum! {
    /// Which percentile of a server class's price history a bid is based on.
    #[derive(Default)]
    BidPercentile {
        /// Cheap, and outbid often.
        P20 = "P20",
        /// In the middle.
        P50 = "P50",
        /// Dear, and rarely outbid.
        #[default]
        P80 = "P80",
    }
}

/// RackspaceSpotNodeClassStatus is what was found out about the cloudspace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RackspaceSpotNodeClassStatus {
    /// The region of the cloudspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The server classes that the region lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub server_classes: Vec<String>,
    /// What is known about the class.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}

impl RackspaceSpotNodeClass {
    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

impl Conditioned for RackspaceSpotNodeClass {
    const DEPENDENTS: &'static [&'static str] = &[conditions::SERVER_CLASSES_DISCOVERED];

    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.status.get_or_insert_default().conditions
    }
}

/// The CustomResourceDefinition. Neither spec nor status is required, and there is no CEL at all (surface §1.4).
pub(super) fn definition() -> Definition {
    let spec = Schema::of::<RackspaceSpotNodeClassSpec>()
        .merge(
            "bidPercentile",
            json!({ "default": "P80", "enum": ["P20", "P50", "P80"] }),
        )
        .replace("taints", unchecked_taints());
    let status = Schema::of::<RackspaceSpotNodeClassStatus>()
        .replace("conditions[]", condition(ConditionSchema::Strict))
        .merge(
            "conditions",
            json!({ "x-kubernetes-list-map-keys": ["type"], "x-kubernetes-list-type": "map" }),
        );
    let schema = Schema::object(
        "RackspaceSpotNodeClass says how machines of Rackspace Spot are bid for, and what is put on their nodes.",
        &[],
        spec,
        status,
    );
    let manifest = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "rackspacespotnodeclasses.karpenter.rackspace.com" },
        "spec": {
            "group": "karpenter.rackspace.com",
            "names": {
                "categories": ["karpenter"],
                "kind": "RackspaceSpotNodeClass",
                "plural": "rackspacespotnodeclasses",
                "shortNames": ["rsnc", "rsncs"],
                "singular": "rackspacespotnodeclass",
            },
            "scope": "Cluster",
            "versions": [{
                "additionalPrinterColumns": [
                    { "jsonPath": ".status.conditions[?(@.type=='Ready')].status", "name": "Ready", "type": "string" },
                    { "jsonPath": ".metadata.creationTimestamp", "name": "Age", "type": "date" },
                ],
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
            }],
        },
    });
    Definition::new(manifest, &schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::decode;
    use chrono::DateTime;

    #[test]
    fn a_class_without_a_spec_bids_by_the_eightieth_percentile() {
        // surface §1.4
        let class: RackspaceSpotNodeClass = decode(json!({
            "apiVersion": "karpenter.rackspace.com/v1", "kind": "RackspaceSpotNodeClass", "metadata": { "name": "default" },
        }))
        .unwrap();
        assert_eq!(class.spec.bid_percentile, BidPercentile::P80);
    }

    #[test]
    fn the_object_is_written_with_its_kind_and_read_back() {
        let class = RackspaceSpotNodeClass {
            status: Some(RackspaceSpotNodeClassStatus::default()),
            ..Default::default()
        };
        let written = serde_json::to_value(&class).unwrap();
        assert_eq!(written["apiVersion"], "karpenter.rackspace.com/v1");
        assert_eq!(written["kind"], "RackspaceSpotNodeClass");
        assert_eq!(decode::<RackspaceSpotNodeClass>(written).unwrap(), class);
    }

    #[test]
    fn the_root_follows_from_the_discovery_of_the_server_classes() {
        // surface §3
        let mut class = RackspaceSpotNodeClass::default();
        assert!(class.initialize_conditions(DateTime::UNIX_EPOCH));
        assert!(class.is_unknown(conditions::READY));
        class.set_true(conditions::SERVER_CLASSES_DISCOVERED, DateTime::UNIX_EPOCH);
        assert!(class.is_ready());
        assert_eq!(class.conditions().len(), 2);
    }

    #[test]
    fn the_label_of_the_class_follows_from_its_kind() {
        assert_eq!(KIND.label_key(), NODE_CLASS_LABEL);
    }
}

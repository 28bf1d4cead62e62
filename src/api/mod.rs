//! The Kubernetes types we own: what users write and what controllers record, as serde types with their schemas.
//!
//! Decides nothing about the cluster. It says what a NodePool, a NodeClaim, a NodeOverlay and a RackspaceSpotNodeClass look like, how their
//! conditions are kept, what their labels are called, when one of them is valid, and how its stored hash is computed. Everything is pure: whoever
//! needs the time passes it in. Every other module stands on this one; it relies only on `k8s-openapi` and `kube`'s derives.
//!
//! Decoding is lenient on purpose: a word that we do not know (an operator, a policy, a reason) is kept as it is, so that one strange object
//! never stops a list or a watch. What is then wrong with it is said by [`validation`], on the object.

#[macro_use]
mod open_enum;

pub mod class_ref;
pub mod conditions;
pub mod crd;
pub mod decode;
pub mod duration;
pub mod hash;
pub mod labels;
pub mod nodeclaim;
pub mod nodeclass;
pub mod nodeoverlay;
pub mod nodepool;
pub mod requirement;
pub mod time;
pub mod validation;

pub use class_ref::{NodeClassKind, NodeClassReference};
pub use conditions::{Condition, ConditionStatus, Conditioned};
pub use decode::{DecodeError, decode};
pub use duration::{DurationError, GoDuration, NillableDuration, SpelledDuration};
pub use nodeclaim::{NodeClaim, NodeClaimSpec, NodeClaimStatus, ResourceRequirements};
pub use nodeclass::{BidPercentile, RackspaceSpotNodeClass, RackspaceSpotNodeClassSpec, RackspaceSpotNodeClassStatus};
pub use nodeoverlay::{NodeOverlay, NodeOverlaySpec, NodeOverlayStatus, NodeSelectorRequirement};
pub use nodepool::{
    Budget, ConsolidationPolicy, Disruption, DisruptionReason, NodeClaimTemplate, NodeClaimTemplateSpec, NodePool,
    NodePoolSpec, NodePoolStatus, TemplateMetadata,
};
pub use requirement::{NodeSelectorRequirementWithMinValues, Operator};

/// Quantities by resource name, as Kubernetes writes them; arithmetic on them is in `resources`.
pub type ResourceList = std::collections::BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>;

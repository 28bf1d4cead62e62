//! Whether a claim still is what its pool asks for, as far as objects tell (lifecycle 11.4); what only the provider knows is asked for after this.
//!
//! Called by the marks controller.

use crate::api::{NodeClaim, NodePool, labels};
use crate::scheduling::requirements::{Operator, Requirement, Requirements, Undefined};
use crate::scheduling::{CapacityType, InstanceType, WellKnownLabels};
use chrono::{DateTime, TimeDelta, Utc};
use std::sync::Arc;

/// The template has changed since the claim was made.
pub const NODE_POOL_DRIFTED: &str = "NodePoolDrifted";
/// The claim's labels do not satisfy the template's requirements.
pub const REQUIREMENTS_DRIFTED: &str = "RequirementsDrifted";

/// What the claim was launched as is not sold any more.
pub const INSTANCE_TYPE_NOT_FOUND: &str = "InstanceTypeNotFound";

/// A claim younger than this is not held against what is sold now (lifecycle 11.5).
pub const TYPE_AGE: TimeDelta = TimeDelta::hours(1);
/// A claim whose type was found is not looked up again for this long (lifecycle 11.5).
pub const TYPE_FOUND_FOR: TimeDelta = TimeDelta::minutes(30);

/// Whether the claim's type is to be looked up now; `found` is when it last was found.
pub fn type_is_due(created: Option<DateTime<Utc>>, found: Option<DateTime<Utc>>, now: DateTime<Utc>) -> bool {
    let old = created.is_some_and(|created| now.signed_duration_since(created) > TYPE_AGE);
    old && found.is_none_or(|found| now.signed_duration_since(found) >= TYPE_FOUND_FOR)
}

/// Whether the claim's type is still sold in a form that fits its labels, whether or not it can be had now (lifecycle 11.5).
pub fn is_sold(claim: &NodeClaim, types: &[Arc<InstanceType>]) -> bool {
    let Some(own) = types
        .iter()
        .find(|known| Some(known.name.as_str()) == claim.instance_type())
    else {
        return false;
    };
    let mut labels = Requirements::from_labels(claim.metadata.labels.iter().flatten());
    if claim.capacity_type() == Some(CapacityType::Reserved.as_str()) {
        // what was paid for in advance may go on as on-demand
        labels.set(Requirement::new(
            crate::api::labels::CAPACITY_TYPE,
            Operator::In,
            [CapacityType::Reserved.as_str(), CapacityType::OnDemand.as_str()],
        ));
    }
    let well_known = WellKnownLabels::default();
    own.offerings
        .iter()
        .any(|offering| offering.matches(&labels, &well_known))
}

/// The reason of the drift that objects show, if any: the template's hash first, its requirements second.
pub fn reason(pool: &NodePool, claim: &NodeClaim) -> Option<&'static str> {
    if is_static_drift(pool, claim) {
        return Some(NODE_POOL_DRIFTED);
    }
    let wanted = Requirements::from_api(&pool.spec.template.spec.requirements);
    let own = Requirements::from_labels(claim.metadata.labels.iter().flatten());
    // A label that the pool demands and the claim does not have is drift: nothing is known by convention here.
    own.compatible(&wanted, Undefined::Strict)
        .is_err()
        .then_some(REQUIREMENTS_DRIFTED)
}

/// Hashes are compared only when both sides have one of the same version.
fn is_static_drift(pool: &NodePool, claim: &NodeClaim) -> bool {
    let of_pool = |key: &str| pool.metadata.annotations.as_ref().and_then(|all| all.get(key));
    let both = |key: &str| Some((of_pool(key)?.as_str(), claim.annotation(key)?));
    let Some((version, own_version)) = both(labels::NODEPOOL_HASH_VERSION_ANNOTATION) else {
        return false;
    };
    let Some((hash, own_hash)) = both(labels::NODEPOOL_HASH_ANNOTATION) else {
        return false;
    };
    version == own_version && hash != own_hash
}

#[cfg(test)]
#[allow(
    clippy::needless_pass_by_value,
    reason = "json! literals as arguments read best without a borrow"
)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const HASH: &str = labels::NODEPOOL_HASH_ANNOTATION;
    const VERSION: &str = labels::NODEPOOL_HASH_VERSION_ANNOTATION;

    fn pool(annotations: Value, requirements: Value) -> NodePool {
        let class = json!({ "group": "g", "kind": "k", "name": "n" });
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "p", "annotations": annotations },
            "spec": { "template": { "spec": { "nodeClassRef": class, "requirements": requirements } } },
        }))
        .unwrap()
    }

    fn claim(annotations: Value, labels: Value) -> NodeClaim {
        let class = json!({ "group": "g", "kind": "k", "name": "n" });
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": { "name": "c", "annotations": annotations, "labels": labels },
            "spec": { "nodeClassRef": class, "requirements": [] },
        }))
        .unwrap()
    }

    #[test]
    fn hashes_count_only_when_all_four_annotations_are_there_and_the_versions_agree() {
        let hashed = |hash: &str, version: &str| json!({ HASH: hash, VERSION: version });
        let judge = |of_pool: Value, of_claim: Value| reason(&pool(of_pool, json!([])), &claim(of_claim, json!({})));
        assert_eq!(judge(hashed("1", "v1"), hashed("2", "v1")), Some(NODE_POOL_DRIFTED));
        assert_eq!(judge(hashed("1", "v1"), hashed("1", "v1")), None);
        assert_eq!(judge(hashed("1", "v2"), hashed("2", "v1")), None);
        assert_eq!(judge(hashed("1", "v1"), json!({ HASH: "2" })), None);
        assert_eq!(judge(json!({ VERSION: "v1" }), hashed("2", "v1")), None);
    }

    fn sold(name: &str, zone: &str) -> Arc<InstanceType> {
        use crate::resources::ResourceList;
        use crate::scheduling::{Availability, Offering, Overhead};
        let mut offering = Offering::new(zone, CapacityType::OnDemand, 1.0);
        offering.availability = Availability::Unavailable {
            reason: "none left".into(),
        };
        Arc::new(InstanceType::new(
            name,
            Requirements::new(),
            vec![offering],
            ResourceList::new(),
            Overhead::default(),
        ))
    }

    #[test]
    fn a_type_that_is_not_sold_any_more_is_drift_and_one_that_is_sold_out_is_not() {
        let launched = |capacity: &str, zone: &str| {
            let labels = json!({ "node.kubernetes.io/instance-type": "a", "karpenter.sh/capacity-type": capacity, "topology.kubernetes.io/zone": zone });
            claim(json!({}), labels)
        };
        assert!(is_sold(&launched("on-demand", "z"), &[sold("a", "z")]));
        assert!(
            is_sold(&launched("reserved", "z"), &[sold("a", "z")]),
            "it goes on as on-demand"
        );
        assert!(!is_sold(&launched("spot", "z"), &[sold("a", "z")]));
        assert!(!is_sold(&launched("on-demand", "z"), &[sold("a", "y")]));
        assert!(!is_sold(&launched("on-demand", "z"), &[sold("b", "z")]));
    }

    #[test]
    fn a_type_is_looked_up_after_an_hour_and_then_every_half_hour() {
        let at = |minute: i64| DateTime::from_timestamp(minute * 60, 0).unwrap();
        assert!(!type_is_due(Some(at(0)), None, at(60)));
        assert!(type_is_due(Some(at(0)), None, at(61)));
        assert!(!type_is_due(Some(at(0)), Some(at(61)), at(90)));
        assert!(type_is_due(Some(at(0)), Some(at(61)), at(91)));
        assert!(!type_is_due(None, None, at(99)));
    }

    #[test]
    fn labels_must_satisfy_the_requirements_without_leniency() {
        let judge = |requirement: Value, labels: Value| {
            reason(&pool(json!({}), json!([requirement])), &claim(json!({}), labels))
        };
        let wants = |operator: &str, values: Value| json!({ "key": "kubernetes.io/arch", "operator": operator, "values": values });
        let arch = |value: &str| json!({ "kubernetes.io/arch": value });
        assert_eq!(judge(wants("In", json!(["amd64"])), arch("amd64")), None);
        assert_eq!(
            judge(wants("In", json!(["amd64"])), arch("arm64")),
            Some(REQUIREMENTS_DRIFTED)
        );
        assert_eq!(judge(wants("Exists", json!([])), json!({})), Some(REQUIREMENTS_DRIFTED));
        assert_eq!(
            judge(wants("In", json!(["amd64"])), json!({})),
            Some(REQUIREMENTS_DRIFTED)
        );
        assert_eq!(judge(wants("NotIn", json!(["arm64"])), json!({})), None);
        assert_eq!(judge(wants("DoesNotExist", json!([])), json!({})), None);
    }
}

//! Pure: what is written on a pool, and so on its node, and what a NodeClaim learns of its machine (surface §2.1).
//!
//! Not among a pool's labels: `node.kubernetes.io/instance-type` and `topology.kubernetes.io/region`, which the cloud controller overwrites anyway
//! while the console warns about the conflict (rackspace-spot §4.4). Called by `launch`.

use crate::api::{NodeClaim, RackspaceSpotNodeClass, labels, nodeclass};
use crate::cloud::spot::types::{NewPool, PoolKind, PoolTaint};
use crate::pricing::Price;
use std::collections::BTreeMap;

/// Label by which the platform names a node's pool (rackspace-spot §5.3).
pub const POOL_LABEL: &str = "nodepool.ngpc.rxt.io/name";

/// Label of the volume plugin with the zone of the volumes that a node can attach; volumes ask for it (rackspace-spot §5.3).
pub const VOLUME_ZONE: &str = "topology.cinder.csi.openstack.org/zone";
/// Its value on every node of the platform.
pub const ONLY_VOLUME_ZONE: &str = "nova";

/// What is decided about a pool before it is asked for.
#[derive(Debug, Clone, Copy)]
pub struct PoolPlan<'a> {
    /// The cloudspace.
    pub cloudspace: &'a str,
    /// Its region.
    pub region: &'a str,
    /// The kind.
    pub kind: PoolKind,
    /// The server class.
    pub server_class: &'a str,
    /// The bid; only for spot.
    pub bid: Option<Price>,
}

/// The pool of a claim.
pub fn pool_of(claim: &NodeClaim, class: &RackspaceSpotNodeClass, plan: PoolPlan<'_>) -> NewPool {
    let uid = claim.uid();
    let identity = BTreeMap::from([
        (nodeclass::MANAGED_LABEL.to_owned(), "true".to_owned()),
        (
            nodeclass::NODECLAIM_NAME_LABEL.to_owned(),
            claim.metadata.name.clone().unwrap_or_default(),
        ),
        (nodeclass::NODECLAIM_UID_LABEL.to_owned(), uid.to_owned()),
    ]);
    let mut custom_labels = BTreeMap::from([
        (labels::CAPACITY_TYPE.to_owned(), plan.kind.capacity_type().to_string()),
        (labels::ZONE.to_owned(), plan.region.to_owned()),
        (
            nodeclass::NODE_CLASS_LABEL.to_owned(),
            claim.spec.node_class_ref.name.clone(),
        ),
    ]);
    if let Some(pool) = claim.nodepool() {
        custom_labels.insert(labels::NODEPOOL.to_owned(), pool.to_owned());
    }
    custom_labels.extend(class.spec.labels.clone());
    // Differs: a NodeClass may replace our labels (surface §1.4) but not those by which node and claim find each other.
    custom_labels.extend(identity.clone());
    NewPool {
        kind: plan.kind,
        name: uid.to_owned(),
        cloudspace: plan.cloudspace.to_owned(),
        server_class: plan.server_class.to_owned(),
        bid: plan.bid,
        labels: identity,
        custom_labels,
        custom_annotations: class.spec.annotations.clone(),
        custom_taints: class
            .spec
            .taints
            .iter()
            .map(|taint| PoolTaint {
                key: taint.key.clone(),
                value: taint.value.clone().filter(|value| !value.is_empty()),
                effect: taint.effect.clone(),
            })
            .collect(),
    }
}

/// The labels that a claim gets from its machine.
pub fn claim_labels(region: &str, kind: PoolKind, server_class: &str) -> BTreeMap<String, String> {
    [
        (labels::INSTANCE_TYPE, server_class),
        (labels::CAPACITY_TYPE, kind.capacity_type().as_str()),
        (labels::ZONE, region),
        (labels::REGION, region),
        (labels::ARCH, "amd64"),
        (labels::OS, "linux"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

/// The volume zone of a claim that asks for one: its node has it from the moment it registers. On other nodes only the volume plugin writes it, which
/// would refuse to start on a node that carries another zone than its own.
pub fn volume_zone(claim: &NodeClaim) -> Option<(String, String)> {
    let asks = claim.spec.requirements.iter().any(|wanted| wanted.key == VOLUME_ZONE);
    asks.then(|| (VOLUME_ZONE.to_owned(), ONLY_VOLUME_ZONE.to_owned()))
}

/// Whether a pool or node carries our mark.
pub fn is_ours(labels: &BTreeMap<String, String>) -> bool {
    labels
        .get(nodeclass::MANAGED_LABEL)
        .is_some_and(|value| value == "true")
}

/// The UID of the claim that a node belongs to: from the platform's own label, which names the pool, else from ours. Custom labels are known to be
/// wiped, and a NodeClass could write them; the platform's label is neither (architecture §7.5).
pub fn claim_of_node(node_labels: &BTreeMap<String, String>) -> Option<String> {
    let written = |key: &str| node_labels.get(key).filter(|value| is_uuid(value)).cloned();
    written(POOL_LABEL).or_else(|| written(nodeclass::NODECLAIM_UID_LABEL))
}

/// Whether a text is a lowercase UUID, which every pool's name must be (rackspace-spot §4.1).
pub fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(i, byte)| match i {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "7f3b0c52-4c1e-4f0e-9a55-0d2f6a1b9c11";

    fn plan() -> PoolPlan<'static> {
        PoolPlan {
            cloudspace: "cs",
            region: "us-east-iad-1",
            kind: PoolKind::Spot,
            server_class: "gp.vs1.large-iad",
            bid: Some(Price::from_mills(40)),
        }
    }

    fn claim() -> NodeClaim {
        let mut claim = NodeClaim::default();
        claim.metadata.uid = Some(UID.into());
        claim.metadata.name = Some("default-abcde".into());
        claim.metadata.labels = Some([(labels::NODEPOOL.to_owned(), "default".to_owned())].into());
        claim.spec.node_class_ref.name = "default".into();
        claim
    }

    #[test]
    fn a_pool_is_named_by_the_claims_uid_and_carries_our_labels_and_the_classs() {
        let mut class = RackspaceSpotNodeClass::default();
        class.spec.labels = [("team".to_owned(), "a".to_owned())].into();
        let body = pool_of(&claim(), &class, plan()).body("org-x");
        assert_eq!(body["metadata"]["name"], UID);
        assert_eq!(body["metadata"]["labels"]["ngpc.rxt.io/cloudspace"], "cs");
        assert_eq!(body["spec"]["desired"], 1);
        assert_eq!(body["spec"]["bidPrice"], "0.04");
        let custom = &body["spec"]["customLabels"];
        for (key, value) in [
            ("karpenter.rackspace.com/managed", "true"),
            ("karpenter.rackspace.com/nodeclaim-uid", UID),
            ("karpenter.rackspace.com/rackspacespotnodeclass", "default"),
            ("karpenter.sh/nodepool", "default"),
            ("karpenter.sh/capacity-type", "spot"),
            ("team", "a"),
        ] {
            assert_eq!(custom[key], value, "{key}");
        }
        for overwritten in [labels::INSTANCE_TYPE, labels::REGION] {
            assert!(custom.get(overwritten).is_none(), "{overwritten}");
        }
    }

    #[test]
    fn a_node_class_may_replace_our_labels_but_not_the_identity() {
        let mut class = RackspaceSpotNodeClass::default();
        class.spec.labels = [
            (labels::ZONE.to_owned(), "mine".to_owned()),
            (nodeclass::NODECLAIM_UID_LABEL.to_owned(), "stolen".to_owned()),
        ]
        .into();
        let pool = pool_of(&claim(), &class, plan());
        assert_eq!(pool.custom_labels[labels::ZONE], "mine");
        assert_eq!(pool.custom_labels[nodeclass::NODECLAIM_UID_LABEL], UID);
    }

    #[test]
    fn an_on_demand_pool_carries_no_bid() {
        let body = pool_of(
            &claim(),
            &RackspaceSpotNodeClass::default(),
            PoolPlan {
                kind: PoolKind::OnDemand,
                bid: None,
                ..plan()
            },
        )
        .body("org-x");
        assert_eq!(body["kind"], "OnDemandNodePool");
        assert!(body["spec"].get("bidPrice").is_none());
    }

    #[test]
    fn a_claim_has_a_volume_zone_only_when_a_volume_asks_for_one() {
        let mut claim = claim();
        assert_eq!(volume_zone(&claim), None);
        claim
            .spec
            .requirements
            .push(crate::api::NodeSelectorRequirementWithMinValues::new(
                VOLUME_ZONE,
                crate::api::Operator::In,
                ["nova"],
            ));
        assert_eq!(volume_zone(&claim), Some((VOLUME_ZONE.to_owned(), "nova".to_owned())));
    }

    #[test]
    fn a_node_is_joined_to_its_claim_by_the_platforms_label_first() {
        let other = "00000000-0000-4000-8000-000000000000";
        let labels = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let both = labels(&[(POOL_LABEL, UID), (nodeclass::NODECLAIM_UID_LABEL, other)]);
        assert_eq!(claim_of_node(&both).as_deref(), Some(UID));
        assert_eq!(
            claim_of_node(&labels(&[(nodeclass::NODECLAIM_UID_LABEL, UID)])).as_deref(),
            Some(UID)
        );
        assert_eq!(claim_of_node(&labels(&[(POOL_LABEL, "seed-pool")])), None);
    }
}

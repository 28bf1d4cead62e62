//! `metrics.nodepool`: limits, usage and cost of each NodePool (surface §5.2).
//!
//! The price of a machine is that of its claim's offering: type, capacity type and zone as the claim's labels name them. A claim without them costs
//! nothing yet. Prices move by themselves, so the wiring runs this again every hour, as upstream does.

use super::differences::{amount, resource_type};
use crate::api::{NodeClaim, labels};
use crate::cluster::Snapshot;
use crate::cluster::entries::PoolEntry;
use crate::controllers::Kit;
use crate::resources::ResourceList;
use crate::scheduling::InstanceType;
use crate::telemetry::{Sample, SeriesStore};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The controller.
#[derive(Debug)]
pub struct PoolFollower {
    kit: Kit,
}

impl PoolFollower {
    /// The controller.
    pub fn new(kit: Kit) -> Self {
        Self { kit }
    }

    /// Brings what is shown to this snapshot.
    pub async fn follow(&self, snapshot: &Snapshot) {
        let metrics = &self.kit.metrics.nodepools;
        let mut claims: BTreeMap<&str, Vec<&NodeClaim>> = BTreeMap::new();
        for claim in snapshot.objects.claims.values() {
            if let Some(pool) = claim.nodepool() {
                claims.entry(pool).or_default().push(&claim.facts);
            }
        }
        let mut names = BTreeSet::new();
        for pool in snapshot.objects.pools.values() {
            let name = pool.name();
            names.insert(name);
            show(&metrics.limit, name, &ResourceList::from_api(&pool.spec.limits));
            let used = pool
                .status
                .as_ref()
                .map(|status| ResourceList::from_api(&status.resources));
            show(&metrics.usage, name, &used.unwrap_or_default());
            let claims = claims.get(name).map(Vec::as_slice).unwrap_or_default();
            if let Some(cost) = self.cost(pool, claims).await {
                metrics.cost.set(name, [name], cost);
            }
        }
        for store in [&metrics.limit, &metrics.usage] {
            store.retain(|name| names.contains(name));
        }
        metrics.cost.retain(|name| names.contains(name));
    }

    /// What the pool's claims cost an hour; nothing when the provider cannot say, so that the last figure stays.
    async fn cost(&self, pool: &PoolEntry, claims: &[&NodeClaim]) -> Option<f64> {
        if !pool.is_managed(self.kit.provider.node_class_kinds()) {
            return None;
        }
        if claims.is_empty() {
            return Some(0.0);
        }
        match self.kit.provider.instance_types(&pool.facts).await {
            Ok(types) => Some(claims.iter().filter_map(|claim| price(claim, &types)).sum()),
            Err(error) => {
                tracing::debug!(
                    NodePool = pool.name(),
                    error = error.full_text(),
                    "the prices of a NodePool's machines are not known"
                );
                self.kit.metrics.nodepools.cost_errors.increment([pool.name()]);
                None
            }
        }
    }
}

/// The price of the offering that a claim's labels name.
fn price(claim: &NodeClaim, types: &[Arc<InstanceType>]) -> Option<f64> {
    let known = claim.metadata.labels.as_ref()?;
    let wanted = known.get(labels::INSTANCE_TYPE)?;
    let kind = types.iter().find(|kind| kind.name == *wanted)?;
    let offering = kind.offerings.iter().find(|offering| {
        offering.capacity_type().map(crate::scheduling::CapacityType::as_str)
            == known.get(labels::CAPACITY_TYPE).map(String::as_str)
            && known.get(labels::ZONE).is_none_or(|zone| offering.zone() == Some(zone))
    })?;
    Some(offering.price)
}

fn show(store: &SeriesStore<2>, pool: &str, resources: &ResourceList) {
    let named: Vec<(String, f64)> = resources
        .iter()
        .map(|(name, quantity)| (resource_type(name), amount(name, quantity)))
        .collect();
    store.replace(
        pool,
        named.iter().map(|(resource, value)| Sample {
            labels: [resource.as_str(), pool],
            value: *value,
        }),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::{CapacityType, Offering, Overhead};
    use serde_json::json;

    fn types() -> Vec<Arc<InstanceType>> {
        let offerings = vec![
            Offering::new("z", CapacityType::Spot, 0.25),
            Offering::new("z", CapacityType::OnDemand, 1.0),
        ];
        let kind = InstanceType::new(
            "t",
            std::iter::empty::<crate::scheduling::Requirement>().collect(),
            offerings,
            ResourceList::new(),
            Overhead::default(),
        );
        vec![Arc::new(kind)]
    }

    fn claim(labels: &serde_json::Value) -> NodeClaim {
        NodeClaim {
            metadata: serde_json::from_value(json!({ "name": "c", "labels": labels })).unwrap(),
            ..NodeClaim::default()
        }
    }

    #[test]
    fn a_claim_costs_what_its_own_offering_costs() {
        let labels = |capacity_type: &str, zone: &str| json!({ labels::INSTANCE_TYPE: "t", labels::CAPACITY_TYPE: capacity_type, labels::ZONE: zone });
        assert_eq!(price(&claim(&labels("spot", "z")), &types()), Some(0.25));
        assert_eq!(price(&claim(&labels("on-demand", "z")), &types()), Some(1.0));
        assert_eq!(price(&claim(&labels("on-demand", "elsewhere")), &types()), None);
        assert_eq!(price(&claim(&json!({})), &types()), None);
        assert_eq!(price(&claim(&json!({ labels::INSTANCE_TYPE: "u" })), &types()), None);
    }
}

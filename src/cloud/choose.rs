//! Pure: which offering a launch tries first (architecture §7.15).
//!
//! Compatible with the claim, available now, large enough; then the cheapest, then the one with the least left over (share of cpu + share of
//! memory), then by name. Prices are what would be billed. Called by the providers when a claim is to be launched.

use crate::api::{NodeClaim, NodeSelectorRequirementWithMinValues};
use crate::resources::{ResourceList, names};
use crate::scheduling::requirements::Spec;
use crate::scheduling::{CapacityType, InstanceType, Requirements, WellKnownLabels};
use std::sync::Arc;

/// One way to launch a claim.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The instance type.
    pub instance_type: Arc<InstanceType>,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// What an hour would be billed.
    pub price: f64,
}

/// What a claim asks for, in the solver's words. A requirement whose operator is unknown is left out: admission refuses it, so it can only come from a
/// newer API, and a machine that is too general is better than none.
pub fn requirements_of(claim: &NodeClaim) -> Requirements {
    let specs: Vec<Spec> = claim.spec.requirements.iter().filter_map(spec_of).collect();
    Requirements::from_specs(&specs)
}

fn spec_of(written: &NodeSelectorRequirementWithMinValues) -> Option<Spec> {
    Some(Spec {
        key: written.key.clone(),
        operator: written.operator.as_str().parse().ok()?,
        values: written.values.clone(),
        min_values: written.min_values.and_then(|n| u32::try_from(n).ok()),
    })
}

/// All ways to launch a claim now, the best first.
pub fn choices(claim: &NodeClaim, types: &[Arc<InstanceType>], well_known: &WellKnownLabels) -> Vec<Choice> {
    let requirements = requirements_of(claim);
    let requests = ResourceList::from_api(&claim.spec.resources.requests);
    let mut found: Vec<(Choice, f64)> = Vec::new();
    for kind in types
        .iter()
        .filter(|kind| kind.matches(&requirements) && requests.fits(kind.allocatable()))
    {
        let left = left_over(&requests, kind.allocatable());
        for offering in kind.available(&requirements, well_known) {
            let Some(capacity_type) = offering.capacity_type() else {
                continue;
            };
            let choice = Choice {
                instance_type: Arc::clone(kind),
                capacity_type,
                price: offering.price,
            };
            found.push((choice, left));
        }
    }
    found.sort_by(|(a, a_left), (b, b_left)| {
        a.price
            .total_cmp(&b.price)
            .then(a_left.total_cmp(b_left))
            .then_with(|| a.instance_type.name.cmp(&b.instance_type.name))
            .then(a.capacity_type.cmp(&b.capacity_type))
    });
    found.into_iter().map(|(choice, _)| choice).collect()
}

/// Share of cpu plus share of memory that nobody asked for.
fn left_over(requests: &ResourceList, allocatable: &ResourceList) -> f64 {
    [names::CPU, names::MEMORY]
        .into_iter()
        .map(|name| {
            let has = allocatable.amount(name).approximate();
            if has > 0.0 {
                1.0 - requests.amount(name).approximate() / has
            } else {
                0.0
            }
        })
        .sum()
}

/// Why nothing fits, in words: how many types each condition left over.
pub fn why_none(claim: &NodeClaim, types: &[Arc<InstanceType>], well_known: &WellKnownLabels) -> String {
    let requirements = requirements_of(claim);
    let requests = ResourceList::from_api(&claim.spec.resources.requests);
    let compatible: Vec<_> = types.iter().filter(|kind| kind.matches(&requirements)).collect();
    let large: Vec<_> = compatible
        .iter()
        .filter(|kind| requests.fits(kind.allocatable()))
        .collect();
    let mut reasons: Vec<String> = large
        .iter()
        .flat_map(|kind| kind.offerings.iter().map(move |offering| (kind, offering)))
        .filter(|(_, offering)| offering.matches(&requirements, well_known))
        .filter_map(|(kind, offering)| match &offering.availability {
            crate::scheduling::Availability::Available => None,
            crate::scheduling::Availability::Unavailable { reason } => {
                let paid = offering.capacity_type().map_or("", CapacityType::as_str);
                Some(format!("{} {paid}: {reason}", kind.name))
            }
        })
        .collect();
    reasons.truncate(5);
    format!(
        "of {} instance types {} are compatible and {} of these large enough; {}",
        types.len(),
        compatible.len(),
        large.len(),
        if reasons.is_empty() {
            "none has an offering".to_owned()
        } else {
            reasons.join("; ")
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Operator, labels};
    use crate::resources::Quantity;
    use crate::scheduling::{Availability, Offering, Overhead, Requirement};
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

    fn kind(name: &str, cpu: i64, gib: i64, price: f64) -> Arc<InstanceType> {
        let capacity = ResourceList::new()
            .with("cpu", Quantity::units(cpu))
            .with("memory", Quantity::bytes(gib << 30));
        let requirements = [Requirement::is(labels::INSTANCE_TYPE, name)].into_iter().collect();
        let offerings = vec![
            Offering::new("r", CapacityType::Spot, price),
            Offering::new("r", CapacityType::OnDemand, price * 3.0),
        ];
        Arc::new(InstanceType::new(
            name,
            requirements,
            offerings,
            capacity,
            Overhead::default(),
        ))
    }

    fn claim(cpu: &str, memory: &str, capacity_types: &[&str]) -> NodeClaim {
        let mut claim = NodeClaim::default();
        claim.spec.requirements.push(NodeSelectorRequirementWithMinValues::new(
            labels::CAPACITY_TYPE,
            Operator::In,
            capacity_types.iter().copied(),
        ));
        claim.spec.resources.requests = [
            ("cpu".to_owned(), ApiQuantity(cpu.into())),
            ("memory".to_owned(), ApiQuantity(memory.into())),
        ]
        .into();
        claim
    }

    fn names(claim: &NodeClaim, types: &[Arc<InstanceType>]) -> Vec<String> {
        choices(claim, types, &WellKnownLabels::default())
            .into_iter()
            .map(|c| format!("{} {}", c.instance_type.name, c.capacity_type))
            .collect()
    }

    #[test]
    fn the_cheapest_comes_first_then_least_left_over_then_the_name() {
        // architecture §7.15
        let types = [
            kind("c", 8, 8, 0.02),
            kind("b", 4, 8, 0.01),
            kind("a", 4, 16, 0.01),
            kind("b2", 4, 8, 0.01),
        ];
        assert_eq!(
            names(&claim("2", "4Gi", &["spot"]), &types),
            ["b spot", "b2 spot", "a spot", "c spot"]
        );
    }

    #[test]
    fn only_what_is_compatible_large_enough_and_available_is_tried() {
        let mut gone = InstanceType::clone(&kind("gone", 4, 8, 0.001));
        for offering in &mut gone.offerings {
            offering.availability = Availability::Unavailable {
                reason: "cooling down".into(),
            };
        }
        let types = [Arc::new(gone), kind("small", 1, 1, 0.001), kind("fits", 4, 8, 0.01)];
        assert_eq!(names(&claim("2", "4Gi", &["on-demand"]), &types), ["fits on-demand"]);
        let words = why_none(&claim("2", "4Gi", &["spot"]), &types[..2], &WellKnownLabels::default());
        assert!(words.contains("gone spot: cooling down"), "{words}");
    }
}

//! NodeOverlays: what users correct of the price or the capacity of instance types (scheduling §26).
//!
//! Decides which overlays hold ([`evaluate`]: each by itself, then against those of the same weight) and what they make of the types of a NodePool
//! ([`Overlays::applied`]). Relies on the API's own validation and on the requirement algebra. Called by the overlay controller and by the
//! provider's decorator; nothing is changed at the provider itself.
//!
//! What holds is kept as overlays, not as changed types: prices move every few minutes, and an overlay holds for what comes later too.

use super::instance_type::{InstanceType, adjusted_price};
use super::labels::{self, WellKnownLabels};
use super::problem::Pool;
use super::requirements::{Operator, Requirement, Requirements, Undefined};
use crate::api::{NodeOverlay, validation};
use crate::resources::ResourceList;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What was found out about one overlay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OverlayVerdict {
    /// It holds.
    Accepted,
    /// It makes no sense by itself; why (scheduling 26-3).
    Invalid(String),
    /// One of the same weight changes the same thing (scheduling 26-5).
    Conflict,
}

/// One overlay that holds.
#[derive(Debug, Clone)]
struct Overlay {
    requirements: Requirements,
    /// A price, or a signed change of it.
    price: Option<String>,
    capacity: ResourceList,
}

impl From<&NodeOverlay> for Overlay {
    fn from(overlay: &NodeOverlay) -> Self {
        let requirements = overlay.spec.requirements.iter().map(|own| {
            let operator = own.operator.as_str().parse::<Operator>();
            operator.map_or_else(
                |_| Requirement::does_not_exist(&own.key),
                |operator| Requirement::new(&own.key, operator, own.values.iter().map(String::as_str)),
            )
        });
        Self {
            requirements: requirements.collect(),
            price: overlay
                .spec
                .price
                .clone()
                .or_else(|| overlay.spec.price_adjustment.clone()),
            capacity: ResourceList::from_api(&overlay.spec.capacity),
        }
    }
}

impl Overlay {
    /// The offerings of a type that it speaks of; none when it does not speak of the type (scheduling 26-4).
    fn offerings(&self, seen: &Requirements, kind: &InstanceType, well_known: &WellKnownLabels) -> Vec<usize> {
        if seen.compatible(&self.requirements, Undefined::Strict).is_err() {
            return Vec::new();
        }
        let offerings = kind.offerings.iter().enumerate();
        offerings
            .filter(|(_, offering)| offering.matches(&self.requirements, well_known))
            .map(|(at, _)| at)
            .collect()
    }
}

/// What overlays see of a type in a pool: pool, template and NodeClass labels, and the type's own (scheduling 26-4).
fn seen(pool_labels: &BTreeMap<String, String>, kind: &InstanceType) -> Requirements {
    Requirements::from_labels(pool_labels).and(&kind.requirements)
}

/// What earlier overlays changed of one type in one pool.
#[derive(Debug, Default)]
struct Touched {
    /// For each offering the least weight that set its price.
    prices: BTreeMap<usize, i32>,
    /// The least weight that set a capacity, and everything that was set by that weight.
    ///
    /// Differs: upstream remembers only what the last overlay of that weight set (scheduling 26-6).
    capacity: Option<(i32, BTreeSet<String>)>,
}

impl Touched {
    fn clashes(&self, overlay: &Overlay, weight: i32, offerings: &[usize]) -> bool {
        let priced = overlay.price.is_some() && offerings.iter().any(|at| self.prices.get(at) == Some(&weight));
        let taken = |name: &str| {
            let of_that_weight = self.capacity.as_ref().filter(|(least, _)| *least == weight);
            of_that_weight.is_some_and(|(_, names)| names.contains(name))
        };
        priced || overlay.capacity.iter().any(|(name, _)| taken(name))
    }

    /// Overlays come by falling weight, so that the newest weight is the least.
    fn note(&mut self, overlay: &Overlay, weight: i32, offerings: &[usize]) {
        if overlay.price.is_some() {
            self.prices.extend(offerings.iter().map(|at| (*at, weight)));
        }
        if overlay.capacity.is_empty() {
            return;
        }
        let names = overlay.capacity.iter().map(|(name, _)| name.to_owned());
        match &mut self.capacity {
            Some((least, known)) if *least == weight => known.extend(names),
            other => *other = Some((weight, names.collect())),
        }
    }
}

/// The overlays that hold, for the pools that were looked at.
#[derive(Debug, Clone, Default)]
pub struct Overlays {
    /// By falling weight, then by name backwards: the first that speaks of something decides it.
    accepted: Vec<Overlay>,
    pools: BTreeSet<String>,
}

/// What one look at all overlays brought.
#[derive(Debug, Clone, Default)]
pub struct Evaluation {
    /// By name.
    pub verdicts: BTreeMap<String, OverlayVerdict>,
    /// What holds.
    pub overlays: Overlays,
}

/// Judges all overlays against all pools and their types (scheduling 26-2).
pub fn evaluate<'a>(
    overlays: impl IntoIterator<Item = &'a NodeOverlay>,
    pools: &[Pool],
    well_known: &WellKnownLabels,
) -> Evaluation {
    let name = |overlay: &NodeOverlay| overlay.metadata.name.clone().unwrap_or_default();
    let weight = |overlay: &NodeOverlay| overlay.spec.weight.unwrap_or(0);
    let mut order: Vec<&NodeOverlay> = overlays.into_iter().collect();
    order.sort_by_key(|overlay| Reverse((weight(overlay), name(overlay))));
    let types: Vec<(Requirements, &InstanceType)> = pools
        .iter()
        .flat_map(|pool| {
            let own = pool.claim_labels();
            let kinds = pool.instance_types.iter();
            kinds.map(move |kind| (seen(&own, kind), kind.as_ref()))
        })
        .collect();
    let mut touched: BTreeMap<usize, Touched> = BTreeMap::new();
    let mut result = Evaluation::default();
    for one in order {
        let findings = validation::validate_nodeoverlay(one);
        if !findings.is_valid() {
            result
                .verdicts
                .insert(name(one), OverlayVerdict::Invalid(findings.message()));
            continue;
        }
        let (overlay, weight) = (Overlay::from(one), weight(one));
        let hits: Vec<(usize, Vec<usize>)> = types
            .iter()
            .enumerate()
            .map(|(at, (seen, kind))| (at, overlay.offerings(seen, kind, well_known)))
            .filter(|(_, offerings)| !offerings.is_empty())
            .collect();
        let clash = |(at, offerings): &(usize, Vec<usize>)| {
            touched
                .get(at)
                .is_some_and(|earlier| earlier.clashes(&overlay, weight, offerings))
        };
        if hits.iter().any(clash) {
            result.verdicts.insert(name(one), OverlayVerdict::Conflict);
            continue;
        }
        for (at, offerings) in &hits {
            touched.entry(*at).or_default().note(&overlay, weight, offerings);
        }
        result.verdicts.insert(name(one), OverlayVerdict::Accepted);
        result.overlays.accepted.push(overlay);
    }
    result.overlays.pools = pools.iter().map(|pool| pool.name.clone()).collect();
    result
}

impl Overlays {
    /// Whether a pool was looked at; until then nothing is launched from it (scheduling 26-8, 2-4).
    pub fn knows(&self, pool: &str) -> bool {
        self.pools.contains(pool)
    }

    /// The types of a pool as its overlays make them; a type that no overlay speaks of is the same object (scheduling 26-8).
    pub fn applied(
        &self,
        pool_labels: &BTreeMap<String, String>,
        kinds: &Arc<[Arc<InstanceType>]>,
        well_known: &WellKnownLabels,
    ) -> Arc<[Arc<InstanceType>]> {
        if self.accepted.is_empty() {
            return Arc::clone(kinds);
        }
        let made = kinds.iter().map(|kind| {
            self.applied_to(pool_labels, kind, well_known)
                .map_or_else(|| Arc::clone(kind), Arc::new)
        });
        made.collect()
    }

    fn applied_to(
        &self,
        pool_labels: &BTreeMap<String, String>,
        kind: &InstanceType,
        well_known: &WellKnownLabels,
    ) -> Option<InstanceType> {
        let seen = seen(pool_labels, kind);
        let mut prices: BTreeMap<usize, &str> = BTreeMap::new();
        let mut capacity = ResourceList::new();
        for overlay in &self.accepted {
            let offerings = overlay.offerings(&seen, kind, well_known);
            if offerings.is_empty() {
                continue;
            }
            for at in offerings {
                if let Some(price) = &overlay.price {
                    prices.entry(at).or_insert(price);
                }
            }
            add_missing(&mut capacity, &overlay.capacity);
        }
        if prices.is_empty() && capacity.is_empty() {
            return None;
        }
        let mut offerings = kind.offerings.clone();
        for (offering, price) in offerings
            .iter_mut()
            .enumerate()
            .filter_map(|(at, offering)| Some((offering, prices.get(&at)?)))
        {
            offering.price = adjusted_price(offering.price, price);
            offering.price_overlaid = true;
        }
        let mut whole = kind.capacity.clone();
        for (name, quantity) in capacity.iter() {
            whole.set(name, quantity);
        }
        let mut made = InstanceType::new(
            kind.name.clone(),
            kind.requirements.clone(),
            offerings,
            whole,
            kind.overhead.clone(),
        );
        made.capacity_overlaid = kind.capacity_overlaid || !capacity.is_empty();
        Some(made)
    }

    /// What overlays add to a machine with these labels, wherever and however paid for it is: capacity holds for a type as a whole
    /// (scheduling 26-4).
    pub fn added_capacity(&self, machine: &BTreeMap<String, String>, well_known: &WellKnownLabels) -> ResourceList {
        let mut seen = Requirements::from_labels(machine);
        seen.remove(labels::ZONE);
        seen.remove(labels::CAPACITY_TYPE);
        let mut capacity = ResourceList::new();
        for overlay in &self.accepted {
            if seen
                .compatible(&overlay.requirements, Undefined::Allow(well_known))
                .is_ok()
            {
                add_missing(&mut capacity, &overlay.capacity);
            }
        }
        capacity
    }
}

impl Overlays {
    /// The resources that any overlay adds.
    pub fn added_names(&self) -> BTreeSet<String> {
        let names = self.accepted.iter().flat_map(|overlay| overlay.capacity.iter());
        names.map(|(name, _)| name.to_owned()).collect()
    }
}

fn add_missing(capacity: &mut ResourceList, more: &ResourceList) {
    for (name, quantity) in more.iter() {
        if capacity.get(name).is_none() {
            capacity.set(name, quantity);
        }
    }
}

#[cfg(test)]
mod tests;

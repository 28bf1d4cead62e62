//! The measurement: the least that any node of a flavour ever reported.
//!
//! In memory only; rebuilt from the running nodes at start. The smallest value wins for good, so that a pod is never sent to a node that cannot
//! hold it. The capacity controller calls [`Measured::observe`], the catalogue [`Measured::overlay`].

use crate::capacity::overhead::Shape;
use crate::resources::{ResourceList, names};
use crate::scheduling::Overhead;
use std::collections::BTreeMap;

/// What is measured. Others (devices, huge pages) come and go with software on the node and say nothing about the flavour.
const MEASURED: [&str; 4] = [names::CPU, names::MEMORY, names::EPHEMERAL_STORAGE, names::PODS];
/// Flavours remembered; the platform has about 110.
const MOST_FLAVOURS: usize = 2_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Least {
    capacity: ResourceList,
    allocatable: ResourceList,
}

/// Measurements by flavour.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measured {
    flavours: BTreeMap<String, Least>,
}

/// What an observation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// It was lower than everything before, or the first.
    Changed,
    /// Nothing new.
    Unchanged,
}

impl Measured {
    /// Takes in what a node of a flavour reports. Amounts of zero or less are a node that has not reported yet.
    pub fn observe(&mut self, flavour: &str, capacity: &ResourceList, allocatable: &ResourceList) -> Observation {
        if flavour.is_empty() || (!self.flavours.contains_key(flavour) && self.flavours.len() >= MOST_FLAVOURS) {
            return Observation::Unchanged;
        }
        let mut least = self.flavours.get(flavour).cloned().unwrap_or_default();
        let mut changed = false;
        for name in MEASURED {
            let (Some(has), Some(offers)) = (capacity.get(name), allocatable.get(name)) else {
                continue;
            };
            if has.is_zero() || has.is_negative() || offers.is_zero() || offers.is_negative() || offers > has {
                continue;
            }
            changed |= lower(&mut least.capacity, name, has);
            changed |= lower(&mut least.allocatable, name, offers);
        }
        if !changed {
            return Observation::Unchanged;
        }
        self.flavours.insert(flavour.to_owned(), least);
        Observation::Changed
    }

    /// The estimate with what was measured in its place.
    pub fn overlay(&self, flavour: &str, estimate: Shape) -> Shape {
        let Some(least) = self.flavours.get(flavour) else {
            return estimate;
        };
        let mut shape = estimate;
        let mut kept = ResourceList::new();
        for name in MEASURED {
            let (Some(has), Some(offers)) = (least.capacity.get(name), least.allocatable.get(name)) else {
                continue;
            };
            shape.capacity.set(name, has);
            // Lowest capacity and lowest allocatable may come from different nodes; what pods are promised is the latter.
            kept.set(
                name,
                if offers < has {
                    has - offers
                } else {
                    crate::resources::Quantity::ZERO
                },
            );
            for part in parts(&mut shape.overhead) {
                part.remove(name);
            }
        }
        for (name, quantity) in kept.iter() {
            shape.overhead.kube_reserved.set(name, quantity);
        }
        shape
    }

    /// Whether a flavour was measured.
    pub fn knows(&self, flavour: &str) -> bool {
        self.flavours.contains_key(flavour)
    }

    /// How many flavours were measured.
    pub fn len(&self) -> usize {
        self.flavours.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.flavours.is_empty()
    }
}

fn parts(overhead: &mut Overhead) -> [&mut ResourceList; 3] {
    [
        &mut overhead.kube_reserved,
        &mut overhead.system_reserved,
        &mut overhead.eviction_threshold,
    ]
}

fn lower(list: &mut ResourceList, name: &str, value: crate::resources::Quantity) -> bool {
    if list.get(name).is_some_and(|before| before <= value) {
        return false;
    }
    list.set(name, value);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::overhead::{Advertised, OverheadSettings};
    use crate::resources::Quantity;

    fn list(cpu: &str, memory: &str) -> ResourceList {
        let quantity = |text| Quantity::parse(text).unwrap();
        ResourceList::new()
            .with("cpu", quantity(cpu))
            .with("memory", quantity(memory))
    }

    fn estimate() -> Shape {
        let sold = Advertised::read("4", "7.5GB", Some("100GB"), Some(1)).unwrap();
        Shape::estimated(&sold, &OverheadSettings::default())
    }

    #[test]
    fn a_measured_flavour_offers_exactly_what_its_node_reported() {
        // rackspace-spot 5.5: ch.vs1.large-iad
        let mut measured = Measured::default();
        assert_eq!(
            measured.observe("c", &list("4", "7608280Ki"), &list("3500m", "6457304Ki")),
            Observation::Changed
        );
        let shape = measured.overlay("c", estimate());
        assert_eq!(
            shape.allocatable().amount("memory"),
            Quantity::parse("6457304Ki").unwrap()
        );
        assert_eq!(shape.allocatable().amount("cpu"), Quantity::millis(3500));
        assert_eq!(shape.capacity.amount("memory"), Quantity::parse("7608280Ki").unwrap());
        // what was not measured stays estimated
        assert_eq!(
            shape.capacity.get("ephemeral-storage"),
            estimate().capacity.get("ephemeral-storage")
        );
        assert_eq!(shape.capacity.amount("nvidia.com/gpu"), Quantity::units(1));
    }

    #[test]
    fn the_smallest_value_ever_seen_stays() {
        let mut measured = Measured::default();
        measured.observe("c", &list("4", "7000Mi"), &list("3500m", "6000Mi"));
        assert_eq!(
            measured.observe("c", &list("4", "7100Mi"), &list("3500m", "6100Mi")),
            Observation::Unchanged
        );
        assert_eq!(
            measured.observe("c", &list("4", "6900Mi"), &list("3500m", "5900Mi")),
            Observation::Changed
        );
        assert_eq!(
            measured.overlay("c", estimate()).allocatable().amount("memory"),
            Quantity::parse("5900Mi").unwrap()
        );
    }

    #[test]
    fn a_node_that_has_not_reported_yet_measures_nothing() {
        let mut measured = Measured::default();
        assert_eq!(
            measured.observe("c", &list("0", "0"), &list("0", "0")),
            Observation::Unchanged
        );
        assert_eq!(
            measured.observe("c", &ResourceList::new(), &ResourceList::new()),
            Observation::Unchanged
        );
        assert_eq!(
            measured.observe("c", &list("2", "1Gi"), &list("4", "2Gi")),
            Observation::Unchanged
        );
        assert!(!measured.knows("c"));
    }
}

//! What can be launched: instance types and the offerings they come in (scheduling §10).
//!
//! Decides allocatable, the price of a type under requirements, and the order of types. Relies on the requirement algebra. The cloud provider
//! builds these values; the solver and disruption read them.

use super::labels::{self, WellKnownLabels};
use super::requirements::{Requirement, Requirements, Undefined};
use crate::resources::{Quantity, ResourceList, names};
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use thiserror::Error;

/// How a machine is paid for. The order is the one in which a launch tries them (scheduling 10-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapacityType {
    /// Paid for in advance.
    Reserved,
    /// Won at auction, may be taken away.
    Spot,
    /// Fixed price.
    OnDemand,
}

/// The text names no capacity type.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not a capacity type: spot, on-demand or reserved")]
pub struct UnknownCapacityType(String);

impl CapacityType {
    /// All of them, in launch order.
    pub const ALL: [Self; 3] = [Self::Reserved, Self::Spot, Self::OnDemand];

    /// The value of the capacity type label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
        }
    }
}

impl fmt::Display for CapacityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for CapacityType {
    type Err = UnknownCapacityType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| UnknownCapacityType(text.to_owned()))
    }
}

/// Whether an offering can be had now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// It can.
    Available,
    /// It cannot, and why.
    Unavailable {
        /// In words for a user.
        reason: String,
    },
}

impl Availability {
    /// Whether it can be had.
    pub const fn is_available(&self) -> bool {
        matches!(self, Self::Available)
    }
}

/// One way to get an instance type: where, how paid for, and at what price.
#[derive(Debug, Clone, PartialEq)]
pub struct Offering {
    /// Must contain zone and capacity type (scheduling 10-4).
    pub requirements: Requirements,
    /// Dollars per hour that would be billed.
    pub price: f64,
    /// The price is a guess, not the seller's.
    pub price_is_estimate: bool,
    /// Whether it can be had now.
    pub availability: Availability,
    /// How many are left, where the seller tells.
    pub left: Option<u64>,
    /// An overlay changed the price (scheduling 26-8).
    pub price_overlaid: bool,
}

impl Offering {
    /// An available offering of a zone and capacity type at a price.
    pub fn new(zone: &str, capacity_type: CapacityType, price: f64) -> Self {
        Self::with_requirements(
            [
                Requirement::is(labels::ZONE, zone),
                Requirement::is(labels::CAPACITY_TYPE, capacity_type.as_str()),
            ]
            .into_iter()
            .collect(),
            price,
        )
    }

    /// An available offering with the given requirements at a price.
    pub fn with_requirements(requirements: Requirements, price: f64) -> Self {
        Self {
            requirements,
            price,
            price_is_estimate: false,
            availability: Availability::Available,
            left: None,
            price_overlaid: false,
        }
    }

    /// The capacity type, where exactly one is named.
    pub fn capacity_type(&self) -> Option<CapacityType> {
        self.requirements
            .get(labels::CAPACITY_TYPE)?
            .single_value()?
            .parse()
            .ok()
    }

    /// The zone, where exactly one is named.
    pub fn zone(&self) -> Option<&str> {
        self.requirements.get(labels::ZONE)?.single_value()
    }

    /// Whether it satisfies requirements (scheduling 10-4).
    pub fn matches(&self, requirements: &Requirements, well_known: &WellKnownLabels) -> bool {
        requirements.is_compatible(&self.requirements, Undefined::Allow(well_known))
    }
}

/// What an instance type needs for itself; it is not there for pods (scheduling 10-1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overhead {
    /// For the kubelet and the container runtime.
    pub kube_reserved: ResourceList,
    /// For the operating system.
    pub system_reserved: ResourceList,
    /// Kept free, or the kubelet evicts.
    pub eviction_threshold: ResourceList,
}

impl Overhead {
    /// Everything together.
    pub fn total(&self) -> ResourceList {
        self.kube_reserved
            .sum(&self.system_reserved)
            .sum(&self.eviction_threshold)
    }
}

/// A kind of machine that can be launched. Providers return all kinds, also those that cannot be had now (scheduling 10-1).
#[derive(Debug, Clone)]
pub struct InstanceType {
    /// Its name, the value of the instance type label.
    pub name: String,
    /// The labels its machines will have; one for each well-known label (scheduling 6-2).
    pub requirements: Requirements,
    /// The ways to get it.
    pub offerings: Vec<Offering>,
    /// What the machine has.
    pub capacity: ResourceList,
    /// What of that pods cannot have.
    pub overhead: Overhead,
    /// An overlay changed the capacity (scheduling 26-8).
    pub capacity_overlaid: bool,
    allocatable: OnceLock<ResourceList>,
}

impl InstanceType {
    /// An instance type from its parts.
    pub fn new(
        name: impl Into<String>,
        requirements: Requirements,
        offerings: Vec<Offering>,
        capacity: ResourceList,
        overhead: Overhead,
    ) -> Self {
        let name = name.into();
        Self {
            name,
            requirements,
            offerings,
            capacity,
            overhead,
            capacity_overlaid: false,
            allocatable: OnceLock::new(),
        }
    }

    /// What pods can have: capacity less overhead, and memory less huge pages (scheduling 10-2). Computed once: set capacity and overhead
    /// before asking.
    pub fn allocatable(&self) -> &ResourceList {
        self.allocatable.get_or_init(|| {
            let mut result = self.capacity.minus(&self.overhead.total());
            let huge = self
                .capacity
                .iter()
                .filter(|(name, _)| name.starts_with(names::HUGE_PAGES_PREFIX));
            let huge_total = huge.fold(Quantity::ZERO, |sum, (_, quantity)| sum + quantity);
            if let (false, Some(memory)) = (huge_total.is_zero(), result.get(names::MEMORY)) {
                let left = memory - huge_total;
                result.set(names::MEMORY, if left.is_negative() { Quantity::ZERO } else { left });
            }
            result
        })
    }

    /// Whether its labels can satisfy requirements (scheduling 10-3).
    pub fn matches(&self, requirements: &Requirements) -> bool {
        self.requirements.intersects(requirements).is_ok()
    }

    /// The offerings that can be had now and satisfy requirements.
    pub fn available<'a>(
        &'a self,
        requirements: &'a Requirements,
        well_known: &'a WellKnownLabels,
    ) -> impl Iterator<Item = &'a Offering> {
        self.offerings
            .iter()
            .filter(|o| o.availability.is_available() && o.matches(requirements, well_known))
    }

    /// The least price of what can be had now under requirements (scheduling 10-5).
    pub fn price(&self, requirements: &Requirements, well_known: &WellKnownLabels) -> Option<f64> {
        self.available(requirements, well_known)
            .map(|offering| offering.price)
            .min_by(f64::total_cmp)
    }

    /// The price that a launch may cost at worst: the highest of the matching offerings of the capacity type that is tried first
    /// (scheduling 10-6). Only offerings that can be had count.
    pub fn worst_launch_price(&self, requirements: &Requirements, well_known: &WellKnownLabels) -> Option<f64> {
        let first = self
            .available(requirements, well_known)
            .filter_map(Offering::capacity_type)
            .min()?;
        self.available(requirements, well_known)
            .filter(|offering| offering.capacity_type() == Some(first))
            .map(|offering| offering.price)
            .max_by(f64::total_cmp)
    }
}

/// The price an overlay makes of a price: a plain number replaces it, a signed one is added, a signed percentage scales it; never below zero
/// (scheduling 26-9). An adjustment that is none of these changes nothing.
pub fn adjusted_price(price: f64, adjustment: &str) -> f64 {
    if adjustment.is_empty() {
        return price;
    }
    let signed = adjustment.starts_with(['+', '-']);
    let adjusted = match adjustment.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| price * (1.0 + percent / 100.0)),
        None if signed => adjustment.parse::<f64>().map(|change| price + change),
        None => adjustment.parse::<f64>(),
    };
    adjusted
        .ok()
        .filter(|price| price.is_finite())
        .unwrap_or(price)
        .max(0.0)
}

//! Pure: server classes, prices, measurements and cool-downs in, instance types out.
//!
//! A class is an instance type of one zone, its region (surface §2.1). An offering's price is what is billed, the larger of market and floor, never
//! the bid (architecture §7.7). A class for which no price is known is no offering and never free (§7.8); one whose price was known and is missing now
//! keeps it, but cannot be had, so that running nodes do not drift because a feed hiccups. Called by `stock`.

use crate::api::labels;
use crate::capacity::{Advertised, Measured, OverheadSettings, Shape};
use crate::cloud::provider::InstanceTypes;
use crate::cloud::spot::cooldown::Cooldowns;
use crate::cloud::spot::labels::{ONLY_VOLUME_ZONE, VOLUME_ZONE};
use crate::cloud::spot::types::{Floor, ServerClass};
use crate::pricing::{ClassPrices, Price, PriceTable, billed_price};
use crate::scheduling::{Availability, CapacityType, InstanceType, Offering, Operator, Requirement, Requirements};
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a catalogue is made from.
#[derive(Debug, Clone, Copy)]
pub struct Ingredients<'a> {
    /// The cloudspace's region.
    pub region: &'a str,
    /// Classes of all regions.
    pub classes: &'a [ServerClass],
    /// The published prices.
    pub prices: &'a PriceTable,
    /// The catalogue before, for prices that are missing now.
    pub before: Option<&'a Catalogue>,
    /// What nodes reported.
    pub measured: &'a Measured,
    /// What is left alone.
    pub cooldowns: &'a Cooldowns,
    /// What is taken off where nothing was measured.
    pub overhead: &'a OverheadSettings,
    /// The present instant.
    pub now: DateTime<Utc>,
}

/// What is known about the prices of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassFacts {
    /// The market price now, or the last one known.
    pub market: Option<Price>,
    /// The floor.
    pub floor: Floor,
    /// The percentiles, if the feed has the class.
    pub percentiles: Option<ClassPrices>,
    /// The fixed price.
    pub on_demand: Option<Price>,
}

/// What is on offer.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    /// The instance types, by name.
    pub types: InstanceTypes,
    /// Prices by class.
    pub facts: BTreeMap<String, ClassFacts>,
    /// Classes that are not offered because no price is known.
    pub unpriced: Vec<String>,
    /// Classes whose size cannot be read, with the reason.
    pub unreadable: Vec<(String, String)>,
}

impl Catalogue {
    /// What these ingredients make.
    pub fn build(from: Ingredients<'_>) -> Self {
        let mut made = Self::default();
        let by_name: BTreeMap<&str, &ServerClass> = from
            .classes
            .iter()
            .filter(|c| c.region == from.region)
            .map(|c| (c.name.as_str(), c))
            .collect();
        let mut types = Vec::new();
        for (name, class) in by_name {
            let sold = match Advertised::read(&class.cpu, &class.memory, class.disk.as_deref(), class.gpu) {
                Ok(sold) => sold,
                Err(why) => {
                    made.unreadable.push((name.to_owned(), why.to_string()));
                    continue;
                }
            };
            let percentiles = from.prices.prices(from.region, name).copied();
            let market = class.market.or_else(|| percentiles.and_then(|p| p.market));
            let remembered = from
                .before
                .and_then(|b| b.facts.get(name))
                .and_then(|facts| facts.market);
            let facts = ClassFacts {
                market: market.or(remembered),
                floor: class.floor,
                percentiles,
                on_demand: class.on_demand,
            };
            let staleness = if market.is_none() {
                Staleness::Remembered
            } else {
                Staleness::Current
            };
            let offerings = offerings(class, &facts, staleness, &from);
            made.facts.insert(name.to_owned(), facts);
            if offerings.is_empty() {
                made.unpriced.push(name.to_owned());
                continue;
            }
            let shape = from.measured.overlay(name, Shape::estimated(&sold, from.overhead));
            let requirements = requirements(name, from.region, &offerings);
            types.push(Arc::new(InstanceType::new(
                name,
                requirements,
                offerings,
                shape.capacity,
                shape.overhead,
            )));
        }
        made.types = types.into();
        made
    }

    /// One type by name.
    pub fn get(&self, name: &str) -> Option<&Arc<InstanceType>> {
        self.types
            .binary_search_by(|kind| kind.name.as_str().cmp(name))
            .ok()
            .and_then(|i| self.types.get(i))
    }

    /// Whether both offer the same.
    pub fn offers_the_same_as(&self, other: &Self) -> bool {
        self.types.len() == other.types.len()
            && self.types.iter().zip(other.types.iter()).all(|(a, b)| {
                a.name == b.name
                    && a.offerings == b.offerings
                    && a.capacity == b.capacity
                    && a.overhead == b.overhead
                    && a.requirements == b.requirements
            })
    }
}

/// Whether a market price is of now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Staleness {
    Current,
    Remembered,
}

fn offerings(class: &ServerClass, facts: &ClassFacts, staleness: Staleness, from: &Ingredients<'_>) -> Vec<Offering> {
    let mut offerings = Vec::new();
    // An unusable floor means that the platform's own webhook refuses every bid (rackspace-spot §4.2): no offering at all.
    if let (true, Some(price)) = (
        facts.floor != Floor::Unusable,
        billed_price(facts.market, facts.floor.price()),
    ) {
        let mut offering = Offering::new(from.region, CapacityType::Spot, price.as_f64());
        offering.left = class.available.and_then(|n| u64::try_from(n).ok());
        offering.price_is_estimate = staleness == Staleness::Remembered;
        if staleness == Staleness::Remembered {
            offering.availability = unavailable("the market price is missing now");
        }
        offerings.push(offering);
    }
    if let Some(price) = facts.on_demand {
        offerings.push(Offering::new(from.region, CapacityType::OnDemand, price.as_f64()));
    }
    for offering in &mut offerings {
        let Some(capacity_type) = offering.capacity_type() else {
            continue;
        };
        if let Some(reason) = why_not(class, capacity_type, from) {
            offering.availability = unavailable(&reason);
        }
    }
    offerings
}

fn unavailable(reason: &str) -> Availability {
    Availability::Unavailable {
        reason: reason.to_owned(),
    }
}

/// Why an offering cannot be had, apart from its price. `available` 0 is no reason: a higher bid takes a server from a lower one; `capacity` 0 is: there
/// is none to be taken (rackspace-spot §3.3).
fn why_not(class: &ServerClass, capacity_type: CapacityType, from: &Ingredients<'_>) -> Option<String> {
    if !class.is_offered() {
        return Some(format!("the platform says {:?}", class.availability));
    }
    if class.capacity == Some(0) {
        return Some("there is no such server in the region".to_owned());
    }
    from.cooldowns.reason(&class.name, capacity_type, from.now)
}

/// One requirement for each well-known label (scheduling 6-2).
fn requirements(name: &str, region: &str, offerings: &[Offering]) -> Requirements {
    let capacity_types = offerings
        .iter()
        .filter_map(Offering::capacity_type)
        .map(CapacityType::as_str);
    [
        Requirement::is(labels::INSTANCE_TYPE, name),
        Requirement::is(labels::ZONE, region),
        Requirement::is(labels::REGION, region),
        Requirement::is(labels::ARCH, "amd64"),
        Requirement::is(labels::OS, "linux"),
        Requirement::new(labels::CAPACITY_TYPE, Operator::In, capacity_types),
        Requirement::does_not_exist(labels::WINDOWS_BUILD),
        Requirement::is(VOLUME_ZONE, ONLY_VOLUME_ZONE),
    ]
    .into_iter()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn class(name: &str) -> ServerClass {
        ServerClass {
            name: name.into(),
            region: "r".into(),
            availability: "available".into(),
            cpu: "4".into(),
            memory: "15GB".into(),
            disk: Some("100GB".into()),
            gpu: None,
            floor: Floor::At(Price::from_mills(10)),
            market: Some(Price::from_mills(2)),
            on_demand: Some(Price::from_mills(190)),
            capacity: Some(9),
            available: Some(0),
        }
    }

    fn build(classes: &[ServerClass], before: Option<&Catalogue>) -> Catalogue {
        Catalogue::build(Ingredients {
            region: "r",
            classes,
            prices: &PriceTable::default(),
            before,
            measured: &Measured::default(),
            cooldowns: &Cooldowns::default(),
            overhead: &OverheadSettings::default(),
            now: DateTime::UNIX_EPOCH,
        })
    }

    fn price(catalogue: &Catalogue, kind: CapacityType) -> Option<f64> {
        catalogue
            .types
            .first()?
            .offerings
            .iter()
            .find(|o| o.capacity_type() == Some(kind))
            .map(|o| o.price)
    }

    #[test]
    fn an_offering_costs_what_is_billed() {
        // architecture §7.7
        let catalogue = build(&[class("a")], None);
        assert_eq!(price(&catalogue, CapacityType::Spot), Some(0.01));
        assert_eq!(price(&catalogue, CapacityType::OnDemand), Some(0.19));
    }

    #[test]
    fn a_class_without_a_price_is_not_offered_and_reported() {
        // architecture §7.8
        let unpriced = ServerClass {
            market: None,
            on_demand: None,
            ..class("a")
        };
        let catalogue = build(&[unpriced], None);
        assert!(catalogue.types.is_empty());
        assert_eq!(catalogue.unpriced, ["a"]);
    }

    #[test]
    fn a_price_that_is_missing_now_is_remembered_but_cannot_be_had() {
        let before = build(&[class("a")], None);
        let missing = ServerClass {
            market: None,
            ..class("a")
        };
        let catalogue = build(&[missing], Some(&before));
        let spot = &catalogue.get("a").unwrap().offerings[0];
        assert!((spot.price - 0.01).abs() < 1e-9);
        assert!(!spot.availability.is_available());
    }

    #[test]
    fn bare_metal_with_its_empty_floor_is_no_spot_offering() {
        // rackspace-spot 4.2
        let bare = ServerClass {
            floor: Floor::Unusable,
            ..class("gp.bm2.large-dfw")
        };
        let catalogue = build(&[bare], None);
        assert_eq!(price(&catalogue, CapacityType::Spot), None);
    }

    #[test]
    fn classes_of_other_regions_and_unreadable_sizes_are_left_out() {
        let elsewhere = ServerClass {
            region: "x".into(),
            ..class("b")
        };
        let strange = ServerClass {
            memory: "lots".into(),
            ..class("c")
        };
        let catalogue = build(&[elsewhere, strange, class("a")], None);
        assert_eq!(catalogue.types.len(), 1);
        assert_eq!(catalogue.unreadable.len(), 1);
        assert!(catalogue.get("a").is_some());
    }

    #[test]
    fn without_any_server_nothing_can_be_had_but_none_being_free_says_nothing() {
        // rackspace-spot 3.3
        let none = ServerClass {
            capacity: Some(0),
            ..class("a")
        };
        let catalogue = build(&[none, class("b")], None);
        let available = |name: &str| catalogue.get(name).unwrap().offerings[0].availability.is_available();
        assert!(!available("a"));
        assert!(available("b"));
    }

    #[test]
    fn each_type_defines_every_well_known_label_but_the_pool() {
        // scheduling 6-2
        let catalogue = build(&[class("a")], None);
        let kind = &catalogue.types[0];
        for key in labels::WELL_KNOWN {
            assert!(*key == labels::NODEPOOL || kind.requirements.contains(key), "{key}");
        }
    }
}

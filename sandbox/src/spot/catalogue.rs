//! Regions and server classes, from the data files that lie beside the crate.
//!
//! What the files leave open is filled in by the assumptions of rackspace-spot §7 rows 25 to 28. Built once when a platform starts.

use super::flavor;
use super::money::Price;
use std::collections::BTreeMap;

const CLASSES: &str = include_str!("../../data/serverclasses.csv");
const PERCENTILES: &str = include_str!("../../data/percentiles.csv");

/// A region of the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// API name, e.g. `us-east-iad-1`.
    pub name: &'static str,
    /// ISO 3166-1 alpha-3.
    pub country: &'static str,
    /// Where it is, in words.
    pub description: &'static str,
    /// `v1` or `v2`.
    pub generation: &'static str,
    /// OpenStack region code, which the cloud controller writes on nodes.
    pub code: &'static str,
}

/// The regions (rackspace-spot 1 and 3.2).
pub const REGIONS: [Region; 8] = [
    Region {
        name: "aus-syd-1",
        country: "AUS",
        description: "Sydney, Australia",
        generation: "v1",
        code: "SYD",
    },
    Region {
        name: "hkg-hkg-1",
        country: "HKG",
        description: "Hong Kong, Hong Kong",
        generation: "v1",
        code: "HKG",
    },
    Region {
        name: "uk-lon-1",
        country: "GBR",
        description: "London, UK",
        generation: "v1",
        code: "LON",
    },
    Region {
        name: "us-central-dfw-1",
        country: "USA",
        description: "US Central, Dallas, TX",
        generation: "v1",
        code: "DFW",
    },
    Region {
        name: "us-central-dfw-2",
        country: "USA",
        description: "US Central, Dallas, TX",
        generation: "v2",
        code: "DFW2",
    },
    Region {
        name: "us-central-ord-1",
        country: "USA",
        description: "US Central, Chicago, IL",
        generation: "v1",
        code: "ORD",
    },
    Region {
        name: "us-east-iad-1",
        country: "USA",
        description: "US East, Ashburn, VA",
        generation: "v1",
        code: "IAD",
    },
    Region {
        name: "us-west-sjc-1",
        country: "USA",
        description: "US West, San Jose, CA",
        generation: "v2",
        code: "SJC",
    },
];

/// A region by name.
pub fn region(name: &str) -> Option<&'static Region> {
    REGIONS.iter().find(|region| region.name == name)
}

/// What kind of machine a class sells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlavorType {
    /// A virtual server.
    Virtual,
    /// A whole machine; listed, but not biddable (rackspace-spot 6).
    BareMetal,
}

/// A server class.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Name, region suffix included.
    pub name: String,
    /// Region it is sold in.
    pub region: String,
    /// `v1` or `v2`.
    pub generation: String,
    /// Category in words.
    pub category: String,
    /// Name for people.
    pub display_name: String,
    /// Number of CPUs; absent for classes that are only known by name.
    pub cpu: Option<u32>,
    /// Memory as advertised, e.g. `3.75GB`.
    pub memory: Option<String>,
    /// Disk as advertised, e.g. `100GB`.
    pub disk: Option<String>,
    /// GPU model, if any.
    pub gpu: Option<String>,
    /// Virtual or bare metal.
    pub flavor_type: FlavorType,
    /// Price of a reservation.
    pub on_demand: Price,
    /// Smallest bid; absent for bare metal, on which the platform's own check stumbles.
    pub floor: Option<Price>,
    /// Market price at the start; absent for classes missing from the feed.
    pub market: Option<Price>,
    /// 20th, 50th and 80th percentile as the feed prints them.
    pub percentiles: Option<[f64; 3]>,
    /// Flavor in the undercloud, which the cloud controller writes on nodes; never the class name.
    pub flavor: String,
    /// Memory of the node in KiB.
    pub node_memory_ki: u64,
}

impl Class {
    /// Whether the platform sells it: classes known only by name are listed as deprecated.
    pub fn is_available(&self) -> bool {
        self.cpu.is_some()
    }
}

/// All classes by name.
pub fn classes() -> BTreeMap<String, Class> {
    let percentiles = percentiles();
    records(CLASSES)
        .filter_map(|record| class(&record, &percentiles))
        .map(|class| (class.name.clone(), class))
        .collect()
}

/// One line of a file by its column names.
type Record = BTreeMap<String, String>;

fn class(record: &Record, percentiles: &BTreeMap<String, [f64; 3]>) -> Option<Class> {
    let text = |column: &str| record.get(column).map(String::as_str).filter(|text| !text.is_empty());
    let name = text("name")?.to_owned();
    let flavor_type = if name.contains(".bm2") || name.starts_with("io.") {
        FlavorType::BareMetal
    } else {
        FlavorType::Virtual
    };
    let market = text("market_price").and_then(Price::parse);
    let floor = match flavor_type {
        FlavorType::Virtual => text("min_bid")
            .or_else(|| text("probed_min_accepted_bid"))
            .and_then(Price::parse),
        FlavorType::BareMetal => None,
    };
    let cpu = text("cpu").and_then(|cpu| cpu.parse().ok());
    let memory = text("memory").map(str::to_owned);
    // Row 28: one on-demand price is known; the others are ten times the floor, and never below that one.
    let generated = floor.or(market).unwrap_or_default().times(10).max(Price::mills(19));
    let measured = text("node_capacity_memory").and_then(flavor::kibibytes).or_else(|| {
        let allocatable = text("node_allocatable_memory").and_then(flavor::kibibytes)?;
        allocatable.checked_add(flavor::RESERVED_MEMORY_KI)
    });
    let advertised = memory.as_deref().and_then(flavor::advertised_ki);
    Some(Class {
        region: text("region")?.to_owned(),
        generation: text("generation").unwrap_or("v1").to_owned(),
        category: text("category").unwrap_or_default().to_owned(),
        display_name: text("display_name").unwrap_or(&name).to_owned(),
        cpu,
        // Disk is said live for virtual servers and absent for the rest (rackspace-spot 3.3).
        disk: match (text("disk"), flavor_type, cpu) {
            (Some(disk), _, _) => Some(disk.to_owned()),
            (None, FlavorType::Virtual, Some(_)) => Some("100GB".to_owned()),
            _ => None,
        },
        gpu: text("gpu").map(str::to_owned),
        flavor_type,
        on_demand: text("on_demand_price").and_then(Price::parse).unwrap_or(generated),
        floor,
        market,
        percentiles: percentiles.get(&name).copied(),
        flavor: text("node_instance_type_label").map_or_else(
            || flavor::name(&name, memory.as_deref().unwrap_or_default()),
            str::to_owned,
        ),
        node_memory_ki: measured
            .or_else(|| advertised.map(flavor::unmeasured_ki))
            .unwrap_or_default(),
        memory,
        name,
    })
}

fn percentiles() -> BTreeMap<String, [f64; 3]> {
    records(PERCENTILES)
        .filter_map(|record| {
            let number = |column: &str| record.get(column).and_then(|text| text.parse::<f64>().ok());
            Some((
                record.get("server_class")?.clone(),
                [number("p20")?, number("p50")?, number("p80")?],
            ))
        })
        .collect()
}

fn records(file: &'static str) -> impl Iterator<Item = Record> {
    let mut lines = file.lines();
    let header: Vec<String> = lines.next().map(fields).unwrap_or_default();
    lines
        .filter(|line| !line.is_empty())
        .map(move |line| header.iter().cloned().zip(fields(line)).collect())
}

/// Splits a line at its commas; quoted fields may hold commas.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match (letter, quoted) {
            ('"', _) => quoted = !quoted,
            (',', false) => fields.push(String::new()),
            _ => {
                if let Some(field) = fields.last_mut() {
                    field.push(letter);
                }
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_of_the_data_files_is_there_in_a_known_region() {
        let classes = classes();
        assert_eq!(classes.len(), 104);
        assert_eq!(
            classes.values().filter(|class| class.percentiles.is_some()).count(),
            101
        );
        for class in classes.values() {
            assert!(region(&class.region).is_some(), "{}", class.name);
            assert!(
                class.flavor != class.name && !class.flavor.is_empty(),
                "row 25: {}",
                class.name
            );
        }
    }

    #[test]
    fn known_prices_are_kept_and_missing_ones_generated() {
        let classes = classes();
        let known = &classes["gp.vs1.medium-iad"];
        assert_eq!(
            (known.on_demand, known.floor),
            (Price::mills(19), Some(Price::mills(10)))
        );
        assert_eq!(
            classes["mh.vs2.xlarge-sjc"].on_demand,
            Price::mills(1200),
            "row 28: ten times the floor"
        );
        assert_eq!(
            classes["ch.vs1.medium-iad"].on_demand,
            Price::mills(19),
            "row 28: but at least 0.019"
        );
        assert_eq!(
            classes["gp.bm2.large-dfw"].floor, None,
            "rackspace-spot 6: bare metal has no floor"
        );
    }
}

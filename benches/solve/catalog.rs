//! The instance types that are solved over.

use karpenter::resources::{Quantity, ResourceList};
use karpenter::scheduling::{
    CapacityType, InstanceType, Offering, Operator, Overhead, Requirement, Requirements, Spec, labels,
};
use serde::Deserialize;
use serde_json::Value;
use std::io::Read;
use std::sync::Arc;

/// A list of types.
pub type Types = Arc<[Arc<InstanceType>]>;

/// Upstream's types for benchmarks: type i has i+1 cores and twice as many Gi.
pub fn fake(count: i64) -> Types {
    (0..count).map(|at| Arc::new(fake_type(at))).collect()
}

fn fake_type(at: i64) -> InstanceType {
    let name = format!("fake-it-{at}");
    let cores = at + 1;
    let memory = 2 * cores * (1 << 30);
    let price = 0.1 * f64::from(u32::try_from(cores).unwrap_or(1)) + 0.1 * (memory_f64(memory) / 1e9);
    let zones = ["test-zone-1", "test-zone-2", "test-zone-3"];
    let requirements = Requirements::from_iter([
        Requirement::is(labels::INSTANCE_TYPE, name.as_str()),
        Requirement::is(labels::ARCH, "amd64"),
        Requirement::new(labels::OS, Operator::In, ["linux", "windows", "darwin"]),
        Requirement::new(labels::ZONE, Operator::In, zones),
        Requirement::new(labels::CAPACITY_TYPE, Operator::In, ["spot", "on-demand"]),
    ]);
    let spot = zones
        .iter()
        .take(2)
        .map(|zone| Offering::new(zone, CapacityType::Spot, price));
    let on_demand = zones
        .iter()
        .map(|zone| Offering::new(zone, CapacityType::OnDemand, price));
    let capacity = ResourceList::new()
        .with("cpu", Quantity::units(cores))
        .with("memory", Quantity::bytes(memory))
        .with("pods", Quantity::units(10 * cores));
    let reserved = ResourceList::new()
        .with("cpu", Quantity::millis(100))
        .with("memory", Quantity::bytes(10 << 20));
    let overhead = Overhead {
        kube_reserved: reserved,
        ..Overhead::default()
    };
    InstanceType::new(name, requirements, spot.chain(on_demand).collect(), capacity, overhead)
}

#[allow(clippy::cast_precision_loss)] // a price for a benchmark
fn memory_f64(memory: i64) -> f64 {
    memory as f64
}

/// The sixteen server classes of one Rackspace region, from the recorded catalogues.
pub fn rackspace() -> Types {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/vectors/scheduling/catalogs.json.gz"
    );
    let mut text = String::new();
    let file = std::fs::File::open(path).expect("the catalogues are in the repository");
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("gzip");
    let catalogs: Value = serde_json::from_str(&text).expect("JSON");
    let types = catalogs["spot-us-central-dfw-1"].as_array().expect("the catalogue");
    types.iter().map(|kind| Arc::new(recorded(kind))).collect()
}

fn recorded(value: &Value) -> InstanceType {
    let amounts = |value: &Value| ResourceList::deserialize(value).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let requirements = |value: &Value| -> Requirements {
        let entries = value.as_array().into_iter().flatten();
        entries
            .map(|entry| {
                Requirement::from_spec(&Spec {
                    key: text(&entry["key"]),
                    operator: entry["operator"]
                        .as_str()
                        .and_then(|o| o.parse().ok())
                        .unwrap_or(Operator::In),
                    values: entry["values"].as_array().into_iter().flatten().map(text).collect(),
                    min_values: None,
                })
            })
            .collect()
    };
    let offerings = value["offerings"].as_array().into_iter().flatten().map(|offering| {
        Offering::with_requirements(
            requirements(&offering["requirements"]),
            offering["price"].as_f64().unwrap_or(0.0),
        )
    });
    let overhead = Overhead {
        kube_reserved: amounts(&value["overhead"]["kubeReserved"]),
        system_reserved: amounts(&value["overhead"]["systemReserved"]),
        eviction_threshold: amounts(&value["overhead"]["evictionThreshold"]),
    };
    InstanceType::new(
        text(&value["name"]),
        requirements(&value["requirements"]),
        offerings.collect(),
        amounts(&value["capacity"]),
        overhead,
    )
}

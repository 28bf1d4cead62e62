//! The estimate: advertised size, less what the guest kernel, the file system and the kubelet take.
//!
//! The kubelet's reservation is the same on every flavour (rackspace-spot §5.5): 500m cpu, 1024Mi memory and a 100Mi eviction threshold, 2Gi disk and a
//! 10 % eviction threshold. Before a node of the flavour was measured, 3 % of the memory and 4 % of the disk are taken off first.

use crate::resources::{Quantity, ResourceList, names};
use crate::scheduling::Overhead;
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use std::str::FromStr;
use thiserror::Error;

/// Pods on one node, the kubelet's default (rackspace-spot §5.4).
const PODS: i64 = 110;
/// The resource that GPU nodes offer once a device plugin runs.
const GPU: &str = "nvidia.com/gpu";
const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;
/// The largest size that is believed, in GiB: a PiB.
const MOST_GIB: i64 = 1 << 20;

/// What is taken off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverheadSettings {
    /// Share of the advertised memory that nodes do not report (`VM_MEMORY_OVERHEAD_PERCENT`, a share: 0.03).
    pub memory_share: Decimal,
    /// The kubelet's cpu (`RACKSPACE_KUBE_RESERVED_CPU`).
    pub reserved_cpu: Quantity,
    /// The kubelet's memory (`RACKSPACE_KUBE_RESERVED_MEMORY`).
    pub reserved_memory: Quantity,
}

impl Default for OverheadSettings {
    fn default() -> Self {
        Self {
            memory_share: Decimal::new(3, 2),
            reserved_cpu: Quantity::millis(500),
            reserved_memory: Quantity::bytes(1024 * MIB),
        }
    }
}

/// Share of the advertised disk that mkfs takes.
const DISK_SHARE: Decimal = Decimal::from_parts(4, 0, 0, false, 2);
const EVICTION_MEMORY: Quantity = Quantity::bytes(100 * MIB);
const RESERVED_DISK: Quantity = Quantity::bytes(2 * GIB);

/// A flavour as it is sold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advertised {
    /// Cores.
    pub cpu: Quantity,
    /// Bytes; the platform's GB are GiB (rackspace-spot §5.5).
    pub memory: i64,
    /// Bytes, where advertised.
    pub disk: Option<i64>,
    /// GPUs, where advertised.
    pub gpu: Option<i64>,
}

/// A size that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what} {text:?} is not a size")]
pub struct NotAFlavour {
    what: &'static str,
    text: String,
}

impl Advertised {
    /// Reads the platform's spelling: `2`, `3.75GB`, `100GB`. A disk that cannot be read counts as not advertised.
    pub fn read(cpu: &str, memory: &str, disk: Option<&str>, gpu: Option<i64>) -> Result<Self, NotAFlavour> {
        let wrong = |what: &'static str, text: &str| NotAFlavour {
            what,
            text: text.chars().take(40).collect(),
        };
        let cores = cpu
            .trim()
            .parse::<i64>()
            .ok()
            .filter(|n| (1..=10_000).contains(n))
            .ok_or_else(|| wrong("cpu", cpu))?;
        Ok(Self {
            cpu: Quantity::units(cores),
            memory: bytes(memory).ok_or_else(|| wrong("memory", memory))?,
            disk: disk.and_then(bytes),
            gpu: gpu.filter(|n| (1..=1_000).contains(n)),
        })
    }
}

/// `<decimal>GB` in bytes, GB read as GiB; also MB, TB and the spellings with an `i`.
fn bytes(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let factor = match unit.trim() {
        "GB" | "GiB" | "Gi" => Decimal::from(GIB),
        "MB" | "MiB" | "Mi" => Decimal::from(MIB),
        "TB" | "TiB" | "Ti" => Decimal::from(GIB).checked_mul(Decimal::from(1024))?,
        _ => return None,
    };
    let number = Decimal::from_str(number).ok()?;
    let size = number.checked_mul(factor)?.floor().to_i64()?;
    (size > 0 && size / GIB <= MOST_GIB).then_some(size)
}

/// What a machine has and what of it pods cannot have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shape {
    /// What the node reports.
    pub capacity: ResourceList,
    /// What of that is kept from pods.
    pub overhead: Overhead,
}

impl Shape {
    /// What pods can have.
    pub fn allocatable(&self) -> ResourceList {
        self.capacity.minus(&self.overhead.total())
    }

    /// The estimate for a flavour of which no node was seen yet.
    pub fn estimated(sold: &Advertised, settings: &OverheadSettings) -> Self {
        let mut capacity = ResourceList::new()
            .with(names::CPU, sold.cpu)
            .with(names::MEMORY, Quantity::bytes(less(sold.memory, settings.memory_share)))
            .with(names::PODS, Quantity::units(PODS));
        let mut kube_reserved = ResourceList::new()
            .with(names::CPU, settings.reserved_cpu)
            .with(names::MEMORY, settings.reserved_memory);
        let mut eviction_threshold = ResourceList::new().with(names::MEMORY, EVICTION_MEMORY);
        if let Some(disk) = sold.disk {
            let disk = less(disk, DISK_SHARE);
            capacity.set(names::EPHEMERAL_STORAGE, Quantity::bytes(disk));
            kube_reserved.set(names::EPHEMERAL_STORAGE, RESERVED_DISK);
            eviction_threshold.set(names::EPHEMERAL_STORAGE, Quantity::bytes(tenth(disk)));
        }
        if let Some(count) = sold.gpu {
            capacity.set(GPU, Quantity::units(count));
        }
        let overhead = Overhead {
            kube_reserved,
            system_reserved: ResourceList::new(),
            eviction_threshold,
        };
        Self { capacity, overhead }
    }
}

fn less(size: i64, share: Decimal) -> i64 {
    let rest = (Decimal::ONE - share).clamp(Decimal::ZERO, Decimal::ONE);
    Decimal::from(size)
        .checked_mul(rest)
        .and_then(|d| d.floor().to_i64())
        .unwrap_or_default()
}

/// The kubelet's 10 %, which it computes with the 32-bit float nearest to 0.1: 13421773 / 2^27 (rackspace-spot §5.5).
fn tenth(size: i64) -> i64 {
    i64::try_from(i128::from(size) * 13_421_773 / (1 << 27)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(cpu: &str, memory: &str, disk: Option<&str>) -> Shape {
        Shape::estimated(
            &Advertised::read(cpu, memory, disk, None).unwrap(),
            &OverheadSettings::default(),
        )
    }

    #[test]
    fn the_estimate_takes_three_percent_of_memory_and_four_of_disk_and_the_reservation() {
        let shape = shape("4", "15GB", Some("100GB"));
        assert_eq!(shape.capacity.amount("memory"), Quantity::bytes(15 * GIB * 97 / 100));
        assert_eq!(shape.capacity.amount("ephemeral-storage"), Quantity::bytes(96 * GIB));
        let allocatable = shape.allocatable();
        assert_eq!(allocatable.amount("cpu"), Quantity::millis(3500));
        assert_eq!(
            allocatable.amount("memory"),
            Quantity::bytes(15 * GIB * 97 / 100 - 1124 * MIB)
        );
        assert_eq!(allocatable.amount("pods"), Quantity::units(110));
    }

    #[test]
    fn the_estimate_stays_at_or_below_what_was_measured_from_15_gb_on_and_within_20_mib_below() {
        // rackspace-spot 5.5: memory capacity in Ki
        for (memory, measured_ki, over_mib) in [
            ("3.75GB", 3_810_012_i64, 5),
            ("7.5GB", 7_608_280, 20),
            ("15GB", 15_337_424, 0),
            ("30GB", 30_795_724, 0),
        ] {
            let estimate = shape("2", memory, None).capacity.amount("memory").value();
            assert!(estimate <= measured_ki * 1024 + over_mib * MIB, "{memory}: {estimate}");
        }
        let disk = shape("2", "15GB", Some("100GB"))
            .allocatable()
            .amount("ephemeral-storage")
            .value();
        assert!(disk <= 91_331_288_934, "{disk}");
    }

    #[test]
    fn the_kubelets_tenth_is_a_float() {
        // rackspace-spot 5.5, to the byte
        let capacity = 101_430_960 * 1024;
        assert_eq!(capacity - 2 * GIB - tenth(capacity), 91_331_288_934);
    }

    #[test]
    fn a_flavour_without_a_disk_offers_none() {
        assert_eq!(shape("2", "3.75GB", None).capacity.get("ephemeral-storage"), None);
    }

    #[test]
    fn sizes_that_are_none_are_refused() {
        for bad in [
            "",
            "GB",
            "3.75",
            "-1GB",
            "1e9GB",
            "0GB",
            "9999999999999GB",
            "1..5GB",
            "é",
        ] {
            assert!(Advertised::read("2", bad, None, None).is_err(), "{bad}");
        }
        for bad in ["", "0", "-2", "two", "99999"] {
            assert!(Advertised::read(bad, "1GB", None, None).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_absurd_share_leaves_nothing_rather_than_less() {
        let settings = OverheadSettings {
            memory_share: Decimal::from(7),
            ..OverheadSettings::default()
        };
        let shape = Shape::estimated(&Advertised::read("2", "4GB", None, None).unwrap(), &settings);
        assert!(shape.capacity.amount("memory").is_zero());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(cpu in ".{0,12}", memory in ".{0,20}", disk in ".{0,20}") {
            let _ = Advertised::read(&cpu, &memory, Some(&disk), Some(1));
        }
    }
}

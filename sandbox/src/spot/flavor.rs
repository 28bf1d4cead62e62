//! What a machine of a class really offers, to the byte (rackspace-spot 5.5, §7 rows 25 and 26).

/// kubeReserved plus systemReserved of memory and the hard eviction threshold, in KiB (1124 MiB).
pub const RESERVED_MEMORY_KI: u64 = 1_150_976;
/// Reserved CPU in thousandths.
const RESERVED_MILLICPU: u64 = 500;
/// Disk of every virtual server, in KiB.
pub const DISK_KI: u64 = 101_430_960;
/// Reserved ephemeral storage in bytes.
const RESERVED_EPHEMERAL: u64 = 2_147_483_648;

/// What the kubelet of a machine reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// CPUs.
    pub cpu: u32,
    /// Memory in KiB.
    pub memory_ki: u64,
    /// Ephemeral storage in KiB.
    pub disk_ki: u64,
    /// Number of pods.
    pub pods: u32,
}

impl Shape {
    /// A shape with the disk and the number of pods that every flavor has.
    pub fn new(cpu: u32, memory_ki: u64) -> Self {
        Self {
            cpu,
            memory_ki,
            disk_ki: DISK_KI,
            pods: 110,
        }
    }

    /// `status.capacity`.
    pub fn capacity(&self) -> [(&'static str, String); 4] {
        [
            ("cpu", self.cpu.to_string()),
            ("memory", format!("{}Ki", self.memory_ki)),
            ("ephemeral-storage", format!("{}Ki", self.disk_ki)),
            ("pods", self.pods.to_string()),
        ]
    }

    /// `status.allocatable`.
    pub fn allocatable(&self) -> [(&'static str, String); 4] {
        let millicpu = (u64::from(self.cpu) * 1000).saturating_sub(RESERVED_MILLICPU);
        [
            ("cpu", format!("{millicpu}m")),
            (
                "memory",
                format!("{}Ki", self.memory_ki.saturating_sub(RESERVED_MEMORY_KI)),
            ),
            ("ephemeral-storage", allocatable_ephemeral(self.disk_ki).to_string()),
            ("pods", self.pods.to_string()),
        ]
    }
}

/// Capacity less what is reserved and a tenth for eviction; the kubelet holds the tenth as a 32-bit float, which is 13421773 / 2^27.
fn allocatable_ephemeral(disk_ki: u64) -> u64 {
    let bytes = disk_ki.saturating_mul(1024);
    let tenth = u64::try_from((u128::from(bytes) * 13_421_773) >> 27).unwrap_or(u64::MAX);
    bytes.saturating_sub(RESERVED_EPHEMERAL).saturating_sub(tenth)
}

/// Reads `3810012Ki`.
pub(crate) fn kibibytes(text: &str) -> Option<u64> {
    text.strip_suffix("Ki")?.parse().ok()
}

/// Reads an advertised size such as `3.75GB`, which means GiB (rackspace-spot 5.5), as KiB.
pub(crate) fn advertised_ki(text: &str) -> Option<u64> {
    let number = text.strip_suffix("GB")?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let hundredths: String = fraction.chars().chain("00".chars()).take(2).collect();
    let hundredths = whole
        .parse::<u64>()
        .ok()?
        .checked_mul(100)?
        .checked_add(hundredths.parse().ok()?)?;
    hundredths.checked_mul(1_048_576).map(|scaled| scaled / 100)
}

/// Row 26: the node of a flavor that nobody measured has 3.3 % less below 15 GB, 2.5 % below 30 GB, 2.1 % from there.
pub(crate) fn unmeasured_ki(advertised_ki: u64) -> u64 {
    let gib = advertised_ki / 1_048_576;
    let kept = match gib {
        0..15 => 967,
        15..30 => 975,
        _ => 979,
    };
    advertised_ki.saturating_mul(kept) / 1000
}

/// Row 25: a flavor name by the pattern of the known ones.
pub(crate) fn name(class: &str, memory: &str) -> String {
    let rounded = advertised_ki(memory).unwrap_or_default().div_ceil(1_048_576);
    let family = match class.split('.').next() {
        Some("ch") => "compute1",
        Some("mh") => "memory1",
        Some("gp") => "general",
        Some("gpu") => "gpu1",
        _ => "onmetal",
    };
    format!("{family}-{rounded}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spot::catalogue::classes;

    #[test]
    fn capacity_and_allocatable_agree_with_what_was_measured_to_the_byte() {
        // rackspace-spot 5.5
        let classes = classes();
        for (class, memory, allocatable, cpu) in [
            ("gp.vs1.medium-iad", "3810012Ki", "2659036Ki", "1500m"),
            ("ch.vs1.medium-ord", "3810024Ki", "2659048Ki", "1500m"),
            ("ch.vs1.large-iad", "7608280Ki", "6457304Ki", "3500m"),
            ("mh.vs1.medium-iad", "15337436Ki", "14186460Ki", "1500m"),
            ("ch.vs1.xlarge-iad", "15337424Ki", "14186448Ki", "7500m"),
            ("mh.vs1.large-ord", "30795724Ki", "29644748Ki", "3500m"),
        ] {
            let class = &classes[class];
            let shape = Shape::new(class.cpu.unwrap(), class.node_memory_ki);
            assert_eq!(shape.capacity()[1].1, memory, "{}", class.name);
            assert_eq!(shape.allocatable()[1].1, allocatable, "{}", class.name);
            assert_eq!(shape.allocatable()[0].1, cpu, "{}", class.name);
            assert_eq!(shape.allocatable()[2].1, "91331288934", "{}", class.name);
        }
    }

    #[test]
    fn unmeasured_flavors_lose_less_the_larger_they_are() {
        // row 26
        assert_eq!(advertised_ki("3.75GB"), Some(3_932_160));
        assert_eq!(unmeasured_ki(1_000_000), 967_000);
        assert_eq!(unmeasured_ki(16 * 1_048_576), 16 * 1_048_576 * 975 / 1000);
        assert_eq!(unmeasured_ki(30 * 1_048_576), 30 * 1_048_576 * 979 / 1000);
    }

    #[test]
    fn flavors_are_named_by_the_pattern_of_the_known_ones() {
        // row 25
        assert_eq!(name("mh.vs1.medium-iad", "15GB"), "memory1-15");
        assert_eq!(name("gp.vs1.medium-iad", "3.75GB"), "general-4");
        assert_eq!(name("ch.vs1.2xlarge-iad", "30GB"), "compute1-30");
    }
}

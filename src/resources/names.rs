//! The resource names that rules speak of.

/// Cores.
pub const CPU: &str = "cpu";
/// Bytes of memory.
pub const MEMORY: &str = "memory";
/// Bytes of local disk.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// How many pods; each pod asks for one.
pub const PODS: &str = "pods";
/// Machines; exists only in NodePool limits and in the capacity that the cluster state reports (scheduling 20-1, 23-7).
pub const NODES: &str = "nodes";
/// Prefix of huge page resources; they come out of memory (scheduling 10-2).
pub const HUGE_PAGES_PREFIX: &str = "hugepages-";

/// The resources that overlays may not touch (scheduling 6-6).
pub const WELL_KNOWN: [&str; 4] = [CPU, MEMORY, EPHEMERAL_STORAGE, PODS];

//! Claims planned in this pass, as candidates (scheduling 15-3 to 15-5).

use super::amounts::Amounts;
use super::ports::HostPort;
use super::symbols::{Set, Value};

/// A claim planned in this pass. Its types and requirements only ever narrow (scheduling 15-5).
#[derive(Debug, Clone, Default)]
pub(super) struct Planned {
    /// Place among the templates.
    pub(super) template: usize,
    pub(super) set: Set,
    /// The stand-in for its hostname.
    pub(super) host: Value,
    /// The types left.
    pub(super) types: Vec<u64>,
    /// What its daemons and pods ask for.
    pub(super) totals: Amounts,
    /// Its own copy.
    ///
    /// Differs: upstream shares one among the claims of a pool (scheduling 9-5).
    pub(super) ports: Vec<HostPort>,
    /// Pods, in the order they were placed.
    pub(super) pods: Vec<usize>,
    /// Some `minValues` was lowered (scheduling 15-3).
    pub(super) min_values_relaxed: bool,
}

//! What a pass answers: new claims, placements on what exists, and a reason for each pod that was not placed.

use super::instance_type::InstanceType;
use super::labels::WellKnownLabels;
use super::pod::Pod;
use super::problem::Pool;
use super::requirements::Requirements;
use crate::resources::ResourceList;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The answer of one pass.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// The claims to create.
    pub new_claims: Vec<NewClaim>,
    /// Machines that exist or were asked for, and the pods that should go there; only those that got pods.
    pub existing: Vec<ExistingPlacement>,
    /// The pods that could not be placed, and why.
    pub errors: Vec<PodError>,
    /// Pods that were not looked at to the end because `keep_going` said no.
    pub undecided: Vec<Arc<Pod>>,
    /// Pools of which no instance type is left (event NoCompatibleInstanceTypes, scheduling 11-4).
    pub unusable_pools: Vec<UnusablePool>,
}

/// A claim to create.
#[derive(Debug, Clone)]
pub struct NewClaim {
    /// The NodePool.
    pub pool: String,
    /// The pods it is for, in the order they were placed.
    pub pods: Vec<Arc<Pod>>,
    /// `spec.requirements`: instance types and capacity types included (scheduling 21-3).
    pub requirements: Requirements,
    /// `spec.resources.requests`: daemon overhead and all pods (scheduling 21-1).
    pub requests: ResourceList,
    /// The instance types it may become, cheapest first (scheduling 21-2).
    pub instance_types: Arc<[Arc<InstanceType>]>,
    /// `metadata.labels` (scheduling 21-6).
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations` (scheduling 21-3, 15-3).
    pub annotations: BTreeMap<String, String>,
}

impl NewClaim {
    /// Dollars per hour of the cheapest offering it can become.
    pub fn price(&self, well_known: &WellKnownLabels) -> Option<f64> {
        let prices = self
            .instance_types
            .iter()
            .filter_map(|kind| kind.price(&self.requirements, well_known));
        prices.min_by(f64::total_cmp)
    }
}

/// Pods that should go to a machine that exists or was asked for.
#[derive(Debug, Clone)]
pub struct ExistingPlacement {
    /// Place in [`Problem::nodes`](super::Problem::nodes).
    pub node: usize,
    /// Its name.
    pub name: String,
    /// The pods, in the order they were placed.
    pub pods: Vec<Arc<Pod>>,
}

/// A pod that could not be placed.
#[derive(Debug, Clone)]
pub struct PodError {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Why.
    pub reason: Reason,
}

/// Why a pod could not be placed.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// It asks for devices by resource claim, which is not supported (scheduling 4-7).
    DeviceClaims,
    /// Its volumes could not be looked up (scheduling 2-5).
    Volumes(String),
    /// There is no usable NodePool and nothing that exists takes it.
    NoPools,
    /// Its claim was dropped at truncation because too few instance types were left (scheduling 21-2).
    MinValues(String),
    /// No pool can make a machine for it; one verdict for each pool, in the order tried.
    Refused(Arc<[PoolVerdict]>),
}

/// Why one pool can make no machine for a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolVerdict {
    /// The pool.
    pub pool: String,
    /// In words, with upstream's phrases (surface §4.3).
    pub message: String,
    /// How many instance types were looked at, where it came to that.
    pub considered: usize,
    /// How many of them did not meet the requirements.
    pub unmet_requirements: usize,
    /// How many of them are too small.
    pub too_small: usize,
    /// How many of them have no available offering that would do.
    pub without_offering: usize,
    /// The instance type that came closest.
    pub closest: Option<String>,
}

impl std::fmt::Display for Reason {
    /// The sentence of the FailedScheduling event after "Failed to schedule pod, ".
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::DeviceClaims => {
                f.write_str("pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter")
            }
            Self::NoPools => f.write_str("nodepool requirements filtered out all available instance types"),
            Self::Volumes(message) => f.write_str(message),
            Self::MinValues(message) => write!(
                f,
                "pod didn’t schedule because NodePool couldn’t meet minValues requirements, validating minValues, {message}"
            ),
            Self::Refused(verdicts) => {
                for (i, verdict) in verdicts.iter().enumerate() {
                    let separator = if i == 0 { "" } else { "; " };
                    write!(f, "{separator}{}", verdict.message)?;
                }
                Ok(())
            }
        }
    }
}

/// A pool that cannot open claims in this pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusablePool {
    /// The pool.
    pub name: String,
    /// Too few instance types for `minValues`, though some would do otherwise.
    pub due_to_min_values: bool,
}

/// How preferences of pods are treated (`PREFERENCE_POLICY`, scheduling 16-1, 16-2).
pub use super::pod::Preferences as PreferencePolicy;

/// What happens when fewer values are possible than `minValues` wants (`MIN_VALUES_POLICY`, scheduling 19-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MinValuesPolicy {
    /// The pool cannot be used.
    #[default]
    Strict,
    /// The wish is lowered.
    BestEffort,
}

/// Who wins among equals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ties {
    /// Domains: one with an available offering, then the cheapest, then by name; instance types by name (architecture §7.15).
    #[default]
    Product,
    /// For comparison with recorded answers only: domains by name, instance types as listed.
    ByName,
}

/// Whether resource claims make a pod unplaceable (`IGNORE_DRA_REQUESTS`, scheduling 4-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceClaims {
    /// They do.
    #[default]
    Refuse,
    /// They are overlooked.
    Overlook,
}

/// How a pass is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How preferences are treated.
    pub preferences: PreferencePolicy,
    /// How `minValues` are treated.
    pub min_values: MinValuesPolicy,
    /// How resource claims are treated.
    pub device_claims: DeviceClaims,
    /// Who wins among equals.
    pub ties: Ties,
    /// Instance types kept per claim (scheduling 21-2).
    pub max_instance_types: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            preferences: PreferencePolicy::Respect,
            min_values: MinValuesPolicy::default(),
            device_claims: DeviceClaims::default(),
            ties: Ties::default(),
            max_instance_types: 600,
        }
    }
}

/// A pool is known by its name only; this gives the pool of a new claim back.
impl NewClaim {
    /// The pool it was opened from.
    pub fn pool_in<'a>(&self, pools: &'a [Pool]) -> Option<&'a Pool> {
        pools.iter().find(|pool| pool.name == self.pool)
    }
}

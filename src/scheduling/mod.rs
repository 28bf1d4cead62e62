//! Pods, machines and offerings in, placements out. Pure: no clock, no randomness, no I/O.

pub mod instance_type;
pub mod labels;
pub mod pod;
pub mod ports;
pub mod problem;
pub mod requirements;
pub mod results;
pub mod taints;
pub mod volumes;

pub use instance_type::{Availability, CapacityType, InstanceType, Offering, Overhead, adjusted_price};
pub use labels::WellKnownLabels;
pub use pod::{Constraints, Phase, Pod, Preferences, Selector, Standing};
pub use problem::{Fate, Node, NodeObject, Ownership, Pool, Problem, Readiness};
pub use requirements::{Incompatibility, Operator, Requirement, Requirements, Spec, Undefined};
pub use results::{
    DeviceClaims, ExistingPlacement, MinValuesPolicy, NewClaim, Options, PodError, PoolVerdict, PreferencePolicy,
    Reason, Results, Ties, UnusablePool,
};
pub use taints::{Taint, Toleration};
pub use volumes::{PersistentVolume, StorageClass, VolumeClaim, VolumeError, Volumes};

//! Pods, machines and offerings in, placements out. Pure: no clock, no randomness, no I/O.

pub mod instance_type;
pub mod labels;
pub mod requirements;

pub use instance_type::{Availability, CapacityType, InstanceType, Offering, Overhead, adjusted_price};
pub use labels::WellKnownLabels;
pub use requirements::{Incompatibility, Operator, Requirement, Requirements, Spec, Undefined};

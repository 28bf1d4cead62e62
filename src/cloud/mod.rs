//! The border to the clouds: what the core asks of one, and the implementations.
//!
//! [`provider`] is the contract in Karpenter's words; [`error`] says what to do about each failure; [`spot`] is Rackspace Spot. Controllers call the
//! trait, the wiring chooses who is behind it.

pub mod error;
pub mod provider;
pub mod spot;

pub use error::{CloudError, Remedy};
pub use provider::{
    AWAITING_SERVER_ASSIGNMENT, Accepted, CreateOutcome, Deletion, InstanceTypes, Machine, MachineIdentity,
    MachineList, MachineState, Provider, RepairPolicy, Stage,
};

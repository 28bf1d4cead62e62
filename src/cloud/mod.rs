//! The border to the clouds: what the core asks of one, and the implementations.
//!
//! [`provider`] is the contract in Karpenter's words; [`error`] says what to do about each failure; [`choose`] decides which offering a launch
//! tries first; [`spot`] is Rackspace Spot; [`fake`] is a programmable provider for tests and benches; [`observed`] counts and times the calls;
//! [`overlaid`] shows instance types as NodeOverlays correct them.
//! Controllers call the trait, the wiring chooses who is behind it.

pub mod choose;
pub mod error;
pub mod fake;
pub mod observed;
pub mod overlaid;
pub mod provider;
pub mod spot;

pub use choose::requirements_of;
pub use error::{CloudError, Remedy};
pub use observed::Observed;
pub use overlaid::{Overlaid, OverlayStore};
pub use provider::{
    AWAITING_SERVER_ASSIGNMENT, Accepted, Attachment, CreateOutcome, Deletion, InstanceTypes, Machine, MachineIdentity,
    MachineList, MachineState, Provider, RepairPolicy, Stage,
};

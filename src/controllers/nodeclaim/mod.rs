//! The controllers of NodeClaims.

pub mod consistency;
mod details;
pub mod expiration;
pub mod garbage;
pub mod hydration;
mod launching;
pub mod lifecycle;
pub mod machine;
pub mod marks;
pub mod podevents;
mod registering;
pub(super) mod save;
pub(crate) mod termination;

pub use lifecycle::Lifecycle;

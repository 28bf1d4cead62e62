//! The controllers of NodeClaims.

mod details;
pub mod expiration;
pub mod hydration;
mod launching;
pub mod lifecycle;
pub mod machine;
mod registering;
mod save;
pub(crate) mod termination;

pub use lifecycle::Lifecycle;

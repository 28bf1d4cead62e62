//! The controllers of Nodes.

pub(crate) mod events;
pub mod hydration;
pub mod link;
pub mod termination;

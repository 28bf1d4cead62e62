//! The controllers of Nodes.

pub mod hydration;
pub mod link;

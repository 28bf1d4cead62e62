//! The controllers of NodePools.

pub mod counter;
pub mod hash;
pub mod health;
pub mod readiness;
pub mod validation;

//! The commands of the `sandbox` binary, one module each.

pub mod cloud;

//! The commands of the `sandbox` binary, one module each.

pub mod chaos;
pub mod cloud;
pub mod demo;
pub mod serve;
pub mod timeline;

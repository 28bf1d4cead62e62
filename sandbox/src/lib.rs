//! The simulated world.

pub mod api;
pub mod binder;
pub mod chaos;
pub mod commands;
pub mod csi;
pub mod machines;
mod observe;
pub mod spot;
pub mod ticks;
pub mod workloads;
pub mod world;

pub use observe::Name;

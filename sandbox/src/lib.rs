//! The simulated world.

pub mod api;
pub mod commands;
pub mod machines;
pub mod spot;

//! The simulated world.

pub mod commands;
pub mod machines;
pub mod spot;

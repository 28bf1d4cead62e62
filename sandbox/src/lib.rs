//! The simulated world.

pub mod spot;

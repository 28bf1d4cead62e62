//! Pure: what a machine really offers, before and after one of its kind was seen.
//!
//! A flavour is advertised as sold, which is more than its nodes report. [`overhead`] estimates on the safe side, [`measured`] replaces the
//! estimate by the least that any node of the flavour ever reported. The provider's catalogue calls both, the capacity controller feeds the second.
//! Relies on exact quantities only.

pub mod measured;
pub mod overhead;

pub use measured::{Measured, Observation};
pub use overhead::{Advertised, NotAFlavour, OverheadSettings, Shape};

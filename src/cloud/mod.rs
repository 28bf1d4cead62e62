//! The border to the clouds: what the core asks of one, and the implementations.
//!
//! [`error`] says what to do about each failure. Controllers call the trait, the wiring chooses who is behind it.

pub mod error;

pub use error::{CloudError, Remedy};

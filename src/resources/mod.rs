//! Exact arithmetic on Kubernetes quantities and on lists of them (scheduling §8).
//!
//! Decides nothing; everything that counts cpu, memory, pods or money-like limits relies on it being exact: no floats, no rounding but
//! where Kubernetes itself rounds. Called by every module that knows resources.

mod list;
pub mod names;
mod quantity;

pub use list::ResourceList;
pub use quantity::{Format, ParseQuantityError, Quantity};

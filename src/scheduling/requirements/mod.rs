//! The requirement algebra (scheduling §5): what one label may be, what a set of labels may be, and whether two sides go together.
//!
//! Pure values. Relies on [`labels`](super::labels) for the names of keys. Called by everything that compares pods, pools, machines and
//! offerings; the solver works on an interned copy of the same algebra and is checked against this one.

mod compatibility;
#[cfg(test)]
mod properties;
mod requirement;
mod set;
mod validation;

pub use compatibility::{Incompatibility, Undefined};
pub use requirement::{Operator, Requirement, Spec, UnknownOperator};
pub use set::Requirements;
pub use validation::{InvalidRequirement, validate};

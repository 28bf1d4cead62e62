//! The requirement algebra (scheduling §5): what one label may be, what a set of labels may be, and whether two sides go together.
//!
//! Pure values. Relies on [`labels`](super::labels) for the names of keys. Called by everything that compares pods, pools, machines and
//! offerings; the solver works on an interned copy of the same algebra and is checked against this one.

mod compatibility;
mod operator;
#[cfg(test)]
mod properties;
mod requirement;
mod set;
mod validation;

pub use compatibility::{Incompatibility, Undefined};
pub use operator::{Operator, UnknownOperator};
pub use requirement::{Requirement, Spec};
pub use set::Requirements;
pub use validation::{InvalidRequirement, validate};

//! The CustomResourceDefinitions, equal to upstream's but for descriptions (surface §1, `tests/crds.rs`).
//!
//! The types give names, descriptions, printer columns and the raw shape; what a Rust type cannot say (patterns, CEL rules, defaults, list types,
//! quantities as integer or string) is laid over it here, path by path. Relies on the types of [`crate::api`]; called by `cargo xtask generate` and by
//! the in-process API server. What kube's derive offers as `NodePool::crd()` is only the raw shape: use [`all`].

mod assemble;
mod fragments;
mod kinds;
pub mod patterns;

pub use assemble::Definition;
pub(super) use assemble::Schema;
pub(super) use fragments::{ConditionSchema, condition, unchecked_taints};
pub use kinds::all;

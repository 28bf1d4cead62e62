//! What an object may be: fields that exist, structure, rules.
//!
//! Custom kinds are judged by their schema ([`structural`], [`defaulting`], [`cel`]), built-in ones by their type and the few rules in [`core`];
//! metadata is the same for all ([`metadata`]). Called by [`super::write`].

mod cel;
mod core;
mod defaulting;
mod formats;
mod metadata;
mod pruning;
mod rules;
mod schema;
mod structural;

pub(crate) use cel::CelEngine;
pub(crate) use defaulting::apply_schema_defaults;
pub use rules::CustomSchema;
pub(crate) use rules::{Strictness, check, shape};

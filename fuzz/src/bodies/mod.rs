//! A body takes any bytes, gives them to the product the way the world would, and asserts what must hold whatever they are.
//!
//! Not only "no panic": what is read back must be what was written, a chosen instant must lie ahead, no pod may get lost. An assertion that
//! fails is a finding. Uses only the product's public interface.

mod all;
mod objects;
mod placing;
mod platform;
mod structured;
mod text;

pub use all::{ALL, run};

//! Scheduling by example: whole passes over small clusters, in the words of the scenarios of docs/scenarios/scheduling.md.
//!
//! A test names the scenarios that it covers; `tests/architecture.rs` holds the table against these names.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_imports,
    clippy::needless_pass_by_value,
    clippy::type_complexity,
    clippy::unnecessary_wraps,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "scheduling/algebra.rs"]
mod algebra;
#[path = "scheduling/basics.rs"]
mod basics;
#[path = "scheduling/choice.rs"]
mod choice;
#[path = "scheduling/machines.rs"]
mod machines;
#[path = "scheduling/neighbours.rs"]
mod neighbours;
#[path = "scheduling/parts.rs"]
mod parts;
#[path = "scheduling/pods.rs"]
mod pods;
#[path = "scheduling/requirements.rs"]
mod requirements;
#[path = "scheduling/spread.rs"]
mod spread;
#[path = "scheduling/volumes.rs"]
mod volumes;
#[path = "scheduling/world.rs"]
mod world;

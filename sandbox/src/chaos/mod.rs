//! A whole life of the operator by seed: workloads come and go, everything goes wrong that does on a bad day, and nothing that matters may break.
//!
//! ```text
//! seed ─▶ Plan (drawn, pure) ─▶ trial: world, operator, deeds at their instants ─▶ faults end ─▶ all bound or explained ─▶ scaled to zero ─▶ nothing left
//!                                      └──────────── the inspector looks all along ────────────────────────────────────────────────┘
//! ```
//!
//! Needs a tokio runtime of one thread with its clock paused: then a seed replays to the byte. [`run_seeds`] makes one for each seed, on as many threads as
//! it is told. Called by `sandbox chaos` and by the tests.

mod again;
mod apps;
mod census;
mod deeds;
mod draw;
mod foreign;
mod inspector;
mod journal;
mod levels;
mod mortal;
mod node_pools;
mod outcome;
mod pages;
mod plan;
mod purchases;
mod room;
mod runner;
mod settle;
mod soak;
mod trial;
mod weather;
mod witness;

pub use journal::Verbosity;
pub use mortal::Traffic;
pub use outcome::Outcome;
pub use plan::{Plan, Troubles};
pub use runner::{RunSeedsError, Seeds, Times, run_seed, run_seed_twice, run_seeds};
pub use soak::{HEADING, Sample, Soak, SoakError, soak};

//! What happens to a user of the product, told once and played in both worlds (issue 3 §7.2, issue 4 §4).
//!
//! `tests/scenarios.rs` plays every scenario of [`list`] in the in-process world on the paused clock, `tests/cp_main_job.rs` on the real control plane with
//! the real kube-scheduler. A scenario knows only [`crate::support::stage::Stage`]. One that passes in one world alone has found a bug of the other.

#[macro_use]
pub mod list;
pub mod bids;
pub mod constraints;
pub mod losses;
pub mod main_job;
pub mod manifests;
pub mod pools;
pub mod removal;
pub mod settings;
pub mod volumes;
pub mod waiting;

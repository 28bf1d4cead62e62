//! PURE: which nodes may go, and when. Candidates in, commands out.
//!
//! ```text
//! cluster snapshot → candidates → budgets → method (emptiness, …) → command → validation after 15 s → execution
//! ```
//!
//! [`method`] lists the ways of choosing; each has a file of its own and adds nothing elsewhere. The controllers under `controllers/disruption`
//! take the snapshots, wait, and carry commands out.

pub mod allowance;
pub mod budgets;
pub mod candidate;
pub mod command;
pub mod cost;
pub mod cron;
pub mod emptiness;
pub mod execution;
#[cfg(test)]
mod fixture;
pub mod leftover;
pub mod method;
pub mod pdb;
pub mod rest;
pub mod validate;

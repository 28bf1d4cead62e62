//! One leader: the election by a `coordination.k8s.io` Lease (surface §6.4, architecture §3.5).
//!
//! | module | what it is for |
//! |---|---|
//! | `terms` | how long a lease, a renewal and a write may take |
//! | `record` | what a Lease says, and what follows from it; pure |
//! | `run` | the candidate: acquires, renews, loses, gives back |
//! | `lease` | the Lease at the API server, and the Events about it |
//!
//! # Why two never write at once
//!
//! ```text
//! holder   ──renewal sent──────────── may write until + 10 s ── last write answered or given up: + 14 s
//! lease         └─ renewed at the API server ─────────────────────────── others may take it: + 15 s after they saw the renewal
//! ```
//!
//! Both sides measure on their own monotonic clocks from events that are ordered: the holder from *before* it sent the renewal, a candidate from
//! *after* it saw it. Wall clocks, and what they say in the Lease, decide nothing.

mod lease;
mod record;
mod run;
mod terms;

pub use run::{Candidate, Ended, LeaseSettings};
pub use terms::Terms;

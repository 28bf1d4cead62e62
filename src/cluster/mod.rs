//! What is known of the cluster: what was observed, what our own writes let us assume, what we have planned, and the machines that follow.
//!
//! ```text
//! Delta (watches) ─▶ ┌─ tables ─▶ indexes ─▶ machines ─┐ ─▶ Snapshot (pulled, behind Arcs)
//! Assumption ──────▶ └──────────── ledger ─────────────┘ ─▶ Change (per applied delta, for triggers)
//! ```
//!
//! Pure: no task, no client, no clock. Decides which of two versions of an object holds, when an assumption ends, which Node belongs to which
//! claim, and which machines count. Relies on the provider's word for the latter ([`ClaimOfNode`]). The cluster task in [`crate::k8s`] owns the
//! one [`Cluster`]; everybody else reads [`Snapshot`]s.
//!
//! - a pass of the scheduler starts from [`Snapshot::nodes_for_scheduling`] and its kin, [`Snapshot::provisionable`], [`Snapshot::plans`] and [`Snapshot::totals`];
//! - a controller starts from one object, [`Snapshot::claim`] and its kin, and from [`Snapshot::machine_of_claim`].

mod delta;
pub mod entries;
mod follow;
mod graves;
mod index;
pub mod intern;
mod ledger;
mod machine;
mod object;
mod ordered;
mod snapshot;
mod state;
mod table;
mod tables;
mod view;

pub use delta::{Assumption, Change, Delta, Doubt, Object, Source, What};
pub use index::Pods;
pub use ledger::{MachineId, Mark, Plan, Plans};
pub use machine::{StateNode, VolumeLimits};
pub use object::{Entry, Key, Kind, Meta, Uid, Version};
pub use ordered::Ordered;
pub use snapshot::{PoolClaims, PoolTotals, Snapshot};
pub use state::{ClaimOfNode, Cluster};
pub use table::{DOUBT_AFTER, Entries};
pub use tables::Objects;

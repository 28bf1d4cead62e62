//! Pending pods become NodeClaims (scheduling 1 to 2, 22).
//!
//! ```text
//! pod, node changes ─▶ batcher ─▶ window ends ─▶ snapshot ─▶ question ─▶ solve (pure) ─▶ create claims, promise pods, nominate, tell
//! ```
//!
//! [`Provisioner`] is a loop: one pass at a time. [`PodTrigger`] and [`NodeTrigger`] wake it and go on waking it until a pod is bound or a node is
//! gone (scheduling 1-1, 1-2).

mod batcher;
mod cautions;
mod create;
mod doubts;
mod observe;
mod pass;
mod record;
mod ruled_out;
mod simulation;
mod triggers;

pub use batcher::{Batcher, Windows};
pub use pass::{Place, Provisioner, Settings};
pub use triggers::{NodeTrigger, PodTrigger};

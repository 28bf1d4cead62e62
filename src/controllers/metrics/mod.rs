//! What is shown of objects rather than of our own acts: pods, nodes, NodePools, conditions, the state itself (surface §5, T28).
//!
//! ```text
//! change of a kind ─▶ wake ─▶ a second for others to come ─▶ snapshot ─▶ what differs from the last one ─▶ series, transition Events
//! ```
//!
//! Each controller keeps the objects that it has shown and looks only at those that differ, so a wake costs what changed, and what is gone takes its
//! series along. Nothing is worked out at a scrape but ages. Relies on the snapshots; the wiring starts them, all but [`State`] only while
//! `DISABLE_CLUSTER_STATE_OBSERVABILITY` is off.

mod conditions;
mod differences;
mod events;
mod nodes;
mod pods;
mod pools;
mod state;

pub use conditions::{ClaimConditions, ClassConditions, NodeConditions, PoolConditions};
pub use differences::{Follower, SETTLE};
pub use nodes::NodeFollower;
pub use pods::{PodFollower, SeenPods};
pub use pools::PoolFollower;
pub use state::{State, watch_sync};

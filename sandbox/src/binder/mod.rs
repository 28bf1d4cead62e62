//! The scheduler of the simulated world: kube-scheduler's filters, and the loop that binds.
//!
//! ```text
//! objects ─ facts ─▶ Cluster ─ prepare(pod) ─▶ Prepared ─ filter(node) ─▶ Ok | Reason ─▶ score ─▶ bind, or say why not
//! ```
//!
//! Written from Kubernetes' documentation and sharing no code with the product's solver, so that a rule that one of the two misreads is seen.
//! [`feasible`] is the filters as a pure function, also used to check placements that others made; [`Binder`] is the loop. Relies on
//! [`crate::observe`] only.

mod affinity;
mod amount;
mod cluster;
mod facts;
mod filter;
mod labels;
mod message;
mod node_rules;
mod prepare;
mod queue;
mod reason;
mod request;
mod run;
mod score;
mod spread;
mod taints;
mod volumes;
mod watching;

pub use cluster::Cluster;
pub use facts::{NodeFacts, PodFacts};
pub use filter::feasible;
pub use reason::Reason;
pub use run::Binder;

pub(crate) use node_rules::matches_node;
pub(crate) use taints::{Ignored, tolerates, untolerated};
pub(crate) use volumes::{SELECTED_NODE, is_bound, smallest_free, waits};

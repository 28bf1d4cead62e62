//! kube-controller-manager of the simulated world, reduced to what an autoscaler can tell apart.
//!
//! ```text
//! feeds ─▶ Seen (mirrors, indexes) ─ keys ─▶ agenda ─▶ plan(seen, key, now) ─▶ acts ─▶ hands ─▶ API
//!            ▲──────────────────────── assume what was written ───────────────────────┘
//! ```
//!
//! Every controller is one pure function from what is seen to acts; [`Workloads`] is the loop around them. Owners' garbage, disruption budgets and
//! namespaces are kept by [`crate::api`] itself. Relies on [`crate::observe`], and on the scheduler's rules about nodes in [`crate::binder`].

mod act;
mod attachments;
mod claims;
mod conditions;
mod daemon_set;
mod deletion_order;
mod deployment;
mod hash;
mod job;
mod key;
mod node_lifecycle;
mod options;
mod owned;
mod pods;
mod replica_set;
mod rollout;
mod run;
mod seen;
mod stateful_set;
mod touched;
mod volumes;

pub use options::WorkloadOptions;
pub use run::Workloads;

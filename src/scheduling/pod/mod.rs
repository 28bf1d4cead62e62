//! A pod reduced to what matters for placement and removal.
//!
//! Built once per observed pod ([`Pod::from_api`], which accepts whatever the API server does and never fails), kept behind an `Arc` in the
//! cluster state, read by the solver and by disruption. Decides which pods count (scheduling §3) and what a pod asks for (scheduling §8).

mod constraints;
mod convert;
mod facts;
mod requests;
mod selector;
mod standing;

pub use constraints::{
    Constraints, Expression, NodePolicy, NodeTerm, PodTerm, Preferences, Spread, Weighted, WhenUnsatisfiable,
};
pub use facts::Pod;
pub use requests::{pod_limits, pod_requests, with_limits_as_requests};
pub use selector::Selector;
pub use standing::{DoNotDisrupt, Phase, Standing};

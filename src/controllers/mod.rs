//! Thin: observe, decide, act, record. Every controller works on what [`Kit`] gives it; the wiring is `operator/wiring.rs`.
//!
//! | noun | controllers |
//! |---|---|
//! | [`nodeclaim`] | lifecycle (launch to initialization), what ends a claim, marks |
//! | [`node`] | the bridge between nodes and claims, the end of a node |
//! | [`nodeclass`] | whether machines can be had by a class |
//! | [`pricing`], [`capacity`] | prices kept current, flavours measured |
//! | [`provisioning`] | pending pods become claims |
//! | [`nodeoverlay`] | which corrections of instance types hold |
//! | [`nodepool`] | hash, counter, readiness, validation, registration health |
//! | [`disruption`] | which nodes go voluntarily, and how |
//! | [`arrivals`] | where claims come from |
//! | [`eviction`] | asking pods to leave |
//! | [`metrics`] | what is shown of objects: series, and Events of transitions |

pub mod arrivals;
pub mod capacity;
pub mod disruption;
pub mod eviction;
pub mod kit;
pub mod metrics;
pub mod node;
pub mod nodeclaim;
pub mod nodeclass;
pub mod nodeoverlay;
pub mod nodepool;
pub mod pricing;
pub mod provisioning;

pub use arrivals::{Arrival, Arrivals};
pub use kit::Kit;

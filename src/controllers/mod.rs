//! Thin: observe, decide, act, record. Every controller works on what [`Kit`] gives it; the wiring is `operator/wiring.rs`.
//!
//! | noun | controllers |
//! |---|---|
//! | [`nodeclaim`] | lifecycle (launch to initialization), what ends a claim, marks |
//! | [`node`] | the bridge between nodes and claims |
//! | [`nodepool`] | hash, counter, readiness, validation, registration health |

pub mod kit;
pub mod node;
pub mod nodeclaim;
pub mod nodepool;

pub use kit::Kit;

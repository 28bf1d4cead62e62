//! Karpenter for Rackspace Spot: pods that nobody can schedule become servers won at auction, and servers nobody needs are given back.
//!
//! The modules, and the one way down between them (a module uses what is to the right of it, never what is to the left; `tests/architecture.rs`
//! fails when an arrow is broken):
//!
//! ```text
//! operator → controllers → k8s, cloud (the I/O) → disruption, lifecycle, cluster, pricing, capacity → scheduling → resources, api → clock, telemetry
//! ```
//!
//! | module | what it is for |
//! |---|---|
//! | [`api`] | the Kubernetes types we own: serde and schema, conditions, labels, durations |
//! | [`resources`] | exact arithmetic on quantities and resource lists |
//! | [`scheduling`] | pure: pods + nodes + offerings → placements |
//! | [`cluster`] | pure: what was observed and assumed → state → snapshot |
//! | [`lifecycle`] | pure: what should happen to one NodeClaim next |
//! | [`disruption`] | pure: which nodes may go, and when |
//! | [`pricing`] | pure: percentiles and bids |
//! | [`capacity`] | pure: what a flavour really offers |
//! | [`cloud`] | the provider border, and Rackspace Spot behind it |
//! | [`k8s`] | the Kubernetes border: watches, queues, writes, evictions, events |
//! | [`controllers`] | thin: observe, decide, act, record |
//! | [`operator`] | settings, wiring, serving; the only place that knows everything |
//! | [`clock`], [`telemetry`] | leaves: where time comes from; the metrics and log fields we declare |

pub mod api;
pub mod capacity;
pub mod clock;
pub mod cloud;
pub mod cluster;
pub mod controllers;
pub mod disruption;
pub mod k8s;
pub mod lifecycle;
pub mod operator;
pub mod pricing;
pub mod resources;
pub mod scheduling;
pub mod telemetry;

//! The whole simulated world in one value: Kubernetes API, Spot platform, machines, controllers, scheduler, on one clock and one seed.
//!
//! ```text
//! World ─┬─ api::ApiServer ◀─ clients ─┬─ workloads   (kube-controller-manager)
//!        │                             ├─ binder      (kube-scheduler)
//!        │                             ├─ machines    (kubelets, cloud controller, CSI) ─┐
//!        │                             └─ whoever is tested                              │
//!        └─ spot::Spot ◀── router (axum, tower) ◀── whoever is tested, any Spot client ──┘
//! ```
//!
//! On a paused clock a day of an idle world takes well under a second, and a seed replays to the byte ([`World::log`]). The verbs
//! ([`World::apply`], [`World::scale`], [`World::wait_until`], …) are what tests and the demonstration speak. Never together with sockets while
//! the clock is paused.

mod asks;
mod builder;
mod buying;
mod furniture;
mod running;
mod verbs;

pub use builder::{Crds, WorldBuilder, WorldOptions};
pub use buying::Order;
pub use running::World;
pub use verbs::WorldError;

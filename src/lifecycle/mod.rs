//! PURE: what should happen to one NodeClaim next.
//!
//! Each step of a claim's life is a function from what is seen (a small view and `now`) to what follows; the controllers under
//! `controllers/nodeclaim` and `controllers/node` build the views and carry the answers out.
//!
//! ```text
//! launch → registration → initialization      (liveness watches the first two)
//!    │                          │
//!    └──────── expiration, removal ──▶ termination → drain → machine gone → finalizers gone
//! ```

pub mod consistency;
pub mod consolidatable;
pub mod detachment;
pub mod drain;
pub mod drift;
pub mod expiration;
pub mod farewell;
pub mod garbage;
pub mod health;
pub mod initialization;
pub mod launch;
pub mod liveness;
pub mod pod_events;
pub mod pods;
pub mod registration;

//! The life of a claim from its order to its node or its end: through the whole operator in the simulated world, on a paused clock and without a socket.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "lifecycle/deadlines.rs"]
mod deadlines;
#[path = "lifecycle/lost.rs"]
mod lost;
#[path = "lifecycle/trouble.rs"]
mod trouble;
#[path = "lifecycle/volumes.rs"]
mod volumes;
#[path = "provisioning/world.rs"]
#[allow(dead_code, reason = "shared with tests/provisioning.rs; each uses its part")]
mod world;

//! Pending pods become claims, once each: through the whole operator in the simulated world, on a paused clock and without a socket.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "provisioning/once.rs"]
mod once;
#[path = "provisioning/passes.rs"]
mod passes;
#[path = "provisioning/world.rs"]
#[allow(dead_code, reason = "shared with tests/lifecycle.rs; each uses its part")]
mod world;

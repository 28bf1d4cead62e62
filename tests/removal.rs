//! How nodes go, through the real controllers on the paused clock: voluntarily, by hand, and when either side of a claim has vanished. No sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "removal/disruption.rs"]
mod disruption;
#[path = "removal/garbage.rs"]
mod garbage;
#[path = "removal/termination.rs"]
mod termination;
#[path = "removal/whole.rs"]
mod whole;
#[path = "removal/world.rs"]
mod world;

//! The Kubernetes border against the in-process API server, on the paused clock: what is watched arrives, what is written is known, and bad days
//! lose nothing. No sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "border/bad_days.rs"]
mod bad_days;
#[path = "border/electing.rs"]
mod electing;
#[path = "border/evictions.rs"]
mod evictions;
#[path = "border/lines.rs"]
mod lines;
#[path = "border/odd_leases.rs"]
mod odd_leases;
#[path = "border/replica.rs"]
mod replica;
#[path = "border/watchdog.rs"]
mod watchdog;
#[path = "border/watching.rs"]
mod watching;
#[path = "border/world.rs"]
mod world;
#[path = "border/writing.rs"]
mod writing;

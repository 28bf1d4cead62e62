//! The simulated API server, as clients see it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "api/custom.rs"]
mod custom;
#[path = "api/evictions.rs"]
mod evictions;
#[path = "api/faults.rs"]
mod faults;
#[path = "api/garbage.rs"]
mod garbage;
#[path = "api/objects.rs"]
mod objects;
#[path = "api/served.rs"]
mod served;
#[path = "api/support.rs"]
mod support;
#[path = "api/watches.rs"]
mod watches;
#[path = "api/wire.rs"]
mod wire;

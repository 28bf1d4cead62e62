//! The Spot client and provider against the simulated platform, in this process and on a paused clock: no socket is opened, no second is waited.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "spot_client/client.rs"]
mod client;
#[path = "spot_client/late.rs"]
mod late;
#[path = "spot_client/launch.rs"]
mod launch;
#[path = "spot_client/life.rs"]
mod life;
#[path = "spot_client/nodeclass.rs"]
mod nodeclass;
#[path = "spot_client/world.rs"]
mod world;

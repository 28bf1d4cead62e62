//! What integration tests share.
//!
//! Each test file says `mod support;` and uses the part it needs. Files that need the real control plane are named
//! `tests/cp_*.rs`, so that they can be left out where there is no Go.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test file is a crate of its own and uses only its part"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

pub mod cloud;
pub mod controlplane;
pub mod picture;
pub mod real;
pub mod simulated;
pub mod stage;
pub mod written;

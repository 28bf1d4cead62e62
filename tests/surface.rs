//! What users see, held against the tables in the code, the docs, and what upstream really showed (`tests/data/observed/`).
//!
//! When something differs: names, labels, types, buckets, texts and reasons are the interface that dashboards, alerts and habits rest on. Change the
//! code, unless the reference says otherwise; a deviation that is meant goes into the list beside the check, with its reason.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "surface/conditions.rs"]
mod conditions;
#[path = "surface/docs.rs"]
mod docs;
#[path = "surface/events.rs"]
mod events;
#[path = "surface/logs.rs"]
mod logs;
#[path = "surface/metrics.rs"]
mod metrics;
#[path = "surface/scrape.rs"]
mod scrape;
#[path = "surface/windows.rs"]
mod windows;
#[path = "surface/world.rs"]
mod world;

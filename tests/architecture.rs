//! Reads the sources and fails when they leave the structure that CONTRIBUTING.md describes.
//!
//! When a test here fails, the message names the file, the line and the rule. The code moves, not the rule; an exception is a reviewed line in this folder
//! with its reason.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "architecture/arrows.rs"]
mod arrows;
#[path = "architecture/citations.rs"]
mod citations;
#[path = "architecture/scenarios.rs"]
mod scenarios;
#[path = "architecture/shape.rs"]
mod shape;
#[path = "architecture/sources.rs"]
mod sources;
#[path = "architecture/words.rs"]
mod words;

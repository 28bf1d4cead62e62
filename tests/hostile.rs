//! Hostile input (architecture §8): whatever strangers write is read, or refused with words that help, and the rest goes on.
//!
//! `corpus` runs the bodies of the fuzz targets over the committed corpus and over generated input; `reactions` holds the words for each bad object
//! against a table; `world` shows that one bad object of each kind does not keep the operator from serving the good ones.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "../fuzz/src/bodies/mod.rs"]
mod bodies;
#[path = "hostile/corpus.rs"]
mod corpus;
#[path = "hostile/reactions.rs"]
mod reactions;
#[path = "hostile/unreadable.rs"]
mod unreadable;
#[path = "hostile/world.rs"]
mod world;

//! Rackspace Spot behind the provider border.
//!
//! ```text
//! provider ─▶ launch, view, orders ─▶ operations ─▶ client ─▶ auth, limits ─▶ transport ─▶ the platform
//!        └──▶ catalogue ◀─ feed (public prices)            types, reader: what the answers mean
//! ```

pub mod auth;
pub mod client;
pub mod error;
pub mod limits;
pub mod operations;
pub mod reader;
pub mod transport;
pub mod types;

pub use auth::{AuthSettings, Tokens};
pub use client::{ClientSettings, SpotClient};
pub use error::SpotError;

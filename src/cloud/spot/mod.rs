//! Rackspace Spot behind the provider border.
//!
//! ```text
//! provider ─▶ launch, view, orders ─▶ operations ─▶ client ─▶ auth, limits ─▶ transport ─▶ the platform
//!        └──▶ catalogue ◀─ feed (public prices)            types, reader: what the answers mean
//! ```

pub mod auth;
pub mod catalogue;
pub mod client;
pub mod cooldown;
pub mod error;
pub mod feed;
pub mod labels;
mod launch;
pub mod limits;
pub mod nodeclasses;
pub mod operations;
pub mod orders;
pub mod provider;
pub mod reader;
mod servers;
pub mod stock;
pub mod transport;
pub mod types;
pub mod view;

pub use auth::{AuthSettings, PUBLIC_CLIENT_ID, Tokens};
pub use client::{ClientSettings, SpotClient};
pub use error::SpotError;
pub use feed::PriceFeed;
pub use limits::RetrySettings;
pub use nodeclasses::NodeClasses;
pub use provider::{Discovery, ProviderSettings, SpotProvider};
pub use transport::{ConnectionSettings, Departure, HttpTransport, ServiceTransport, Transport, TransportError};

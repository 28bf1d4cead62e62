//! The simulated Rackspace Spot platform (rackspace-spot §2 to §7).
//!
//! ```text
//!  tests, demo ──Control──▶ ┌──────────────────────────┐ ◀──Call/Answer── service (axum, tower) ◀── any Spot client
//!  clock ──────advance────▶ │ Platform: one pure value │ ──Delivery────▶ webhook receiver
//!  machines ◀──orders────── └──────────────────────────┘
//! ```
//!
//! [`Platform`] decides everything: it is advanced to an instant, answers calls as values and draws chance from a seed, so two runs of one seed are equal to the
//! byte. [`Spot`] is the thin part: it holds a clock, serves HTTP and sends webhooks. Every behaviour that nobody published is a switch in [`Options`].

mod advance;
mod answer;
mod auction;
mod bids;
mod calls;
mod catalogue;
mod chance;
mod cloudspaces;
mod control;
mod faults;
mod feed;
mod flavor;
mod ledger;
mod money;
mod options;
mod platform;
mod pool;
mod pools_api;
mod selector;
mod server;
mod service;
mod token;
mod webhook;

pub use answer::{Answer, Call, Timing};
pub use catalogue::{Class, FlavorType};
pub use chance::Distribution;
pub(crate) use chance::{dice, fnv, uuid};
pub use control::Control;
pub use faults::Fault;
pub use flavor::Shape;
pub use ledger::{BidRecord, Ledger, RequestRecord};
pub use money::{Amount, Price};
pub use options::{
    Account, BidRules, CloudspaceSeed, Delays, Faults, FeedMode, Market, Options, Organization, Quirks, ScriptedMove,
    WebhookServer, WebhookShape,
};
pub use platform::{ClassMarket, Cloudspace, OrderedFault, Platform};
pub use pool::{CustomTaint, Pool, PoolKey, PoolKind, PoolSpec};
pub use server::{Ending, MachineOrder, Phase, Server};
pub use service::{Admin, Spot, WebhookSender, http_sender};
pub use token::Bearer;
pub use webhook::{Delivery, Outcome};

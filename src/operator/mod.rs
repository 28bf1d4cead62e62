//! Settings, wiring, serving: the only place that knows everything.
//!
//! `main` calls [`start`] with its arguments and its [`Environment`]; nothing later looks at either. Tests and the sandbox call [`run()`] with a [`Setup`]
//! of their own: another clock, another transport, no sockets.

mod build;
mod controllers;
pub mod environment;
pub mod flags;
pub mod gates;
pub mod http;
mod kubeconfig;
pub mod logging;
pub mod options;
mod parse;
mod process;
mod removal;
mod run;
pub mod settings;
mod setup;
pub mod signals;
mod source;
mod spot;
pub mod spot_options;
mod start;
pub mod tasks;
mod unread;
pub mod wiring;

pub use environment::Environment;
pub use flags::FlagsError;
pub use gates::Gates;
pub use http::{Listen, Listeners};
pub use options::{LogLevel, MinValuesPolicy, Options, OptionsError, PreferencePolicy};
pub use run::{RunError, run};
pub use setup::{Setup, Solving};
pub use spot_options::{CapacityOptions, Credentials, SpotHttpOptions, SpotOptions};
pub use start::start;
pub use wiring::WiringError;

//! Settings, wiring, serving: the only place that knows everything.
//!
//! `main` calls [`start`] with its arguments and its [`Environment`]; nothing later looks at either. Tests and the sandbox call [`run()`] with a [`Setup`]
//! of their own: another clock, another transport, no sockets.

mod build;
pub mod candidacy;
mod controllers;
pub mod environment;
mod fenced;
pub mod flags;
pub mod gates;
pub mod http;
mod kubeconfig;
pub mod logging;
mod login;
mod observability;
pub mod options;
mod parse;
mod process;
pub mod reference;
mod removal;
mod run;
pub mod settings;
mod setup;
pub mod signals;
mod source;
mod spot;
pub mod spot_options;
mod stand_by;
mod start;
mod starter;
pub mod tasks;
mod unread;
pub mod wiring;

pub use candidacy::Candidacy;
pub use environment::Environment;
pub use flags::FlagsError;
pub use gates::Gates;
pub use http::{Listen, Listeners};
pub use login::LoginError;
pub use options::{LogLevel, MinValuesPolicy, Options, OptionsError, PreferencePolicy};
pub use run::{RunError, run};
pub use setup::{FirstLogin, Setup, Solving};
pub use spot_options::{CapacityOptions, Credentials, SpotHttpOptions, SpotOptions};
pub use start::start;
pub use wiring::WiringError;

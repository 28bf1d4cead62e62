//! Settings, wiring, serving: the only place that knows everything.
//!
//! `main` reads [`Options`] from its arguments and its [`Environment`]; nothing later looks at either.

pub mod environment;
pub mod flags;
pub mod gates;
pub mod http;
pub mod logging;
pub mod options;
mod parse;
pub mod settings;
pub mod signals;
mod source;
pub mod spot_options;
pub mod tasks;

pub use environment::Environment;
pub use flags::FlagsError;
pub use gates::Gates;
pub use options::{LogLevel, MinValuesPolicy, Options, OptionsError, PreferencePolicy};
pub use spot_options::{CapacityOptions, Credentials, SpotHttpOptions, SpotOptions};

//! Logs in upstream's JSON form (surface §8), and a form for people in the sandbox.
//!
//! A `tracing` layer that writes one line per event: fixed keys first, then the fields of the enclosing spans from the outside in (a reconcile's
//! span brings `controller`, `reconcileID` and so on), then the event's own. It samples (surface T25), takes its time from the injected clock, and writes to the outputs that
//! the settings name. `main` installs it once with [`install`]; tests put [`LogLayer`] on a registry of their own.
//!
//! Levels: upstream has no WARN, so a `warn!` is shown as INFO. Libraries are heard from `error!` on only.

mod fields;
mod layer;
mod line;
mod outputs;
mod sampling;
mod setup;

pub use layer::LogLayer;
pub use line::Format;
pub use outputs::{Outputs, OutputsError};
pub use setup::{InstallError, LogSetup, install};

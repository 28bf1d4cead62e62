//! Kubernetes Events: what is told, how often, and how it gets to the API server (lifecycle 0.9, surface §4.1).
//!
//! ```text
//! publish ─▶ dedupe (reason + values, 2 min) ─▶ rate limit of its kind ─▶ bounded queue ─▶ correlation ─▶ create, or patch of the count
//! ```
//!
//! Publishing never waits and never fails: an Event that finds the queue full is dropped and counted. Controllers hold a [`Recorder`]; the wiring
//! runs the [`RecorderTask`]. The texts are made by named constructors in one file per noun, beside the controllers.

mod correlate;
mod dedupe;
mod event;
mod recorder;

pub use dedupe::{Limit, Window};
pub use event::{COMPONENT, Event, EventType, Involved};
#[cfg(test)]
pub(crate) use recorder::Told;
pub use recorder::{Recorder, RecorderTask};

//! Keyed work: a key waits once, is never worked on twice at once, and backs off by itself when it fails.
//!
//! ```text
//! triggers ──add──▶ ready (in order, each key once) ──▶ at most `workers` reconciles ──▶ Done
//!                     ▲                                        │
//!                     └── delayed (earliest time wins) ◀── After, Again or failure (back-off per key)
//! ```
//!
//! A key that is added while it is worked on is worked on once more afterwards. Everything runs on the tokio clock; with [`Mode::Inline`] all
//! reconciles run inside the queue's own task, so a simulation replays exactly. Controllers implement [`Reconciler`]; the wiring
//! creates the [`Queue`], hands clones to triggers, and runs it until the stop token is cancelled: then no key is taken any more and what is in
//! flight ends, or is dropped where it waits for longer than a write takes (architecture §7.18). [`Singleton`] is the same for work without keys.

mod ending;
mod run;
mod settings;
mod singleton;
mod span;
mod state;

pub use run::{Queue, Reconciler};
pub use settings::{BackOff, Mode, Next, QueueSettings, ReconcileError, Weight, workers_at};
pub use singleton::{Busy, Singleton, Wake, Working};
pub use span::Subject;

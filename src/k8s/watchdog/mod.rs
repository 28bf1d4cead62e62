//! Notices what has stopped to work without ending: a silent watch, a stuck queue, a loop or the cluster task that does not come back.
//!
//! | module | what it is for |
//! |---|---|
//! | `vital` | what can be looked after, and its signs of life |
//! | `judge` | what the signs mean; pure |
//! | `run` | looks, tells, heals, and ends the process as the last resort |
//!
//! A task that *ends* needs no watchdog: whoever owns it ends the process at once. A runtime that does not come round any more cannot be noticed from
//! inside; then `/healthz` does not answer, and the kubelet acts.

mod judge;
mod run;
mod vital;

pub use judge::Limits;
pub use run::{Report, Watchdog};
pub use vital::{Signs, Vital, Vitals};

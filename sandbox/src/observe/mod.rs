//! How the simulated controllers see and touch the Kubernetes API: feeds, mirrors with assumptions, an agenda, and writes.
//!
//! ```text
//! list + watch ─ feed ─▶ mirror ◀─ assume ─ hands ─▶ API        agenda: which key, when
//! ```
//!
//! Relies on a `kube::Client` and the tokio clock only, so that the controllers run against the simulated API and a real one alike, and replay
//! exactly on a paused clock: no jitter, no hash order. Used by [`crate::workloads`] and [`crate::binder`].

mod feed;
mod hands;
mod mirror;
mod name;

pub(crate) use crate::machines::agenda::Agenda;
pub(crate) use feed::{Kind, News, follow};
pub(crate) use hands::{Hands, Removed, WriteError};
pub(crate) use mirror::{Mirror, Moved};
pub use name::Name;

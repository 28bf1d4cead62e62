//! One watcher per kind; everything they see becomes deltas of the cluster state.
//!
//! ```text
//!            ┌────────── list (pages, consistent) ──▶ Listed ─┐
//! 410, wanted│                                               ├─▶ cluster task
//!            └─ watch (bookmarks, 30 s, from the last version)──▶ Applied, Deleted, Bookmark
//! doubt ─────── GET of one object ────────────────────────────▶ Read
//! ```
//!
//! Each object is read on its own: one that cannot be read is told once (log, metric, callback) and the others go on. Objects' `managedFields` are
//! dropped before anything else. An optional kind that is not served or not permitted opens its gate. Relies on the API server's lists being
//! consistent (no resourceVersion is named), and on its ending each watch when its short time is over: by that a connection is noticed that died without
//! a word. The wiring makes one [`Hub`], runs it, and gives the [`HubHandle`] to readiness, the watchdog and the lease.

mod handle;
mod page;
mod run;
mod watcher;

pub use handle::{HubHandle, Pulse, Trouble, Unread};
pub use run::Hub;

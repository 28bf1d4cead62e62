//! One watcher per kind; everything they see becomes deltas of the cluster state.
//!
//! ```text
//!            ┌────────── list (pages, consistent) ──▶ Listed ─┐
//! 410, wanted│                                               ├─▶ cluster task
//!            └─ watch (bookmarks, 290 s, from the last version)─▶ Applied, Deleted, Bookmark
//! doubt ─────── GET of one object ────────────────────────────▶ Read
//! ```
//!
//! Each object is read on its own: one that cannot be read is told once (log, metric, callback) and the others go on. Objects' `managedFields` are
//! dropped before anything else. An optional kind that is not served or not permitted opens its gate. Relies on the API server's lists being
//! consistent (no resourceVersion is named) and on bookmarks to notice a connection that died without a word. The wiring makes one [`Hub`], runs
//! it, and gives the [`HubHandle`] to readiness, the watchdog and the lease.

mod handle;
mod page;
mod run;
mod watcher;

pub use handle::{HubHandle, Pulse, Unread};
pub use run::Hub;

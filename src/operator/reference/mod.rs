//! What users read of us: every Event and every condition, in one table each.
//!
//! The tables decide nothing. `cargo xtask generate` writes docs/reference from them, `docs/runbook.md` has a paragraph for each row, and
//! tests/surface.rs holds code, docs, a running operator and what upstream showed against them. A new reason begins with its row here.

mod conditions;
mod events;
mod text;

pub use conditions::{CONDITIONS, ConditionRow};
pub use events::{EVENTS, EventRow};
pub use text::{
    MetricsError, conditions_table, describes_objects, events_table, metrics, metrics_table, settings_table,
};

//! Voluntary disruption: a loop that chooses ([`Loop`]), and a queue that carries out what was chosen ([`Execution`]).
//!
//! ```text
//! every 10 s or when woken: leftovers undone ─▶ each method: candidates ─▶ choice ─▶ 15 s ─▶ validated ─▶ nodes tainted ─▶ queue
//! queue: replacements ready? ─▶ claims deleted        (their nodes are then drained by node termination)
//! ```

mod commands;
mod events;
mod execution;
mod marking;
mod pass;
mod view;

pub use commands::Commands;
pub use execution::Execution;
pub use pass::{Loop, PERIOD};

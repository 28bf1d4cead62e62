//! PURE: which nodes may go, and when. Candidates in, commands out.
//!
//! ```text
//! cluster snapshot → candidates → budgets → method (emptiness, …) → command → validation after 15 s → execution
//! ```

pub mod budgets;
pub mod cost;
pub mod cron;

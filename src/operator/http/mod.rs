//! What the operator serves: metrics and health probes (surface §5, §6.4).
//!
//! Both are plain HTTP on ports of their own and are served by every replica, whether or not it leads. [`Listen`] says where; in-process runs on a paused
//! clock open no socket at all.

mod doorman;
mod health;
mod listen;
mod metrics;
mod profiling;

pub use health::{Check, Health};
pub use listen::{Listen, ListenError, Listeners};
pub use metrics::metrics_router;
pub use profiling::profiling_router;

//! The Kubernetes API of the simulated world: the behaviour of kube-apiserver that an operator can tell apart, in the process or over loopback.
//!
//! ```text
//! kube::Client ─ service ┐                       ┌─ read, write, deletion, scale, binding, eviction
//!                        ├─ server ─ route ─ core ┤        │ validation, defaults, admission, patch
//! kubectl ─ http ────────┘     │                 └─ store (objects, log, indexes) ─ watch, background
//!                              └─ faults, hooks, audit
//! ```
//!
//! The state is behind one short lock and synchronous; waiting (watches, faults, background work) happens outside it on the tokio clock, so a
//! paused clock and a seed replay exactly. Start with [`ApiServer::new`], then [`ApiServer::client`]. What is reduced compared with the real
//! server is marked `Differs` where it happens; the real control plane judges the rest (architecture §4).

mod admission;
mod audit;
mod background;
mod binding;
mod budgets;
mod builtin;
mod client;
mod columns;
mod core;
mod crd;
mod defaults;
mod deletion;
mod discovery;
mod error;
mod eviction;
mod faults;
mod handle;
mod hooks;
mod http;
mod ids;
pub(crate) mod kinds;
mod object;
mod openapi;
mod options;
mod patch;
mod printers;
mod quantity;
mod read;
mod render;
mod route;
mod scale;
mod selectors;
mod server;
mod store;
mod table;
mod validation;
mod watch;
mod write;

pub use self::http::{Exposure, kubeconfig};
pub use audit::{AuditEntry, Identity};
pub use error::{ApiError, Cause};
pub use faults::{ApiFaults, Fault, FaultRule};
pub use handle::{Changes, Handle};
pub use hooks::{HookPoint, HookVerdict, WriteSeen};
pub use options::{ApiOptions, Garbage, NewNodes};
pub use route::Verb;
pub(crate) use server::Inner;
pub use server::{AnswerBody, ApiServer};
pub use store::{Event, EventKind, LogLimits, ObjectKey, Stored};

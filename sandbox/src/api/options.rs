//! How the simulated API server is set up.
//!
//! Given by whoever builds the world; the defaults are a real cluster's.

use super::store::LogLimits;
use chrono::TimeDelta;
use std::time::Duration;

/// What happens to an object whose owners do not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Garbage {
    /// It is deleted, as kube-controller-manager does.
    Collected,
    /// It stays, as with an API server alone.
    Kept,
}

/// Which taints a new Node gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewNodes {
    /// `node.kubernetes.io/not-ready:NoSchedule`, by admission, as on a real API server; whoever plays the node lifecycle removes it.
    TaintedNotReady,
    /// Only what its creator wrote.
    AsWritten,
}

/// The set-up.
#[derive(Debug, Clone)]
pub struct ApiOptions {
    /// How much of the past is kept.
    pub log: LogLimits,
    /// Whether owners are followed.
    pub garbage: Garbage,
    /// How long after a change the garbage collector looks.
    pub garbage_delay: Duration,
    /// Whether new nodes are tainted.
    pub new_nodes: NewNodes,
    /// Time between bookmarks.
    pub bookmark_every: Duration,
    /// Least and most seconds of a watch whose client named none.
    pub watch_seconds: (u64, u64),
    /// How long an Event is kept.
    pub event_ttl: TimeDelta,
    /// How many audit entries are kept.
    pub audit_capacity: usize,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self {
            log: LogLimits::default(),
            garbage: Garbage::Collected,
            garbage_delay: Duration::from_millis(100),
            new_nodes: NewNodes::TaintedNotReady,
            bookmark_every: Duration::from_mins(1),
            // kube-apiserver draws between min-request-timeout and twice that.
            watch_seconds: (1800, 3600),
            event_ttl: TimeDelta::hours(1),
            audit_capacity: 100_000,
        }
    }
}

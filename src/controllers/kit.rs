//! What every controller is given.

use crate::clock::SharedClock;
use crate::cloud::provider::Provider;
use crate::controllers::arrivals::Arrivals;
use crate::k8s::cluster_task::ClusterHandle;
use crate::k8s::events::Recorder;
use crate::k8s::write::Writer;
use crate::telemetry::Metrics;
use chrono::{DateTime, Utc};
use std::fmt;
use std::sync::Arc;

/// The ways to the rest of the world; cheap to clone.
#[derive(Clone)]
pub struct Kit {
    /// The cluster state.
    pub cluster: ClusterHandle,
    /// The only way to write.
    pub writer: Writer,
    /// Where Events go.
    pub recorder: Recorder,
    /// The cloud.
    pub provider: Arc<dyn Provider>,
    /// The time.
    pub clock: SharedClock,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where claims come from.
    pub arrivals: Arrivals,
}

impl Kit {
    /// The present instant.
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }
}

impl fmt::Debug for Kit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kit")
            .field("provider", &self.provider.name())
            .finish_non_exhaustive()
    }
}

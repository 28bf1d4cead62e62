//! A world that runs.

use super::builder::WorldBuilder;
use crate::api::ApiServer;
use crate::spot::Spot;
use axum::Router;
use chrono::{DateTime, Utc};
use karpenter::clock::SharedClock;
use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The simulated world; its tasks end with it.
pub struct World {
    seed: u64,
    api: ApiServer,
    spot: Spot,
    clock: SharedClock,
    tasks: JoinSet<()>,
    /// Ends the tasks when the world is dropped.
    _stop: Option<DropGuard>,
}

impl World {
    /// A world to be, from a seed.
    pub fn builder(seed: u64) -> WorldBuilder {
        WorldBuilder::new(seed)
    }

    pub(super) fn of(seed: u64, api: ApiServer, spot: Spot, clock: SharedClock) -> Self {
        Self {
            seed,
            api,
            spot,
            clock,
            tasks: JoinSet::new(),
            _stop: None,
        }
    }

    pub(super) fn with_tasks(self, tasks: JoinSet<()>, stop: CancellationToken) -> Self {
        Self {
            tasks,
            _stop: Some(stop.drop_guard()),
            ..self
        }
    }

    /// Where all chance comes from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The Kubernetes API.
    pub fn api(&self) -> &ApiServer {
        &self.api
    }

    /// A client of the administrator.
    pub fn client(&self) -> Client {
        self.api.client()
    }

    /// The Spot platform.
    pub fn spot(&self) -> &Spot {
        &self.spot
    }

    /// The Spot API as a tower service: no socket.
    pub fn spot_router(&self) -> Router {
        self.spot.router()
    }

    /// The world's clock.
    pub fn clock(&self) -> &SharedClock {
        &self.clock
    }

    /// The present instant.
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Whether all parts still run; one that ended has failed.
    pub fn is_whole(&mut self) -> bool {
        self.tasks.try_join_next().is_none()
    }
}

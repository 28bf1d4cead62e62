//! How a world is set up.

use super::furniture;
use super::running::World;
use super::verbs::WorldError;
use crate::api::{ApiOptions, ApiServer};
use crate::binder::Binder;
use crate::machines::{Fleet, MachineOptions};
use crate::spot::{Admin, Options, Spot, WebhookSender};
use crate::workloads::{WorkloadOptions, Workloads};
use chrono::{DateTime, Utc};
use futures::FutureExt;
use karpenter::clock::{SharedClock, TokioClock};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Whether the product's own kinds are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crds {
    /// They are, from the start.
    Installed,
    /// They are not, as on a fresh cluster.
    Absent,
}

/// What can be set about the parts of a world.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct WorldOptions {
    /// The platform.
    pub spot: Options,
    /// The machines.
    pub machines: MachineOptions,
    /// The controllers.
    pub workloads: WorkloadOptions,
}

/// A world to be.
pub struct WorldBuilder {
    seed: u64,
    options: WorldOptions,
    api: ApiOptions,
    clock: Option<SharedClock>,
    admin: Admin,
    webhook: WebhookSender,
    crds: Crds,
}

/// When a world begins unless told otherwise: 2026-01-01.
fn epoch() -> DateTime<Utc> {
    DateTime::from_timestamp(1_767_225_600, 0).unwrap_or_default()
}

impl WorldBuilder {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            options: WorldOptions::default(),
            api: ApiOptions::default(),
            clock: None,
            admin: Admin::Hidden,
            webhook: Arc::new(|_, _| futures::future::ready(false).boxed()),
            crds: Crds::Installed,
        }
    }

    /// Sets the options of platform, machines and controllers; the seed stays the builder's.
    pub fn options(mut self, options: WorldOptions) -> Self {
        self.options = options;
        self
    }

    /// Changes the options in place.
    pub fn with(mut self, change: impl FnOnce(&mut WorldOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Sets the options of the Kubernetes API.
    pub fn api(mut self, options: ApiOptions) -> Self {
        self.api = options;
        self
    }

    /// Sets the clock; without one it starts at 2026-01-01 and follows tokio's.
    pub fn clock(mut self, clock: SharedClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Serves the platform's `/_sandbox/` paths.
    pub fn admin(mut self, admin: Admin) -> Self {
        self.admin = admin;
        self
    }

    /// Sets who receives the platform's webhooks; without it they are lost.
    pub fn webhook(mut self, sender: WebhookSender) -> Self {
        self.webhook = sender;
        self
    }

    /// Whether the product's kinds are served.
    pub fn crds(mut self, crds: Crds) -> Self {
        self.crds = crds;
        self
    }

    /// Starts it. Must be called inside a tokio runtime; everything ends when the world is dropped.
    ///
    /// # Errors
    /// The furniture (kinds, storage classes) was refused.
    pub async fn start(self) -> Result<World, WorldError> {
        let clock = self.clock.unwrap_or_else(|| Arc::new(TokioClock::starting_at(epoch())));
        let mut spot_options = self.options.spot;
        spot_options.seed = self.seed;
        let api = ApiServer::new(Arc::clone(&clock), self.seed, self.api);
        let spot = Spot::new(spot_options, Arc::clone(&clock), self.admin);
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let world = World::of(self.seed, api, spot, Arc::clone(&clock));
        furniture::place(&world, self.crds).await?;
        let client = |user: &str| world.api().client_as(user, &["system:masters"]);
        let controllers = client("system:kube-controller-manager");
        tasks.spawn(Workloads::new(controllers, Arc::clone(&clock), self.options.workloads).run(stop.child_token()));
        tasks.spawn(Binder::new(client("system:kube-scheduler"), clock).run(stop.child_token()));
        let fleet = Fleet::new(world.spot().clone(), client("system:nodes"), self.options.machines);
        tasks.spawn(fleet.run(stop.child_token()));
        let (platform, webhook, token) = (world.spot().clone(), self.webhook, stop.child_token());
        tasks.spawn(async move { platform.run(webhook, token).await });
        Ok(world.with_tasks(tasks, stop))
    }
}

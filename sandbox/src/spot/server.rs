//! One server, from winning to its end, as instants that are drawn when it is won.

use super::catalogue::Class;
use super::chance::{dice, happens, uuid};
use super::options::Options;
use super::pool::{PoolKey, PoolKind};
use chrono::{DateTime, TimeDelta, Utc};
use rand::Rng;
use serde::Serialize;
use std::collections::BTreeMap;

/// How far a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// Won, but another server must end first.
    Queued,
    /// The undercloud builds it.
    Building,
    /// The VM runs.
    Active,
    /// The VM is gone; its Node may still be there.
    Dead,
}

/// Why a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Ending {
    /// Somebody paid more.
    Preempted,
    /// The user gave it back.
    Released,
    /// It broke, or a test says so.
    Failed,
}

/// A server that was won.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// Nova UUID, also in the provider ID (row 24).
    pub uuid: String,
    /// An id that means nothing outside the platform.
    pub internal_id: String,
    /// Pool that won it.
    pub pool: PoolKey,
    /// Cloudspace it is for.
    pub cloudspace: String,
    /// Server class.
    pub class: String,
    /// Key in `assignedServers` (row 13).
    pub key: String,
    /// Node name (rackspace-spot 5.2), from the instant of winning.
    pub node_name: String,
    /// Public IPv4.
    pub ip: String,
    /// Private IPv4.
    pub internal_ip: String,
    /// When it was won.
    pub won_at: DateTime<Utc>,
    /// How far it is.
    pub phase: Phase,
    /// When the VM runs; absent while queued, or when it never comes.
    pub active_at: Option<DateTime<Utc>>,
    /// When its key shows.
    pub attached_at: Option<DateTime<Utc>>,
    /// When its Node registers; absent when it never does.
    pub joins_at: Option<DateTime<Utc>>,
    /// When its end was announced.
    pub flagged_at: Option<DateTime<Utc>>,
    /// When the VM ends.
    pub dies_at: Option<DateTime<Utc>>,
    /// Why it ends.
    pub ending: Option<Ending>,
    /// When the cloud controller deletes its Node.
    pub node_deleted_at: Option<DateTime<Utc>>,
    /// The key was taken out of `assignedServers` although the server lives.
    pub key_removed: bool,
    /// The kubelet is sick: no heartbeats, not ready.
    pub sick: bool,
    /// The kubelet has registered; it does so once.
    pub registered_at: Option<DateTime<Utc>>,
    /// The pool's taints were put on the Node; that is done once (row 23).
    pub tainted: bool,
    /// The pool's labels and annotations as they were last put on the Node.
    #[serde(skip)]
    pub applied: Option<(BTreeMap<String, String>, BTreeMap<String, String>)>,
    /// From registering to Ready.
    #[serde(skip)]
    pub ready_after: TimeDelta,
    /// From registering to labels.
    #[serde(skip)]
    pub labels_after: TimeDelta,
    /// From Ready to taints.
    #[serde(skip)]
    pub taints_after: TimeDelta,
    /// From registering to the cloud controller.
    #[serde(skip)]
    pub cloud_controller_after: TimeDelta,
}

impl Server {
    /// A server that was just won; `number` counts the servers of its pool.
    pub(crate) fn won(
        options: &Options,
        pool: &PoolKey,
        cloudspace: &str,
        class: &str,
        number: u32,
        now: DateTime<Utc>,
    ) -> Self {
        let mut dice = dice(options.seed, "server", &format!("{}/{number}", pool.name));
        let suffix: String = (0..5)
            .map(|_| char::from(SUFFIX_LETTERS[dice.random_range(0..SUFFIX_LETTERS.len())]))
            .collect();
        let delay = |delta: Option<TimeDelta>| options.at_speed(delta.unwrap_or_else(TimeDelta::zero));
        Self {
            uuid: uuid(&mut dice),
            internal_id: uuid(&mut dice),
            key: format!("{}-{suffix}", pool.name),
            node_name: format!(
                "prod-instance-{}{:07}",
                now.timestamp(),
                dice.random_range(0..10_000_000_u32)
            ),
            ip: format!("192.0.2.{}", dice.random_range(1..255_u8)),
            internal_ip: format!(
                "10.{}.{}.{}",
                dice.random::<u8>(),
                dice.random::<u8>(),
                dice.random_range(1..255_u8)
            ),
            ready_after: delay(options.delays.ready.draw(&mut dice)),
            labels_after: delay(options.delays.labels.draw(&mut dice)),
            taints_after: delay(Some(super::chance::delta(options.delays.taints))),
            cloud_controller_after: delay(Some(super::chance::delta(options.delays.cloud_controller))),
            pool: pool.clone(),
            cloudspace: cloudspace.into(),
            class: class.into(),
            won_at: now,
            phase: Phase::Queued,
            active_at: None,
            attached_at: None,
            joins_at: None,
            flagged_at: None,
            dies_at: None,
            ending: None,
            node_deleted_at: None,
            key_removed: false,
            sick: false,
            registered_at: None,
            tainted: false,
            applied: None,
        }
    }

    /// Starts the build: all instants up to joining are drawn now.
    pub(crate) fn start_building(&mut self, options: &Options, now: DateTime<Utc>) {
        let mut dice = dice(options.seed, "build", &self.uuid);
        let quirks = &options.quirks;
        let after = |from: Option<DateTime<Utc>>, delay: Option<TimeDelta>| {
            from.zip(delay)
                .and_then(|(from, delay)| from.checked_add_signed(options.at_speed(delay)))
        };
        let (build, attach, join) = (
            options.delays.build.draw(&mut dice),
            options.delays.attach.draw(&mut dice),
            options.delays.join.draw(&mut dice),
        );
        self.phase = Phase::Building;
        let built = !quirks.never_built_classes.contains(&self.class) && !happens(quirks.never_built, &mut dice);
        self.active_at = if built { after(Some(now), build) } else { None };
        self.attached_at = after(self.active_at, attach);
        let joins = !quirks.never_joins_classes.contains(&self.class) && !happens(quirks.never_joins, &mut dice);
        self.joins_at = if joins { after(self.active_at, join) } else { None };
        if quirks.node_before_key {
            // Row 14: the other order, the Node first and the key as long after it as usually before.
            std::mem::swap(&mut self.attached_at, &mut self.joins_at);
        }
    }

    /// Whether it holds one of the machines of its class.
    pub fn holds_a_machine(&self) -> bool {
        matches!(self.phase, Phase::Building | Phase::Active)
    }

    /// Whether it counts for its pool: not ended and not told to end.
    pub fn counts(&self) -> bool {
        self.phase != Phase::Dead && self.dies_at.is_none()
    }

    /// Whether its key shows in `assignedServers`.
    pub fn shows(&self, now: DateTime<Utc>) -> bool {
        self.phase == Phase::Active && !self.key_removed && self.attached_at.is_some_and(|at| at <= now)
    }

    /// The instants at which something happens to it, by itself, from here on.
    pub(crate) fn deadlines(&self) -> impl Iterator<Item = DateTime<Utc>> {
        [
            self.active_at,
            self.attached_at,
            self.joins_at,
            self.dies_at,
            self.node_deleted_at,
        ]
        .into_iter()
        .flatten()
    }
}

const SUFFIX_LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// What a machine needs to know to play a server's kubelet and its cloud controller.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineOrder {
    /// The server.
    pub server: Server,
    /// Its class.
    pub class: Class,
    /// OpenStack region code.
    pub region_code: &'static str,
    /// `spot` or `ondemand`.
    pub server_type: PoolKind,
    /// Labels of the pool as they are now.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pool as they are now.
    pub annotations: BTreeMap<String, String>,
    /// Taints of the pool as they are now.
    pub taints: Vec<super::pool::CustomTaint>,
    /// Whether the pool still exists: its controller touches Nodes only then.
    pub pool_exists: bool,
    /// Whether the Node stays when the VM is gone.
    pub node_lingers: bool,
    /// Whether the autoscaler wipes labels.
    pub wipes_labels: bool,
    /// Kubernetes version of the cloudspace.
    pub kubernetes_version: String,
}

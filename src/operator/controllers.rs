//! Every controller: what wakes it, how many at a time, how it backs off.
//!
//! Called once by the wiring.

use super::observability;
use super::options::{MinValuesPolicy, Options, PreferencePolicy};
use super::removal;
use super::setup::Solving;
use super::starter::{Kits, Starter};
use crate::clock::SharedClock;
use crate::cloud::Provider;
use crate::cluster::{Change, Cluster, Key, Kind, What};
use crate::controllers::capacity::Capacity;
use crate::controllers::node::hydration::NodeHydration;
use crate::controllers::node::link::Link;
use crate::controllers::nodeclaim::Lifecycle;
use crate::controllers::nodeclaim::consistency::Consistency;
use crate::controllers::nodeclaim::expiration::Expirer;
use crate::controllers::nodeclaim::hydration::ClaimHydration;
use crate::controllers::nodeclaim::machine::Orders;
use crate::controllers::nodeclass::NodeClassStatus;
use crate::controllers::nodeoverlay::{self, Overlaying};
use crate::controllers::nodepool::counter::Counter;
use crate::controllers::nodepool::hash::Hash;
use crate::controllers::nodepool::health::RegistrationHealth;
use crate::controllers::nodepool::readiness::Readiness;
use crate::controllers::nodepool::validation::Validation;
use crate::controllers::pricing::{self, Pricing};
use crate::controllers::provisioning::{
    Batcher, NodeTrigger, Place, PodTrigger, Provisioner, Settings as ProvisioningSettings, Windows,
};
use crate::k8s::queue::{BackOff, QueueSettings, Reconciler, Singleton, Subject, Wake, workers_at};
use crate::scheduling::{self, DeviceClaims};
use std::sync::Arc;
use std::time::Duration;

/// Starts every controller.
pub(super) fn start(starter: &mut Starter<'_>, options: &Options, clock: &SharedClock, seed: u64) {
    let kits = Kits::new(starter.borders, clock, options.gates.node_overlay.then(Arc::default));
    let cores = usize::try_from(options.cpu_requests.div_ceil(1000)).unwrap_or(1);
    provider(starter, options, clock);
    nodepools(starter, &kits);
    overlays(starter, &kits);
    let orders = Arc::new(Orders::default());
    nodeclaims(starter, &kits, cores, Arc::clone(&orders));
    removal::start(starter, &kits, cores, orders);
    provisioning(starter, &kits, cores, options, seed);
    observability::start(starter, &kits, options, clock);
}

/// What belongs to the provider: the class, prices, measurements, the bridge to nodes.
fn provider(starter: &mut Starter<'_>, options: &Options, clock: &SharedClock) {
    let borders = starter.borders;
    let class = NodeClassStatus::new(
        Arc::clone(&borders.provider),
        borders.cluster.clone(),
        borders.writer.clone(),
        borders.recorder.clone(),
        Arc::clone(clock),
        options.spot.cloudspace_name.clone(),
    );
    let expecting = Arc::clone(&borders.provider);
    starter.cluster.on_change(move |change, _| {
        if change.kind == Kind::NodeClass && change.what == What::Appeared {
            expecting.node_classes().expect(&change.key.name);
        }
    });
    starter.queue(QueueSettings::new("nodeclass", 10), class, |change, _| {
        of_kind(change, Kind::NodeClass)
            .into_iter()
            .map(|key| key.name.to_string())
            .collect()
    });
    let capacity = Capacity::new(Arc::clone(&borders.provider), borders.cluster.clone());
    starter.queue(
        QueueSettings::new("instancetype.capacity", 10).about(Subject::NODE),
        capacity,
        |change, _| of_kind(change, Kind::Node),
    );
    let prices = Pricing::new(Arc::clone(&borders.provider), borders.metrics.prices.clone());
    let singleton = Singleton::new(pricing::NAME, pricing::PERIOD, Wake::new(), borders.queues.clone());
    starter.watch_over(singleton.vital());
    let refresh = singleton.run(starter.stop.clone(), move || {
        let prices = prices.clone();
        async move { prices.refresh().await }
    });
    starter.task(pricing::NAME, refresh);
}

fn nodepools(starter: &mut Starter<'_>, kits: &Kits) {
    let pools = |change: &Change, _: &Cluster| of_kind(change, Kind::NodePool);
    let pools_and_classes = |change: &Change, cluster: &Cluster| match change.kind {
        // all pools: a class rarely changes, and a pool that is looked at in vain costs nothing
        Kind::NodeClass => cluster.objects().pools.keys().cloned().collect(),
        _ => of_kind(change, Kind::NodePool),
    };
    starter.queue(
        QueueSettings::new("nodepool.hash", 10).about(Subject::NODE_POOL),
        Hash::new(kits.of("nodepool.hash")),
        pools,
    );
    starter.queue(
        QueueSettings::new("nodepool.validation", 10).about(Subject::NODE_POOL),
        Validation::new(kits.of("nodepool.validation")),
        pools,
    );
    starter.queue(
        QueueSettings::new("nodepool.readiness", 10).about(Subject::NODE_POOL),
        Readiness::new(kits.of("nodepool.readiness")),
        pools_and_classes,
    );
    starter.queue(
        QueueSettings::new("nodepool.counter", 10).about(Subject::NODE_POOL),
        Counter::new(kits.of("nodepool.counter")),
        |change, _| {
            // it paces itself; only a new pool starts it (lifecycle 12.2)
            of_kind(change, Kind::NodePool)
                .into_iter()
                .filter(|_| change.what == What::Appeared)
                .collect()
        },
    );
}

/// What corrects instance types, while its gate is on.
fn overlays(starter: &mut Starter<'_>, kits: &Kits) {
    let Some(store) = &kits.overlays else { return };
    let bare = Arc::clone(&starter.borders.provider) as Arc<dyn Provider>;
    let overlaying = Arc::new(Overlaying::new(kits.of(nodeoverlay::NAME), bare, Arc::clone(store)));
    let wake = Wake::new();
    let woken = wake.clone();
    starter.cluster.on_change(move |change, _| {
        if matches!(change.kind, Kind::NodeOverlay | Kind::NodePool | Kind::NodeClass) {
            woken.wake();
        }
    });
    let singleton = Singleton::new(
        nodeoverlay::NAME,
        nodeoverlay::PERIOD,
        wake,
        starter.borders.queues.clone(),
    );
    starter.watch_over(singleton.vital());
    let stop = starter.stop.clone();
    let work = singleton.run(stop.clone(), move || {
        let (overlaying, stop) = (Arc::clone(&overlaying), stop.clone());
        async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => Ok(crate::k8s::queue::Next::Done),
                done = overlaying.run_once() => done,
            }
        }
    });
    starter.task(nodeoverlay::NAME, work);
}

fn nodeclaims(starter: &mut Starter<'_>, kits: &Kits, cores: usize, orders: Arc<Orders>) {
    let health = Arc::new(RegistrationHealth::new(kits.of("nodepool.registrationhealth")));
    // also a claim that went without its finalizer, which no controller saw through to its end
    let ordered = Arc::clone(&orders);
    starter.cluster.on_change(move |change, _| {
        if change.kind == Kind::NodeClaim && change.what == What::Gone {
            ordered.forget(&change.uid);
        }
    });
    starter.cluster.on_change(kits.arrivals.trigger());
    let lifecycle = Lifecycle::new(kits.of("nodeclaim.lifecycle"), orders, Arc::clone(&health));
    // lifecycle 0.7
    let settings = QueueSettings::new("nodeclaim.lifecycle", workers_at(cores, 1000, 5000))
        .about(Subject::NODE_CLAIM)
        .with_back_off(BackOff::doubling(Duration::from_secs(1), Duration::from_mins(1)));
    starter.queue(settings, lifecycle, claims_and_nodes);
    starter.queue(
        QueueSettings::new("nodepool.registrationhealth", 10).about(Subject::NODE_POOL),
        SharedHealth(health),
        |change, cluster| match change.kind {
            Kind::NodeClass => cluster.objects().pools.keys().cloned().collect(),
            _ => of_kind(change, Kind::NodePool),
        },
    );
    let claims = |change: &Change, _: &Cluster| of_kind(change, Kind::NodeClaim);
    starter.queue(
        QueueSettings::new("nodeclaim.hydration", 10).about(Subject::NODE_CLAIM),
        ClaimHydration::new(kits.of("nodeclaim.hydration")),
        claims,
    );
    starter.queue(
        QueueSettings::new("nodeclaim.expiration", 10).about(Subject::NODE_CLAIM),
        Expirer::new(kits.of("nodeclaim.expiration")),
        claims,
    );
    starter.queue(
        QueueSettings::new("nodeclaim.consistency", 10).about(Subject::NODE_CLAIM),
        Consistency::new(kits.of("nodeclaim.consistency")),
        claims_and_nodes,
    );
    let nodes = |change: &Change, _: &Cluster| of_kind(change, Kind::Node);
    starter.queue(
        QueueSettings::new("nodelink", 10).about(Subject::NODE),
        Link::new(kits.of("nodelink")),
        nodes,
    );
    starter.queue(
        QueueSettings::new("node.hydration", 10).about(Subject::NODE),
        NodeHydration::new(kits.of("node.hydration")),
        nodes,
    );
}

fn provisioning(starter: &mut Starter<'_>, kits: &Kits, cores: usize, options: &Options, seed: u64) {
    let batcher = Batcher::default();
    let pods = PodTrigger::new(kits.of("provisioner.trigger.pod"), batcher.clone());
    let workers = workers_at(cores, 10, 1000);
    starter.queue(
        QueueSettings::new("provisioner.trigger.pod", workers).about(Subject::POD),
        pods,
        |change, _| of_kind(change, Kind::Pod),
    );
    let nodes = NodeTrigger::new(kits.of("provisioner.trigger.node"), batcher.clone());
    starter.queue(
        QueueSettings::new("provisioner.trigger.node", workers).about(Subject::NODE),
        nodes,
        |change, _| of_kind(change, Kind::Node),
    );
    let settings = ProvisioningSettings {
        windows: Windows {
            idle: options.batch_idle_duration,
            longest: options.batch_max_duration,
        },
        options: solver_options(options),
        place: match starter.borders.solving {
            Solving::Inline => Place::Inline,
            Solving::Blocking => Place::Blocking,
        },
        seed,
    };
    let provisioner = Arc::new(Provisioner::new(kits.of("provisioner"), batcher, settings));
    starter.watch_over(provisioner.vital());
    let singleton = Singleton::new(
        "provisioner",
        Duration::ZERO,
        Wake::new(),
        starter.borders.queues.clone(),
    );
    let stop = starter.stop.clone();
    let work = singleton.run(stop.clone(), move || {
        let (provisioner, stop) = (Arc::clone(&provisioner), stop.clone());
        async move { provisioner.run_once(&stop).await }
    });
    starter.task("provisioner", work);
}

fn solver_options(options: &Options) -> scheduling::Options {
    scheduling::Options {
        preferences: match options.preference_policy {
            PreferencePolicy::Respect => scheduling::PreferencePolicy::Respect,
            PreferencePolicy::Ignore => scheduling::PreferencePolicy::Ignore,
        },
        min_values: match options.min_values_policy {
            MinValuesPolicy::Strict => scheduling::MinValuesPolicy::Strict,
            MinValuesPolicy::BestEffort => scheduling::MinValuesPolicy::BestEffort,
        },
        // upstream's word for leaving such pods alone
        device_claims: if options.ignore_dra_requests {
            DeviceClaims::Refuse
        } else {
            DeviceClaims::Overlook
        },
        ..scheduling::Options::default()
    }
}

/// The health controller is shared with the lifecycle controller, which tells it outcomes.
struct SharedHealth(Arc<RegistrationHealth>);

#[async_trait::async_trait]
impl Reconciler for SharedHealth {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<crate::k8s::queue::Next, crate::k8s::queue::ReconcileError> {
        self.0.reconcile(key).await
    }
}

pub(super) fn of_kind(change: &Change, kind: Kind) -> Vec<Key> {
    if change.kind == kind {
        vec![change.key.clone()]
    } else {
        Vec::new()
    }
}

/// A claim itself, and the claim of a node that moved or went (lifecycle 2.1).
fn claims_and_nodes(change: &Change, cluster: &Cluster) -> Vec<Key> {
    if change.kind != Kind::Node {
        return of_kind(change, Kind::NodeClaim);
    }
    let name = &*change.key.name;
    let joined = match cluster.machine_of_node(name) {
        Some(crate::cluster::MachineId::Claim(claim)) => Some(Key::cluster(&claim)),
        _ => None,
    };
    // a node that is gone is joined with nobody any more; its claim remembers its name
    let claims = cluster.objects().claims;
    let remembered = claims
        .iter()
        .filter(|(_, claim)| claim.node_name() == Some(name))
        .map(|(key, _)| key.clone());
    joined.into_iter().chain(remembered).collect()
}

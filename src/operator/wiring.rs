//! Every controller and what it is given, on one page.
//!
//! ```text
//! Parts ─▶ Kubernetes border, provider ─▶ Borders ─▶ controllers: name, trigger, workers
//! ```
//!
//! Called once by [`run`](super::run()). What a controller needs are arguments; nothing here decides anything.

use super::controllers;
use super::http::Check;
use super::options::Options;
use super::setup::Solving;
use super::spot;
use super::tasks::Tasks;
use super::unread::Unread;
use crate::api::RackspaceSpotNodeClass;
use crate::clock::SharedClock;
use crate::cloud::Provider;
use crate::cloud::spot::{SpotProvider, Transport};
use crate::cluster::{Cluster, Kind, Source};
use crate::k8s::client::{ApiClient, Limits};
use crate::k8s::cluster_task::{ClusterHandle, ClusterTask, NewClusterTask};
use crate::k8s::events::{Recorder, RecorderTask};
use crate::k8s::hub::{Hub, HubHandle};
use crate::k8s::kinds::{WatchedKind, WatchedKinds};
use crate::k8s::leadership::Leadership;
use crate::k8s::metrics::BorderMetrics;
use crate::k8s::write::Writer;
use crate::telemetry::{Exposition, Metrics};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What the operator is made of, before anything runs.
pub(super) struct Parts {
    pub(super) options: Options,
    pub(super) kube: kube::Client,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) clock: SharedClock,
    pub(super) seed: u64,
    pub(super) solving: Solving,
    pub(super) metrics: Metrics,
    pub(super) exposition: Exposition,
}

/// What controllers act through, each made once.
#[derive(Clone)]
pub struct Borders {
    /// Reads that no watch answers.
    pub client: ApiClient,
    /// The cluster state.
    pub cluster: ClusterHandle,
    /// The watches.
    pub hub: HubHandle,
    /// Creates, patches, deletes.
    pub writer: Writer,
    /// Kubernetes Events.
    pub recorder: Recorder,
    /// What the queues count.
    pub queues: BorderMetrics,
    /// The cloud.
    pub provider: Arc<SpotProvider>,
    /// What the controllers count.
    pub metrics: Metrics,
    /// Where long computations run.
    pub solving: Solving,
}

/// What the wiring gives back.
pub(super) struct Wired {
    /// Held until the stop: the tasks behind them end with their last handle.
    pub(super) borders: Borders,
    /// Conditions of `/readyz`.
    pub(super) checks: Vec<Check>,
}

/// A part that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum WiringError {
    /// A metric family is declared twice or malformed: a defect.
    #[error("declaring the metrics of the borders")]
    Border(#[from] prometheus::Error),
}

/// Makes the borders and starts every task.
pub(super) fn wire(parts: Parts, tasks: &mut Tasks, stop: &CancellationToken) -> Result<Wired, WiringError> {
    let queues = BorderMetrics::new(parts.exposition.registry())?;
    let prices = parts.metrics.prices.clone();
    let provider = spot::provider(&parts.options.spot, &parts.transport, &parts.clock, parts.seed, prices);

    let limits = Limits {
        qps: f64::from(parts.options.kube_client_qps),
        burst: parts.options.kube_client_burst,
    };
    let client = ApiClient::over(parts.kube, limits, queues.clone());
    let kinds = watched(&parts.options);
    let claim_of_node = Arc::clone(&provider);
    let claim_of_node = Arc::new(move |labels: &_| claim_of_node.claim_of_node(labels));
    let state = Cluster::new(kinds.sources(), claim_of_node, parts.clock.now());
    let NewClusterTask {
        task: mut cluster_task,
        handle: cluster,
        doubts,
    } = ClusterTask::new(state, Arc::clone(&parts.clock), queues.clone());
    // Until there is an election, the one replica leads.
    let leadership = Leadership::always();
    let writer = Writer::new(
        client.clone(),
        leadership,
        cluster.clone(),
        kinds.clone(),
        Arc::clone(&parts.clock),
    );
    let (recorder, recorder_task) = RecorderTask::new(client.clone(), Arc::clone(&parts.clock), queues.clone());
    let hub = hub(&client, &kinds, &cluster, &recorder, &parts.clock, &queues);
    let watches = hub.handle();
    let borders = Borders {
        client,
        cluster,
        hub: watches.clone(),
        writer,
        recorder,
        queues,
        provider,
        metrics: parts.metrics,
        solving: parts.solving,
    };

    controllers::start(
        &borders,
        &mut cluster_task,
        tasks,
        stop,
        &parts.options,
        &parts.clock,
        parts.seed,
    );
    tasks.spawn("event recorder", recorder_task.run(stop.clone()));
    tasks.spawn("cluster state", cluster_task.run(stop.clone()));
    tasks.spawn("watches", hub.run(doubts, stop.clone()));

    let complete = borders.cluster.clone();
    let checks = vec![
        Check::new("manager", move || complete.is_complete()),
        Check::new("crd", move || serves_our_kinds(&watches)),
    ];
    Ok(Wired { borders, checks })
}

/// All watches; an object that cannot be read is told to its owner.
fn hub(
    client: &ApiClient,
    kinds: &WatchedKinds,
    cluster: &ClusterHandle,
    recorder: &Recorder,
    clock: &SharedClock,
    queues: &BorderMetrics,
) -> Hub {
    let unread = Unread::new(recorder.clone(), kinds.clone());
    Hub::new(
        client.clone(),
        kinds.clone(),
        cluster.clone(),
        Arc::clone(clock),
        queues.clone(),
    )
    .on_unread(move |object| unread.tell(object))
}

/// Whether the API server has the resources without which there is nothing to do.
fn serves_our_kinds(watches: &HubHandle) -> bool {
    let pulses = watches.pulses();
    let listed = |kind| {
        pulses
            .get(&Source::of(kind))
            .is_some_and(|pulse| pulse.last_list.is_some())
    };
    listed(Kind::NodePool) && listed(Kind::NodeClaim)
}

/// The kinds that are watched; those behind a gate only while it is on (architecture §3.4).
fn watched(options: &Options) -> WatchedKinds {
    let class = std::iter::once(WatchedKind::class::<RackspaceSpotNodeClass>());
    WatchedKinds::with(class.chain(options.gates.node_overlay.then(WatchedKind::overlays)))
}

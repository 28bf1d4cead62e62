//! Every controller and what it is given, on one page.
//!
//! ```text
//! Parts ─▶ Kubernetes border, provider ─▶ Borders ─▶ controllers: name, trigger, workers
//! ```
//!
//! Called once by [`run`](super::run()). What a controller needs are arguments; nothing here decides anything.

use super::candidacy::Candidacy;
use super::controllers;
use super::fenced::Fenced;
use super::http::Check;
use super::options::Options;
use super::setup::Solving;
use super::spot;
use super::stand_by::{Moments, StandBy, Watching, look_for_kinds, until};
use super::starter::Starter;
use super::tasks::Tasks;
use super::unread::Unread;
use crate::api::RackspaceSpotNodeClass;
use crate::clock::SharedClock;
use crate::cloud::Provider;
use crate::cloud::spot::{SpotProvider, Transport};
use crate::cluster::{Cluster, Doubt, Kind, Source};
use crate::k8s::client::{ApiClient, Limits};
use crate::k8s::cluster_task::{ClusterHandle, ClusterTask};
use crate::k8s::election::Candidate;
use crate::k8s::events::{Recorder, RecorderTask};
use crate::k8s::hub::{Hub, HubHandle};
use crate::k8s::kinds::{WatchedKind, WatchedKinds};
use crate::k8s::leadership::Leadership;
use crate::k8s::metrics::BorderMetrics;
use crate::k8s::watchdog::{Vitals, Watchdog};
use crate::k8s::write::Writer;
use crate::telemetry::{Exposition, Metrics};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_util::sync::CancellationToken;

/// What the operator is made of, before anything runs.
pub(super) struct Parts {
    pub(super) options: Options,
    pub(super) kube: kube::Client,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) clock: SharedClock,
    pub(super) seed: u64,
    pub(super) solving: Solving,
    pub(super) candidacy: Candidacy,
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
    /// Who runs for the lease, where there is one.
    pub(super) candidate: Option<Candidate>,
    /// When it leads and when its controllers begin.
    pub(super) moments: Moments,
}

/// A part that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum WiringError {
    /// A metric family is declared twice or malformed: a defect.
    #[error("declaring the metrics of the borders")]
    Border(#[from] prometheus::Error),
}

/// Makes the borders and starts every task; controllers wait until this process leads.
pub(super) fn wire(parts: &Parts, tasks: &mut Tasks, stop: &CancellationToken) -> Result<Wired, WiringError> {
    let queues = BorderMetrics::new(parts.exposition.registry())?;
    let watching = watching(parts);
    let moments = Moments::default();
    let (leadership, candidate) = candidacy(parts, &queues);
    let clock = Arc::clone(&parts.clock);
    let (borders, mut unstarted) = borders(parts, queues, &leadership);
    if watching == Watching::Warm {
        unstarted.cluster = unstarted.cluster.quiet();
    }

    let vitals = Vitals::default();
    vitals.add(unstarted.hub.vital());
    let watched_from = moments.watched_from(watching);
    let (from, begun) = (&watched_from, &moments.begun);
    let mut starter = Starter::new(&borders, &mut unstarted.cluster, tasks, stop, from, begun, &vitals);
    controllers::start(&mut starter, &parts.options, &clock, parts.seed);
    let recorder = unstarted.recorder.under(leadership);
    tasks.spawn("event recorder", recorder.run(stop.clone()));
    tasks.spawn("cluster state", unstarted.cluster.run(stop.clone()));
    let (from, ended) = (watched_from.clone(), stop.clone());
    let (hub, doubts) = (unstarted.hub, unstarted.doubts);
    tasks.spawn("watches", async move {
        if until(&from, &ended).await {
            hub.run(doubts, ended).await;
        }
    });
    let watchdog = watchdog(&borders, vitals, &clock);
    let trouble = watchdog.report();
    let ended = stop.clone();
    tasks.spawn("watchdog", async move {
        if until(&watched_from, &ended).await {
            watchdog.run(ended).await;
        }
    });
    let stand_by = StandBy {
        watching,
        moments: moments.clone(),
        hub: borders.hub.clone(),
        cluster: borders.cluster.clone(),
        provider: Arc::clone(&borders.provider),
        clock,
    };
    tasks.spawn("standing by", stand_by.run(stop.clone()));
    let mut checks = checks(&borders, watching, &moments, tasks, stop);
    checks.push(Check::telling("watchdog", move || trouble.trouble()));
    Ok(Wired {
        borders,
        checks,
        candidate,
        moments,
    })
}

/// The tasks behind the borders, before they run.
struct Unstarted {
    cluster: ClusterTask,
    recorder: RecorderTask,
    hub: Hub,
    doubts: tokio::sync::mpsc::Receiver<Doubt>,
}

/// What controllers act through, and the tasks that it stands for.
fn borders(parts: &Parts, queues: BorderMetrics, leadership: &Leadership) -> (Borders, Unstarted) {
    let prices = parts.metrics.prices.clone();
    let way: Arc<dyn Transport> = Arc::new(Fenced::new(Arc::clone(&parts.transport), leadership.clone()));
    let provider = spot::provider(&parts.options.spot, &way, &parts.clock, parts.seed, prices);

    let limits = Limits {
        qps: f64::from(parts.options.kube_client_qps),
        burst: parts.options.kube_client_burst,
    };
    let client = ApiClient::over(parts.kube.clone(), limits, queues.clone());
    let kinds = watched(&parts.options);
    let claim_of_node = Arc::clone(&provider);
    let claim_of_node = Arc::new(move |labels: &_| claim_of_node.claim_of_node(labels));
    let state = Cluster::new(kinds.sources(), claim_of_node, parts.clock.now());
    let made = ClusterTask::new(state, Arc::clone(&parts.clock), queues.clone());
    let cluster = made.handle;
    let writer = Writer::new(
        client.clone(),
        leadership.clone(),
        cluster.clone(),
        kinds.clone(),
        Arc::clone(&parts.clock),
    );
    let (recorder, recorder_task) = RecorderTask::new(client.clone(), Arc::clone(&parts.clock), queues.clone());
    let hub = hub(&client, &kinds, &cluster, &recorder, &parts.clock, &queues);
    let unstarted = Unstarted {
        cluster: made.task,
        recorder: recorder_task,
        doubts: made.doubts,
        hub,
    };
    let borders = Borders {
        client,
        cluster,
        hub: unstarted.hub.handle(),
        writer,
        recorder,
        queues,
        provider,
        metrics: parts.metrics.clone(),
        solving: parts.solving,
    };
    (borders, unstarted)
}

fn watchdog(borders: &Borders, vitals: Vitals, clock: &SharedClock) -> Watchdog {
    Watchdog::new(
        borders.hub.clone(),
        borders.cluster.clone(),
        vitals,
        Arc::clone(clock),
        borders.queues.clone(),
    )
}

/// Since when this replica watches.
fn watching(parts: &Parts) -> Watching {
    match (&parts.candidacy, parts.options.disable_controller_warmup) {
        (Candidacy::Alone, _) => Watching::Always,
        (Candidacy::Lease(_), false) => Watching::Warm,
        (Candidacy::Lease(_), true) => Watching::WhenLed,
    }
}

/// Whether this process may write, and who sees to it.
fn candidacy(parts: &Parts, metrics: &BorderMetrics) -> (Leadership, Option<Candidate>) {
    let Candidacy::Lease(settings) = &parts.candidacy else {
        return (Leadership::always(), None);
    };
    let (keeper, leadership) = Leadership::kept_on(&settings.terms);
    // A client of its own: nothing else makes a renewal wait (surface §6.4).
    let client = ApiClient::over(parts.kube.clone(), Limits::default(), metrics.clone());
    let clock = Arc::clone(&parts.clock);
    let candidate = Candidate::new(client, settings.clone(), keeper, clock, metrics.clone());
    (leadership, Some(candidate))
}

/// The checks of `/readyz` (surface §6.4). A replica that does not watch before it leads is ready to take over.
fn checks(
    borders: &Borders,
    watching: Watching,
    moments: &Moments,
    tasks: &mut Tasks,
    stop: &CancellationToken,
) -> Vec<Check> {
    let (complete, watches) = (borders.cluster.clone(), borders.hub.clone());
    if watching != Watching::WhenLed {
        return vec![
            Check::new("manager", move || complete.is_complete()),
            Check::new("crd", move || serves_our_kinds(&watches)),
        ];
    }
    let served = Arc::new(AtomicBool::new(false));
    let (client, led) = (borders.client.clone(), moments.led.clone());
    let looking = look_for_kinds(client, Arc::clone(&served), led.clone(), stop.clone());
    tasks.spawn("looking for our kinds", looking);
    let waits = led.clone();
    vec![
        Check::new("manager", move || !waits.is_cancelled() || complete.is_complete()),
        Check::new("crd", move || {
            if led.is_cancelled() {
                serves_our_kinds(&watches)
            } else {
                served.load(Ordering::Relaxed)
            }
        }),
    ]
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

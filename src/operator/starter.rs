//! How a controller is started, and what it is given.
//!
//! Used by the modules that list the controllers. A controller begins when this process leads and the initial lists are in, so that it never takes
//! "not listed yet" for "not there".

use super::setup::Solving;
use super::tasks::Tasks;
use super::wiring::Borders;
use crate::clock::SharedClock;
use crate::cloud::{Observed, Overlaid, OverlayStore, Provider};
use crate::cluster::{Change, Cluster};
use crate::controllers::{Arrivals, Kit};
use crate::k8s::cluster_task::ClusterTask;
use crate::k8s::queue::{Mode, Queue, QueueSettings, Reconciler};
use crate::k8s::watchdog::{Vital, Vitals};
use crate::telemetry::Metrics;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Starts controllers.
pub(super) struct Starter<'a> {
    pub(super) borders: &'a Borders,
    pub(super) cluster: &'a mut ClusterTask,
    pub(super) tasks: &'a mut Tasks,
    pub(super) stop: &'a CancellationToken,
    pub(super) mode: Mode,
    /// From when on this replica watches.
    pub(super) watched: &'a CancellationToken,
    begun: &'a CancellationToken,
    vitals: &'a Vitals,
}

impl<'a> Starter<'a> {
    /// A starter of controllers that begin when `begun` is cancelled: when this process leads and has seen everything. It watches from `watched` on.
    pub(super) fn new(
        borders: &'a Borders,
        cluster: &'a mut ClusterTask,
        tasks: &'a mut Tasks,
        stop: &'a CancellationToken,
        watched: &'a CancellationToken,
        begun: &'a CancellationToken,
        vitals: &'a Vitals,
    ) -> Self {
        let mode = match borders.solving {
            Solving::Inline => Mode::Inline,
            Solving::Blocking => Mode::Spawned,
        };
        Self {
            borders,
            cluster,
            tasks,
            stop,
            mode,
            watched,
            begun,
            vitals,
        }
    }

    /// A controller with a queue of keys, woken by changes.
    pub(super) fn queue<K, R>(
        &mut self,
        settings: QueueSettings,
        reconciler: R,
        wakes: impl Fn(&Change, &Cluster) -> Vec<K> + Send + 'static,
    ) where
        K: Ord + Clone + fmt::Debug + Send + Sync + 'static,
        R: Reconciler<Key = K>,
    {
        let queue = Queue::new(settings.with_mode(self.mode), self.borders.queues.clone());
        let woken = queue.clone();
        self.cluster.on_change(move |change, cluster| {
            for key in wakes(change, cluster) {
                woken.add(key);
            }
        });
        self.run(queue, reconciler);
    }

    /// A controller whose queue is filled elsewhere.
    pub(super) fn run<K, R>(&mut self, queue: Queue<K>, reconciler: R)
    where
        K: Ord + Clone + fmt::Debug + Send + Sync + 'static,
        R: Reconciler<Key = K>,
    {
        let stop = self.stop.clone();
        self.watch_over(queue.vital());
        self.task(queue.name(), queue.run(Arc::new(reconciler), stop));
    }

    /// Has the watchdog look after something.
    pub(super) fn watch_over(&self, vital: Vital) {
        self.vitals.add(vital);
    }

    /// Any other task of a controller.
    pub(super) fn task(&mut self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let (begun, stop) = (self.begun.clone(), self.stop.clone());
        self.tasks.spawn(name, async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = begun.cancelled() => {}
            }
            work.await;
        });
    }
}

/// Makes what each controller is given; its calls of the provider are counted under its name (surface §5.5).
pub(super) struct Kits {
    borders: Borders,
    clock: SharedClock,
    metrics: Arc<Metrics>,
    /// Only with the gate NodeOverlay: without it the provider is not wrapped at all (scheduling 26-11).
    pub(super) overlays: Option<Arc<OverlayStore>>,
    /// One memory for all controllers.
    pub(super) arrivals: Arrivals,
}

impl Kits {
    /// What is given to controllers of an operator with these borders.
    pub(super) fn new(borders: &Borders, clock: &SharedClock, overlays: Option<Arc<OverlayStore>>) -> Self {
        Self {
            borders: borders.clone(),
            clock: Arc::clone(clock),
            metrics: Arc::new(borders.metrics.clone()),
            overlays,
            arrivals: Arrivals::default(),
        }
    }

    pub(super) fn of(&self, controller: &'static str) -> Kit {
        let bare: Arc<dyn Provider> = Arc::clone(&self.borders.provider) as Arc<dyn Provider>;
        let inner = match &self.overlays {
            Some(store) => Arc::new(Overlaid::new(bare, Arc::clone(store))),
            None => bare,
        };
        let provider = Observed::new(inner, self.metrics.cloudprovider.clone(), controller);
        Kit {
            cluster: self.borders.cluster.clone(),
            writer: self.borders.writer.clone(),
            recorder: self.borders.recorder.clone(),
            provider: Arc::new(provider),
            clock: Arc::clone(&self.clock),
            metrics: Arc::clone(&self.metrics),
            arrivals: self.arrivals.clone(),
        }
    }
}

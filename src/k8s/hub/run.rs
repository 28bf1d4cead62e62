//! All watchers together, and the reading of what no watch has confirmed.

use super::handle::{HubHandle, Unread};
use super::watcher::Watcher;
use crate::clock::SharedClock;
use crate::cluster::entries::Reader;
use crate::cluster::{Delta, Doubt};
use crate::k8s::client::ApiClient;
use crate::k8s::cluster_task::{Closed, ClusterHandle};
use crate::k8s::kinds::{WatchedKind, WatchedKinds};
use crate::k8s::metrics::BorderMetrics;
use crate::k8s::queue::Busy;
use crate::k8s::watchdog::Vital;
use kube::Resource;
use kube::api::GetParams;
use kube::core::Request;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The reading of what no watch has confirmed, as metrics and `/readyz` name it.
const DOUBTS: &str = "state.doubts";

type OnUnread = Arc<dyn Fn(&Unread) + Send + Sync>;

/// All watchers.
#[derive(Clone)]
pub struct Hub {
    pub(super) client: ApiClient,
    kinds: WatchedKinds,
    pub(super) cluster: ClusterHandle,
    pub(super) clock: SharedClock,
    pub(super) metrics: BorderMetrics,
    pub(super) handle: HubHandle,
    pub(super) on_unread: Option<OnUnread>,
    looking: Busy,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("kinds", &self.kinds)
            .finish_non_exhaustive()
    }
}

impl Hub {
    /// A hub that watches these kinds and tells this cluster task.
    pub fn new(
        client: ApiClient,
        kinds: WatchedKinds,
        cluster: ClusterHandle,
        clock: SharedClock,
        metrics: BorderMetrics,
    ) -> Self {
        let handle = HubHandle::new(kinds.sources());
        Self {
            client,
            kinds,
            cluster,
            clock,
            metrics,
            handle,
            on_unread: None,
            looking: Busy::default(),
        }
    }

    /// Has this called for each object that cannot be read, once per reason: to say it on the object.
    pub fn on_unread(mut self, call: impl Fn(&Unread) + Send + Sync + 'static) -> Self {
        self.on_unread = Some(Arc::new(call));
        self
    }

    /// What a watchdog looks at besides the watches: the reading of what no watch has confirmed.
    pub fn vital(&self) -> Vital {
        self.looking.vital(DOUBTS)
    }

    /// The way to the hub.
    pub fn handle(&self) -> HubHandle {
        self.handle.clone()
    }

    /// Watches until `stop`. Ends early only when a watcher does, which only a defect or the end of the cluster task brings about.
    pub async fn run(self, doubts: mpsc::Receiver<Doubt>, stop: CancellationToken) {
        let mut tasks = JoinSet::new();
        for kind in self.kinds.iter() {
            let watcher = Watcher::new(self.clone(), kind.clone());
            tasks.spawn(watcher.run(stop.clone()));
        }
        tasks.spawn(self.clone().look_into(doubts, stop.clone()));
        // The first to end says that all should; dropping the set ends the others.
        let _ = tasks.join_next().await;
    }

    /// Reads what no watch has confirmed.
    async fn look_into(self, mut doubts: mpsc::Receiver<Doubt>, stop: CancellationToken) {
        let mut reader = Reader::new();
        loop {
            let doubt = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                doubt = doubts.recv() => doubt,
            };
            let Some(doubt) = doubt else { return };
            let watched = self
                .kinds
                .iter()
                .find(|kind| kind.source.kind == doubt.kind && kind.source.covers(&doubt.key));
            let _looking = self.looking.begin();
            if let Some(watched) = watched
                && self.look_at(watched, &doubt, &mut reader).await.is_err()
            {
                return;
            }
        }
    }

    async fn look_at(&self, watched: &WatchedKind, doubt: &Doubt, reader: &mut Reader) -> Result<(), Closed> {
        let scope = Some(doubt.key.namespace()).filter(|scope| !scope.is_empty() && watched.source.class.is_empty());
        let path = kube::core::DynamicObject::url_path(&watched.resource, scope);
        let Ok(request) = Request::new(path).get(&doubt.key.name, &GetParams::default()) else {
            return Ok(());
        };
        let began = self.clock.now();
        let found = match self.client.kube().request::<Value>(request).await {
            Ok(object) => match watched.read(reader, object) {
                Ok(object) => Some(object),
                // There, but not readable: what was last known stays.
                Err(_) => return Ok(()),
            },
            Err(kube::Error::Api(status)) if status.is_not_found() => None,
            // The doubt comes up again.
            Err(_) => return Ok(()),
        };
        self.cluster
            .observe(Delta::Read {
                kind: doubt.kind,
                key: doubt.key.clone(),
                began,
                found,
            })
            .await
    }
}

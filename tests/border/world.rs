//! An API server, and the border over it as the wiring would make it.

use crate::lines::Lines;
use karpenter::api::{NodeClaim, RackspaceSpotNodeClass};
use karpenter::clock::{SharedClock, TokioClock};
use karpenter::cluster::{Cluster, Snapshot};
use karpenter::k8s::client::{ApiClient, Limits};
use karpenter::k8s::cluster_task::{ClusterHandle, ClusterTask};
use karpenter::k8s::hub::{Hub, HubHandle, Unread};
use karpenter::k8s::kinds::{WatchedKind, WatchedKinds};
use karpenter::k8s::leadership::{Keeper, Leadership};
use karpenter::k8s::metrics::BorderMetrics;
use karpenter::k8s::watchdog::Vitals;
use karpenter::k8s::write::Writer;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::core::ApiResource;
use sandbox::api::{ApiFaults, ApiOptions, ApiServer, FaultRule};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Who the border is at the API server; faults and hooks are for this user alone.
pub const OPERATOR: &str = "operator";

pub struct World {
    pub api: ApiServer,
    pub cluster: ClusterHandle,
    pub hub: HubHandle,
    pub writer: Writer,
    pub keeper: Keeper,
    pub unread: Arc<Mutex<Vec<Unread>>>,
    pub metrics: prometheus::Registry,
    pub border_metrics: BorderMetrics,
    pub clock: SharedClock,
    /// The operator's line to the API server.
    pub lines: Lines,
    /// What the hub wants to be looked after besides its watches.
    pub vitals: Vitals,
    watching: CancellationToken,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub fn crd(file: &str) -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crds").join(file);
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn kinds() -> WatchedKinds {
    WatchedKinds::with([WatchedKind::class::<RackspaceSpotNodeClass>(), WatchedKind::overlays()])
}

impl World {
    /// Everything started, and the initial lists in.
    pub async fn start() -> Self {
        let world = Self::begin().await;
        world.cluster.completed().await.unwrap();
        world
    }

    /// The same with another API server.
    pub async fn start_with(change: impl FnOnce(&mut ApiOptions)) -> Self {
        let mut options = ApiOptions::default();
        change(&mut options);
        let world = Self::begin_with(options).await;
        world.cluster.completed().await.unwrap();
        world
    }

    /// Everything started. The NodeOverlay kind is watched but not served.
    pub async fn begin() -> Self {
        Self::begin_with(ApiOptions::default()).await
    }

    async fn begin_with(options: ApiOptions) -> Self {
        let epoch = chrono::DateTime::from_timestamp(1_767_225_600, 0).unwrap();
        let clock: SharedClock = Arc::new(TokioClock::starting_at(epoch));
        let api = ApiServer::new(Arc::clone(&clock), 1, options);
        for file in [
            "karpenter.sh_nodepools",
            "karpenter.sh_nodeclaims",
            "karpenter.rackspace.com_rackspacespotnodeclasses",
        ] {
            create(
                &api,
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                crd(&format!("{file}.yaml")),
            )
            .await;
        }
        let registry = prometheus::Registry::new();
        let metrics = BorderMetrics::new(&registry).unwrap();
        let lines = Lines::default();
        let client = ApiClient::over(lines.client(&api, OPERATOR), Limits::default(), metrics.clone());
        let kinds = kinds();
        let state = Cluster::new(kinds.sources(), Arc::new(|_| None), clock.now());
        let made = ClusterTask::new(state, Arc::clone(&clock), metrics.clone());
        let stop = CancellationToken::new();
        tokio::spawn(made.task.run(stop.clone()));
        let unread: Arc<Mutex<Vec<Unread>>> = Arc::default();
        let noting = Arc::clone(&unread);
        let hub = Hub::new(
            client.clone(),
            kinds.clone(),
            made.handle.clone(),
            Arc::clone(&clock),
            metrics.clone(),
        )
        .on_unread(move |unread| noting.lock().unwrap().push(unread.clone()));
        let handle = hub.handle();
        let vitals = Vitals::default();
        vitals.add(hub.vital());
        let watching = stop.child_token();
        tokio::spawn(hub.run(made.doubts, watching.clone()));
        let (keeper, leadership) = Leadership::kept();
        keeper.hold_until(Instant::now() + Duration::from_hours(24));
        let writer = Writer::new(client, leadership, made.handle.clone(), kinds, Arc::clone(&clock));
        Self {
            api,
            cluster: made.handle,
            hub: handle,
            writer,
            keeper,
            unread,
            metrics: registry,
            border_metrics: metrics,
            clock,
            lines,
            vitals,
            watching,
            stop,
        }
    }

    /// A writer beside the world's own, over another client, that may always write.
    pub fn writer_over(&self, client: ApiClient) -> Writer {
        let cluster = self.cluster.clone();
        Writer::new(client, Leadership::always(), cluster, kinds(), Arc::clone(&self.clock))
    }

    /// Ends the watchers without a word to anybody.
    pub fn stop_watching(&self) {
        self.watching.cancel();
    }

    pub async fn snapshot(&self) -> Arc<Snapshot> {
        self.cluster.snapshot().await.unwrap()
    }

    /// Puts faults in force for the operator.
    pub fn faults(&self, rules: impl IntoIterator<Item = FaultRule>) {
        let rules = rules.into_iter().map(|rule| rule.users(&[OPERATOR])).collect();
        self.api.set_faults(ApiFaults { rules });
    }

    /// Waits on the paused clock until the state is as wanted; fails after a simulated minute or the time given.
    pub async fn until(&self, what: &str, within: Duration, holds: impl Fn(&Snapshot) -> bool) {
        let started = Instant::now();
        while !holds(&*self.snapshot().await) {
            assert!(started.elapsed() < within, "{what} does not come true");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub async fn create(&self, api_version: &str, kind: &str, object: Value) -> Value {
        create(&self.api, api_version, kind, object).await
    }

    pub async fn delete(&self, api_version: &str, kind: &str, name: &str) {
        let api: Api<DynamicObject> = Api::all_with(self.api.client(), &resource(api_version, kind));
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// The count that a counter or gauge with this label shows; zero where it never moved.
    pub fn metric(&self, name: &str, label: &str) -> u64 {
        let families = self.metrics.gather();
        let family = families
            .iter()
            .find(|family| family.name() == name)
            .unwrap_or_else(|| panic!("no {name}"));
        let fits = |metric: &&prometheus::proto::Metric| metric.get_label().iter().any(|pair| pair.value() == label);
        let shown = family.get_metric().iter().find(fits).map_or(0.0, |metric| {
            metric.get_counter().get_value() + metric.get_gauge().get_value()
        });
        shown.to_string().parse().expect("a whole number")
    }
}

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, kind))
}

pub async fn create(api: &ApiServer, api_version: &str, kind: &str, mut object: Value) -> Value {
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let resource = resource(api_version, kind);
    let client = api.client();
    let made: Api<DynamicObject> = match object.metadata.namespace.clone() {
        Some(namespace) => Api::namespaced_with(client, &namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    serde_json::to_value(made.create(&PostParams::default(), &object).await.unwrap()).unwrap()
}

/// A NodeClaim that the API server accepts.
pub fn claim(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "karpenter.sh/nodepool": "pool" } },
        "spec": {
            "nodeClassRef": { "group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default" },
            "requirements": [{ "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] }],
        },
    })
}

/// The same, typed.
pub fn typed_claim(name: &str) -> NodeClaim {
    let mut object = claim(name);
    object["apiVersion"] = json!("karpenter.sh/v1");
    object["kind"] = json!("NodeClaim");
    serde_json::from_value(object).unwrap()
}

pub const KARPENTER: &str = "karpenter.sh/v1";

pub const MINUTE: Duration = Duration::from_mins(1);

pub async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

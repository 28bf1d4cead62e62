//! An API server, a programmable cloud, and the controllers that launch and remove machines.
//!
//! The tests play kubelet and scheduler: they make the Node of a launched claim and write bound pods; pods that were asked to go are removed when
//! their grace period is over, unless a test freezes the kubelets.

use karpenter::api::RackspaceSpotNodeClass;
use karpenter::clock::{SharedClock, TokioClock};
use karpenter::cloud::Provider;
use karpenter::cloud::fake::FakeProvider;
use karpenter::cluster::{Change, Cluster, Key, Kind};
use karpenter::controllers::disruption::{Commands, Execution, Loop, PERIOD};
use karpenter::controllers::eviction::{Evictions, Evictor};
use karpenter::controllers::node::hydration::NodeHydration;
use karpenter::controllers::node::termination::NodeTermination;
use karpenter::controllers::nodeclaim::Lifecycle;
use karpenter::controllers::nodeclaim::expiration::Expirer;
use karpenter::controllers::nodeclaim::garbage::{self, Garbage, Seen};
use karpenter::controllers::nodeclaim::machine::Orders;
use karpenter::controllers::nodeclaim::marks::Marks;
use karpenter::controllers::nodeclaim::podevents::{self, PodEvents};
use karpenter::controllers::nodepool::health::RegistrationHealth;
use karpenter::controllers::{Arrivals, Kit};
use karpenter::k8s::client::{ApiClient, Limits};
use karpenter::k8s::cluster_task::{ClusterHandle, ClusterTask, NewClusterTask};
use karpenter::k8s::events::RecorderTask;
use karpenter::k8s::hub::Hub;
use karpenter::k8s::kinds::{WatchedKind, WatchedKinds};
use karpenter::k8s::leadership::Leadership;
use karpenter::k8s::metrics::BorderMetrics;
use karpenter::k8s::queue::{Mode, Queue, QueueSettings, Reconciler, Singleton, Wake};
use karpenter::k8s::write::Writer;
use karpenter::resources::{Quantity, ResourceList};
use karpenter::scheduling::{CapacityType, InstanceType, Offering, Overhead, Requirement};
use karpenter::telemetry::{BuildInfo, Exposition, Metrics};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use sandbox::api::{ApiOptions, ApiServer, Garbage as Owned, NewNodes};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub const KARPENTER: &str = "karpenter.sh/v1";

pub struct World {
    pub api: ApiServer,
    pub provider: Arc<FakeProvider>,
    pub metrics: Arc<Metrics>,
    cluster: ClusterHandle,
    kubelets_frozen: Arc<AtomicBool>,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn instance_type() -> InstanceType {
    let capacity = ResourceList::new()
        .with("cpu", Quantity::units(4))
        .with("memory", Quantity::bytes(8 << 30))
        .with("pods", Quantity::units(110));
    let requirements = [Requirement::is("node.kubernetes.io/instance-type", "t1")];
    let offerings = vec![Offering::new("zone", CapacityType::OnDemand, 1.0)];
    InstanceType::new(
        "t1",
        requirements.into_iter().collect(),
        offerings,
        capacity,
        Overhead::default(),
    )
}

fn metrics() -> (Exposition, Arc<Metrics>) {
    let exposition = Exposition::new();
    let metrics = Arc::new(Metrics::new(&exposition, BuildInfo::unknown()).unwrap());
    (exposition, metrics)
}

fn crd(file: &str) -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("crds")
        .join(format!("{file}.yaml"));
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn of_kind(kind: Kind) -> impl Fn(&Change, &Cluster) -> Vec<Key> + Send + 'static {
    move |change, _| {
        if change.kind == kind {
            vec![change.key.clone()]
        } else {
            Vec::new()
        }
    }
}

/// A claim itself, and the claim of a node that moved or went.
fn claims_and_nodes(change: &Change, cluster: &Cluster) -> Vec<Key> {
    match change.kind {
        Kind::NodeClaim => vec![change.key.clone()],
        Kind::Node => cluster.objects().claims.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

struct Starter {
    task: ClusterTask,
    cluster: ClusterHandle,
    queues: BorderMetrics,
    stop: CancellationToken,
}

impl Starter {
    fn new_queue(&self, name: &'static str) -> Queue<Key> {
        Queue::new(
            QueueSettings::new(name, 10).with_mode(Mode::Inline),
            self.queues.clone(),
        )
    }

    fn keyed(
        &mut self,
        name: &'static str,
        reconciler: impl Reconciler<Key = Key>,
        wakes: impl Fn(&Change, &Cluster) -> Vec<Key> + Send + 'static,
    ) {
        let queue = self.new_queue(name);
        let woken = queue.clone();
        self.task
            .on_change(move |change, cluster| wakes(change, cluster).into_iter().for_each(|key| woken.add(key)));
        self.run(queue, reconciler);
    }

    fn run<R: Reconciler>(&self, queue: Queue<R::Key>, reconciler: R) {
        let (cluster, stop) = (self.cluster.clone(), self.stop.clone());
        tokio::spawn(async move {
            if cluster.completed().await.is_ok() {
                queue.run(Arc::new(reconciler), stop).await;
            }
        });
    }
}

impl World {
    /// Everything started, a NodePool `default` that consolidates at once and without limit, and no machine.
    pub async fn start() -> Self {
        let epoch = chrono::DateTime::from_timestamp(1_767_225_600, 0).unwrap();
        let clock: SharedClock = Arc::new(TokioClock::starting_at(epoch));
        let options = ApiOptions {
            new_nodes: NewNodes::AsWritten,
            // the owners of pods are named and not made
            garbage: Owned::Kept,
            ..ApiOptions::default()
        };
        let api = ApiServer::new(Arc::clone(&clock), 1, options);
        let provider = Arc::new(FakeProvider::new(vec![instance_type()]));
        let world = Self::wire(api, provider, &clock);
        for file in [
            "karpenter.sh_nodepools",
            "karpenter.sh_nodeclaims",
            "karpenter.rackspace.com_rackspacespotnodeclasses",
        ] {
            world
                .create("apiextensions.k8s.io/v1", "CustomResourceDefinition", crd(file))
                .await;
        }
        world.cluster.completed().await.unwrap();
        let class = json!({ "group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default" });
        let pool = json!({
            "metadata": { "name": "default" },
            "spec": { "template": { "spec": { "nodeClassRef": class, "requirements": [{ "key": "kubernetes.io/arch", "operator": "Exists" }] } },
                "disruption": { "consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty", "budgets": [{ "nodes": "100%" }] } },
        });
        world.create(KARPENTER, "NodePool", pool).await;
        world
    }

    fn wire(api: ApiServer, provider: Arc<FakeProvider>, clock: &SharedClock) -> Self {
        let (exposition, metrics) = metrics();
        let queues = BorderMetrics::new(exposition.registry()).unwrap();
        let limits = Limits {
            qps: 10_000.0,
            burst: 10_000,
        };
        let client = ApiClient::over(api.client_as("operator", &["system:masters"]), limits, queues.clone());
        let kinds = WatchedKinds::with([WatchedKind::class::<RackspaceSpotNodeClass>()]);
        let word = Arc::clone(&provider);
        let state = Cluster::new(
            kinds.sources(),
            Arc::new(move |labels: &_| word.claim_of_node(labels)),
            clock.now(),
        );
        let NewClusterTask { task, handle, doubts } = ClusterTask::new(state, Arc::clone(clock), queues.clone());
        let stop = CancellationToken::new();
        let hub = Hub::new(
            client.clone(),
            kinds.clone(),
            handle.clone(),
            Arc::clone(clock),
            queues.clone(),
        );
        tokio::spawn(hub.run(doubts, stop.clone()));
        let writer = Writer::new(
            client.clone(),
            Leadership::always(),
            handle.clone(),
            kinds,
            Arc::clone(clock),
        );
        let (recorder, recorder_task) = RecorderTask::new(client.clone(), Arc::clone(clock), queues.clone());
        tokio::spawn(recorder_task.run(stop.clone()));
        let kit = Kit {
            cluster: handle.clone(),
            writer,
            recorder,
            provider: Arc::clone(&provider) as Arc<dyn Provider>,
            clock: Arc::clone(clock),
            metrics: Arc::clone(&metrics),
            arrivals: Arrivals::default(),
        };
        let mut starter = Starter {
            task,
            cluster: handle.clone(),
            queues,
            stop: stop.clone(),
        };
        controllers(&mut starter, &kit, &client);
        tokio::spawn(starter.task.run(stop.clone()));
        let world = Self {
            api,
            provider,
            metrics,
            cluster: handle,
            kubelets_frozen: Arc::default(),
            stop,
        };
        world.play_kubelets(clock);
        world
    }

    /// Removes pods whose grace period is over.
    fn play_kubelets(&self, clock: &SharedClock) {
        let (frozen, clock) = (Arc::clone(&self.kubelets_frozen), Arc::clone(clock));
        let pods: Api<DynamicObject> = Api::all_with(self.api.client(), &resource("v1", "Pod"));
        let (api, stop) = (self.api.clone(), self.stop.clone());
        tokio::spawn(async move {
            while !stop.is_cancelled() {
                tokio::time::sleep(Duration::from_millis(500)).await;
                if frozen.load(Ordering::Relaxed) {
                    continue;
                }
                for pod in pods.list(&ListParams::default()).await.unwrap() {
                    let Some(end) = pod.metadata.deletion_timestamp else {
                        continue;
                    };
                    if end.0.as_second() <= clock.now().timestamp() {
                        let (namespace, name) = (pod.metadata.namespace.unwrap(), pod.metadata.name.unwrap());
                        let here: Api<DynamicObject> =
                            Api::namespaced_with(api.client(), &namespace, &resource("v1", "Pod"));
                        let _ = here.delete(&name, &DeleteParams::default().grace_period(0)).await;
                    }
                }
            }
        });
    }

    /// From now on no kubelet ends pods that were asked to go.
    pub fn freeze_kubelets(&self) {
        self.kubelets_frozen.store(true, Ordering::Relaxed);
    }

    /// A claim of the pool, launched, its node joined and initialized. Yields the claim's UID.
    pub async fn machine(&self, name: &str, patch: &Value) -> String {
        let class = json!({ "group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default" });
        let mut claim = json!({
            "metadata": { "name": name, "labels": { "karpenter.sh/nodepool": "default" } },
            "spec": { "nodeClassRef": class, "expireAfter": "Never",
                "requirements": [{ "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["t1"] }] },
        });
        merge(&mut claim, patch);
        let made = self.create(KARPENTER, "NodeClaim", claim).await;
        let uid = made["metadata"]["uid"].as_str().unwrap().to_owned();
        self.until("the claim is launched", 60, || async {
            self.condition(name, "Launched").await.as_deref() == Some("True")
        })
        .await;
        self.join(name, &uid, name).await;
        self.until("the claim is initialized", 60, || async {
            self.condition(name, "Initialized").await.as_deref() == Some("True")
        })
        .await;
        uid
    }

    /// A node with the provider ID of a claim's machine.
    pub async fn join(&self, name: &str, uid: &str, hostname: &str) {
        let resources = json!({ "cpu": "4", "memory": "8Gi", "pods": "110" });
        let node = json!({
            "metadata": { "name": name, "labels": { "karpenter.rackspace.com/nodeclaim-uid": uid, "kubernetes.io/hostname": hostname } },
            "spec": { "providerID": format!("fake:///{uid}"), "taints": [{ "key": "karpenter.sh/unregistered", "effect": "NoExecute" }] },
        });
        self.create("v1", "Node", node).await;
        let ready = json!({ "status": { "capacity": resources, "allocatable": resources, "conditions": [{ "type": "Ready", "status": "True" }] } });
        self.patch_status("v1", "Node", "", name, ready).await;
    }

    /// A running pod on a node.
    pub async fn pod(&self, name: &str, node: &str, patch: &Value) {
        let mut pod = json!({
            "metadata": { "name": name, "namespace": "default" },
            "spec": { "nodeName": node, "terminationGracePeriodSeconds": 10, "containers": [{ "name": "c", "image": "i" }] },
        });
        merge(&mut pod, patch);
        self.create("v1", "Pod", pod).await;
        let status = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
        self.patch_status("v1", "Pod", "default", name, status).await;
    }

    pub async fn create(&self, api_version: &str, kind: &str, mut object: Value) -> Value {
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let api = self.objects(api_version, kind, &namespace);
        serde_json::to_value(api.create(&PostParams::default(), &object).await.unwrap()).unwrap()
    }

    fn objects(&self, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let resource = resource(api_version, kind);
        if namespace.is_empty() {
            Api::all_with(self.api.client(), &resource)
        } else {
            Api::namespaced_with(self.api.client(), namespace, &resource)
        }
    }

    pub async fn get(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let found = self.objects(api_version, kind, namespace).get_opt(name).await.unwrap();
        found.map(|object| serde_json::to_value(object).unwrap())
    }

    pub async fn delete(&self, api_version: &str, kind: &str, namespace: &str, name: &str) {
        let api = self.objects(api_version, kind, namespace);
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn patch(&self, api_version: &str, kind: &str, namespace: &str, name: &str, patch: Value) {
        let api = self.objects(api_version, kind, namespace);
        let patch = Patch::Merge(patch);
        api.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn patch_status(&self, api_version: &str, kind: &str, namespace: &str, name: &str, patch: Value) {
        let api = self.objects(api_version, kind, namespace);
        let patch = Patch::Merge(patch);
        api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn claim(&self, name: &str) -> Option<Value> {
        self.get(KARPENTER, "NodeClaim", "", name).await
    }

    pub async fn node(&self, name: &str) -> Option<Value> {
        self.get("v1", "Node", "", name).await
    }

    /// The status of a claim's condition, if the claim has it.
    pub async fn condition(&self, claim: &str, type_: &str) -> Option<String> {
        let claim = self.claim(claim).await?;
        let conditions = claim["status"]["conditions"].as_array()?;
        let found = conditions.iter().find(|condition| condition["type"] == type_)?;
        Some(found["status"].as_str()?.to_owned())
    }

    /// Whether the node carries the mark of disruption.
    pub async fn is_tainted(&self, name: &str) -> bool {
        let node = self.node(name).await.unwrap();
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.iter().any(|taint| taint["key"] == "karpenter.sh/disrupted")
    }

    /// Whether claim, node and machine are all gone.
    pub async fn is_gone(&self, name: &str, uid: &str) -> bool {
        self.claim(name).await.is_none()
            && self.node(name).await.is_none()
            && !self.provider.machines().contains(&uid.to_owned())
    }

    /// Messages of the Events with this reason about an object of this name.
    pub async fn events(&self, reason: &str, name: &str) -> Vec<String> {
        let all = self
            .objects("v1", "Event", "")
            .list(&ListParams::default())
            .await
            .unwrap();
        let fits =
            |event: &&DynamicObject| event.data["reason"] == reason && event.data["involvedObject"]["name"] == name;
        all.items
            .iter()
            .filter(fits)
            .map(|event| event.data["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Waits on the paused clock until something holds; fails after so many simulated seconds. Yields how long it took.
    pub async fn until<F: Future<Output = bool>>(&self, what: &str, within: u64, holds: impl Fn() -> F) -> Duration {
        let started = Instant::now();
        while !holds().await {
            assert!(
                started.elapsed() < Duration::from_secs(within),
                "{what}: not so after {within} s"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        started.elapsed()
    }
}

fn controllers(starter: &mut Starter, kit: &Kit, client: &ApiClient) {
    let orders = Arc::new(Orders::default());
    let health = Arc::new(RegistrationHealth::new(kit.clone()));
    let lifecycle = Lifecycle::new(kit.clone(), Arc::clone(&orders), health);
    starter.keyed("nodeclaim.lifecycle", lifecycle, claims_and_nodes);
    starter.keyed(
        "nodeclaim.expiration",
        Expirer::new(kit.clone()),
        of_kind(Kind::NodeClaim),
    );
    starter.keyed("node.hydration", NodeHydration::new(kit.clone()), of_kind(Kind::Node));
    starter.keyed(
        "nodeclaim.disruption",
        Marks::new(kit.clone()),
        |change, cluster| match change.kind {
            Kind::NodePool => cluster.objects().claims.keys().cloned().collect(),
            Kind::NodeClaim => vec![change.key.clone()],
            _ => Vec::new(),
        },
    );
    let evictions = Evictions::new(10, Mode::Inline, starter.queues.clone());
    starter.run(evictions.queue(), Evictor::new(kit.clone(), evictions.clone()));
    let termination = NodeTermination::new(kit.clone(), orders, evictions);
    starter.keyed("node.termination", termination, of_kind(Kind::Node));
    let events = starter.new_queue("nodeclaim.podevents");
    starter.task.on_change(podevents::trigger(events.clone()));
    starter.run(events, PodEvents::new(kit.clone()));

    let seen = Seen::default();
    starter.task.on_change(seen.trigger());
    let collector = Arc::new(Garbage::new(kit.clone(), client.clone(), seen));
    let collecting = Singleton::new(
        "nodeclaim.garbagecollection",
        garbage::PERIOD,
        Wake::new(),
        starter.queues.clone(),
    );
    tokio::spawn(collecting.run(starter.stop.clone(), move || {
        let collector = Arc::clone(&collector);
        async move { collector.run().await }
    }));

    let commands = Commands::default();
    let settings = QueueSettings::new("disruption.queue", 10).with_mode(Mode::Inline);
    let queue: Queue<u64> = Queue::new(settings, starter.queues.clone());
    starter.run(queue.clone(), Execution::new(kit.clone(), commands.clone()));
    let disruption = Arc::new(Loop::new(kit.clone(), commands, queue, starter.stop.clone()));
    let looping = Singleton::new("disruption", PERIOD, Wake::new(), starter.queues.clone());
    tokio::spawn(looping.run(starter.stop.clone(), move || {
        let disruption = Arc::clone(&disruption);
        async move { disruption.run().await }
    }));
}

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, kind))
}

pub fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}

/// The annotation by which a pod protects its node.
pub fn protected() -> Value {
    json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "true" } } })
}

/// Owned by a controller of this kind.
pub fn owned_by(kind: &str) -> Value {
    json!({ "metadata": { "ownerReferences": [{ "apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "o", "controller": true }] } })
}

pub async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

//! A case on the real control plane: its machines, its pods, and the pretended CSI provisioner.

use crate::binder::daemons;
use crate::case::Case;
use crate::plan::{Plan, Step};
use crate::volumes::{claim_names, is_ephemeral, volume};
use crate::workloads::SANDBOXED;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodSchedulingGate};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use karpenter::scheduling::labels;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

const GATE: &str = "example.com/cross-check";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Between two looks at a pod.
const LOOK: Duration = Duration::from_millis(8);
/// What one decision takes at most on a busy machine.
const WITHIN: Duration = Duration::from_mins(1);
/// What watches need to bring a change to the scheduler.
const SETTLE: Duration = Duration::from_millis(150);

/// What kube-scheduler did with a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Bound(String),
    Refused(String),
    /// Neither, in a minute.
    Silence,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bound(node) => write!(f, "bound to {node}"),
            Self::Refused(words) => f.write_str(words),
            Self::Silence => f.write_str("silent for a minute"),
        }
    }
}

/// The control plane as the cases use it.
pub struct Real {
    client: Client,
}

impl Real {
    /// Makes what all cases share.
    pub async fn start(client: Client) -> Self {
        let class: RuntimeClass = serde_json::from_value(json!({
            "metadata": {"name": SANDBOXED}, "handler": "sandboxed",
            "overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}},
        }))
        .unwrap();
        let real = Self { client };
        real.create(&class).await;
        real
    }

    async fn create<K>(&self, object: &K)
    where
        K: Resource<DynamicType = ()> + Clone + fmt::Debug + Serialize + DeserializeOwned,
        K: Resource<Scope = kube::core::ClusterResourceScope>,
    {
        let api: Api<K> = Api::all(self.client.clone());
        made(api.create(&PostParams::default(), object).await, object);
    }

    async fn create_in<K>(&self, object: &K)
    where
        K: Resource<DynamicType = ()> + Clone + fmt::Debug + Serialize + DeserializeOwned,
        K: Resource<Scope = NamespaceResourceScope>,
    {
        let namespace = object.meta().namespace.clone().unwrap();
        let api: Api<K> = Api::namespaced(self.client.clone(), &namespace);
        made(api.create(&PostParams::default(), object).await, object);
    }

    fn pods(&self, pod: &Pod) -> (Api<Pod>, String) {
        let namespace = pod.metadata.namespace.as_deref().unwrap();
        (
            Api::namespaced(self.client.clone(), namespace),
            pod.metadata.name.clone().unwrap(),
        )
    }

    /// Makes the machines of case and plan, the pods that are bound before the pass, and the pods to place behind their gates.
    pub async fn set_up(&self, case: &Case, plan: &Plan) {
        join_all(case.namespaces.iter().map(|one: &Namespace| self.create(one))).await;
        join_all(case.classes.iter().map(|one: &StorageClass| self.create(one))).await;
        join_all(case.volumes.iter().map(|one: &PersistentVolume| self.create(one))).await;
        for claim in case.claims.iter().filter(|claim| !is_ephemeral(claim)) {
            // The real controller binds what belongs together and writes the rest itself.
            let mut claim = claim.clone();
            claim.metadata.annotations = None;
            claim.status = None;
            self.create_in(&claim).await;
        }
        let machines: Vec<&Node> = case
            .machines
            .iter()
            .map(|machine| &machine.node)
            .chain(&plan.nodes)
            .collect();
        join_all(machines.iter().map(|node| self.create(*node))).await;
        for node in &machines {
            if let Some(csi_node) = case.csi_node(node.metadata.name.as_deref().unwrap()) {
                self.create(&csi_node).await;
            }
        }
        let daemons = daemons(case, plan);
        let bound: Vec<&Pod> = case.bound.iter().chain(&daemons).collect();
        join_all(bound.iter().map(|pod| self.create_bound(pod))).await;
        join_all(plan.steps.iter().map(|step| self.create_gated(&step.pod))).await;
        self.claims_are_bound(case).await;
        let placed = plan.steps.iter().map(|step| &step.pod);
        join_all(placed.chain(&case.bound).map(|pod| self.claims_are_there(pod))).await;
        tokio::time::sleep(SETTLE).await;
    }

    /// Binds a pod by hand; one that was asked to go is asked again, since nobody can be created like that.
    async fn create_bound(&self, pod: &Pod) {
        self.create_in(pod).await;
        if pod.metadata.deletion_timestamp.is_some() {
            let (pods, name) = self.pods(pod);
            pods.delete(&name, &DeleteParams::default()).await.unwrap();
        }
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase == Some("Succeeded") {
            let (pods, name) = self.pods(pod);
            let patch = Patch::Merge(json!({"status": {"phase": phase}}));
            pods.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
        }
    }

    async fn create_gated(&self, pod: &Pod) {
        let mut pod = pod.clone();
        let gate = PodSchedulingGate { name: GATE.to_owned() };
        pod.spec.get_or_insert_default().scheduling_gates = Some(vec![gate]);
        self.create_in(&pod).await;
    }

    /// The claims of ephemeral volumes come after their pod.
    async fn claims_are_there(&self, pod: &Pod) {
        let namespace = pod.metadata.namespace.as_deref().unwrap();
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        for name in claim_names(pod) {
            let there = async || claims.get_opt(&name).await.unwrap().is_some();
            within(&format!("claim {name} is there"), there).await;
        }
    }

    async fn claims_are_bound(&self, case: &Case) {
        let named = |claim: &PersistentVolumeClaim| claim.spec.as_ref().is_some_and(|spec| spec.volume_name.is_some());
        for claim in case.claims.iter().filter(|claim| named(claim)) {
            let namespace = claim.metadata.namespace.as_deref().unwrap();
            let name = claim.metadata.name.as_deref().unwrap();
            let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
            let bound = async || {
                let status = claims.get(name).await.unwrap().status.unwrap_or_default();
                status.phase.as_deref() == Some("Bound")
            };
            within(&format!("claim {name} is bound"), bound).await;
        }
    }

    /// Lets kube-scheduler decide on a pod, with its planned machine nominated, and says what it did.
    pub async fn release(&self, step: &Step) -> Outcome {
        let (pods, name) = self.pods(&step.pod);
        let nominate = Patch::Merge(json!({"status": {"nominatedNodeName": step.node}}));
        let params = PatchParams::default();
        pods.patch_status(&name, &params, &nominate).await.unwrap();
        let open = Patch::Merge(json!({"spec": {"schedulingGates": null}}));
        pods.patch(&name, &params, &open).await.unwrap();
        let mounts = step.pod.spec.as_ref().is_some_and(|spec| spec.volumes.is_some());
        let decided = async {
            loop {
                if let Some(outcome) = outcome(&pods.get(&name).await.unwrap()) {
                    return outcome;
                }
                if mounts {
                    self.provision(step.pod.metadata.namespace.as_deref().unwrap()).await;
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(WITHIN, decided).await.unwrap_or(Outcome::Silence)
    }

    /// The pretended CSI provisioner: a volume in the zone of the machine that was chosen for a waiting claim.
    async fn provision(&self, namespace: &str) {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        for claim in claims.list(&ListParams::default()).await.unwrap().items {
            let name = claim.metadata.name.clone().unwrap();
            let spec = claim.spec.unwrap();
            let selected = claim
                .metadata
                .annotations
                .as_ref()
                .and_then(|all| all.get(SELECTED_NODE));
            let (Some(node), None) = (selected, &spec.volume_name) else {
                continue;
            };
            let volume_name = format!("made-{}", claim.metadata.uid.as_deref().unwrap());
            if volumes.get_opt(&volume_name).await.unwrap().is_some() {
                continue;
            }
            let node = Api::<Node>::all(self.client.clone()).get(node).await.unwrap();
            let labels: BTreeMap<String, String> = node.metadata.labels.unwrap_or_default();
            let zones: Vec<Vec<&str>> = labels
                .get(labels::ZONE)
                .iter()
                .map(|zone| vec![zone.as_str()])
                .collect();
            let class = spec.storage_class_name.unwrap();
            let mut made = volume(&volume_name, &zones, (namespace, &name), &class);
            // With the UID the binding follows at once, without it with the next round of the controller.
            let owner = made.spec.as_mut().and_then(|spec| spec.claim_ref.as_mut());
            owner.unwrap().uid = claim.metadata.uid;
            self.create(&made).await;
        }
    }

    /// Makes a pod anew behind its gate, wherever it went.
    pub async fn put_back(&self, step: &Step) {
        self.remove(&step.pod).await;
        tokio::time::sleep(SETTLE).await;
        self.create_gated(&step.pod).await;
        self.claims_are_there(&step.pod).await;
        tokio::time::sleep(SETTLE).await;
    }

    /// Binds a pod by hand where it is planned, so that the rest of the plan is judged as planned.
    pub async fn force(&self, step: &Step) {
        self.remove(&step.pod).await;
        let mut pod = step.pod.clone();
        pod.spec.get_or_insert_default().node_name = Some(step.node.clone());
        self.create_in(&pod).await;
        tokio::time::sleep(SETTLE).await;
    }

    async fn remove(&self, pod: &Pod) {
        let (pods, name) = self.pods(pod);
        pods.delete(&name, &DeleteParams::default().grace_period(0))
            .await
            .unwrap();
        within(&format!("pod {name} is gone"), async || {
            pods.get_opt(&name).await.unwrap().is_none()
        })
        .await;
        self.remove_ephemeral(pod).await;
    }

    /// What Kubernetes' garbage collector and its protection of claims in use would do together.
    async fn remove_ephemeral(&self, pod: &Pod) {
        let namespace = pod.metadata.namespace.as_deref().unwrap();
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        for name in claim_names(pod) {
            let claim = claims.get_opt(&name).await.unwrap();
            if !claim.is_some_and(|claim| is_ephemeral(&claim)) {
                continue;
            }
            let open = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            // one that was asked to go already is gone with its last finalizer
            was_there(claims.patch(&name, &PatchParams::default(), &open).await);
            was_there(claims.delete(&name, &DeleteParams::default()).await);
            let gone = async || claims.get_opt(&name).await.unwrap().is_none();
            within(&format!("claim {name} is gone"), gone).await;
        }
    }

    /// Takes everything away that the next case could see.
    pub async fn clear(&self, case: &Case) {
        let (at_once, all) = (DeleteParams::default().grace_period(0), ListParams::default());
        for namespace in &case.namespaces {
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace.metadata.name.as_deref().unwrap());
            pods.delete_collection(&at_once, &all).await.unwrap();
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.delete_collection(&DeleteParams::default(), &all).await.unwrap();
        let csi_nodes: Api<CSINode> = Api::all(self.client.clone());
        csi_nodes
            .delete_collection(&DeleteParams::default(), &all)
            .await
            .unwrap();
        within("no node is left", async || {
            nodes.list(&all).await.unwrap().items.is_empty()
        })
        .await;
    }
}

fn made<K: fmt::Debug>(created: kube::Result<K>, object: &K) {
    if let Err(error) = created {
        panic!("{error}: {object:?}");
    }
}

/// What is gone already need not be taken away.
fn was_there<T>(answer: kube::Result<T>) {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        other => drop(other.unwrap()),
    }
}

/// Bound, or refused in words; none while nothing is decided.
fn outcome(pod: &Pod) -> Option<Outcome> {
    if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) {
        return Some(Outcome::Bound(node));
    }
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .find(|one| one.type_ == "PodScheduled" && one.reason.as_deref() == Some("Unschedulable"))
        .map(|one| Outcome::Refused(one.message.clone().unwrap_or_default()))
}

async fn within(what: &str, condition: impl AsyncFn() -> bool) {
    let waited = tokio::time::timeout(WITHIN, async {
        while !condition().await {
            tokio::time::sleep(LOOK).await;
        }
    });
    assert!(waited.await.is_ok(), "not within {WITHIN:?}: {what}");
}

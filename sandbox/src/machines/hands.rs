//! The writes of the machines: each act is one or two calls to the Kubernetes API, bounded in time.

use super::birth;
use super::node_plan::{Act, Applied, Memory};
use super::options::MachineOptions;
use crate::spot::{MachineOrder, Spot};
use chrono::{DateTime, Utc};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::CSINode;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Error, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::future::Future;
use std::time::Duration;

/// No call may hold up the heartbeats of the other machines longer than this.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The API did not answer in time.
    #[error("the Kubernetes API did not answer in {} s", PATIENCE.as_secs())]
    TimedOut,
    /// The API refused.
    #[error("the Kubernetes API refused")]
    Refused(#[from] Box<Error>),
    /// What we wanted to write is no such object.
    #[error("building the object")]
    Malformed(#[from] serde_json::Error),
}

/// A client and how to use it.
pub(super) struct Hands {
    client: Client,
}

impl Hands {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Carries out one act for a server.
    #[allow(clippy::too_many_arguments)] // one call site; a struct for it would only rename the arguments
    pub(super) async fn act(
        &self,
        act: &Act,
        spot: &Spot,
        order: &MachineOrder,
        node: Option<&Node>,
        memory: &mut Memory,
        options: &MachineOptions,
        now: DateTime<Utc>,
    ) -> Result<(), WriteError> {
        let (name, uuid) = (&order.server.node_name, &order.server.uuid);
        let nodes: Api<Node> = Api::all(self.client());
        match act {
            Act::Register(body) => {
                create(&nodes, body).await?;
                spot.with(|platform| platform.registered(uuid));
            }
            Act::RenewLease => {
                let Some(node) = node else { return Ok(()) };
                self.renew_lease(node, options.lease_seconds, now).await?;
                memory.leased = Some(now);
            }
            Act::CreateCsiNode(body) => {
                create(&Api::<CSINode>::all(self.client()), body).await?;
                memory.has_csi_node = true;
            }
            Act::PatchNode(patch) => bounded(nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)))
                .await
                .map(drop)?,
            Act::PatchStatus(patch) => {
                bounded(nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)))
                    .await
                    .map(drop)?;
            }
            Act::Applied(Applied::Labels) => spot.with(|platform| {
                platform.labels_applied(uuid, order.labels.clone(), order.annotations.clone());
            }),
            Act::Applied(Applied::Taints) => spot.with(|platform| platform.taints_applied(uuid)),
            Act::DeleteNode => {
                if let Some(node) = node {
                    self.delete_node(node).await?;
                }
            }
            Act::CleanUp => {
                let leases: Api<Lease> = Api::namespaced(self.client(), "kube-node-lease");
                gone(bounded(leases.delete(name, &DeleteParams::default())).await.map(drop))?;
                let csi: Api<CSINode> = Api::all(self.client());
                gone(bounded(csi.delete(name, &DeleteParams::default())).await.map(drop))?;
                memory.cleaned = true;
            }
        }
        Ok(())
    }

    async fn renew_lease(&self, node: &Node, seconds: u32, now: DateTime<Utc>) -> Result<(), WriteError> {
        let leases: Api<Lease> = Api::namespaced(self.client(), "kube-node-lease");
        let patch = json!({"spec": {"renewTime": birth::micros(now)}});
        let renewed = bounded(leases.patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(&patch))).await;
        match renewed {
            Err(problem) if is_code(&problem, 404) => create(&leases, &birth::lease(node, seconds, now)).await,
            other => other.map(drop),
        }
    }

    /// Deletes this Node and no other of its name.
    pub(super) async fn delete_node(&self, node: &Node) -> Result<(), WriteError> {
        let nodes: Api<Node> = Api::all(self.client());
        let params = exactly(node.metadata.uid.clone());
        gone(bounded(nodes.delete(&node.name_any(), &params)).await.map(drop))
    }

    pub(super) async fn patch_pod(&self, pod: &Pod, patch: &Value) -> Result<(), WriteError> {
        let pods: Api<Pod> = Api::namespaced(self.client(), &pod.namespace().unwrap_or_default());
        gone(
            bounded(pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(patch)))
                .await
                .map(drop),
        )
    }

    /// Deletes this pod at once, as a kubelet does when its containers have ended.
    pub(super) async fn remove_pod(&self, pod: &Pod) -> Result<(), WriteError> {
        let pods: Api<Pod> = Api::namespaced(self.client(), &pod.namespace().unwrap_or_default());
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            ..exactly(pod.metadata.uid.clone())
        };
        gone(bounded(pods.delete(&pod.name_any(), &params)).await.map(drop))
    }
}

fn exactly(uid: Option<String>) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid,
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}

async fn bounded<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, WriteError> {
    match tokio::time::timeout(PATIENCE, call).await {
        Ok(outcome) => outcome.map_err(|problem| WriteError::Refused(Box::new(problem))),
        Err(_) => Err(WriteError::TimedOut),
    }
}

/// Creates an object; that it exists already is as good.
async fn create<K: Clone + std::fmt::Debug + DeserializeOwned + Serialize>(
    api: &Api<K>,
    body: &Value,
) -> Result<(), WriteError> {
    let object: K = K::deserialize(body)?;
    match bounded(api.create(&PostParams::default(), &object)).await {
        Err(problem) if is_code(&problem, 409) => Ok(()),
        other => other.map(drop),
    }
}

/// That it is gone, or another of its name is there, is as good as having deleted it.
fn gone(outcome: Result<(), WriteError>) -> Result<(), WriteError> {
    match outcome {
        Err(problem) if is_code(&problem, 404) || is_code(&problem, 409) => Ok(()),
        other => other,
    }
}

fn is_code(problem: &WriteError, code: u16) -> bool {
    matches!(problem, WriteError::Refused(error) if matches!(&**error, Error::Api(status) if status.code == code))
}

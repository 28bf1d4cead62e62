//! Carries out registration and initialization: what is written on the Node, and the claim's conditions (lifecycle 4, 5).

use super::launching::reassert;
use super::lifecycle::{Lifecycle, Pass};
use crate::api::{Conditioned, NodeClaim, conditions, labels};
use crate::cluster::entries::NodeEntry;
use crate::k8s::merge::merge_patch;
use crate::k8s::queue::{Next, ReconcileError};
use crate::k8s::write::{Lock, Target};
use crate::k8s::write_as_expected;
use crate::lifecycle::initialization::{self, NodeFacts};
use crate::lifecycle::registration::{ClaimMarks, Found, Hooks, NodeMarks, found, wanted};
use crate::resources::ResourceList;
use crate::telemetry::Structured;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Labels that the platform's cloud controller writes on nodes and keeps writing (surface T18).
const CLOUD_CONTROLLER_OWNS: [&str; 2] = [labels::INSTANCE_TYPE, labels::REGION];

impl Lifecycle {
    /// The registration step of one pass.
    ///
    /// Differs: the platform never sets the unregistered taint, so its absence is neither an error nor an Event (surface T19).
    pub(super) async fn register(&self, pass: &mut Pass<'_>) -> Result<Next, ReconcileError> {
        if !pass.claim.is_unknown(conditions::REGISTERED) {
            reassert(&mut pass.claim, conditions::REGISTERED, pass.now);
            return Ok(Next::Done);
        }
        let node = match (found(pass.nodes.len()), pass.nodes.first()) {
            (Found::One, Some(node)) => Arc::clone(node),
            (Found::Several, _) => {
                pass.claim.set_false(
                    conditions::REGISTERED,
                    "MultipleNodesFound",
                    "Invariant violated, matched multiple nodes",
                    pass.now,
                );
                return Ok(Next::Done);
            }
            _ => {
                let text = "Node not registered with cluster";
                pass.claim
                    .set_unknown(conditions::REGISTERED, "NodeNotFound", text, pass.now);
                return Ok(Next::Done);
            }
        };
        if !self.synchronise(&pass.claim, &node).await? {
            return Ok(Next::Again);
        }
        pass.claim.status.get_or_insert_default().node_name = Some(node.name().to_owned());
        pass.claim.set_true(conditions::REGISTERED, pass.now);
        tracing::info!(
            NodeClaim = pass.claim.metadata.name,
            "provider-id" = pass.claim.provider_id(),
            Node = node.name(),
            "registered nodeclaim"
        );
        self.kit
            .metrics
            .nodes
            .created
            .increment([pass.claim.nodepool().unwrap_or_default()]);
        self.health.succeeded(pass.snapshot, &pass.claim, pass.now).await?;
        Ok(Next::Done)
    }

    /// Writes on the Node what it lacks, in one patch under a lock; says whether the Node still is there.
    async fn synchronise(&self, claim: &NodeClaim, node: &NodeEntry) -> Result<bool, ReconcileError> {
        let none = BTreeMap::new();
        let before = NodeMarks {
            labels: (*node.labels).clone(),
            annotations: (*node.annotations).clone(),
            finalizers: node.finalizers.clone(),
            owners: node.owners.clone(),
            taints: node.taints.clone(),
        };
        let marks = ClaimMarks {
            owner: owner(claim),
            labels: claim.metadata.labels.as_ref().unwrap_or(&none),
            annotations: claim.metadata.annotations.as_ref().unwrap_or(&none),
            taints: &claim.spec.taints,
            startup_taints: &claim.spec.startup_taints,
            not_ours_on_nodes: &CLOUD_CONTROLLER_OWNS,
        };
        let after = wanted(&before, &marks, Hooks::Passed);
        let Some(patch) = merge_patch(&as_object(&before), &as_object(&after)) else {
            return Ok(true);
        };
        let written = self
            .kit
            .writer
            .patch::<Node>(&Target::of(&node.meta), patch, Lock::Version)
            .await;
        Ok(write_as_expected(written)?.is_some())
    }

    /// The initialization step of one pass.
    pub(super) async fn initialize(&self, pass: &mut Pass<'_>) -> Result<Next, ReconcileError> {
        if !pass.claim.is_unknown(conditions::INITIALIZED) {
            reassert(&mut pass.claim, conditions::INITIALIZED, pass.now);
            return Ok(Next::Done);
        }
        if !pass.claim.is_true(conditions::REGISTERED) {
            return Ok(Next::Done);
        }
        let node = match pass.nodes.as_slice() {
            [node] => Some(Arc::clone(node)),
            _ => None,
        };
        let facts = node.as_ref().map(|node| NodeFacts {
            ready: node.condition("Ready").is_some_and(|ready| ready.status == "True"),
            taints: &node.taints,
        });
        let requests = ResourceList::from_api(&pass.claim.spec.resources.requests);
        let requested = requests
            .iter()
            .filter(|(_, quantity)| !quantity.is_zero())
            .map(|(name, _)| name.to_owned());
        let offers = |name: &str| {
            node.as_ref()
                .and_then(|node| node.allocatable.get(name))
                .is_some_and(|quantity| !quantity.is_zero())
        };
        let missing = initialization::missing(facts.as_ref(), &pass.claim.spec.startup_taints, requested, offers);
        if let Some(missing) = missing {
            pass.claim
                .set_unknown(conditions::INITIALIZED, missing.reason(), &missing.message(), pass.now);
            return Ok(Next::Done);
        }
        let Some(node) = node else { return Ok(Next::Done) };
        let patch = json!({ "metadata": { "labels": { labels::INITIALIZED: "true" } } });
        let written = self
            .kit
            .writer
            .patch::<Node>(&Target::of(&node.meta), patch, Lock::None)
            .await;
        if write_as_expected(written)?.is_none() {
            return Ok(Next::Again);
        }
        pass.claim.set_true(conditions::INITIALIZED, pass.now);
        tracing::info!(
            NodeClaim = pass.claim.metadata.name,
            "provider-id" = pass.claim.provider_id(),
            Node = node.name(),
            allocatable = ?Structured(node.allocatable.to_value()),
            "initialized nodeclaim"
        );
        Ok(Next::Done)
    }
}

fn owner(claim: &NodeClaim) -> OwnerReference {
    OwnerReference {
        api_version: NodeClaim::api_version(&()).into_owned(),
        kind: NodeClaim::kind(&()).into_owned(),
        name: claim.metadata.name.clone().unwrap_or_default(),
        uid: claim.uid().to_owned(),
        block_owner_deletion: Some(true),
        controller: None,
    }
}

fn as_object(marks: &NodeMarks) -> Value {
    json!({
        "metadata": {
            "labels": marks.labels,
            "annotations": marks.annotations,
            "finalizers": marks.finalizers,
            "ownerReferences": marks.owners,
        },
        "spec": { "taints": marks.taints },
    })
}

//! The machines of a scenario: NodeClaims and Nodes joined as upstream's cluster state joins them (scheduling 23-3 to 23-8).

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::CSINode;
use karpenter::api::{Conditioned, NodeClaim};
use karpenter::resources::{Quantity, ResourceList};
use karpenter::scheduling::taints::{Stage, effective};
use karpenter::scheduling::{Fate, Node, NodeObject, Ownership, Pod, Readiness, Taint};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

type Labels = BTreeMap<String, String>;

#[derive(Default)]
struct Machine<'a> {
    node: Option<&'a core::Node>,
    claim: Option<&'a NodeClaim>,
}

fn node_labels(node: &core::Node) -> Labels {
    node.metadata.labels.clone().unwrap_or_default()
}

/// All machines that the state knows, with the pods bound to them.
pub fn machines(
    scenario: &Value,
    claims: &[NodeClaim],
    nodes: Vec<core::Node>,
    csi_nodes: Vec<CSINode>,
    pods: &[Arc<Pod>],
) -> Vec<Arc<Node>> {
    let marked: Vec<&str> = scenario
        .get("markedForDeletion")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut by_id: BTreeMap<String, Machine<'_>> = BTreeMap::new();
    for claim in claims {
        let id = claim
            .status
            .as_ref()
            .and_then(|status| status.provider_id.clone())
            .unwrap_or_default();
        if !id.is_empty() {
            by_id.entry(id).or_default().claim = Some(claim);
        }
    }
    for node in &nodes {
        let labels = node_labels(node);
        let ours = labels.contains_key("karpenter.sh/nodepool");
        let id = node
            .spec
            .as_ref()
            .and_then(|spec| spec.provider_id.clone())
            .filter(|id| !id.is_empty());
        let id = match id {
            Some(id) => id,
            None if ours => continue,
            None => node.metadata.name.clone().unwrap(),
        };
        let labelled =
            labels.contains_key("node.kubernetes.io/instance-type") || labels.contains_key("karpenter.sh/initialized");
        if ours && !labelled {
            continue;
        }
        by_id.entry(id).or_default().node = Some(node);
    }
    by_id
        .values()
        .map(|machine| Arc::new(machine.reduce(&marked, &csi_nodes, pods)))
        .collect()
}

impl Machine<'_> {
    fn reduce(&self, marked: &[&str], csi_nodes: &[CSINode], pods: &[Arc<Pod>]) -> Node {
        let has_label = |key: &str| {
            self.node
                .is_some_and(|node| node_labels(node).get(key).is_some_and(|v| v == "true"))
        };
        let managed = self.claim.is_some();
        let registered = !managed || has_label("karpenter.sh/registered");
        let initialized = !managed || has_label("karpenter.sh/initialized");
        let claim_meta = self.claim.map(|claim| &claim.metadata);
        let node_meta = self.node.map(|node| &node.metadata);
        let meta = if registered {
            node_meta.or(claim_meta)
        } else {
            claim_meta.or(node_meta)
        }
        .unwrap();
        let node_name = node_meta.and_then(|meta| meta.name.clone());
        let bound = |pod: &&Arc<Pod>| pod.node().is_some() && pod.node() == node_name.as_deref();
        let mut capacity = self.amounts(
            initialized,
            |node| node.capacity.clone(),
            |claim| claim.capacity.clone(),
        );
        capacity.set("nodes", Quantity::units(1));
        Node {
            name: meta.name.clone().unwrap(),
            labels: Arc::new(meta.labels.clone().unwrap_or_default()),
            taints: self.taints(registered, initialized),
            ownership: if managed {
                Ownership::Managed
            } else {
                Ownership::Foreign
            },
            readiness: if initialized {
                Readiness::Initialized
            } else {
                Readiness::ComingUp
            },
            fate: if self.leaves(marked) { Fate::Leaves } else { Fate::Stays },
            capacity,
            allocatable: self.amounts(
                initialized,
                |node| node.allocatable.clone(),
                |claim| claim.allocatable.clone(),
            ),
            object: self.node.map(|node| NodeObject {
                name: node.metadata.name.clone().unwrap(),
                labels: Arc::new(node_labels(node)),
                taints: node_taints(node),
            }),
            pods: pods
                .iter()
                .filter(bound)
                .filter(|pod| !pod.standing.is_terminal())
                .cloned()
                .collect(),
            volume_limits: node_name
                .map(|name| volume_limits(&name, csi_nodes))
                .unwrap_or_default(),
        }
    }

    fn leaves(&self, marked: &[&str]) -> bool {
        match (self.claim, self.node) {
            (Some(claim), _) => {
                marked.contains(&claim.metadata.name.as_deref().unwrap())
                    || claim.metadata.deletion_timestamp.is_some()
                    || claim.is_true("InstanceTerminating")
            }
            (None, Some(node)) => node.metadata.deletion_timestamp.is_some(),
            (None, None) => false,
        }
    }

    fn taints(&self, registered: bool, initialized: bool) -> Vec<Taint> {
        let of = |taints: &[core::Taint]| taints.iter().map(Taint::from).collect::<Vec<_>>();
        let claim_taints = self.claim.map(|claim| of(&claim.spec.taints));
        let startup = self
            .claim
            .map(|claim| of(&claim.spec.startup_taints))
            .unwrap_or_default();
        let base = match self.node {
            Some(node) if registered => node_taints(node),
            _ => claim_taints.unwrap_or_default(),
        };
        effective(
            &base,
            &startup,
            if initialized { Stage::Settled } else { Stage::ComingUp },
        )
    }

    /// What the Node says; what it does not say yet, the claim does (scheduling 23-7).
    fn amounts(
        &self,
        initialized: bool,
        of_node: impl Fn(
            &core::NodeStatus,
        ) -> Option<BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>,
        of_claim: impl Fn(
            &karpenter::api::NodeClaimStatus,
        ) -> BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>,
    ) -> ResourceList {
        let node = self
            .node
            .and_then(|node| node.status.as_ref())
            .and_then(of_node)
            .unwrap_or_default();
        let mut result = ResourceList::from_api(&node);
        if !initialized {
            let claim = self
                .claim
                .and_then(|claim| claim.status.as_ref())
                .map(of_claim)
                .unwrap_or_default();
            for (name, quantity) in ResourceList::from_api(&claim).iter() {
                if result.amount(name).is_zero() {
                    result.set(name, quantity);
                }
            }
        }
        result
    }
}

fn node_taints(node: &core::Node) -> Vec<Taint> {
    node.spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten())
        .map(Taint::from)
        .collect()
}

fn volume_limits(name: &str, csi_nodes: &[CSINode]) -> BTreeMap<String, u64> {
    let own = csi_nodes
        .iter()
        .filter(|node| node.metadata.name.as_deref() == Some(name));
    own.flat_map(|node| &node.spec.drivers)
        .filter_map(|driver| {
            let count = driver.allocatable.as_ref()?.count?;
            Some((driver.name.clone(), u64::try_from(count).ok()?))
        })
        .collect()
}

//! The cluster as the filters see it, kept up to date object by object. Pure.

use super::facts::{HostPort, NodeFacts, PodFacts};
use super::labels::Labels;
use super::request::{Amounts, add, subtract};
use crate::observe::Name;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is on a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Used {
    pub(crate) pods: BTreeMap<Name, Arc<PodFacts>>,
    pub(crate) requests: Amounts,
    pub(crate) scored: (i64, i64),
}

impl Used {
    pub(crate) fn ports(&self) -> impl Iterator<Item = &HostPort> {
        self.pods.values().flat_map(|p| p.ports.iter())
    }
}

/// Nodes, what is on them, and what volumes there are.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    nodes: BTreeMap<String, NodeFacts>,
    used: BTreeMap<String, Used>,
    hosts: BTreeMap<Name, String>,
    repelling: BTreeSet<Name>,
    namespaces: BTreeMap<String, Labels>,
    claims: BTreeMap<Name, Arc<PersistentVolumeClaim>>,
    volumes: BTreeMap<String, Arc<PersistentVolume>>,
    classes: BTreeMap<String, Arc<StorageClass>>,
    csi_nodes: BTreeMap<String, Arc<CSINode>>,
    nothing: Used,
}

impl Cluster {
    /// Takes in a node.
    pub fn set_node(&mut self, node: NodeFacts) {
        self.nodes.insert(node.name.clone(), node);
    }

    /// Forgets a node; the pods on it stay until they are forgotten themselves.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Puts a pod on a node, wherever it was before; finished pods take no room.
    pub fn place(&mut self, pod: Arc<PodFacts>, node: &str) {
        self.unplace(&pod.name);
        if pod.finished {
            return;
        }
        self.hosts.insert(pod.name.clone(), node.to_owned());
        if !pod.anti_affinity.is_empty() {
            self.repelling.insert(pod.name.clone());
        }
        let used = self.used.entry(node.to_owned()).or_default();
        add(&mut used.requests, &pod.requests);
        used.scored = (
            used.scored.0.saturating_add(pod.scored.0),
            used.scored.1.saturating_add(pod.scored.1),
        );
        used.pods.insert(pod.name.clone(), pod);
    }

    /// Takes a pod off its node.
    pub fn unplace(&mut self, name: &Name) {
        let Some(host) = self.hosts.remove(name) else { return };
        self.repelling.remove(name);
        let Some(used) = self.used.get_mut(&host) else { return };
        if let Some(pod) = used.pods.remove(name) {
            subtract(&mut used.requests, &pod.requests);
            used.scored = (
                used.scored.0.saturating_sub(pod.scored.0),
                used.scored.1.saturating_sub(pod.scored.1),
            );
        }
        if used.pods.is_empty() {
            self.used.remove(&host);
        }
    }

    /// Takes in a namespace.
    pub fn set_namespace(&mut self, namespace: &Namespace) {
        let name = namespace.metadata.name.clone().unwrap_or_default();
        self.namespaces
            .insert(name, namespace.metadata.labels.clone().unwrap_or_default());
    }

    /// Takes in, or forgets, a claim.
    pub fn set_claim(&mut self, name: &Name, claim: Option<Arc<PersistentVolumeClaim>>) {
        set(&mut self.claims, name.clone(), claim);
    }

    /// Takes in, or forgets, a volume.
    pub fn set_volume(&mut self, name: &str, volume: Option<Arc<PersistentVolume>>) {
        set(&mut self.volumes, name.to_owned(), volume);
    }

    /// Takes in, or forgets, a storage class.
    pub fn set_class(&mut self, name: &str, class: Option<Arc<StorageClass>>) {
        set(&mut self.classes, name.to_owned(), class);
    }

    /// Takes in, or forgets, what the CSI plugins of a node said.
    pub fn set_csi_node(&mut self, name: &str, node: Option<Arc<CSINode>>) {
        set(&mut self.csi_nodes, name.to_owned(), node);
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeFacts> {
        self.nodes.values()
    }

    /// One node.
    pub fn node(&self, name: &str) -> Option<&NodeFacts> {
        self.nodes.get(name)
    }

    /// Where a pod is.
    pub fn host_of(&self, pod: &Name) -> Option<&str> {
        self.hosts.get(pod).map(String::as_str)
    }

    pub(crate) fn used(&self, node: &str) -> &Used {
        self.used.get(node).unwrap_or(&self.nothing)
    }

    /// The pods on nodes that exist, with their nodes; without one of them.
    pub(crate) fn placed<'a>(&'a self, but: &'a Name) -> impl Iterator<Item = (&'a NodeFacts, &'a Arc<PodFacts>)> {
        let nodes = self.nodes.values().map(|node| (node, self.used(&node.name)));
        nodes
            .flat_map(|(node, used)| used.pods.values().map(move |pod| (node, pod)))
            .filter(|(_, p)| p.name != *but)
    }

    /// The pods with required anti-affinity.
    pub(crate) fn repelling(&self) -> impl Iterator<Item = (&NodeFacts, &Arc<PodFacts>)> {
        self.repelling.iter().filter_map(|name| {
            let host = self.hosts.get(name)?;
            Some((self.nodes.get(host)?, self.used.get(host)?.pods.get(name)?))
        })
    }

    pub(crate) fn namespace_labels(&self, name: &str) -> Option<&Labels> {
        self.namespaces.get(name)
    }

    pub(crate) fn claim(&self, namespace: &str, name: &str) -> Option<&Arc<PersistentVolumeClaim>> {
        self.claims.get(&Name::new(namespace, name))
    }

    pub(crate) fn volume(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        self.volumes.get(name)
    }

    pub(crate) fn volumes(&self) -> impl Iterator<Item = &Arc<PersistentVolume>> {
        self.volumes.values()
    }

    pub(crate) fn class(&self, name: &str) -> Option<&Arc<StorageClass>> {
        self.classes.get(name)
    }

    pub(crate) fn csi_node(&self, name: &str) -> Option<&Arc<CSINode>> {
        self.csi_nodes.get(name)
    }
}

fn set<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

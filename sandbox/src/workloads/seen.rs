//! What the controllers see: a mirror per kind, pods by owner and by node, and since when things are as they are.

use crate::observe::{Kind, Mirror, Moved, Name, News};
use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::key::Key;

/// All that is seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) pods: Mirror<Pod>,
    pub(crate) nodes: Mirror<Node>,
    pub(crate) deployments: Mirror<Deployment>,
    pub(crate) replica_sets: Mirror<ReplicaSet>,
    pub(crate) stateful_sets: Mirror<StatefulSet>,
    pub(crate) daemon_sets: Mirror<DaemonSet>,
    pub(crate) jobs: Mirror<Job>,
    pub(crate) claims: Mirror<PersistentVolumeClaim>,
    pub(crate) volumes: Mirror<PersistentVolume>,
    pub(crate) classes: Mirror<StorageClass>,
    pub(crate) csi_nodes: Mirror<CSINode>,
    pub(crate) attachments: Mirror<VolumeAttachment>,
    pub(crate) leases: Mirror<Lease>,
    pub(super) by_owner: BTreeMap<String, BTreeSet<Name>>,
    pub(super) by_node: BTreeMap<String, BTreeSet<Name>>,
    /// When a node was last heard of.
    pub(super) heard: BTreeMap<String, DateTime<Utc>>,
    /// Since when a condition that only we know of holds.
    pub(super) since: BTreeMap<String, DateTime<Utc>>,
}

/// A kind that the controllers see.
pub(crate) trait Sighted: Kind {
    /// Where it is mirrored.
    fn mirror(seen: &mut Seen) -> &mut Mirror<Self>;
    /// What has to be looked at because it moved.
    fn touched(seen: &mut Seen, moved: &Moved<Self>, now: DateTime<Utc>) -> Vec<Key>;
}

impl Seen {
    /// Whether every kind was listed.
    pub(crate) fn is_complete(&self) -> bool {
        let sets = self.deployments.is_listed() && self.replica_sets.is_listed() && self.stateful_sets.is_listed();
        let more = self.daemon_sets.is_listed() && self.jobs.is_listed() && self.leases.is_listed();
        let storage = self.claims.is_listed() && self.volumes.is_listed() && self.classes.is_listed();
        let nodes = self.nodes.is_listed() && self.csi_nodes.is_listed() && self.attachments.is_listed();
        sets && more && storage && nodes && self.pods.is_listed()
    }

    /// Takes news in; returns what has to be looked at.
    pub(crate) fn take<K: Sighted>(&mut self, news: News<K>, now: DateTime<Utc>) -> Vec<Key> {
        let moved = K::mirror(self).take(news);
        moved.iter().flat_map(|m| K::touched(self, m, now)).collect()
    }

    /// Takes an answer to our own write in.
    pub(crate) fn assume<K: Sighted>(&mut self, object: K, now: DateTime<Utc>) -> Vec<Key> {
        let moved = K::mirror(self).assume(object);
        moved.iter().flat_map(|m| K::touched(self, m, now)).collect()
    }

    /// Takes it that our own deletion is done.
    pub(crate) fn forget<K: Sighted>(&mut self, name: &Name, uid: &str, now: DateTime<Utc>) -> Vec<Key> {
        let moved = K::mirror(self).forget(name, uid);
        moved.iter().flat_map(|m| K::touched(self, m, now)).collect()
    }

    /// The pods that a controller owns, by name.
    pub(crate) fn pods_of(&self, uid: Option<&String>) -> Vec<&Arc<Pod>> {
        let names = uid.and_then(|uid| self.by_owner.get(uid));
        names
            .into_iter()
            .flatten()
            .filter_map(|name| self.pods.get(name))
            .collect()
    }
}

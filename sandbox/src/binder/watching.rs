//! The kinds that the scheduler watches, as one stream of changes.

use crate::observe::{Kind, Mirror, News, follow};
use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll, select_all};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use kube::Client;

/// News of one of the kinds.
#[derive(Debug)]
pub(crate) enum Change {
    Pod(News<Pod>),
    Node(News<Node>),
    Namespace(News<Namespace>),
    Claim(News<PersistentVolumeClaim>),
    Volume(News<PersistentVolume>),
    Class(News<StorageClass>),
    CsiNode(News<CSINode>),
}

/// What was heard so far.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) pods: Mirror<Pod>,
    pub(crate) nodes: Mirror<Node>,
    pub(crate) namespaces: Mirror<Namespace>,
    pub(crate) claims: Mirror<PersistentVolumeClaim>,
    pub(crate) volumes: Mirror<PersistentVolume>,
    pub(crate) classes: Mirror<StorageClass>,
    pub(crate) csi_nodes: Mirror<CSINode>,
}

impl Watched {
    /// Whether every kind was listed.
    pub(crate) fn is_complete(&self) -> bool {
        let core = self.pods.is_listed() && self.nodes.is_listed() && self.namespaces.is_listed();
        let storage = self.claims.is_listed() && self.volumes.is_listed() && self.classes.is_listed();
        core && storage && self.csi_nodes.is_listed()
    }
}

/// All kinds together.
pub(crate) fn streams(client: &Client) -> SelectAll<BoxStream<'static, Change>> {
    select_all([
        of(client, Change::Pod),
        of(client, Change::Node),
        of(client, Change::Namespace),
        of(client, Change::Claim),
        of(client, Change::Volume),
        of(client, Change::Class),
        of(client, Change::CsiNode),
    ])
}

fn of<K: Kind>(client: &Client, wrap: fn(News<K>) -> Change) -> BoxStream<'static, Change> {
    follow::<K>(client.clone()).map(wrap).boxed()
}

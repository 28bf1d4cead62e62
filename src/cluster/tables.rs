//! One table per kind, and what is special about each kind when it moves.

use super::delta::{Doubt, Object, What};
use super::entries::{
    ClassFacts, CsiNodeFacts, DaemonSetFacts, NamespaceFacts, NodeFacts, PdbFacts, PodFacts, PvFacts, PvcFacts,
    StorageClassFacts, VolumeAttachmentFacts,
};
use super::object::{Entry, Kind};
use super::state::Cluster;
use super::table::{Entries, Moved, Table};
use crate::api::{NodeClaim, NodeOverlay, NodePool};
use chrono::{DateTime, Utc};
use std::sync::Arc;

/// Runs the body with `$entry` as the entry of whatever kind the object is.
macro_rules! on_object {
    ($object:expr, $entry:ident => $body:expr) => {
        match $object {
            Object::NodePool($entry) => $body,
            Object::NodeClaim($entry) => $body,
            Object::NodeClass($entry) => $body,
            Object::NodeOverlay($entry) => $body,
            Object::Node($entry) => $body,
            Object::Pod($entry) => $body,
            Object::DaemonSet($entry) => $body,
            Object::PersistentVolumeClaim($entry) => $body,
            Object::PersistentVolume($entry) => $body,
            Object::StorageClass($entry) => $body,
            Object::CsiNode($entry) => $body,
            Object::VolumeAttachment($entry) => $body,
            Object::PodDisruptionBudget($entry) => $body,
            Object::Namespace($entry) => $body,
        }
    };
}

/// Runs the body with `$facts` as the facts type of a kind.
macro_rules! on_kind {
    ($kind:expr, $facts:ident => $body:expr) => {
        match $kind {
            Kind::NodePool => {
                type $facts = crate::api::NodePool;
                $body
            }
            Kind::NodeClaim => {
                type $facts = crate::api::NodeClaim;
                $body
            }
            Kind::NodeClass => {
                type $facts = crate::cluster::entries::ClassFacts;
                $body
            }
            Kind::NodeOverlay => {
                type $facts = crate::api::NodeOverlay;
                $body
            }
            Kind::Node => {
                type $facts = crate::cluster::entries::NodeFacts;
                $body
            }
            Kind::Pod => {
                type $facts = crate::cluster::entries::PodFacts;
                $body
            }
            Kind::DaemonSet => {
                type $facts = crate::cluster::entries::DaemonSetFacts;
                $body
            }
            Kind::PersistentVolumeClaim => {
                type $facts = crate::cluster::entries::PvcFacts;
                $body
            }
            Kind::PersistentVolume => {
                type $facts = crate::cluster::entries::PvFacts;
                $body
            }
            Kind::StorageClass => {
                type $facts = crate::cluster::entries::StorageClassFacts;
                $body
            }
            Kind::CsiNode => {
                type $facts = crate::cluster::entries::CsiNodeFacts;
                $body
            }
            Kind::VolumeAttachment => {
                type $facts = crate::cluster::entries::VolumeAttachmentFacts;
                $body
            }
            Kind::PodDisruptionBudget => {
                type $facts = crate::cluster::entries::PdbFacts;
                $body
            }
            Kind::Namespace => {
                type $facts = crate::cluster::entries::NamespaceFacts;
                $body
            }
        }
    };
}

pub(super) use {on_kind, on_object};

/// One table per kind.
#[derive(Debug, Default)]
pub struct Tables {
    pub(super) pools: Table<NodePool>,
    pub(super) claims: Table<NodeClaim>,
    pub(super) classes: Table<ClassFacts>,
    pub(super) overlays: Table<NodeOverlay>,
    pub(super) nodes: Table<NodeFacts>,
    pub(super) pods: Table<PodFacts>,
    pub(super) daemon_sets: Table<DaemonSetFacts>,
    pub(super) pvcs: Table<PvcFacts>,
    pub(super) pvs: Table<PvFacts>,
    pub(super) storage_classes: Table<StorageClassFacts>,
    pub(super) csi_nodes: Table<CsiNodeFacts>,
    pub(super) attachments: Table<VolumeAttachmentFacts>,
    pub(super) pdbs: Table<PdbFacts>,
    pub(super) namespaces: Table<NamespaceFacts>,
}

/// The objects of every kind, by key; copies share.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    /// NodePools.
    pub pools: Entries<NodePool>,
    /// NodeClaims.
    pub claims: Entries<NodeClaim>,
    /// NodeClasses of all kinds; the scope of a key is `Kind.group`.
    pub classes: Entries<ClassFacts>,
    /// NodeOverlays.
    pub overlays: Entries<NodeOverlay>,
    /// Nodes.
    pub nodes: Entries<NodeFacts>,
    /// Pods.
    pub pods: Entries<PodFacts>,
    /// DaemonSets.
    pub daemon_sets: Entries<DaemonSetFacts>,
    /// PersistentVolumeClaims.
    pub pvcs: Entries<PvcFacts>,
    /// PersistentVolumes.
    pub pvs: Entries<PvFacts>,
    /// StorageClasses.
    pub storage_classes: Entries<StorageClassFacts>,
    /// CSINodes.
    pub csi_nodes: Entries<CsiNodeFacts>,
    /// VolumeAttachments.
    pub attachments: Entries<VolumeAttachmentFacts>,
    /// PodDisruptionBudgets.
    pub pdbs: Entries<PdbFacts>,
    /// Namespaces.
    pub namespaces: Entries<NamespaceFacts>,
}

impl Tables {
    pub(super) fn table_mut<T: Tracked>(&mut self) -> &mut Table<T> {
        T::table(self)
    }

    pub(super) fn entries(&self) -> Objects {
        Objects {
            pools: self.pools.entries(),
            claims: self.claims.entries(),
            classes: self.classes.entries(),
            overlays: self.overlays.entries(),
            nodes: self.nodes.entries(),
            pods: self.pods.entries(),
            daemon_sets: self.daemon_sets.entries(),
            pvcs: self.pvcs.entries(),
            pvs: self.pvs.entries(),
            storage_classes: self.storage_classes.entries(),
            csi_nodes: self.csi_nodes.entries(),
            attachments: self.attachments.entries(),
            pdbs: self.pdbs.entries(),
            namespaces: self.namespaces.entries(),
        }
    }

    pub(super) fn doubts(&mut self, now: DateTime<Utc>) -> Vec<Doubt> {
        let mut all = Vec::new();
        for kind in ALL_KINDS {
            on_kind!(kind, T => {
                let table = self.table_mut::<T>();
                table.age(now);
                let keys: Vec<_> = table.doubts(now).cloned().collect();
                for key in keys {
                    table.postpone(&key, now);
                    all.push(Doubt { kind, key });
                }
            });
        }
        all
    }
}

/// Every kind, in the order in which the state is told.
pub(super) const ALL_KINDS: [Kind; 14] = [
    Kind::NodePool,
    Kind::NodeClaim,
    Kind::NodeClass,
    Kind::NodeOverlay,
    Kind::Node,
    Kind::Pod,
    Kind::DaemonSet,
    Kind::PersistentVolumeClaim,
    Kind::PersistentVolume,
    Kind::StorageClass,
    Kind::CsiNode,
    Kind::VolumeAttachment,
    Kind::PodDisruptionBudget,
    Kind::Namespace,
];

/// Where the facts of one kind are kept.
pub trait Kept: Sized {
    /// The kind.
    const KIND: Kind;

    /// Its table.
    fn table(tables: &mut Tables) -> &mut Table<Self>;

    /// The entry in an object of this kind.
    fn unwrap(object: Object) -> Option<Arc<Entry<Self>>>;
}

macro_rules! kept {
    ($($facts:ty => $kind:ident in $table:ident;)*) => {$(
        impl Kept for $facts {
            const KIND: Kind = Kind::$kind;

            fn table(tables: &mut Tables) -> &mut Table<Self> {
                &mut tables.$table
            }

            fn unwrap(object: Object) -> Option<Arc<Entry<Self>>> {
                if let Object::$kind(entry) = object {
                    Some(entry)
                } else {
                    None
                }
            }
        }
    )*};
}

kept! {
    NodePool => NodePool in pools;
    NodeClaim => NodeClaim in claims;
    ClassFacts => NodeClass in classes;
    NodeOverlay => NodeOverlay in overlays;
    NodeFacts => Node in nodes;
    PodFacts => Pod in pods;
    DaemonSetFacts => DaemonSet in daemon_sets;
    PvcFacts => PersistentVolumeClaim in pvcs;
    PvFacts => PersistentVolume in pvs;
    StorageClassFacts => StorageClass in storage_classes;
    CsiNodeFacts => CsiNode in csi_nodes;
    VolumeAttachmentFacts => VolumeAttachment in attachments;
    PdbFacts => PodDisruptionBudget in pdbs;
    NamespaceFacts => Namespace in namespaces;
}

/// What the state does specially for the facts of one kind.
pub trait Tracked: Kept {
    /// Whether nobody needs to be told of the difference.
    fn says_the_same(old: &Self, new: &Self) -> bool;

    /// What changed between two states of one object.
    fn what(_old: &Self, _new: &Self) -> What {
        What::Changed
    }

    /// Whether the movement renews the consolidation state (lifecycle 16.9). Asked before [`follow`](Self::follow).
    fn renews(_cluster: &Cluster, _moved: &Moved<Self>) -> bool {
        false
    }

    /// Brings indexes and machines up to date.
    fn follow(_cluster: &mut Cluster, _moved: &Moved<Self>, _now: DateTime<Utc>) {}
}

/// Kinds that have nothing special.
macro_rules! plain {
    ($($facts:ty),*) => {$(
        impl Tracked for $facts {
            fn says_the_same(old: &Self, new: &Self) -> bool {
                old == new
            }
        }
    )*};
}

plain!(
    ClassFacts,
    PvcFacts,
    PvFacts,
    StorageClassFacts,
    PdbFacts,
    NamespaceFacts,
    VolumeAttachmentFacts
);

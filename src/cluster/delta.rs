//! What can happen to the state: what watches observed, what our own writes allow to assume, and what comes out as a change.
//!
//! Relies on the entries; the hub and the writer make deltas, [`Cluster`](super::Cluster) applies them, triggers read the changes.

use super::entries::{
    ClaimEntry, ClassEntry, CsiNodeEntry, DaemonSetEntry, NamespaceEntry, NodeEntry, OverlayEntry, PdbEntry, PodEntry,
    PoolEntry, PvEntry, PvcEntry, StorageClassEntry, VolumeAttachmentEntry,
};
use super::object::{Key, Kind, Meta, Uid, Version};
use chrono::{DateTime, Utc};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One object of any kind.
#[derive(Debug, Clone)]
pub enum Object {
    /// A NodePool.
    NodePool(Arc<PoolEntry>),
    /// A NodeClaim.
    NodeClaim(Arc<ClaimEntry>),
    /// A NodeClass.
    NodeClass(Arc<ClassEntry>),
    /// A NodeOverlay.
    NodeOverlay(Arc<OverlayEntry>),
    /// A Node.
    Node(Arc<NodeEntry>),
    /// A Pod.
    Pod(Arc<PodEntry>),
    /// A DaemonSet.
    DaemonSet(Arc<DaemonSetEntry>),
    /// A PersistentVolumeClaim.
    PersistentVolumeClaim(Arc<PvcEntry>),
    /// A PersistentVolume.
    PersistentVolume(Arc<PvEntry>),
    /// A StorageClass.
    StorageClass(Arc<StorageClassEntry>),
    /// A CSINode.
    CsiNode(Arc<CsiNodeEntry>),
    /// A VolumeAttachment.
    VolumeAttachment(Arc<VolumeAttachmentEntry>),
    /// A PodDisruptionBudget.
    PodDisruptionBudget(Arc<PdbEntry>),
    /// A Namespace.
    Namespace(Arc<NamespaceEntry>),
}

impl Object {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NodePool(_) => Kind::NodePool,
            Self::NodeClaim(_) => Kind::NodeClaim,
            Self::NodeClass(_) => Kind::NodeClass,
            Self::NodeOverlay(_) => Kind::NodeOverlay,
            Self::Node(_) => Kind::Node,
            Self::Pod(_) => Kind::Pod,
            Self::DaemonSet(_) => Kind::DaemonSet,
            Self::PersistentVolumeClaim(_) => Kind::PersistentVolumeClaim,
            Self::PersistentVolume(_) => Kind::PersistentVolume,
            Self::StorageClass(_) => Kind::StorageClass,
            Self::CsiNode(_) => Kind::CsiNode,
            Self::VolumeAttachment(_) => Kind::VolumeAttachment,
            Self::PodDisruptionBudget(_) => Kind::PodDisruptionBudget,
            Self::Namespace(_) => Kind::Namespace,
        }
    }

    /// What every object has.
    pub fn meta(&self) -> &Meta {
        match self {
            Self::NodePool(entry) => &entry.meta,
            Self::NodeClaim(entry) => &entry.meta,
            Self::NodeClass(entry) => &entry.meta,
            Self::NodeOverlay(entry) => &entry.meta,
            Self::Node(entry) => &entry.meta,
            Self::Pod(entry) => &entry.meta,
            Self::DaemonSet(entry) => &entry.meta,
            Self::PersistentVolumeClaim(entry) => &entry.meta,
            Self::PersistentVolume(entry) => &entry.meta,
            Self::StorageClass(entry) => &entry.meta,
            Self::CsiNode(entry) => &entry.meta,
            Self::VolumeAttachment(entry) => &entry.meta,
            Self::PodDisruptionBudget(entry) => &entry.meta,
            Self::Namespace(entry) => &entry.meta,
        }
    }
}

/// One watch: a kind, and for NodeClasses which of them (`Kind.group`, otherwise empty).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// What is watched.
    pub kind: Kind,
    /// Which NodeClass kind; the scope of its keys.
    pub class: Arc<str>,
}

impl Source {
    /// The watch of a kind that is not a NodeClass.
    pub fn of(kind: Kind) -> Self {
        Self {
            kind,
            class: Arc::default(),
        }
    }

    /// The watch of one NodeClass kind.
    pub fn class(kind: &crate::api::NodeClassKind) -> Self {
        Self {
            kind: Kind::NodeClass,
            class: format!("{}.{}", kind.kind, kind.group).into(),
        }
    }

    /// What it is called: its kind, or the kind of class.
    pub fn name(&self) -> &str {
        let class = self.class.split('.').next().unwrap_or_default();
        if class.is_empty() { self.kind.as_str() } else { class }
    }

    /// Whether a key of this kind belongs to this watch.
    pub fn covers(&self, key: &Key) -> bool {
        self.kind != Kind::NodeClass || key.scope == self.class
    }
}

/// What was observed at the API server.
#[derive(Debug, Clone)]
pub enum Delta {
    /// A watch told of a new or changed object.
    Applied(Object),
    /// A watch told that an object is gone.
    Deleted {
        /// Its kind.
        kind: Kind,
        /// Its key.
        key: Key,
        /// Its UID.
        uid: Uid,
        /// The version of the deletion.
        version: Version,
    },
    /// A complete list: what it does not contain is gone, but for assumptions that it cannot know of.
    Listed {
        /// Which watch listed.
        source: Source,
        /// The version that the list shows.
        version: Version,
        /// When the list was asked for.
        began: DateTime<Utc>,
        /// Every object that could be read.
        objects: Vec<Object>,
        /// Keys of objects that are there but could not be read: what was last known of them stays.
        unread: BTreeSet<Key>,
    },
    /// The watch has told everything up to this version.
    Bookmark {
        /// Which watch.
        source: Source,
        /// Up to here.
        version: Version,
    },
    /// An optional kind is not served or not permitted: nothing is known of it, and nobody waits for it.
    Unserved(Source),
    /// An answer to a read of one object, made after an assumption or an unknown outcome.
    Read {
        /// The object's kind.
        kind: Kind,
        /// Its key.
        key: Key,
        /// When the read was asked for.
        began: DateTime<Utc>,
        /// What was found.
        found: Option<Object>,
    },
}

/// What one of our own writes lets us know before any watch tells it (architecture §3.2).
#[derive(Debug, Clone)]
pub enum Assumption {
    /// The API server answered a create, a patch or a graceful delete with this object.
    Written(Object),
    /// The API server answered that the object is gone.
    Gone {
        /// Its kind.
        kind: Kind,
        /// Its key.
        key: Key,
        /// Its UID.
        uid: Uid,
    },
}

/// What a change was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// It was not known before.
    Appeared,
    /// Something of it changed that is none of the following.
    Changed,
    /// A pod got a node.
    Bound,
    /// A pod ended.
    Ended,
    /// It got a deletionTimestamp.
    Deleting,
    /// It is gone.
    Gone,
}

/// One change, as triggers get it after each applied batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The object's kind.
    pub kind: Kind,
    /// Its key.
    pub key: Key,
    /// Its UID.
    pub uid: Uid,
    /// What happened.
    pub what: What,
}

/// An assumption that no watch has confirmed for too long: somebody shall read the object and tell by [`Delta::Read`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Doubt {
    /// The object's kind.
    pub kind: Kind,
    /// Its key.
    pub key: Key,
}

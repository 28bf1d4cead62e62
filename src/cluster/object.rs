//! What every watched object has: a kind, a key, a UID and a version; and the entry that holds it with its facts.
//!
//! Relies on nothing; the hub makes entries, everything in this module and every controller reads them.

use chrono::{DateTime, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The kinds that the cluster state knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `karpenter.sh` NodePool.
    NodePool,
    /// `karpenter.sh` NodeClaim.
    NodeClaim,
    /// A NodeClass of any provider; several kinds may be watched.
    NodeClass,
    /// `karpenter.sh` NodeOverlay, behind its feature gate.
    NodeOverlay,
    /// Node.
    Node,
    /// Pod.
    Pod,
    /// DaemonSet.
    DaemonSet,
    /// PersistentVolumeClaim.
    PersistentVolumeClaim,
    /// PersistentVolume.
    PersistentVolume,
    /// StorageClass.
    StorageClass,
    /// CSINode.
    CsiNode,
    /// VolumeAttachment.
    VolumeAttachment,
    /// PodDisruptionBudget.
    PodDisruptionBudget,
    /// Namespace.
    Namespace,
}

impl Kind {
    /// The kind as Kubernetes writes it; for logs and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodePool => "NodePool",
            Self::NodeClaim => "NodeClaim",
            Self::NodeClass => "NodeClass",
            Self::NodeOverlay => "NodeOverlay",
            Self::Node => "Node",
            Self::Pod => "Pod",
            Self::DaemonSet => "DaemonSet",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::PersistentVolume => "PersistentVolume",
            Self::StorageClass => "StorageClass",
            Self::CsiNode => "CSINode",
            Self::VolumeAttachment => "VolumeAttachment",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::Namespace => "Namespace",
        }
    }
}

/// Where an object is: its scope and its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key {
    /// The namespace; for a NodeClass `Kind.group`, since names of two kinds may be equal; empty for all other cluster-scoped kinds.
    pub scope: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl Key {
    /// A namespaced key.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self {
            scope: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of a NodeClass of this kind.
    pub fn of_class(kind: &str, group: &str, name: &str) -> Self {
        Self::namespaced(&format!("{kind}.{group}"), name)
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: &str) -> Self {
        Self {
            scope: Arc::default(),
            name: name.into(),
        }
    }

    /// The namespace, empty if there is none.
    pub fn namespace(&self) -> &str {
        &self.scope
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scope.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.scope, self.name)
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An object's UID.
pub type Uid = Arc<str>;

/// A resourceVersion, ordered within one kind. Zero is "not told": it is older than none and newer than none, so the order of arrival decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version(u64);

impl Version {
    /// Not told.
    pub const UNKNOWN: Self = Self(0);

    /// Reads what an API server wrote; every one we support writes a decimal number.
    pub fn parse(text: &str) -> Self {
        Self(text.parse().unwrap_or(0))
    }

    /// A version by its number.
    pub const fn of(number: u64) -> Self {
        Self(number)
    }

    /// Whether this is certainly older than `other`.
    pub fn is_older_than(self, other: Self) -> bool {
        self.0 != 0 && other.0 != 0 && self.0 < other.0
    }

    /// Whether this is told and at or past `other`.
    pub fn has_reached(self, other: Self) -> bool {
        self.0 != 0 && other.0 != 0 && self.0 >= other.0
    }

    /// Whether it was told at all.
    pub fn is_known(self) -> bool {
        self.0 != 0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What every object has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Scope and name.
    pub key: Key,
    /// UID.
    pub uid: Uid,
    /// resourceVersion.
    pub version: Version,
    /// creationTimestamp.
    pub created: Option<DateTime<Utc>>,
    /// deletionTimestamp: for a pod this already includes its grace period.
    pub deleting: Option<DateTime<Utc>>,
}

impl Meta {
    /// Reads an object's metadata.
    pub fn read(metadata: &ObjectMeta) -> Self {
        Self::read_in(metadata.namespace.as_deref().unwrap_or_default(), metadata)
    }

    /// Reads an object's metadata, under another scope than its namespace.
    pub fn read_in(scope: &str, metadata: &ObjectMeta) -> Self {
        Self {
            key: Key {
                scope: scope.into(),
                name: metadata.name.as_deref().unwrap_or_default().into(),
            },
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            version: Version::parse(metadata.resource_version.as_deref().unwrap_or_default()),
            created: crate::api::time::created(metadata),
            deleting: crate::api::time::deleting_since(metadata),
        }
    }
}

/// One watched object: what every object has, and the facts of its kind (reached by `Deref`).
#[derive(Debug, Clone, PartialEq)]
pub struct Entry<T> {
    /// Key, UID, version, times.
    pub meta: Meta,
    /// What its kind adds.
    pub facts: T,
}

impl<T> Entry<T> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.meta.key.name
    }

    /// Its UID.
    pub fn uid(&self) -> &str {
        &self.meta.uid
    }

    /// Whether it has a deletionTimestamp.
    pub fn is_deleting(&self) -> bool {
        self.meta.deleting.is_some()
    }
}

impl<T> Deref for Entry<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untold_version_is_neither_older_nor_newer() {
        let (told, untold) = (Version::of(5), Version::parse("abc"));
        assert!(!untold.is_older_than(told) && !told.is_older_than(untold));
        assert!(!untold.has_reached(told) && !told.has_reached(untold));
        assert!(Version::of(4).is_older_than(told) && told.has_reached(told));
    }
}

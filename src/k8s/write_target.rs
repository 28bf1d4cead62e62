//! What a write is for, and under which conditions it holds.
//!
//! Relies on nothing; the [`Writer`](super::write::Writer) sends by it.

use crate::cluster::{Key, Meta};
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What can be written: any typed resource.
pub trait Writable: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Send + Sync + 'static {}

impl<K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Writable for K {}

/// Which object is meant, and which state of it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its UID; empty if not known.
    pub uid: String,
    /// The resourceVersion that was looked at; empty if not known.
    pub version: String,
}

impl Target {
    /// The object of an entry of the cluster state.
    pub fn of(meta: &Meta) -> Self {
        Self {
            namespace: Some(meta.key.scope.to_string()).filter(|scope| !scope.is_empty()),
            name: meta.key.name.to_string(),
            uid: meta.uid.to_string(),
            version: if meta.version.is_known() {
                meta.version.to_string()
            } else {
                String::new()
            },
        }
    }

    /// A typed object.
    pub fn object<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            version: meta.resource_version.clone().unwrap_or_default(),
        }
    }

    /// A cluster-scoped object by its name alone.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            namespace: None,
            name: name.into(),
            uid: String::new(),
            version: String::new(),
        }
    }

    pub(super) fn key(&self) -> Key {
        Key::namespaced(self.namespace.as_deref().unwrap_or_default(), &self.name)
    }

    pub(super) fn describe<K: Writable>(&self) -> String {
        format!("{} {}", K::kind(&()), self.key())
    }
}

/// Whether a patch holds only for the version that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// Only for that version: another one answers with a conflict.
    Version,
    /// For whatever is there.
    None,
}

/// Which part of the object a patch is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Main,
    Status,
}

/// How a delete went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// It has its deletionTimestamp; finalizers or a grace period hold it.
    InProgress,
    /// It is gone, or was already.
    Gone,
}

/// How to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeleteHow {
    /// The grace period to grant instead of the object's own.
    pub grace_seconds: Option<u32>,
    /// Whether the version that was looked at must still be the present one.
    pub lock: DeleteLock,
}

/// What must still hold for a delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeleteLock {
    /// The UID: never a successor of the same name.
    #[default]
    Uid,
    /// The UID and the version.
    UidAndVersion,
}

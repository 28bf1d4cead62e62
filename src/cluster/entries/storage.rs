//! Volumes: claims, volumes, classes, attachments and the attach limits of nodes (scheduling §18, lifecycle 13.8).

use crate::cluster::object::{Entry, Meta};
use crate::scheduling::volumes as placement;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A PersistentVolumeClaim.
pub type PvcEntry = Entry<PvcFacts>;
/// A PersistentVolume.
pub type PvEntry = Entry<PvFacts>;
/// A StorageClass.
pub type StorageClassEntry = Entry<StorageClassFacts>;
/// A CSINode.
pub type CsiNodeEntry = Entry<CsiNodeFacts>;
/// A VolumeAttachment.
pub type VolumeAttachmentEntry = Entry<VolumeAttachmentFacts>;

/// What is known of a PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PvcFacts {
    /// What placement looks at, the volume that it is bound to among it.
    pub placement: placement::VolumeClaim,
}

impl PvcEntry {
    /// Reads a PersistentVolumeClaim.
    pub fn read(claim: &PersistentVolumeClaim) -> Self {
        Self {
            meta: Meta::read(&claim.metadata),
            facts: PvcFacts {
                placement: claim.into(),
            },
        }
    }
}

/// What is known of a PersistentVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PvFacts {
    /// What placement looks at.
    pub placement: placement::PersistentVolume,
    /// The claim it is bound to: namespace and name.
    pub claim: Option<(Arc<str>, Arc<str>)>,
}

impl PvEntry {
    /// Reads a PersistentVolume.
    pub fn read(volume: &PersistentVolume) -> Self {
        let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        let claim = reference.and_then(|claim| {
            let (namespace, name) = (claim.namespace.as_deref()?, claim.name.as_deref()?);
            Some((namespace.into(), name.into()))
        });
        Self {
            meta: Meta::read(&volume.metadata),
            facts: PvFacts {
                placement: volume.into(),
                claim,
            },
        }
    }
}

/// What is known of a StorageClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageClassFacts {
    /// What placement looks at.
    pub placement: placement::StorageClass,
}

impl StorageClassEntry {
    /// Reads a StorageClass.
    pub fn read(class: &StorageClass) -> Self {
        Self {
            meta: Meta::read(&class.metadata),
            facts: StorageClassFacts {
                placement: class.into(),
            },
        }
    }
}

/// What is known of a CSINode: how many volumes each driver attaches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CsiNodeFacts {
    /// Driver to its limit; drivers without a limit are left out (18-6).
    pub limits: Arc<BTreeMap<String, i32>>,
}

impl CsiNodeEntry {
    /// Reads a CSINode.
    pub fn read(node: CSINode) -> Self {
        let meta = Meta::read(&node.metadata);
        let limits = node.spec.drivers.into_iter().filter_map(|driver| {
            let count = driver.allocatable?.count?;
            Some((driver.name, count))
        });
        Self {
            meta,
            facts: CsiNodeFacts {
                limits: Arc::new(limits.collect()),
            },
        }
    }
}

/// What is known of a VolumeAttachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeAttachmentFacts {
    /// The node it attaches to.
    pub node: Arc<str>,
    /// The volume, if it is a PersistentVolume.
    pub volume: Option<Arc<str>>,
    /// The driver.
    pub attacher: Arc<str>,
}

impl VolumeAttachmentEntry {
    /// Reads a VolumeAttachment.
    pub fn read(attachment: VolumeAttachment) -> Self {
        let meta = Meta::read(&attachment.metadata);
        let facts = VolumeAttachmentFacts {
            node: attachment.spec.node_name.into(),
            volume: attachment.spec.source.persistent_volume_name.map(Into::into),
            attacher: attachment.spec.attacher.into(),
        };
        Self { meta, facts }
    }
}

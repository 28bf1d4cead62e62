//! Volumes: claims, volumes, classes, attachments and the attach limits of nodes (scheduling §18, lifecycle 13.8).

use crate::cluster::object::{Entry, Meta};
use k8s_openapi::api::core::v1::{NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim, TopologySelectorTerm};
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
    /// spec.volumeName, if bound.
    pub volume: Option<Arc<str>>,
    /// spec.storageClassName; `Some("")` asks for no class.
    pub storage_class: Option<Arc<str>>,
    /// status.phase is `Lost`.
    pub lost: bool,
    /// Whether binding has been completed (`pv.kubernetes.io/bind-completed`).
    pub bind_completed: bool,
}

impl PvcEntry {
    /// Reads a PersistentVolumeClaim.
    pub fn read(pvc: PersistentVolumeClaim) -> Self {
        let meta = Meta::read(&pvc.metadata);
        let spec = pvc.spec.unwrap_or_default();
        let facts = PvcFacts {
            volume: spec.volume_name.filter(|name| !name.is_empty()).map(Into::into),
            storage_class: spec.storage_class_name.map(Into::into),
            bind_completed: pvc
                .metadata
                .annotations
                .iter()
                .flatten()
                .any(|(key, _)| key == "pv.kubernetes.io/bind-completed"),
            lost: pvc
                .status
                .and_then(|status| status.phase)
                .is_some_and(|phase| phase == "Lost"),
        };
        Self { meta, facts }
    }
}

/// What is known of a PersistentVolume.
#[derive(Debug, Clone, PartialEq)]
pub struct PvFacts {
    /// The required node affinity's terms; `None` without one.
    pub node_affinity: Option<Vec<NodeSelectorTerm>>,
    /// Whether it is of type `local` or `hostPath` (18-2).
    pub is_node_local: bool,
    /// The CSI driver (18-7).
    pub driver: Option<Arc<str>>,
    /// spec.storageClassName.
    pub storage_class: Option<Arc<str>>,
    /// The claim it is bound to: namespace and name.
    pub claim: Option<(Arc<str>, Arc<str>)>,
}

impl PvEntry {
    /// Reads a PersistentVolume.
    pub fn read(volume: PersistentVolume) -> Self {
        let meta = Meta::read(&volume.metadata);
        let spec = volume.spec.unwrap_or_default();
        // 18-7: an in-tree EBS volume is counted under its CSI driver.
        let in_tree = spec.aws_elastic_block_store.as_ref().map(|_| "ebs.csi.aws.com".into());
        let facts = PvFacts {
            node_affinity: spec
                .node_affinity
                .and_then(|affinity| affinity.required)
                .map(|node| node.node_selector_terms),
            is_node_local: spec.local.is_some() || spec.host_path.is_some(),
            driver: spec.csi.map(|csi| csi.driver.into()).or(in_tree),
            storage_class: spec.storage_class_name.map(Into::into),
            claim: spec
                .claim_ref
                .and_then(|claim| Some((claim.namespace?.into(), claim.name?.into()))),
        };
        Self { meta, facts }
    }
}

/// When a class binds its claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindingMode {
    /// As soon as the claim exists.
    Immediate,
    /// When a pod that uses it is scheduled.
    WaitForFirstConsumer,
}

/// What is known of a StorageClass.
#[derive(Debug, Clone, PartialEq)]
pub struct StorageClassFacts {
    /// Who provisions.
    pub provisioner: Arc<str>,
    /// When its claims are bound.
    pub binding: BindingMode,
    /// Where its volumes may be.
    pub allowed_topologies: Vec<TopologySelectorTerm>,
    /// Whether claims without a class get this one.
    pub is_default: bool,
}

impl StorageClassEntry {
    /// Reads a StorageClass.
    pub fn read(class: StorageClass) -> Self {
        let meta = Meta::read(&class.metadata);
        let annotations = class.metadata.annotations.unwrap_or_default();
        let is_default = annotations
            .get("storageclass.kubernetes.io/is-default-class")
            .is_some_and(|value| value == "true");
        let binding = match class.volume_binding_mode.as_deref() {
            Some("WaitForFirstConsumer") => BindingMode::WaitForFirstConsumer,
            _ => BindingMode::Immediate,
        };
        let allowed_topologies = class.allowed_topologies.unwrap_or_default();
        let facts = StorageClassFacts {
            provisioner: class.provisioner.into(),
            binding,
            allowed_topologies,
            is_default,
        };
        Self { meta, facts }
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

//! One entry type per kind: the small part of each object that decisions need, read once when the object arrives.
//!
//! A Pod of the API weighs kilobytes and has thousands of siblings that differ in a name; entries keep what is looked at and share what is equal
//! ([`super::intern`]). The hub reads, everybody else looks.

mod claim;
mod node;
mod pod;
mod policy;
mod storage;

pub use claim::{ClaimEntry, ClassEntry, ClassFacts, ClassReady, OverlayEntry, PoolEntry};
pub use node::{NodeCondition, NodeEntry, NodeFacts};
pub use pod::{ClaimUse, Owner, PodEntry, PodFacts, Reader, Since};
pub use policy::{DaemonSetEntry, DaemonSetFacts, NamespaceEntry, NamespaceFacts, PdbEntry, PdbFacts, UnhealthyPods};
pub use storage::{
    CsiNodeEntry, CsiNodeFacts, PvEntry, PvFacts, PvcEntry, PvcFacts, StorageClassEntry, StorageClassFacts,
    VolumeAttachmentEntry, VolumeAttachmentFacts,
};

use std::collections::BTreeMap;

/// Labels or annotations.
pub type Labels = BTreeMap<String, String>;

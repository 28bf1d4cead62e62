//! Which kinds are watched, under which address, and how one object of each is read.
//!
//! Relies on the entries of [`cluster`](crate::cluster); the hub lists and watches by this table, the writer reads the answers to its writes by it.

use crate::api::{DecodeError, NodeClaim, NodeOverlay, NodePool, decode};
use crate::cluster::entries::{
    ClaimEntry, ClassEntry, CsiNodeEntry, DaemonSetEntry, NamespaceEntry, NodeEntry, OverlayEntry, PdbEntry, PoolEntry,
    PvEntry, PvcEntry, Reader, StorageClassEntry, VolumeAttachmentEntry,
};
use crate::cluster::{Kind, Object, Source};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use kube::Resource;
use kube::core::{ApiResource, DynamicObject};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

/// Whether the operator can live without a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Its list must come in before anything is decided.
    Required,
    /// Where it is not served or not permitted, nobody waits for it (architecture §3.4).
    Optional,
}

/// One kind to watch.
#[derive(Debug, Clone)]
pub struct WatchedKind {
    /// Its name in the cluster state.
    pub source: Source,
    /// Its address.
    pub resource: ApiResource,
    /// Whether the operator can live without it.
    pub need: Need,
    /// Whether an object's own type can hold it; asked for NodeClasses, of which the state keeps only what all providers' have.
    check: fn(&Value) -> Result<(), DecodeError>,
}

#[allow(clippy::unnecessary_wraps)] // stands beside a check that can fail
fn anything(_: &Value) -> Result<(), DecodeError> {
    Ok(())
}

impl WatchedKind {
    fn of<K: Resource<DynamicType = ()>>(kind: Kind) -> Self {
        Self {
            source: Source::of(kind),
            resource: ApiResource::erase::<K>(&()),
            need: Need::Required,
            check: anything,
        }
    }

    /// A provider's NodeClass kind.
    pub fn class<K: Resource<DynamicType = ()> + DeserializeOwned>() -> Self {
        let resource = ApiResource::erase::<K>(&());
        let class = format!("{}.{}", resource.kind, resource.group).into();
        Self {
            source: Source {
                kind: Kind::NodeClass,
                class,
            },
            resource,
            need: Need::Required,
            check: |object| decode::<K>(object.clone()).map(drop),
        }
    }

    /// The NodeOverlay kind, for when its gate is on.
    pub fn overlays() -> Self {
        Self {
            need: Need::Optional,
            ..Self::of::<NodeOverlay>(Kind::NodeOverlay)
        }
    }

    /// The path of all its objects.
    pub fn path(&self) -> String {
        DynamicObject::url_path(&self.resource, None)
    }

    /// The name for logs and metrics.
    pub fn label(&self) -> &str {
        &self.resource.kind
    }

    /// Reads one object; `managedFields` is dropped first.
    pub fn read(&self, reader: &mut Reader, mut object: Value) -> Result<Object, DecodeError> {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        (self.check)(&object)?;
        Ok(match self.source.kind {
            Kind::NodePool => Object::NodePool(Arc::new(PoolEntry::read(decode::<NodePool>(object)?))),
            Kind::NodeClaim => Object::NodeClaim(Arc::new(ClaimEntry::read(decode::<NodeClaim>(object)?))),
            Kind::NodeClass => Object::NodeClass(Arc::new(ClassEntry::read(&self.source.class, object)?)),
            Kind::NodeOverlay => Object::NodeOverlay(Arc::new(OverlayEntry::read(decode::<NodeOverlay>(object)?))),
            Kind::Node => Object::Node(Arc::new(NodeEntry::read(decode::<Node>(object)?))),
            Kind::Pod => Object::Pod(Arc::new(reader.pod(&decode::<Pod>(object)?))),
            Kind::DaemonSet => Object::DaemonSet(Arc::new(DaemonSetEntry::read(decode::<DaemonSet>(object)?))),
            Kind::PersistentVolumeClaim => {
                Object::PersistentVolumeClaim(Arc::new(PvcEntry::read(&decode::<PersistentVolumeClaim>(object)?)))
            }
            Kind::PersistentVolume => {
                Object::PersistentVolume(Arc::new(PvEntry::read(&decode::<PersistentVolume>(object)?)))
            }
            Kind::StorageClass => {
                Object::StorageClass(Arc::new(StorageClassEntry::read(&decode::<StorageClass>(object)?)))
            }
            Kind::CsiNode => Object::CsiNode(Arc::new(CsiNodeEntry::read(decode::<CSINode>(object)?))),
            Kind::VolumeAttachment => {
                Object::VolumeAttachment(Arc::new(VolumeAttachmentEntry::read(decode::<VolumeAttachment>(
                    object,
                )?)))
            }
            Kind::PodDisruptionBudget => {
                Object::PodDisruptionBudget(Arc::new(PdbEntry::read(decode::<PodDisruptionBudget>(object)?)))
            }
            Kind::Namespace => Object::Namespace(Arc::new(NamespaceEntry::read(decode::<Namespace>(object)?, reader))),
        })
    }
}

/// Every kind that is watched; cheap to clone.
#[derive(Debug, Clone)]
pub struct WatchedKinds(Arc<[WatchedKind]>);

impl WatchedKinds {
    /// The kinds that are always watched, and these besides (NodeClasses, overlays).
    pub fn with(more: impl IntoIterator<Item = WatchedKind>) -> Self {
        let mut kinds = vec![
            WatchedKind::of::<NodePool>(Kind::NodePool),
            WatchedKind::of::<NodeClaim>(Kind::NodeClaim),
            WatchedKind::of::<Node>(Kind::Node),
            WatchedKind::of::<Pod>(Kind::Pod),
            WatchedKind::of::<DaemonSet>(Kind::DaemonSet),
            WatchedKind::of::<PersistentVolumeClaim>(Kind::PersistentVolumeClaim),
            WatchedKind::of::<PersistentVolume>(Kind::PersistentVolume),
            WatchedKind::of::<StorageClass>(Kind::StorageClass),
            WatchedKind::of::<CSINode>(Kind::CsiNode),
            WatchedKind::of::<VolumeAttachment>(Kind::VolumeAttachment),
            WatchedKind::of::<PodDisruptionBudget>(Kind::PodDisruptionBudget),
            WatchedKind::of::<Namespace>(Kind::Namespace),
        ];
        kinds.extend(more);
        Self(kinds.into())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &WatchedKind> {
        self.0.iter()
    }

    /// What the state has to wait for.
    pub fn sources(&self) -> impl Iterator<Item = Source> {
        self.0.iter().map(|kind| kind.source.clone())
    }

    /// The watched kind of an API group and kind.
    pub fn find(&self, group: &str, kind: &str) -> Option<&WatchedKind> {
        self.0
            .iter()
            .find(|watched| watched.resource.group == group && watched.resource.kind == kind)
    }

    /// The watched kind of a source.
    pub fn of_source(&self, source: &Source) -> Option<&WatchedKind> {
        self.0.iter().find(|watched| watched.source == *source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::RackspaceSpotNodeClass;
    use serde_json::json;

    #[test]
    fn every_kind_has_its_address_once() {
        let kinds = WatchedKinds::with([WatchedKind::class::<RackspaceSpotNodeClass>(), WatchedKind::overlays()]);
        let mut paths: Vec<String> = kinds.iter().map(WatchedKind::path).collect();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), 14);
        assert!(
            paths.contains(&"/apis/storage.k8s.io/v1/csinodes".to_owned()),
            "{paths:?}"
        );
        assert!(
            paths.contains(&"/apis/karpenter.sh/v1/nodeclaims".to_owned()),
            "{paths:?}"
        );
        assert!(kinds.find("policy", "PodDisruptionBudget").is_some());
    }

    fn class_ref() -> Value {
        json!({ "nodeClassRef": { "group": "g", "kind": "K", "name": "n" }, "requirements": [] })
    }

    #[test]
    fn one_object_of_each_kind_can_be_read_from_its_bare_minimum() {
        let kinds = WatchedKinds::with([WatchedKind::class::<RackspaceSpotNodeClass>()]);
        let minimum = |kind: Kind| match kind {
            Kind::NodePool => json!({ "metadata": { "name": "x" }, "spec": { "template": { "spec": class_ref() } } }),
            Kind::NodeClaim => json!({ "metadata": { "name": "x" }, "spec": class_ref() }),
            Kind::NodeClass => json!({ "metadata": { "name": "x" }, "spec": {} }),
            Kind::StorageClass => json!({ "metadata": { "name": "x" }, "provisioner": "p" }),
            Kind::CsiNode => json!({ "metadata": { "name": "x" }, "spec": { "drivers": [] } }),
            Kind::VolumeAttachment => {
                json!({ "metadata": { "name": "x" }, "spec": { "attacher": "a", "nodeName": "n", "source": {} } })
            }
            _ => json!({ "metadata": { "name": "x", "managedFields": [{ "manager": "m" }] } }),
        };
        for watched in kinds.iter() {
            let object = watched.read(&mut Reader::new(), minimum(watched.source.kind));
            let object = object.unwrap_or_else(|error| panic!("{}: {error}", watched.label()));
            assert_eq!(object.kind(), watched.source.kind);
            assert_eq!(&*object.meta().key.name, "x");
        }
    }

    #[test]
    fn a_class_that_its_provider_cannot_read_is_named_by_its_fault() {
        let class = WatchedKind::class::<RackspaceSpotNodeClass>();
        let object = json!({ "metadata": { "name": "x" }, "spec": { "bidPercentile": 80 } });
        let error = class.read(&mut Reader::new(), object).unwrap_err();
        assert_eq!(error.path, "spec.bidPercentile");
    }
}

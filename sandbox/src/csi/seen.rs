//! What the driver sees, and what has to be looked at when it moved.

use super::furniture::DRIVER;
use crate::observe::{Kind, Mirror, Name, News};
use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use std::collections::BTreeMap;

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Claim(Name),
    Volume(Name),
    Attachment(Name),
}

/// All that is seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) claims: Mirror<PersistentVolumeClaim>,
    pub(super) volumes: Mirror<PersistentVolume>,
    pub(super) attachments: Mirror<VolumeAttachment>,
    pub(super) classes: Mirror<StorageClass>,
    pub(super) nodes: Mirror<Node>,
    pub(super) plugins: Mirror<CSINode>,
    /// Since when a thing waits for us.
    pub(super) since: BTreeMap<Key, DateTime<Utc>>,
}

impl Seen {
    /// Whether every kind was listed.
    pub(super) fn is_complete(&self) -> bool {
        let volumes = self.claims.is_listed() && self.volumes.is_listed() && self.attachments.is_listed();
        volumes && self.classes.is_listed() && self.nodes.is_listed() && self.plugins.is_listed()
    }

    /// Takes news in; returns what has to be looked at.
    pub(super) fn take<K: Watched>(&mut self, news: News<K>) -> Vec<Key> {
        let moved = K::mirror(self).take(news);
        let mut keys: Vec<Key> = moved.into_iter().flat_map(|m| K::touched(self, &m.name)).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    fn waiting(&self) -> Vec<Key> {
        let unnamed = |claim: &PersistentVolumeClaim| claim.spec.as_ref().is_none_or(|s| s.volume_name.is_none());
        self.claims
            .all()
            .filter(|(_, claim)| unnamed(claim))
            .map(|(name, _)| Key::Claim(name.clone()))
            .collect()
    }
}

/// A kind that the driver follows.
pub(super) trait Watched: Kind {
    /// Where it is mirrored.
    fn mirror(seen: &mut Seen) -> &mut Mirror<Self>;
    /// What has to be looked at because one of it moved.
    fn touched(seen: &Seen, name: &Name) -> Vec<Key>;
}

impl Watched for PersistentVolumeClaim {
    fn mirror(seen: &mut Seen) -> &mut Mirror<Self> {
        &mut seen.claims
    }

    fn touched(_: &Seen, name: &Name) -> Vec<Key> {
        vec![Key::Claim(name.clone())]
    }
}

impl Watched for PersistentVolume {
    fn mirror(seen: &mut Seen) -> &mut Mirror<Self> {
        &mut seen.volumes
    }

    fn touched(_: &Seen, name: &Name) -> Vec<Key> {
        vec![Key::Volume(name.clone())]
    }
}

impl Watched for VolumeAttachment {
    fn mirror(seen: &mut Seen) -> &mut Mirror<Self> {
        &mut seen.attachments
    }

    /// A volume that was released goes when its last attachment has gone.
    fn touched(seen: &Seen, name: &Name) -> Vec<Key> {
        let ours = seen.volumes.all().filter(|(_, volume)| {
            let source = volume.spec.as_ref().and_then(|s| s.csi.as_ref());
            source.is_some_and(|csi| csi.driver == DRIVER)
        });
        let volumes = ours.map(|(volume, _)| Key::Volume(volume.clone()));
        std::iter::once(Key::Attachment(name.clone())).chain(volumes).collect()
    }
}

macro_rules! claims_wait_for {
    ($kind:ty, $field:ident) => {
        impl Watched for $kind {
            fn mirror(seen: &mut Seen) -> &mut Mirror<Self> {
                &mut seen.$field
            }

            fn touched(seen: &Seen, _: &Name) -> Vec<Key> {
                seen.waiting()
            }
        }
    };
}

claims_wait_for!(StorageClass, classes);
claims_wait_for!(Node, nodes);
claims_wait_for!(CSINode, plugins);

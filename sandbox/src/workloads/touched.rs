//! What has to be looked at when an object moved, and the indexes that follow from it.

use super::key::Key;
use super::node_lifecycle::{heartbeat, is_unknown};
use super::owned::{claims, controller, host};
use super::seen::{Seen, Sighted};
use crate::observe::{Mirror, Moved, Name};
use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::sync::Arc;

/// Where kubelets renew their leases.
const LEASES: &str = "kube-node-lease";

fn owner_key(meta: &ObjectMeta) -> Option<Key> {
    let owner = controller(meta)?;
    let name = Name::new(meta.namespace.as_deref().unwrap_or_default(), &owner.name);
    match owner.kind.as_str() {
        "Deployment" => Some(Key::Deployment(name)),
        "ReplicaSet" => Some(Key::ReplicaSet(name)),
        "StatefulSet" => Some(Key::StatefulSet(name)),
        "DaemonSet" => Some(Key::DaemonSet(name)),
        "Job" => Some(Key::Job(name)),
        _ => None,
    }
}

fn volume_of(seen: &Seen, claim: &Name) -> Option<Name> {
    let claim = seen.claims.get(claim)?;
    Some(Name::new("", claim.spec.as_ref()?.volume_name.as_deref()?))
}

impl Sighted for Pod {
    fn mirror(seen: &mut Seen) -> &mut Mirror<Self> {
        &mut seen.pods
    }

    fn touched(seen: &mut Seen, moved: &Moved<Self>, _now: DateTime<Utc>) -> Vec<Key> {
        if let Some(pod) = &moved.before {
            unindex(seen, &moved.name, pod);
        }
        if let Some(pod) = &moved.after {
            index(seen, &moved.name, pod);
        }
        let mut keys = vec![Key::Pod(moved.name.clone())];
        for pod in moved.before.iter().chain(&moved.after) {
            keys.extend(owner_key(&pod.metadata));
            for claim in claims(pod) {
                keys.extend(volume_of(seen, &claim).map(Key::Attachments));
                keys.push(Key::Claim(claim));
            }
        }
        keys
    }
}

fn index(seen: &mut Seen, name: &Name, pod: &Pod) {
    if let Some(owner) = controller(&pod.metadata) {
        seen.by_owner.entry(owner.uid.clone()).or_default().insert(name.clone());
    }
    if let Some(host) = host(pod) {
        seen.by_node.entry(host.to_owned()).or_default().insert(name.clone());
    }
}

fn unindex(seen: &mut Seen, name: &Name, pod: &Pod) {
    if let Some(owner) = controller(&pod.metadata)
        && let Some(set) = seen.by_owner.get_mut(&owner.uid)
    {
        set.remove(name);
        if set.is_empty() {
            seen.by_owner.remove(&owner.uid);
        }
    }
    if let Some(host) = host(pod)
        && let Some(set) = seen.by_node.get_mut(host)
    {
        set.remove(name);
        if set.is_empty() {
            seen.by_node.remove(host);
        }
    }
}

impl Sighted for Node {
    fn mirror(seen: &mut Seen) -> &mut Mirror<Self> {
        &mut seen.nodes
    }

    fn touched(seen: &mut Seen, moved: &Moved<Self>, now: DateTime<Utc>) -> Vec<Key> {
        let name = &moved.name.name;
        let mut keys = vec![Key::Node(moved.name.clone())];
        match (&moved.before, &moved.after) {
            (Some(before), Some(after)) => {
                if heartbeat(before) != heartbeat(after) {
                    seen.heard.insert(name.clone(), now);
                }
                if same_for_pods(before, after) {
                    return keys;
                }
            }
            (None, Some(_)) => {
                seen.heard.insert(name.clone(), now);
            }
            _ => {
                seen.heard.remove(name);
            }
        }
        keys.extend(seen.daemon_sets.all().map(|(set, _)| Key::DaemonSet(set.clone())));
        keys.extend(seen.by_node.get(name).into_iter().flatten().cloned().map(Key::Pod));
        keys.extend(waiting_claims(seen));
        keys
    }
}

/// Whether pods and daemons have nothing to do with what changed.
fn same_for_pods(before: &Node, after: &Node) -> bool {
    let taints = |n: &Node| n.spec.as_ref().map(|s| (s.taints.clone(), s.unschedulable));
    let ready = |n: &Node| (is_unknown(n), n.metadata.labels.clone());
    taints(before) == taints(after) && ready(before) == ready(after)
}

fn waiting_claims(seen: &Seen) -> Vec<Key> {
    let unnamed = |c: &Arc<PersistentVolumeClaim>| c.spec.as_ref().is_none_or(|s| s.volume_name.is_none());
    seen.claims
        .all()
        .filter(|(_, c)| unnamed(c))
        .map(|(name, _)| Key::Claim(name.clone()))
        .collect()
}

impl Sighted for Lease {
    fn mirror(seen: &mut Seen) -> &mut Mirror<Self> {
        &mut seen.leases
    }

    fn touched(seen: &mut Seen, moved: &Moved<Self>, now: DateTime<Utc>) -> Vec<Key> {
        if moved.name.namespace == LEASES && moved.after.is_some() && seen.heard.contains_key(&moved.name.name) {
            seen.heard.insert(moved.name.name.clone(), now);
        }
        Vec::new()
    }
}

impl Sighted for PersistentVolumeClaim {
    fn mirror(seen: &mut Seen) -> &mut Mirror<Self> {
        &mut seen.claims
    }

    fn touched(_seen: &mut Seen, moved: &Moved<Self>, _now: DateTime<Utc>) -> Vec<Key> {
        let mut keys = vec![Key::Claim(moved.name.clone())];
        for claim in moved.before.iter().chain(&moved.after) {
            let volume = claim
                .spec
                .as_ref()
                .and_then(|s| s.volume_name.as_deref())
                .map(|v| Name::new("", v));
            if let Some(volume) = volume {
                keys.push(Key::Volume(volume.clone()));
                keys.push(Key::Attachments(volume));
            }
            // Pods of a StatefulSet and ephemeral volumes wait for their claims.
            keys.extend(owner_key(&claim.metadata));
        }
        keys
    }
}

impl Sighted for PersistentVolume {
    fn mirror(seen: &mut Seen) -> &mut Mirror<Self> {
        &mut seen.volumes
    }

    fn touched(seen: &mut Seen, moved: &Moved<Self>, _now: DateTime<Utc>) -> Vec<Key> {
        let mut keys = vec![Key::Volume(moved.name.clone()), Key::Attachments(moved.name.clone())];
        let owner = moved
            .after
            .as_ref()
            .and_then(|v| v.spec.as_ref())
            .and_then(|s| s.claim_ref.as_ref());
        match owner {
            Some(claim) => {
                let text = |t: &Option<String>| t.clone().unwrap_or_default();
                keys.push(Key::Claim(Name::new(&text(&claim.namespace), &text(&claim.name))));
            }
            None => keys.extend(waiting_claims(seen)),
        }
        keys
    }
}

impl Sighted for VolumeAttachment {
    fn mirror(seen: &mut Seen) -> &mut Mirror<Self> {
        &mut seen.attachments
    }

    fn touched(_seen: &mut Seen, moved: &Moved<Self>, _now: DateTime<Utc>) -> Vec<Key> {
        let either = moved.after.as_ref().or(moved.before.as_ref());
        let volume = either
            .and_then(|a| a.spec.source.persistent_volume_name.as_deref())
            .map(|v| Name::new("", v));
        volume
            .map(|v| vec![Key::Attachments(v.clone()), Key::Volume(v)])
            .unwrap_or_default()
    }
}

macro_rules! storage {
    ($kind:ty, $field:ident) => {
        impl Sighted for $kind {
            fn mirror(seen: &mut Seen) -> &mut Mirror<Self> {
                &mut seen.$field
            }

            fn touched(seen: &mut Seen, _moved: &Moved<Self>, _now: DateTime<Utc>) -> Vec<Key> {
                waiting_claims(seen)
            }
        }
    };
}

storage!(StorageClass, classes);
storage!(CSINode, csi_nodes);

macro_rules! workload {
    ($kind:ident, $field:ident) => {
        impl Sighted for $kind {
            fn mirror(seen: &mut Seen) -> &mut Mirror<Self> {
                &mut seen.$field
            }

            fn touched(_seen: &mut Seen, moved: &Moved<Self>, _now: DateTime<Utc>) -> Vec<Key> {
                let owner = moved
                    .after
                    .iter()
                    .chain(&moved.before)
                    .find_map(|o| owner_key(&o.metadata));
                [Some(Key::$kind(moved.name.clone())), owner]
                    .into_iter()
                    .flatten()
                    .collect()
            }
        }
    };
}

workload!(Deployment, deployments);
workload!(ReplicaSet, replica_sets);
workload!(StatefulSet, stateful_sets);
workload!(DaemonSet, daemon_sets);
workload!(Job, jobs);

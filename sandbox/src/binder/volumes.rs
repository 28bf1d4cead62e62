//! Volumes: where bound ones can be used, whether unbound ones can come to be, how many a node can attach.

use super::amount::units;
use super::cluster::{Cluster, Used};
use super::facts::{NodeFacts, PodFacts};
use super::labels::{selects, term_selects};
use super::reason::Reason;
use crate::observe::Name;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, VolumeNodeAffinity};
use k8s_openapi::api::storage::v1::StorageClass;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The node that the scheduler chose for a claim that waits for its first pod.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// A class that makes no volumes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// One claim of the pod.
#[derive(Debug, Clone)]
enum Need {
    Bound(Arc<PersistentVolume>),
    Waiting(Arc<PersistentVolumeClaim>, Arc<StorageClass>),
}

/// The claims of a pod.
#[derive(Debug)]
pub(crate) struct VolumeState {
    needs: Vec<Need>,
    exclusive: bool,
}

/// Whether a claim has its volume for good.
pub(crate) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let named = claim
        .spec
        .as_ref()
        .and_then(|s| s.volume_name.as_ref())
        .is_some_and(|n| !n.is_empty());
    let completed = claim
        .metadata
        .annotations
        .as_ref()
        .is_some_and(|a| a.contains_key(BIND_COMPLETED));
    let phase = claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound");
    named && (completed || phase)
}

/// Whether a class waits for the first pod.
pub(crate) fn waits(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

impl VolumeState {
    pub(crate) fn look_up(cluster: &Cluster, pod: &PodFacts) -> Result<Self, Reason> {
        let (mut needs, mut exclusive) = (Vec::new(), false);
        for name in &pod.claims {
            let claim = cluster
                .claim(&pod.name.namespace, name)
                .ok_or_else(|| Reason::ClaimMissing(name.clone()))?;
            if claim.metadata.deletion_timestamp.is_some() {
                return Err(Reason::ClaimDeleting(name.clone()));
            }
            let spec = claim.spec.clone().unwrap_or_default();
            let modes = spec.access_modes.unwrap_or_default();
            exclusive |= modes.iter().any(|m| m == "ReadWriteOncePod") && is_taken(cluster, pod, name);
            if is_bound(claim) {
                let volume = cluster.volume(spec.volume_name.as_deref().unwrap_or_default());
                needs.push(Need::Bound(Arc::clone(volume.ok_or(Reason::VolumeMissing)?)));
                continue;
            }
            let class = spec.storage_class_name.and_then(|c| cluster.class(&c).cloned());
            match class.filter(|c| waits(c)) {
                Some(class) => needs.push(Need::Waiting(Arc::clone(claim), class)),
                None => return Err(Reason::ClaimUnbound),
            }
        }
        Ok(Self { needs, exclusive })
    }

    pub(crate) fn check(&self, cluster: &Cluster, node: &NodeFacts, used: &Used) -> Result<(), Reason> {
        if self.exclusive {
            return Err(Reason::ExclusiveClaim);
        }
        self.check_limits(cluster, node, used)?;
        let mut promised = BTreeSet::new();
        for need in &self.needs {
            match need {
                Need::Bound(volume) => {
                    let affinity = volume.spec.as_ref().and_then(|s| s.node_affinity.as_ref());
                    if !reaches(affinity, node) {
                        return Err(Reason::VolumeAffinity);
                    }
                    if !same_zone(volume, node) {
                        return Err(Reason::VolumeZone);
                    }
                }
                Need::Waiting(claim, class) => {
                    if !can_come(cluster, claim, class, node, &mut promised) {
                        return Err(Reason::NoVolume);
                    }
                }
            }
        }
        Ok(())
    }

    fn check_limits(&self, cluster: &Cluster, node: &NodeFacts, used: &Used) -> Result<(), Reason> {
        let Some(csi_node) = cluster.csi_node(&node.name).filter(|_| !self.needs.is_empty()) else {
            return Ok(());
        };
        let mut attached: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for pod in used.pods.values() {
            for (driver, id) in pod
                .claims
                .iter()
                .filter_map(|c| identity(cluster, &pod.name.namespace, c))
            {
                attached.entry(driver).or_default().insert(id);
            }
        }
        let mut wanted = attached.clone();
        for (driver, id) in self.needs.iter().filter_map(|n| need_identity(cluster, n)) {
            wanted.entry(driver).or_default().insert(id);
        }
        for driver in &csi_node.spec.drivers {
            let Some(limit) = driver.allocatable.as_ref().and_then(|a| a.count) else {
                continue;
            };
            let count = |map: &BTreeMap<String, BTreeSet<String>>| map.get(&driver.name).map_or(0, BTreeSet::len);
            let over = i32::try_from(count(&wanted)).unwrap_or(i32::MAX) > limit;
            // A node over its limit still takes pods that bring no new volume.
            if over && count(&wanted) > count(&attached) {
                return Err(Reason::VolumeLimit);
            }
        }
        Ok(())
    }
}

/// Whether another pod on a node uses the claim.
fn is_taken(cluster: &Cluster, pod: &PodFacts, claim: &str) -> bool {
    let uses = |other: &PodFacts| other.name.namespace == pod.name.namespace && other.claims.iter().any(|c| c == claim);
    cluster.placed(&pod.name).any(|(_, other)| uses(other))
}

fn reaches(affinity: Option<&VolumeNodeAffinity>, node: &NodeFacts) -> bool {
    let required = affinity.and_then(|a| a.required.as_ref());
    required.is_none_or(|r| {
        r.node_selector_terms
            .iter()
            .any(|t| term_selects(t, &node.name, &node.labels))
    })
}

/// The labels that volumes without node affinity carry; several zones are joined by `__`.
fn same_zone(volume: &PersistentVolume, node: &NodeFacts) -> bool {
    let labels = volume.metadata.labels.clone().unwrap_or_default();
    ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"]
        .iter()
        .all(|key| {
            let Some(zones) = labels.get(*key) else { return true };
            node.labels
                .get(*key)
                .is_some_and(|own| zones.split("__").any(|zone| zone == own))
        })
}

/// Whether an unbound claim finds a volume, or can be given one, that the node can use.
fn can_come(
    cluster: &Cluster,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    node: &NodeFacts,
    promised: &mut BTreeSet<String>,
) -> bool {
    let selected = claim.metadata.annotations.as_ref().and_then(|a| a.get(SELECTED_NODE));
    if selected.is_some_and(|s| *s != node.name) {
        return false;
    }
    if let Some(volume) = smallest_free(cluster.volumes(), claim, Some(node), promised) {
        promised.insert(volume.metadata.name.clone().unwrap_or_default());
        return true;
    }
    if class.provisioner == NO_PROVISIONER {
        return false;
    }
    let topologies = class.allowed_topologies.as_deref().unwrap_or_default();
    topologies.is_empty()
        || topologies.iter().any(|term| {
            let expressions = term.match_label_expressions.as_deref().unwrap_or_default();
            expressions
                .iter()
                .all(|e| node.labels.get(&e.key).is_some_and(|own| e.values.contains(own)))
        })
}

/// The smallest volume that suits a claim and belongs to nobody, or to this claim already.
pub(crate) fn smallest_free<'a>(
    volumes: impl Iterator<Item = &'a Arc<PersistentVolume>>,
    claim: &PersistentVolumeClaim,
    node: Option<&NodeFacts>,
    taken: &BTreeSet<String>,
) -> Option<&'a Arc<PersistentVolume>> {
    let fitting =
        volumes.filter(|v| suits(v, claim, node) && !v.metadata.name.as_ref().is_some_and(|n| taken.contains(n)));
    fitting.min_by_key(|v| (size(v), v.metadata.name.clone()))
}

fn size(volume: &PersistentVolume) -> i64 {
    let capacity = volume
        .spec
        .as_ref()
        .and_then(|s| s.capacity.as_ref())
        .and_then(|c| c.get("storage"));
    capacity.map_or(0, |q| units("storage", &q.0))
}

fn suits(volume: &PersistentVolume, claim: &PersistentVolumeClaim, node: Option<&NodeFacts>) -> bool {
    let (Some(have), Some(want)) = (&volume.spec, &claim.spec) else {
        return false;
    };
    let owner = have.claim_ref.as_ref();
    let own = Name::of(claim);
    let ours = owner.is_none_or(|r| {
        let name = Name::new(
            r.namespace.as_deref().unwrap_or_default(),
            r.name.as_deref().unwrap_or_default(),
        );
        name == own
            && r.uid
                .as_ref()
                .is_none_or(|uid| Some(uid) == claim.metadata.uid.as_ref())
    });
    let request = want
        .resources
        .as_ref()
        .and_then(|r| r.requests.as_ref())
        .and_then(|r| r.get("storage"));
    let modes = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    let offered = modes(&have.access_modes);
    let labels = volume.metadata.labels.clone().unwrap_or_default();
    ours && volume.metadata.deletion_timestamp.is_none()
        && have.storage_class_name.as_deref().unwrap_or_default()
            == want.storage_class_name.as_deref().unwrap_or_default()
        && modes(&want.access_modes).iter().all(|m| offered.contains(m))
        && size(volume) >= request.map_or(0, |q| units("storage", &q.0))
        && want.selector.as_ref().is_none_or(|s| selects(s, &labels))
        && node.is_none_or(|n| reaches(have.node_affinity.as_ref(), n))
}

/// Driver and identity of the volume behind a claim.
fn identity(cluster: &Cluster, namespace: &str, claim: &str) -> Option<(String, String)> {
    let claim = cluster.claim(namespace, claim)?;
    if is_bound(claim) {
        let name = claim.spec.as_ref()?.volume_name.clone()?;
        return volume_identity(cluster.volume(&name)?);
    }
    let class = cluster.class(claim.spec.as_ref()?.storage_class_name.as_deref()?)?;
    Some(claim_identity(claim, class))
}

fn need_identity(cluster: &Cluster, need: &Need) -> Option<(String, String)> {
    match need {
        Need::Bound(volume) => volume_identity(volume),
        Need::Waiting(claim, class) => {
            // A claim that is in use by a pod on the node counts once, under the same identity.
            let name = Name::of(&**claim);
            identity(cluster, &name.namespace, &name.name).or_else(|| Some(claim_identity(claim, class)))
        }
    }
}

fn volume_identity(volume: &PersistentVolume) -> Option<(String, String)> {
    let csi = volume.spec.as_ref()?.csi.as_ref()?;
    Some((csi.driver.clone(), csi.volume_handle.clone()))
}

fn claim_identity(claim: &PersistentVolumeClaim, class: &StorageClass) -> (String, String) {
    (class.provisioner.clone(), format!("claim {}", Name::of(claim)))
}

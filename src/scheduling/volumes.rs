//! Persistent volumes, reduced to what they say about nodes (scheduling §18, 4-6).
//!
//! Decides where a pod's volumes let it go, which driver attaches them, and whether its claims are in order. Relies on a [`Volumes`] that the
//! caller fills from claims, volumes and storage classes. Called by the solver and by pod validation.

use super::pod::{Expression, NodeTerm, Pod};
use super::requirements::Requirements;
use k8s_openapi::api::core::v1::{self as core, NodeSelectorTerm, TopologySelectorTerm};
use k8s_openapi::api::storage::v1 as storage;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const AWS_EBS: &str = "ebs.csi.aws.com";

/// What is known of persistent volumes.
#[derive(Debug, Clone, Default)]
pub struct Volumes {
    /// Claims by `namespace/name`.
    pub claims: BTreeMap<String, VolumeClaim>,
    /// Volumes by name.
    pub volumes: BTreeMap<String, PersistentVolume>,
    /// Storage classes by name.
    pub classes: BTreeMap<String, StorageClass>,
}

/// A persistent volume claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeClaim {
    /// The volume it is bound to.
    pub volume: Option<String>,
    /// Its storage class.
    pub class: Option<String>,
    /// It was asked to go.
    pub terminating: bool,
    /// Its volume is gone.
    pub lost: bool,
    /// The binding is complete on both sides.
    pub bind_completed: bool,
}

/// A persistent volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PersistentVolume {
    /// It was asked to go.
    pub terminating: bool,
    /// The nodes it can be used from: one of these terms; none means anywhere.
    pub terms: Option<Vec<NodeTerm>>,
    /// It lives on one node's disk; the hostname in its terms is not a wish to keep (scheduling 18-2).
    pub local: bool,
    /// The driver that attaches it.
    pub driver: Option<String>,
}

/// A storage class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StorageClass {
    /// Who makes its volumes.
    pub provisioner: String,
    /// Volumes are bound before a pod is placed.
    pub immediate: bool,
    /// Where its volumes can be: one of these terms.
    pub topologies: Vec<NodeTerm>,
}

/// What is wrong with a pod's volumes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VolumeError {
    /// The claim does not exist.
    #[error("persistentvolumeclaim {0} not found")]
    ClaimNotFound(String),
    /// The claim is going.
    #[error("persistentvolumeclaim {0} is being deleted")]
    ClaimDeleting(String),
    /// The claim has lost its volume.
    #[error("persistentvolumeclaim {0} bound to non-existent persistentvolume")]
    ClaimLost(String),
    /// The volume does not exist.
    #[error("persistentvolume {0} not found")]
    VolumeNotFound(String),
    /// The volume is going.
    #[error("persistentvolume {0} is being deleted")]
    VolumeDeleting(String),
    /// The binding is not complete.
    #[error("persistentvolumeclaim {0} is considered unbound until its binding is completed")]
    NotBound(String),
    /// Neither volume nor class.
    #[error("unbound pvc must define a storage class")]
    NoClass,
    /// The class does not exist.
    #[error("storageclass {0} not found")]
    ClassNotFound(String),
    /// The class binds at once, but the claim is not bound.
    #[error("pvc with immediate volume binding mode must be bound")]
    ImmediateUnbound,
}

impl From<&core::PersistentVolumeClaim> for VolumeClaim {
    fn from(claim: &core::PersistentVolumeClaim) -> Self {
        let spec = claim.spec.as_ref();
        let text = |value: Option<&String>| value.filter(|text| !text.is_empty()).cloned();
        Self {
            volume: text(spec.and_then(|s| s.volume_name.as_ref())),
            class: text(spec.and_then(|s| s.storage_class_name.as_ref())),
            terminating: claim.metadata.deletion_timestamp.is_some(),
            lost: claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Lost"),
            bind_completed: claim
                .metadata
                .annotations
                .as_ref()
                .is_some_and(|a| a.contains_key(BIND_COMPLETED)),
        }
    }
}

impl From<&core::PersistentVolume> for PersistentVolume {
    fn from(volume: &core::PersistentVolume) -> Self {
        let spec = volume.spec.as_ref();
        let required = spec
            .and_then(|s| s.node_affinity.as_ref())
            .and_then(|a| a.required.as_ref());
        let csi = spec.and_then(|s| s.csi.as_ref()).map(|csi| csi.driver.clone());
        let ebs = spec
            .and_then(|s| s.aws_elastic_block_store.as_ref())
            .map(|_| AWS_EBS.to_owned());
        Self {
            terminating: volume.metadata.deletion_timestamp.is_some(),
            terms: required.map(|r| r.node_selector_terms.iter().map(selector_term).collect()),
            local: spec.is_some_and(|s| s.local.is_some() || s.host_path.is_some()),
            driver: csi.or(ebs),
        }
    }
}

impl From<&storage::StorageClass> for StorageClass {
    fn from(class: &storage::StorageClass) -> Self {
        Self {
            provisioner: class.provisioner.clone(),
            immediate: class.volume_binding_mode.as_deref() == Some("Immediate"),
            topologies: class.allowed_topologies.iter().flatten().map(topology_term).collect(),
        }
    }
}

fn selector_term(term: &NodeSelectorTerm) -> NodeTerm {
    let expressions = term.match_expressions.iter().flatten().map(|e| Expression {
        key: e.key.clone(),
        operator: e.operator.clone(),
        values: e.values.clone().unwrap_or_default(),
    });
    NodeTerm {
        expressions: expressions.collect(),
        match_fields: false,
    }
}

fn topology_term(term: &TopologySelectorTerm) -> NodeTerm {
    let expressions = term.match_label_expressions.iter().flatten().map(|e| Expression {
        key: e.key.clone(),
        operator: "In".to_owned(),
        values: e.values.clone(),
    });
    NodeTerm {
        expressions: expressions.collect(),
        match_fields: false,
    }
}

impl PersistentVolume {
    /// Where it can be used from; empty means anywhere (scheduling 18-2).
    fn alternatives(&self) -> Vec<Requirements> {
        let terms = self.terms.iter().flatten().filter(|term| !term.expressions.is_empty());
        terms
            .map(|term| {
                let kept = term
                    .expressions
                    .iter()
                    .filter(|e| !self.local || e.key != super::labels::HOSTNAME);
                kept.map(Expression::requirement).collect()
            })
            .collect()
    }
}

impl StorageClass {
    fn alternatives(&self) -> Vec<Requirements> {
        let terms = self.topologies.iter().filter(|term| !term.expressions.is_empty());
        terms.map(NodeTerm::requirements).collect()
    }

    /// The driver that attaches its volumes: in-tree names are translated to the drivers that replaced them.
    fn driver(&self) -> &str {
        match self.provisioner.as_str() {
            "kubernetes.io/aws-ebs" => AWS_EBS,
            "kubernetes.io/gce-pd" => "pd.csi.storage.gke.io",
            "kubernetes.io/azure-disk" => "disk.csi.azure.com",
            "kubernetes.io/azure-file" => "file.csi.azure.com",
            "kubernetes.io/cinder" => "cinder.csi.openstack.org",
            "kubernetes.io/vsphere-volume" => "csi.vsphere.vmware.com",
            "kubernetes.io/portworx-volume" => "pxd.portworx.com",
            "kubernetes.io/rbd" => "rbd.csi.ceph.com",
            other => other,
        }
    }
}

impl Volumes {
    fn claim(&self, key: &str) -> Result<&VolumeClaim, VolumeError> {
        self.claims
            .get(key)
            .ok_or_else(|| VolumeError::ClaimNotFound(key.to_owned()))
    }

    fn volume(&self, name: &str) -> Result<&PersistentVolume, VolumeError> {
        self.volumes
            .get(name)
            .ok_or_else(|| VolumeError::VolumeNotFound(name.to_owned()))
    }

    fn class(&self, name: &str) -> Result<&StorageClass, VolumeError> {
        self.classes
            .get(name)
            .ok_or_else(|| VolumeError::ClassNotFound(name.to_owned()))
    }

    /// The alternatives that a pod's volumes leave for its node, each a set of requirements; empty means no constraint (scheduling 18-1).
    pub fn alternatives(&self, pod: &Pod) -> Result<Vec<Requirements>, VolumeError> {
        let mut all: Vec<Requirements> = Vec::new();
        for claim in claim_keys(pod) {
            let claim = self.claim(&claim)?;
            let own = match (&claim.volume, &claim.class) {
                (Some(volume), _) => self.volume(volume)?.alternatives(),
                (None, Some(class)) => self.class(class)?.alternatives(),
                (None, None) => Vec::new(),
            };
            if !own.is_empty() {
                all = crossed(&all, &own);
            }
        }
        Ok(all)
    }

    /// The claims a pod would attach, by driver. A claim that does not exist is skipped (scheduling 18-7, 18-8).
    pub fn attachments(&self, pod: &Pod) -> Result<BTreeMap<String, BTreeSet<String>>, VolumeError> {
        let mut result: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for key in claim_keys(pod) {
            let Some(claim) = self.claims.get(&key) else { continue };
            let driver = match (&claim.volume, &claim.class) {
                (Some(volume), _) => self.volume(volume)?.driver.as_deref(),
                (None, class) => class
                    .as_ref()
                    .and_then(|class| self.classes.get(class))
                    .map(StorageClass::driver),
            };
            if let Some(driver) = driver.filter(|driver| !driver.is_empty()) {
                result.entry(driver.to_owned()).or_default().insert(key);
            }
        }
        Ok(result)
    }

    /// The first thing wrong with a pending pod's claims (scheduling 4-6).
    pub fn validate(&self, pod: &Pod) -> Result<(), VolumeError> {
        claim_keys(pod).try_for_each(|key| self.validate_claim(key))
    }

    fn validate_claim(&self, key: String) -> Result<(), VolumeError> {
        let claim = self.claim(&key)?;
        if claim.terminating {
            return Err(VolumeError::ClaimDeleting(key));
        }
        if claim.lost {
            return Err(VolumeError::ClaimLost(key));
        }
        if let Some(name) = &claim.volume {
            return match self.volume(name)? {
                volume if volume.terminating => Err(VolumeError::VolumeDeleting(name.clone())),
                _ if !claim.bind_completed => Err(VolumeError::NotBound(key)),
                _ => Ok(()),
            };
        }
        let class = self.class(claim.class.as_ref().ok_or(VolumeError::NoClass)?)?;
        if class.immediate {
            Err(VolumeError::ImmediateUnbound)
        } else {
            Ok(())
        }
    }
}

fn claim_keys(pod: &Pod) -> impl Iterator<Item = String> {
    pod.constraints
        .volume_claims
        .iter()
        .map(|name| format!("{}/{name}", pod.namespace))
}

/// So many alternatives are tried.
const MOST: usize = 1000;

/// Every pair that can hold together; when none can, one that cannot, so that the pod is refused with the clash as reason (scheduling 18-1).
///
/// Differs: upstream keeps all pairs that cannot hold, and their number doubles with every further claim.
fn crossed(all: &[Requirements], own: &[Requirements]) -> Vec<Requirements> {
    if all.is_empty() {
        return own.to_vec();
    }
    let pairs = || all.iter().flat_map(|a| own.iter().map(move |b| (a, b)));
    let holding = pairs().filter(|(a, b)| a.intersects(b).is_ok()).map(|(a, b)| a.and(b));
    let possible: Vec<Requirements> = holding.take(MOST).collect();
    if possible.is_empty() {
        pairs().take(1).map(|(a, b)| a.and(b)).collect()
    } else {
        possible
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::labels;
    use crate::scheduling::pod::Constraints;
    use std::sync::Arc;

    /// A class whose volumes can be in one of these zones each.
    fn class(zones: &[&str]) -> StorageClass {
        let term = |zone: &&str| NodeTerm {
            expressions: vec![Expression {
                key: labels::ZONE.to_owned(),
                operator: "In".to_owned(),
                values: vec![(*zone).to_owned()],
            }],
            match_fields: false,
        };
        StorageClass {
            topologies: zones.iter().map(term).collect(),
            ..StorageClass::default()
        }
    }

    fn mounting(classes: &[(&str, StorageClass)], claims: &[&str]) -> usize {
        let mut volumes = Volumes::default();
        volumes
            .classes
            .extend(classes.iter().map(|(name, class)| ((*name).to_owned(), class.clone())));
        let mut constraints = Constraints::default();
        for (at, class) in claims.iter().enumerate() {
            let claim = VolumeClaim {
                class: Some((*class).to_owned()),
                ..VolumeClaim::default()
            };
            volumes.claims.insert(format!("/claim-{at}"), claim);
            constraints.volume_claims.push(format!("claim-{at}"));
        }
        let pod = Pod {
            constraints: Arc::new(constraints),
            ..Pod::default()
        };
        volumes.alternatives(&pod).unwrap().len()
    }

    #[test]
    fn claims_that_cannot_be_used_together_leave_one_alternative_however_many_there_are() {
        let apart = [("a", class(&["z1", "z2"])), ("b", class(&["z3", "z4"]))];
        let claims: Vec<&str> = (0..60).map(|at| if at % 2 == 0 { "a" } else { "b" }).collect();
        assert_eq!(mounting(&apart, &claims), 1);
    }

    #[test]
    fn claims_of_one_class_leave_its_alternatives() {
        let one = [("a", class(&["z1", "z2", "z3"]))];
        assert_eq!(mounting(&one, &["a"; 40]), 3);
    }
}

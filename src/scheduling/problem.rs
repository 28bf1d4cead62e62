//! What a pass is asked: the pods to place, and everything they can be placed on.
//!
//! Plain values that the caller (provisioning, disruption, tests) fills from its snapshot; the solver only reads them.

use super::instance_type::InstanceType;
use super::labels::{self, WellKnownLabels};
use super::pod::Pod;
use super::requirements::{Requirement, Requirements};
use super::taints::Taint;
use super::volumes::Volumes;
use crate::resources::ResourceList;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One pass's question.
#[derive(Debug, Clone, Default)]
pub struct Problem {
    /// The NodePools that may open claims, in any order: Ready, not static, not being deleted (scheduling 2-3).
    pub pools: Vec<Pool>,
    /// All machines of the cluster that exist or were asked for, ours or not, those being deleted included.
    pub nodes: Vec<Arc<Node>>,
    /// The pods to place: valid pending pods first, then those of machines being deleted (scheduling 2-2). A bound pod in this list is not
    /// counted where it is.
    pub pods: Vec<Arc<Pod>>,
    /// One pod for each DaemonSet (scheduling 12-1).
    pub daemons: Vec<Arc<Pod>>,
    /// Labels of the namespaces, for namespace selectors.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// Volume claims, volumes and storage classes.
    pub volumes: Arc<Volumes>,
    /// The labels that pods may ask for although a pool does not define them.
    pub well_known: Arc<WellKnownLabels>,
}

/// A NodePool and the instance types it can have.
#[derive(Debug, Clone, Default)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Higher is tried first; 0 when absent (scheduling 11-1).
    pub weight: i32,
    /// Its limits; resources not named are not limited.
    pub limits: ResourceList,
    /// Labels of its template, as users wrote them.
    pub labels: BTreeMap<String, String>,
    /// Annotations for its claims, the pool's hash and hash version included (scheduling 11-2).
    pub annotations: BTreeMap<String, String>,
    /// Taints of its machines.
    pub taints: Vec<Taint>,
    /// Taints that its machines start with and lose; pods need not tolerate them (scheduling 7-3).
    pub startup_taints: Vec<Taint>,
    /// The requirements of its template, `minValues` included.
    pub requirements: Requirements,
    /// The label of its NodeClass: key and value (scheduling 6-5).
    pub node_class_label: Option<(String, String)>,
    /// What it can launch, as the provider lists it; empty when the provider could not say.
    pub instance_types: Arc<[Arc<InstanceType>]>,
}

impl Pool {
    /// The labels every claim of it carries: the template's, the pool's name and the NodeClass label (scheduling 11-2).
    pub fn claim_labels(&self) -> BTreeMap<String, String> {
        let mut result = self.labels.clone();
        result.insert(labels::NODE_POOL.to_owned(), self.name.clone());
        result.extend(self.node_class_label.clone());
        result
    }

    /// The requirements every claim of it starts from (scheduling 11-2).
    pub fn claim_requirements(&self) -> Requirements {
        self.requirements.and(&Requirements::from_labels(&self.claim_labels()))
    }
}

/// Whether we made a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ownership {
    /// It has a NodeClaim.
    Managed,
    /// It is somebody else's.
    #[default]
    Foreign,
}

/// How far a machine has come (scheduling 23-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Readiness {
    /// Everything that was promised is there; foreign machines always.
    #[default]
    Initialized,
    /// Asked for, launched or registered, but not initialised.
    ComingUp,
}

/// Whether a machine stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fate {
    /// Pods may be placed on it.
    #[default]
    Stays,
    /// It is being deleted (scheduling 23-8): nothing is placed on it and its capacity is not counted against limits.
    Leaves,
}

/// What the Node object itself says; topology counts by it (scheduling 17-7, 17-9).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeObject {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Arc<BTreeMap<String, String>>,
    /// Its taints, all of them.
    pub taints: Vec<Taint>,
}

/// A machine that exists or was asked for: a Node, a NodeClaim with an instance type, or both.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The claim's name until it is registered, then the Node's (scheduling 13-6).
    pub name: String,
    /// Its labels, by the same rule (scheduling 23-6); shared with the Node object where they are its own.
    pub labels: Arc<BTreeMap<String, String>>,
    /// The taints that count for placement ([`effective`](super::taints::effective), scheduling 7-5).
    pub taints: Vec<Taint>,
    /// Whether we made it.
    pub ownership: Ownership,
    /// How far it has come.
    pub readiness: Readiness,
    /// Whether it stays.
    pub fate: Fate,
    /// What it has, `nodes: 1` included (scheduling 23-7).
    pub capacity: ResourceList,
    /// What pods can have of it.
    pub allocatable: ResourceList,
    /// The Node object, once there is one.
    pub object: Option<NodeObject>,
    /// The pods bound to it that are not terminal, terminating ones included (scheduling 23-10).
    pub pods: Vec<Arc<Pod>>,
    /// How many volumes each driver can attach (scheduling 18-6); a driver not named is not limited.
    pub volume_limits: BTreeMap<String, u64>,
}

impl Node {
    /// The value of its hostname label, else its name (scheduling 13-5).
    pub fn hostname(&self) -> &str {
        self.labels
            .get(labels::HOSTNAME)
            .filter(|name| !name.is_empty())
            .unwrap_or(&self.name)
    }

    /// The NodePool it belongs to.
    pub fn pool(&self) -> Option<&str> {
        self.labels.get(labels::NODE_POOL).map(String::as_str)
    }

    /// What its labels are, as requirements, the hostname included (scheduling 13-5).
    pub fn requirements(&self) -> Requirements {
        let mut result = Requirements::from_labels(&*self.labels);
        result.add(Requirement::is(labels::HOSTNAME, self.hostname()));
        result
    }
}

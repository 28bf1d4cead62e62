//! A pod reduced to what matters for placement and removal.
//!
//! Built once per observed pod ([`Pod::from_api`], which accepts whatever the API server does and never fails), kept behind an `Arc` in the
//! cluster state, read by the solver and by disruption. Decides which pods count (scheduling §3) and what a pod asks for (scheduling §8).

mod convert;
mod requests;
mod selector;
mod standing;

pub use requests::{pod_limits, pod_requests, with_limits_as_requests};
pub use selector::Selector;
pub use standing::{DoNotDisrupt, Phase};

use super::ports::HostPort;
use super::requirements::{Operator, Requirement, Requirements};
use super::taints::Toleration;
use crate::resources::ResourceList;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A pod as placement sees it. What siblings have in common is behind an `Arc`, so that whoever reads thousands can share it.
#[derive(Debug, Clone, Default)]
pub struct Pod {
    /// Its UID.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its labels; selectors of other pods look at them.
    pub labels: Arc<BTreeMap<String, String>>,
    /// When it was created.
    pub created: DateTime<Utc>,
    /// Where it stands: phase, owner, binding, conditions.
    pub standing: Standing,
    /// What it asks for, `pods: 1` included (scheduling 8-1).
    pub requests: Arc<ResourceList>,
    /// What limits it, for metrics only (scheduling 8-2).
    pub limits: Arc<ResourceList>,
    /// Where it can go.
    pub constraints: Arc<Constraints>,
}

/// Where a pod stands in its life.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// Its phase.
    pub phase: Phase,
    /// The node it is bound to.
    pub node: Option<Arc<str>>,
    /// It pre-empts others and is about to fit there.
    pub nominated_node: Option<String>,
    /// The scheduler said that it fits nowhere (scheduling 3-1).
    pub unschedulable: bool,
    /// When it was asked to go.
    pub deleted: Option<DateTime<Utc>>,
    /// When its containers began.
    pub started: Option<DateTime<Utc>>,
    /// The Ready condition, where there is one.
    pub ready: Option<bool>,
    /// Owned by a DaemonSet (scheduling 3-2).
    pub daemon: bool,
    /// Owned by a StatefulSet.
    pub stateful: bool,
    /// Owned by a Node: a static pod.
    pub mirror: bool,
    /// The annotation that protects it from disruption, as written.
    pub do_not_disrupt: Option<String>,
    /// The annotation that says what deleting it costs, as written.
    pub deletion_cost: Option<String>,
    /// Its priority.
    pub priority: Option<i32>,
    /// Seconds it wants for an orderly end.
    pub grace_seconds: Option<i64>,
    /// The DaemonSet (or other controller) that owns it: kind and name.
    pub controller: Option<(Arc<str>, Arc<str>)>,
}

/// Everything that limits where a pod can go. Two pods with equal constraints, requests, labels and namespace are interchangeable.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Constraints {
    /// Labels the node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Required node affinity: one of these terms must hold. None when there is no such affinity.
    pub required_terms: Vec<NodeTerm>,
    /// Preferred node affinity.
    pub preferred_terms: Vec<Weighted<NodeTerm>>,
    /// Pods it must be near.
    pub affinity: Vec<PodTerm>,
    /// Pods it would like to be near.
    pub preferred_affinity: Vec<Weighted<PodTerm>>,
    /// Pods it must be far from.
    pub anti_affinity: Vec<PodTerm>,
    /// Pods it would like to be far from.
    pub preferred_anti_affinity: Vec<Weighted<PodTerm>>,
    /// How it wants to be spread.
    pub spread: Vec<Spread>,
    /// The taints it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Ports it takes on the node.
    pub ports: Vec<HostPort>,
    /// Names of the claims (in its namespace) whose volumes it mounts, in order.
    pub volume_claims: Vec<String>,
    /// It asks for devices by resource claim (scheduling 4-7).
    pub resource_claims: bool,
}

/// A preference and how much it weighs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weighted<T> {
    /// Its weight.
    pub weight: i32,
    /// What is preferred.
    pub term: T,
}

/// One term of node affinity.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTerm {
    /// What labels must be, as written.
    pub expressions: Vec<Expression>,
    /// It also selects by field, which is not supported (scheduling 4-4).
    pub match_fields: bool,
}

/// One expression of a node affinity term, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expression {
    /// The label.
    pub key: String,
    /// The operator as written.
    pub operator: String,
    /// The values.
    pub values: Vec<String>,
}

/// One term of pod affinity or anti-affinity.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodTerm {
    /// The label that makes nodes near to each other.
    pub topology_key: String,
    /// The pods meant; none selects nothing.
    pub selector: Option<Selector>,
    /// Namespaces by name.
    pub namespaces: Vec<String>,
    /// Namespaces by their labels.
    pub namespace_selector: Option<Selector>,
}

/// Whether a spread constraint binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WhenUnsatisfiable {
    /// It does.
    DoNotSchedule,
    /// It is a preference.
    ScheduleAnyway,
}

/// Whether spreading looks at what a pod says about nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodePolicy {
    /// Only nodes that the pod could use count.
    Honor,
    /// All nodes count.
    Ignore,
}

/// One topology spread constraint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spread {
    /// The label whose values are the domains.
    pub topology_key: String,
    /// How much fuller than the emptiest a domain may be.
    pub max_skew: i32,
    /// Fewer domains than this count as an empty one.
    pub min_domains: Option<i32>,
    /// Whether it binds.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// The pods counted; none selects nothing.
    pub selector: Option<Selector>,
    /// Whether node affinity decides which nodes count; Honor unless said.
    pub node_affinity: NodePolicy,
    /// Whether taints decide which nodes count; Ignore unless said.
    pub node_taints: NodePolicy,
    /// Labels whose value on the pod is added to the selector.
    pub match_label_keys: Vec<String>,
}

/// Whether the heaviest preference is taken as if it were required (scheduling 5-16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preferences {
    /// It is.
    Respect,
    /// Preferences are left out ("strict").
    Ignore,
}

impl Expression {
    /// The requirement it means. An unknown operator allows nothing; the API server refuses it.
    pub fn requirement(&self) -> Requirement {
        match self.operator.parse::<Operator>() {
            Ok(operator) => Requirement::new(&self.key, operator, self.values.iter().map(String::as_str)),
            Err(_) => Requirement::does_not_exist(&self.key),
        }
    }
}

impl NodeTerm {
    /// What labels must be; fields are not looked at (scheduling 5-16).
    pub fn requirements(&self) -> Requirements {
        self.expressions.iter().map(Expression::requirement).collect()
    }
}

impl Constraints {
    /// The requirements on a node's labels: selector, first required term and, if respected, the heaviest preferred one (scheduling 5-16).
    pub fn node_requirements(&self, preferences: Preferences) -> Requirements {
        let mut result = Requirements::from_labels(&self.node_selector);
        if preferences == Preferences::Respect
            && let Some(heaviest) = heaviest(&self.preferred_terms)
        {
            result.add_all(&heaviest.term.requirements());
        }
        if let Some(first) = self.required_terms.first() {
            result.add_all(&first.requirements());
        }
        result
    }
}

/// The first of the heaviest preferences.
pub(crate) fn heaviest<T>(preferences: &[Weighted<T>]) -> Option<&Weighted<T>> {
    preferences
        .iter()
        .reduce(|best, next| if next.weight > best.weight { next } else { best })
}

impl Pod {
    /// `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

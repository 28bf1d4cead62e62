//! DaemonSets, PodDisruptionBudgets and Namespaces.

use super::Labels;
use super::pod::Reader;
use crate::cluster::object::{Entry, Meta};
use crate::scheduling::pdb;
use crate::scheduling::pod::{Pod, with_limits_as_requests};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::sync::Arc;

/// A DaemonSet.
pub type DaemonSetEntry = Entry<DaemonSetFacts>;
/// A PodDisruptionBudget.
pub type PdbEntry = Entry<PdbFacts>;
/// A Namespace.
pub type NamespaceEntry = Entry<NamespaceFacts>;

/// What is known of a DaemonSet: the pod that it makes on each node (scheduling 12-1).
#[derive(Debug, Clone)]
pub struct DaemonSetFacts {
    /// The pod of the template, limits standing in for missing requests: a stand-in where no real pod is known.
    pub template: Arc<Pod>,
}

impl DaemonSetEntry {
    /// Reads a DaemonSet.
    pub fn read(set: DaemonSet) -> Self {
        let meta = Meta::read(&set.metadata);
        let template = set.spec.map(|spec| spec.template).unwrap_or_default();
        let mut metadata = template.metadata.unwrap_or_default();
        metadata.namespace = set.metadata.namespace;
        metadata.name = set.metadata.name;
        let spec = with_limits_as_requests(&template.spec.unwrap_or_default());
        Self {
            meta,
            facts: DaemonSetFacts {
                template: Arc::new(Pod::from_parts(&metadata, &spec)),
            },
        }
    }
}

/// Which unhealthy pods a PodDisruptionBudget lets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnhealthyPods {
    /// Only when the application is not disrupted by it.
    IfHealthyBudget,
    /// Always.
    AlwaysAllow,
}

/// What is known of a PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq)]
pub struct PdbFacts {
    /// Which pods; `None` matches none, an empty selector all (lifecycle 14.7).
    pub selector: Option<LabelSelector>,
    /// spec.maxUnavailable.
    pub max_unavailable: Option<IntOrString>,
    /// spec.minAvailable.
    pub min_available: Option<IntOrString>,
    /// spec.unhealthyPodEvictionPolicy.
    pub unhealthy: UnhealthyPods,
    /// status.disruptionsAllowed.
    pub disruptions_allowed: i32,
    /// Whether it can ever let a pod go, as a scheduling pass asks (scheduling 3-7).
    pub placement: pdb::Budget,
}

impl PdbEntry {
    /// Reads a PodDisruptionBudget.
    pub fn read(budget: PodDisruptionBudget) -> Self {
        let meta = Meta::read(&budget.metadata);
        let placement = pdb::Budget::from(&budget);
        let spec = budget.spec.unwrap_or_default();
        let unhealthy = match spec.unhealthy_pod_eviction_policy.as_deref() {
            Some("AlwaysAllow") => UnhealthyPods::AlwaysAllow,
            _ => UnhealthyPods::IfHealthyBudget,
        };
        let facts = PdbFacts {
            selector: spec.selector,
            max_unavailable: spec.max_unavailable,
            min_available: spec.min_available,
            unhealthy,
            disruptions_allowed: budget
                .status
                .map(|status| status.disruptions_allowed)
                .unwrap_or_default(),
            placement,
        };
        Self { meta, facts }
    }
}

impl PdbFacts {
    /// Whether it allows no eviction ever, whatever the state of its pods (scheduling 3-7).
    pub fn is_fully_blocking(&self) -> bool {
        let none_may_go = match &self.max_unavailable {
            Some(IntOrString::Int(count)) => *count == 0,
            Some(IntOrString::String(text)) => text == "0%",
            None => false,
        };
        none_may_go || matches!(&self.min_available, Some(IntOrString::String(text)) if text == "100%")
    }
}

/// What is known of a Namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceFacts {
    /// Labels, which namespace selectors look at.
    pub labels: Arc<Labels>,
}

impl NamespaceEntry {
    /// Reads a Namespace.
    pub fn read(namespace: Namespace, reader: &mut Reader) -> Self {
        let meta = Meta::read(&namespace.metadata);
        Self {
            meta,
            facts: NamespaceFacts {
                labels: reader.labels(namespace.metadata.labels.unwrap_or_default()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(max: Option<IntOrString>, min: Option<IntOrString>) -> PdbFacts {
        let facts = PdbEntry::read(PodDisruptionBudget::default()).facts;
        PdbFacts {
            max_unavailable: max,
            min_available: min,
            ..facts
        }
    }

    #[test]
    fn a_budget_that_never_allows_anything_is_told_by_its_words() {
        // scheduling 3-7
        let text = |text: &str| Some(IntOrString::String(text.to_owned()));
        assert!(budget(Some(IntOrString::Int(0)), None).is_fully_blocking());
        assert!(budget(text("0%"), None).is_fully_blocking());
        assert!(budget(None, text("100%")).is_fully_blocking());
        assert!(!budget(None, Some(IntOrString::Int(3))).is_fully_blocking());
        assert!(!budget(text("1%"), text("99%")).is_fully_blocking());
        assert!(!budget(None, None).is_fully_blocking());
    }
}

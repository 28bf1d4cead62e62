//! Filters that look at one node alone: cordon, taints, selectors, ports, resources.

use super::cluster::Used;
use super::facts::{NodeFacts, PodFacts};
use super::labels::term_selects;
use super::reason::Reason;
use super::taints::{Ignored, untolerated};
use k8s_openapi::api::core::v1::{Taint, Toleration};

/// The taint that stands for a cordon.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Whether node selector and required affinity take a node.
pub(crate) fn matches_node(pod: &PodFacts, node: &NodeFacts) -> bool {
    let selected = pod
        .node_selector
        .iter()
        .all(|(key, value)| node.labels.get(key) == Some(value));
    let terms = pod.node_affinity.as_ref().map(|s| s.node_selector_terms.as_slice());
    selected && terms.is_none_or(|terms| terms.iter().any(|t| term_selects(t, &node.name, &node.labels)))
}

pub(crate) fn cordon(pod: &PodFacts, node: &NodeFacts) -> Result<(), Reason> {
    let tolerated = || {
        let taint = Taint {
            key: UNSCHEDULABLE.into(),
            effect: "NoSchedule".into(),
            ..Taint::default()
        };
        let tolerations: &[Toleration] = &pod.tolerations;
        untolerated(std::slice::from_ref(&taint), tolerations, Ignored::Preferences).is_none()
    };
    if node.unschedulable && !tolerated() {
        Err(Reason::Unschedulable)
    } else {
        Ok(())
    }
}

pub(crate) fn taints(pod: &PodFacts, node: &NodeFacts) -> Result<(), Reason> {
    match untolerated(&node.taints, &pod.tolerations, Ignored::Preferences) {
        None => Ok(()),
        Some(taint) => Err(Reason::Taint {
            key: taint.key.clone(),
            value: taint.value.clone().unwrap_or_default(),
        }),
    }
}

pub(crate) fn affinity(pod: &PodFacts, node: &NodeFacts) -> Result<(), Reason> {
    if matches_node(pod, node) {
        Ok(())
    } else {
        Err(Reason::NodeAffinity)
    }
}

pub(crate) fn ports(pod: &PodFacts, used: &Used) -> Result<(), Reason> {
    let taken = pod.ports.iter().any(|own| used.ports().any(|other| own.clashes(other)));
    if taken { Err(Reason::Ports) } else { Ok(()) }
}

pub(crate) fn resources(pod: &PodFacts, node: &NodeFacts, used: &Used) -> Result<(), Reason> {
    let mut short = Vec::new();
    let total = |name: &str| node.allocatable.get(name).copied().unwrap_or(0);
    let pods = i64::try_from(used.pods.len()).unwrap_or(i64::MAX);
    if pods.saturating_add(1) > total("pods") {
        short.push("pods".to_owned());
    }
    for (name, amount) in &pod.requests {
        let taken = used.requests.get(name).copied().unwrap_or(0);
        // What is not asked for cannot be short, even on a node that is over-full.
        if *amount > 0 && *amount > total(name).saturating_sub(taken) {
            short.push(name.clone());
        }
    }
    if short.is_empty() {
        Ok(())
    } else {
        Err(Reason::Resources(short))
    }
}

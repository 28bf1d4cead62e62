//! From the API's pod to ours. Whatever the API server accepts is accepted; nothing panics on what it would refuse.

use super::{
    Constraints, Expression, NodePolicy, NodeTerm, Phase, Pod, PodTerm, Selector, Spread, Standing, Weighted,
    WhenUnsatisfiable, requests,
};
use crate::resources::{Quantity, names};
use crate::scheduling::ports::HostPort;
use crate::scheduling::taints::Toleration;
use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::{self as core, NodeSelectorTerm, PodAffinityTerm, PodSpec, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use std::sync::Arc;

const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

impl Pod {
    /// Reduces an observed pod to what matters.
    pub fn from_api(pod: &core::Pod) -> Self {
        let default = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&default);
        let mut result = Self::from_parts(&pod.metadata, spec);
        result.standing = standing(pod, spec);
        result
    }

    /// The pod that a template would make, not bound and not yet seen by anybody; a DaemonSet's stand-in (scheduling 12-1).
    pub fn from_parts(metadata: &ObjectMeta, spec: &PodSpec) -> Self {
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
        let name: Arc<str> = text(&metadata.name);
        let mut limits = requests::pod_limits(spec);
        let mut requests = requests::pod_requests(spec);
        requests.set(names::PODS, Quantity::units(1));
        limits.set(names::PODS, Quantity::units(1));
        Self {
            uid: text(&metadata.uid),
            namespace: text(&metadata.namespace),
            constraints: Arc::new(constraints(spec, &name)),
            name,
            labels: Arc::new(metadata.labels.clone().unwrap_or_default()),
            created: instant(metadata.creation_timestamp.as_ref()).unwrap_or_default(),
            standing: Standing::default(),
            requests: Arc::new(requests),
            limits: Arc::new(limits),
        }
    }
}

fn instant(time: Option<&Time>) -> Option<DateTime<Utc>> {
    time.map(crate::api::time::from_k8s)
}

fn standing(pod: &core::Pod, spec: &PodSpec) -> Standing {
    let status = pod.status.as_ref();
    let conditions = || status.and_then(|s| s.conditions.as_ref()).into_iter().flatten();
    let owners = || pod.metadata.owner_references.iter().flatten();
    let owned = |version: &str, kind: &str| owners().any(|o| o.api_version == version && o.kind == kind);
    let annotation = |key: &str| pod.metadata.annotations.as_ref().and_then(|a| a.get(key)).cloned();
    let text = |value: &Option<String>| value.clone().filter(|text| !text.is_empty());
    Standing {
        phase: phase(status.and_then(|s| s.phase.as_deref())),
        node: text(&spec.node_name).map(Into::into),
        nominated_node: status.and_then(|s| text(&s.nominated_node_name)),
        unschedulable: conditions().any(|c| c.type_ == "PodScheduled" && c.reason.as_deref() == Some("Unschedulable")),
        deleted: instant(pod.metadata.deletion_timestamp.as_ref()),
        started: instant(status.and_then(|s| s.start_time.as_ref())),
        ready: conditions().find(|c| c.type_ == "Ready").map(|c| c.status == "True"),
        daemon: owned("apps/v1", "DaemonSet"),
        stateful: owned("apps/v1", "StatefulSet"),
        mirror: owned("v1", "Node"),
        do_not_disrupt: annotation(DO_NOT_DISRUPT),
        deletion_cost: annotation(DELETION_COST),
        priority: spec.priority,
        grace_seconds: spec.termination_grace_period_seconds,
        controller: owners()
            .find(|o| o.controller == Some(true))
            .map(|o| (o.kind.as_str().into(), o.name.as_str().into())),
    }
}

fn phase(text: Option<&str>) -> Phase {
    match text {
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        Some("Unknown") => Phase::Unknown,
        _ => Phase::Pending,
    }
}

fn constraints(spec: &PodSpec, pod_name: &str) -> Constraints {
    let affinity = spec.affinity.as_ref();
    let node = affinity.and_then(|a| a.node_affinity.as_ref());
    let near = affinity.and_then(|a| a.pod_affinity.as_ref());
    let far = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
    let weighted = |term: &core::WeightedPodAffinityTerm| Weighted {
        weight: term.weight,
        term: pod_term(&term.pod_affinity_term),
    };
    let required = node.and_then(|n| n.required_during_scheduling_ignored_during_execution.as_ref());
    let terms = required.map_or(&[][..], |required| &required.node_selector_terms);
    let required_terms: Vec<NodeTerm> = terms.iter().map(node_term).filter(|term| !term.is_empty()).collect();
    Constraints {
        selects_nothing: required_terms.is_empty() && !terms.is_empty(),
        node_selector: spec.node_selector.clone().unwrap_or_default(),
        required_terms,
        preferred_terms: node
            .and_then(|n| n.preferred_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten()
            .map(|term| Weighted {
                weight: term.weight,
                term: node_term(&term.preference),
            })
            .collect(),
        affinity: near
            .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten()
            .map(pod_term)
            .collect(),
        preferred_affinity: near
            .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten()
            .map(weighted)
            .collect(),
        anti_affinity: far
            .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten()
            .map(pod_term)
            .collect(),
        preferred_anti_affinity: far
            .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten()
            .map(weighted)
            .collect(),
        spread: spec.topology_spread_constraints.iter().flatten().map(spread).collect(),
        tolerations: spec.tolerations.iter().flatten().map(Toleration::from).collect(),
        ports: ports(spec),
        volume_claims: volume_claims(spec, pod_name),
        resource_claims: wants_devices(spec),
    }
}

fn node_term(term: &NodeSelectorTerm) -> NodeTerm {
    NodeTerm {
        expressions: term
            .match_expressions
            .iter()
            .flatten()
            .map(|e| Expression {
                key: e.key.clone(),
                operator: e.operator.clone(),
                values: e.values.clone().unwrap_or_default(),
            })
            .collect(),
        match_fields: term.match_fields.as_ref().is_some_and(|fields| !fields.is_empty()),
    }
}

fn pod_term(term: &PodAffinityTerm) -> PodTerm {
    PodTerm {
        topology_key: term.topology_key.clone(),
        selector: term.label_selector.as_ref().map(Selector::from_api),
        namespaces: term.namespaces.clone().unwrap_or_default(),
        namespace_selector: term.namespace_selector.as_ref().map(Selector::from_api),
    }
}

fn spread(constraint: &TopologySpreadConstraint) -> Spread {
    let policy = |text: Option<&str>, default| match text {
        Some("Honor") => NodePolicy::Honor,
        Some("Ignore") => NodePolicy::Ignore,
        _ => default,
    };
    Spread {
        topology_key: constraint.topology_key.clone(),
        max_skew: constraint.max_skew,
        min_domains: constraint.min_domains,
        when_unsatisfiable: if constraint.when_unsatisfiable == "ScheduleAnyway" {
            WhenUnsatisfiable::ScheduleAnyway
        } else {
            WhenUnsatisfiable::DoNotSchedule
        },
        selector: constraint.label_selector.as_ref().map(Selector::from_api),
        node_affinity: policy(constraint.node_affinity_policy.as_deref(), NodePolicy::Honor),
        node_taints: policy(constraint.node_taints_policy.as_deref(), NodePolicy::Ignore),
        match_label_keys: constraint.match_label_keys.clone().unwrap_or_default(),
    }
}

/// The ports of regular containers (scheduling 9-1).
fn ports(spec: &PodSpec) -> Vec<HostPort> {
    let ports = spec
        .containers
        .iter()
        .flat_map(|container| container.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let number = port.host_port.filter(|number| *number != 0)?;
            Some(HostPort {
                ip: port.host_ip.clone().unwrap_or_default(),
                port: number,
                protocol: port.protocol.clone().unwrap_or_default(),
            })
        })
        .collect()
}

/// The claims behind its volumes; a generic ephemeral volume's claim is named after pod and volume (scheduling 4-6).
fn volume_claims(spec: &PodSpec, pod_name: &str) -> Vec<String> {
    let volumes = spec.volumes.iter().flatten();
    volumes
        .filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => Some(source.claim_name.clone()),
            (None, Some(_)) => Some(format!("{pod_name}-{}", volume.name)),
            (None, None) => None,
        })
        .collect()
}

fn wants_devices(spec: &PodSpec) -> bool {
    let claims = |container: &core::Container| {
        container
            .resources
            .as_ref()
            .is_some_and(|r| r.claims.as_ref().is_some_and(|claims| !claims.is_empty()))
    };
    spec.containers.iter().any(claims) || spec.init_containers.iter().flatten().any(claims)
}

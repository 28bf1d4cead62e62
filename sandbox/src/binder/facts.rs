//! Pods and nodes reduced to what the filters look at. Read once per change, used many times.

use super::labels::{Labels, with_keys};
use super::request::{Amounts, amounts, pod_requests, scored_requests};
use crate::observe::Name;
use k8s_openapi::api::core::v1::{
    Container, Node, NodeSelector, Pod, PodAffinityTerm, PodSpec, PreferredSchedulingTerm,
};
use k8s_openapi::api::core::v1::{Taint, Toleration, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// A port of the host that a pod takes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostPort {
    pub(crate) ip: String,
    pub(crate) protocol: String,
    pub(crate) port: i32,
}

impl HostPort {
    /// Whether both cannot be on one host.
    pub(crate) fn clashes(&self, other: &Self) -> bool {
        let any = |ip: &str| ip.is_empty() || ip == "0.0.0.0";
        let same_ip = any(&self.ip) || any(&other.ip) || self.ip == other.ip;
        self.port == other.port && self.protocol == other.protocol && same_ip
    }
}

/// A required (anti-)affinity term, with its keys resolved.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Term {
    pub(crate) selector: Option<LabelSelector>,
    pub(crate) namespaces: Vec<String>,
    pub(crate) namespace_selector: Option<LabelSelector>,
    pub(crate) topology_key: String,
}

/// A hard spread constraint, with its keys resolved.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Spread {
    pub(crate) key: String,
    pub(crate) max_skew: i64,
    pub(crate) min_domains: i64,
    pub(crate) selector: Option<LabelSelector>,
    pub(crate) honor_affinity: bool,
    pub(crate) honor_taints: bool,
}

/// What a pod says about its last attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// A pod.
#[derive(Debug, Clone, PartialEq)]
pub struct PodFacts {
    pub(crate) name: Name,
    pub(crate) uid: String,
    pub(crate) labels: Labels,
    pub(crate) node: Option<String>,
    pub(crate) nominated: Option<String>,
    pub(crate) scheduler: String,
    pub(crate) priority: i32,
    pub(crate) gated: bool,
    pub(crate) terminating: bool,
    pub(crate) finished: bool,
    pub(crate) requests: Amounts,
    pub(crate) scored: (i64, i64),
    pub(crate) ports: Vec<HostPort>,
    pub(crate) node_selector: Labels,
    pub(crate) node_affinity: Option<NodeSelector>,
    pub(crate) preferred_nodes: Vec<PreferredSchedulingTerm>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) affinity: Vec<Term>,
    pub(crate) anti_affinity: Vec<Term>,
    pub(crate) spreads: Vec<Spread>,
    /// Names of its claims, in its own namespace.
    pub(crate) claims: Vec<String>,
    pub(crate) told: Option<Told>,
}

impl PodFacts {
    /// Reads a pod.
    pub fn of(pod: &Pod) -> Self {
        let name = Name::of(pod);
        let meta = &pod.metadata;
        let labels = meta.labels.clone().unwrap_or_default();
        let spec = pod.spec.clone().unwrap_or_default();
        let status = pod.status.clone().unwrap_or_default();
        let pods = spec.affinity.as_ref().and_then(|a| a.pod_affinity.as_ref());
        let against = spec.affinity.as_ref().and_then(|a| a.pod_anti_affinity.as_ref());
        let terms = |list: Option<&Vec<PodAffinityTerm>>| -> Vec<Term> {
            list.into_iter()
                .flatten()
                .map(|t| term(t, &name.namespace, &labels))
                .collect()
        };
        let nodes = spec
            .affinity
            .as_ref()
            .and_then(|a| a.node_affinity.clone())
            .unwrap_or_default();
        let told = status.conditions.iter().flatten().find(|c| c.type_ == "PodScheduled");
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            node: spec.node_name.clone().filter(|n| !n.is_empty()),
            nominated: status.nominated_node_name.clone().filter(|n| !n.is_empty()),
            scheduler: spec
                .scheduler_name
                .clone()
                .unwrap_or_else(|| "default-scheduler".into()),
            priority: spec.priority.unwrap_or(0),
            gated: spec.scheduling_gates.as_ref().is_some_and(|g| !g.is_empty()),
            terminating: meta.deletion_timestamp.is_some(),
            finished: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            requests: pod_requests(&spec),
            scored: scored_requests(&spec),
            ports: host_ports(&spec),
            node_selector: spec.node_selector.clone().unwrap_or_default(),
            node_affinity: nodes.required_during_scheduling_ignored_during_execution,
            preferred_nodes: nodes
                .preferred_during_scheduling_ignored_during_execution
                .unwrap_or_default(),
            tolerations: spec.tolerations.clone().unwrap_or_default(),
            affinity: terms(pods.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())),
            anti_affinity: terms(against.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())),
            spreads: spreads(&spec, &labels),
            claims: claims(&spec, &name.name),
            told: told.map(|c| Told {
                status: c.status.clone(),
                reason: c.reason.clone().unwrap_or_default(),
                message: c.message.clone().unwrap_or_default(),
            }),
            name,
            labels,
        }
    }

    /// Namespace and name.
    pub fn name(&self) -> &Name {
        &self.name
    }
}

fn term(term: &PodAffinityTerm, own: &str, labels: &Labels) -> Term {
    let mut namespaces = term.namespaces.clone().unwrap_or_default();
    if namespaces.is_empty() && term.namespace_selector.is_none() {
        namespaces.push(own.to_owned());
    }
    Term {
        selector: with_keys(
            term.label_selector.as_ref(),
            term.match_label_keys.as_ref(),
            term.mismatch_label_keys.as_ref(),
            labels,
        ),
        namespaces,
        namespace_selector: term.namespace_selector.clone(),
        topology_key: term.topology_key.clone(),
    }
}

fn spreads(spec: &PodSpec, labels: &Labels) -> Vec<Spread> {
    let hard = |c: &&TopologySpreadConstraint| c.when_unsatisfiable == "DoNotSchedule";
    let constraints = spec.topology_spread_constraints.iter().flatten().filter(hard);
    constraints
        .map(|c| Spread {
            key: c.topology_key.clone(),
            max_skew: i64::from(c.max_skew),
            min_domains: i64::from(c.min_domains.unwrap_or(1)),
            selector: with_keys(c.label_selector.as_ref(), c.match_label_keys.as_ref(), None, labels),
            honor_affinity: c.node_affinity_policy.as_deref().unwrap_or("Honor") == "Honor",
            honor_taints: c.node_taints_policy.as_deref() == Some("Honor"),
        })
        .collect()
}

fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let of = |c: &Container| -> Vec<HostPort> {
        let ports = c.ports.iter().flatten();
        ports
            .filter_map(|p| {
                let on_host = spec.host_network == Some(true);
                let port = p
                    .host_port
                    .or_else(|| on_host.then_some(p.container_port))
                    .filter(|port| *port > 0)?;
                Some(HostPort {
                    ip: p.host_ip.clone().unwrap_or_default(),
                    protocol: p.protocol.clone().unwrap_or_else(|| "TCP".into()),
                    port,
                })
            })
            .collect()
    };
    spec.containers.iter().chain(sidecars).flat_map(of).collect()
}

fn claims(spec: &PodSpec, pod: &str) -> Vec<String> {
    let volumes = spec.volumes.iter().flatten();
    volumes
        .filter_map(|v| match (&v.persistent_volume_claim, &v.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            // The claim of a generic ephemeral volume is named after pod and volume.
            (None, Some(_)) => Some(format!("{pod}-{}", v.name)),
            (None, None) => None,
        })
        .collect()
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeFacts {
    pub(crate) name: String,
    pub(crate) labels: Labels,
    pub(crate) taints: Vec<Taint>,
    pub(crate) unschedulable: bool,
    pub(crate) allocatable: Amounts,
}

impl NodeFacts {
    /// Reads a node.
    pub fn of(node: &Node) -> Self {
        let spec = node.spec.clone().unwrap_or_default();
        let status = node.status.as_ref();
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: spec.taints.unwrap_or_default(),
            unschedulable: spec.unschedulable.unwrap_or(false),
            allocatable: status
                .and_then(|s| s.allocatable.as_ref())
                .map(amounts)
                .unwrap_or_default(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

//! Decides whether a registered node is initialized: Ready, free of the taints of its start, with everything its claim asked for.
//!
//! Once True it never goes back (lifecycle 5.4). Called by the lifecycle controller after registration.

use crate::api::labels::{known_ephemeral_taints, same_taint};
use k8s_openapi::api::core::v1::Taint;

/// What initialization looks at on the Node.
#[derive(Debug, Clone)]
pub struct NodeFacts<'a> {
    /// Whether the Node's Ready condition is True.
    pub ready: bool,
    /// The Node's taints.
    pub taints: &'a [Taint],
}

/// What is missing, in the order of the checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// There is no single node of the claim.
    Node,
    /// The Node is not Ready.
    Ready,
    /// A startup taint is still there.
    StartupTaint(String),
    /// A taint of the node's start is still there.
    EphemeralTaint(String),
    /// A requested resource is not in the Node's allocatable.
    Resource(String),
}

impl Missing {
    /// Reason of the Initialized=Unknown condition (lifecycle 5.2).
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Node => "NodeNotFound",
            Self::Ready => "NodeNotReady",
            Self::StartupTaint(_) => "StartupTaintsExist",
            Self::EphemeralTaint(_) => "KnownEphemeralTaintsExist",
            Self::Resource(_) => "ResourceNotRegistered",
        }
    }

    /// Message of the condition.
    pub fn message(&self) -> String {
        match self {
            Self::Node => "Node not registered with cluster".to_owned(),
            Self::Ready => "Node status is NotReady".to_owned(),
            Self::StartupTaint(taint) => format!("StartupTaint {taint:?} still exists"),
            Self::EphemeralTaint(taint) => format!("KnownEphemeralTaint {taint:?} still exists"),
            Self::Resource(name) => format!("Resource {name:?} was requested but not registered"),
        }
    }
}

/// Checks in Karpenter's order and names the first thing missing (lifecycle 5.2). `requested` are the names of the claim's requests that are
/// not zero; `allocatable` answers whether the Node offers any of a resource.
pub fn missing(
    node: Option<&NodeFacts<'_>>,
    startup_taints: &[Taint],
    requested: impl IntoIterator<Item = String>,
    allocatable: impl Fn(&str) -> bool,
) -> Option<Missing> {
    let Some(node) = node else { return Some(Missing::Node) };
    if !node.ready {
        return Some(Missing::Ready);
    }
    if let Some(taint) = startup_taints
        .iter()
        .find(|wanted| node.taints.iter().any(|there| same_taint(there, wanted)))
    {
        return Some(Missing::StartupTaint(in_words(taint)));
    }
    let ephemeral = known_ephemeral_taints();
    let is_ephemeral = |taint: &&Taint| ephemeral.iter().any(|known| same_taint(known, taint));
    if let Some(taint) = node.taints.iter().find(is_ephemeral) {
        return Some(Missing::EphemeralTaint(in_words(taint)));
    }
    requested
        .into_iter()
        .find(|name| !allocatable(name))
        .map(Missing::Resource)
}

/// A taint in words, `key[=value]:effect`.
fn in_words(taint: &Taint) -> String {
    match taint.value.as_deref() {
        Some(value) if !value.is_empty() => format!("{}={value}:{}", taint.key, taint.effect),
        _ => format!("{}:{}", taint.key, taint.effect),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, effect: &str) -> Taint {
        Taint {
            key: key.into(),
            value: None,
            effect: effect.into(),
            time_added: None,
        }
    }

    fn check(node: Option<&NodeFacts<'_>>, startup: &[Taint], requested: &[&str]) -> Option<&'static str> {
        missing(node, startup, requested.iter().map(ToString::to_string), |name| {
            name == "cpu"
        })
        .map(|m| m.reason())
    }

    #[test]
    fn the_first_failing_check_gives_the_reason() {
        let startup = [taint("cni", "NoSchedule")];
        let taints = [
            taint("node.kubernetes.io/not-ready", "NoSchedule"),
            taint("cni", "NoSchedule"),
        ];
        assert_eq!(check(None, &startup, &["gpu"]), Some("NodeNotFound"));
        let not_ready = NodeFacts {
            ready: false,
            taints: &taints,
        };
        assert_eq!(check(Some(&not_ready), &startup, &["gpu"]), Some("NodeNotReady"));
        let ready = NodeFacts {
            ready: true,
            taints: &taints,
        };
        assert_eq!(check(Some(&ready), &startup, &["gpu"]), Some("StartupTaintsExist"));
        assert_eq!(check(Some(&ready), &[], &["gpu"]), Some("KnownEphemeralTaintsExist"));
        let clean = NodeFacts {
            ready: true,
            taints: &[],
        };
        assert_eq!(
            check(Some(&clean), &startup, &["cpu", "gpu"]),
            Some("ResourceNotRegistered")
        );
        assert_eq!(check(Some(&clean), &startup, &["cpu"]), None);
    }

    #[test]
    fn a_resource_nobody_asked_for_does_not_block() {
        assert_eq!(
            check(
                Some(&NodeFacts {
                    ready: true,
                    taints: &[]
                }),
                &[],
                &[]
            ),
            None
        );
    }
}

//! Decides how a node that joined becomes the node of its claim: what is written on it, and when it counts as registered.
//!
//! Relies on the join of claims and nodes made by `cluster` (by claim UID first, by provider ID second). Called by the lifecycle controller until
//! Registered is decided; what is returned is the whole wanted state, so repeating it changes nothing.

use crate::api::labels::{
    DO_NOT_SYNC_TAINTS, REGISTERED, TERMINATION_FINALIZER, merge_taints, same_taint, unregistered_taint,
};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::collections::BTreeMap;

/// The parts of a Node that registration writes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeMarks {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Finalizers.
    pub finalizers: Vec<String>,
    /// Owner references.
    pub owners: Vec<OwnerReference>,
    /// Taints.
    pub taints: Vec<Taint>,
}

/// The parts of a claim that are copied to its Node.
#[derive(Debug, Clone)]
pub struct ClaimMarks<'a> {
    /// Reference to the claim, blocking its deletion.
    pub owner: OwnerReference,
    /// Labels; the claim wins over the Node.
    pub labels: &'a BTreeMap<String, String>,
    /// Annotations; the claim wins over the Node.
    pub annotations: &'a BTreeMap<String, String>,
    /// Taints of the spec.
    pub taints: &'a [Taint],
    /// Startup taints of the spec.
    pub startup_taints: &'a [Taint],
    /// Label keys of the claim that the platform's cloud controller owns on Nodes: copying them would start a tug of war (surface T18).
    pub not_ours_on_nodes: &'a [&'a str],
}

/// How many nodes carry the claim's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// None yet: Registered Unknown, `NodeNotFound`.
    None,
    /// The one.
    One,
    /// Registered False, `MultipleNodesFound`.
    Several,
}

/// Counts what was found (lifecycle 4.2).
pub fn found(nodes: usize) -> Found {
    match nodes {
        0 => Found::None,
        1 => Found::One,
        _ => Found::Several,
    }
}

/// Whether registration hooks have all passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hooks {
    /// Some hook is pending: synchronise, but do not register (lifecycle 4.5).
    Pending,
    /// Go on (lifecycle 4.6).
    Passed,
}

/// What the Node shall carry (lifecycle 4.4, 4.6). Idempotent: applied to its own result it changes nothing.
pub fn wanted(node: &NodeMarks, claim: &ClaimMarks<'_>, hooks: Hooks) -> NodeMarks {
    let mut wanted = node.clone();
    if !wanted.finalizers.iter().any(|f| f == TERMINATION_FINALIZER) {
        wanted.finalizers.push(TERMINATION_FINALIZER.to_owned());
    }
    let owner = &claim.owner;
    let owned = |there: &OwnerReference| {
        there.api_version == owner.api_version && there.kind == owner.kind && there.uid == owner.uid
    };
    if !wanted.owners.iter().any(owned) {
        wanted.owners.push(owner.clone());
    }
    if node.labels.get(DO_NOT_SYNC_TAINTS).map(String::as_str) != Some("true") {
        wanted.taints = merge_taints(&wanted.taints, claim.taints);
        wanted.taints = merge_taints(&wanted.taints, claim.startup_taints);
    }
    wanted
        .annotations
        .extend(claim.annotations.iter().map(|(k, v)| (k.clone(), v.clone())));
    for (key, value) in claim.labels {
        let theirs = claim.not_ours_on_nodes.contains(&key.as_str()) && node.labels.contains_key(key);
        if !theirs {
            wanted.labels.insert(key.clone(), value.clone());
        }
    }
    if hooks == Hooks::Passed {
        wanted.taints.retain(|taint| !same_taint(taint, &unregistered_taint()));
        wanted.labels.insert(REGISTERED.to_owned(), "true".to_owned());
    }
    wanted
}

/// Labels of the claim that its registered Node does not have any more.
///
/// Differs: upstream writes them once. This platform is known to take labels off Nodes again (architecture §7.5), and a Node without pool and capacity
/// type is never consolidated: it would cost money for ever.
pub fn lost_labels(node: &BTreeMap<String, String>, claim: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let lost = claim.iter().filter(|(key, _)| !node.contains_key(*key));
    lost.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_off_a_node_is_found_and_what_somebody_changed_is_left() {
        let claim = map(&[
            ("karpenter.sh/nodepool", "p"),
            ("node.kubernetes.io/instance-type", "c"),
            ("team", "a"),
        ]);
        let node = map(&[
            ("node.kubernetes.io/instance-type", "flavor"),
            ("team", "b"),
            ("other", "x"),
        ]);
        assert_eq!(lost_labels(&node, &claim), map(&[("karpenter.sh/nodepool", "p")]));
    }

    fn taint(key: &str, effect: &str) -> Taint {
        Taint {
            key: key.into(),
            value: None,
            effect: effect.into(),
            time_added: None,
        }
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn owner() -> OwnerReference {
        OwnerReference {
            api_version: "karpenter.sh/v1".into(),
            kind: "NodeClaim".into(),
            name: "default-abcde".into(),
            uid: "u1".into(),
            block_owner_deletion: Some(true),
            controller: None,
        }
    }

    fn claim<'a>(
        labels: &'a BTreeMap<String, String>,
        none: &'a BTreeMap<String, String>,
        taints: &'a [Taint],
    ) -> ClaimMarks<'a> {
        ClaimMarks {
            owner: owner(),
            labels,
            annotations: none,
            taints,
            startup_taints: &[],
            not_ours_on_nodes: &["node.kubernetes.io/instance-type"],
        }
    }

    #[test]
    fn registration_is_idempotent_and_complete() {
        let (labels, none) = (map(&[("karpenter.sh/nodepool", "default")]), BTreeMap::new());
        let taints = [taint("dedicated", "NoSchedule")];
        let node = NodeMarks {
            taints: vec![unregistered_taint()],
            ..NodeMarks::default()
        };
        let once = wanted(&node, &claim(&labels, &none, &taints), Hooks::Passed);
        assert_eq!(once.finalizers, [TERMINATION_FINALIZER]);
        assert_eq!(once.owners, [owner()]);
        assert_eq!(once.taints, taints);
        assert_eq!(once.labels.get(REGISTERED).map(String::as_str), Some("true"));
        assert_eq!(wanted(&once, &claim(&labels, &none, &taints), Hooks::Passed), once);
    }

    #[test]
    fn a_pending_hook_leaves_the_node_unregistered() {
        let none = BTreeMap::new();
        let node = NodeMarks {
            taints: vec![unregistered_taint()],
            ..NodeMarks::default()
        };
        let synced = wanted(&node, &claim(&none, &none, &[]), Hooks::Pending);
        assert_eq!(synced.taints.len(), 1);
        assert!(!synced.labels.contains_key(REGISTERED));
        assert_eq!(synced.finalizers, [TERMINATION_FINALIZER]);
    }

    #[test]
    fn a_node_may_refuse_the_claims_taints() {
        let none = BTreeMap::new();
        let node = NodeMarks {
            labels: map(&[(DO_NOT_SYNC_TAINTS, "true")]),
            ..NodeMarks::default()
        };
        let taints = [taint("dedicated", "NoSchedule")];
        assert!(
            wanted(&node, &claim(&none, &none, &taints), Hooks::Passed)
                .taints
                .is_empty()
        );
    }

    #[test]
    fn the_claims_labels_win_but_for_those_the_cloud_controller_owns() {
        let labels = map(&[("team", "a"), ("node.kubernetes.io/instance-type", "mh.vs1.large-iad")]);
        let none = BTreeMap::new();
        let node = NodeMarks {
            labels: map(&[("team", "b"), ("node.kubernetes.io/instance-type", "memory1-30")]),
            ..NodeMarks::default()
        };
        let synced = wanted(&node, &claim(&labels, &none, &[]), Hooks::Passed);
        assert_eq!(synced.labels["team"], "a");
        assert_eq!(synced.labels["node.kubernetes.io/instance-type"], "memory1-30");
    }

    #[test]
    fn an_owner_of_the_same_name_but_another_uid_is_not_ours() {
        let none = BTreeMap::new();
        let old = OwnerReference {
            uid: "u0".into(),
            ..owner()
        };
        let node = NodeMarks {
            owners: vec![old],
            ..NodeMarks::default()
        };
        assert_eq!(wanted(&node, &claim(&none, &none, &[]), Hooks::Passed).owners.len(), 2);
    }
}

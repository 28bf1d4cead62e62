//! One machine as scheduling and disruption see it: a NodeClaim, the Node it became, or both, joined once (lifecycle 16.4, scheduling 23-5 to 23-8).
//!
//! Relies on the entries; [`Cluster`](super::Cluster) assembles them, everybody who plans reads them.

use super::entries::{ClaimEntry, NodeEntry, PodEntry};
use super::ledger::MachineId;
use super::object::Key;
use crate::api::{Conditioned, conditions, labels};
use crate::resources::{Quantity, ResourceList, names};
use crate::scheduling::problem::Node;
use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::Taint;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Volume limits by CSI driver.
pub type VolumeLimits = Arc<BTreeMap<String, i32>>;

/// One machine.
#[derive(Debug, Clone)]
pub struct StateNode {
    /// Its identity: stays the same when the Node joins its claim.
    pub id: MachineId,
    /// The NodeClaim, if it is one of ours.
    pub claim: Option<Arc<ClaimEntry>>,
    /// The Node, once there is one.
    pub node: Option<Arc<NodeEntry>>,
    /// Pods bound to it that have not ended, by key; terminating ones included (scheduling 23-10).
    pub pods: Arc<[Arc<PodEntry>]>,
    /// Pods planned on it that are not bound yet.
    pub planned: Arc<[Key]>,
    /// Whether disruption has marked it (one way of several to be marked, see [`is_marked_for_deletion`](Self::is_marked_for_deletion)).
    pub marked: bool,
    /// Until when it awaits pods.
    pub nominated_until: Option<DateTime<Utc>>,
    /// How many volumes each CSI driver attaches; drivers without limit are absent.
    pub volume_limits: VolumeLimits,
    /// What a scheduling pass sees, once it was asked for.
    pub(super) view: OnceLock<Arc<Node>>,
}

impl StateNode {
    /// Whether it has a NodeClaim (scheduling 23-5).
    pub fn is_managed(&self) -> bool {
        self.claim.is_some()
    }

    /// Whether registration has finished; a Node that is not ours counts as registered.
    pub fn is_registered(&self) -> bool {
        !self.is_managed() || self.node.as_ref().is_some_and(|node| node.is_registered())
    }

    /// Whether initialization has finished; a Node that is not ours counts as initialized.
    pub fn is_initialized(&self) -> bool {
        !self.is_managed() || self.node.as_ref().is_some_and(|node| node.is_initialized())
    }

    /// The Node once it is registered: from then on it speaks for the machine, before that the claim does (scheduling 23-6).
    fn speaker(&self) -> Option<&NodeEntry> {
        let node = self.node.as_deref()?;
        (self.claim.is_none() || node.is_registered()).then_some(node)
    }

    /// The name of the Node, or of the claim until registered.
    pub fn name(&self) -> &str {
        match (self.speaker(), &self.claim, &self.node) {
            (Some(node), _, _) => node.name(),
            (None, Some(claim), _) => claim.name(),
            (None, None, Some(node)) => node.name(),
            (None, None, None) => "",
        }
    }

    /// Labels: the claim's until registered, then the Node's.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        match (self.speaker(), &self.claim) {
            (Some(node), _) => &node.facts.labels,
            (None, Some(claim)) => claim.metadata.labels.as_ref().unwrap_or(&NONE),
            (None, None) => &NONE,
        }
    }

    /// The same, to be held: a Node's labels are not copied.
    pub(super) fn shared_labels(&self) -> Arc<BTreeMap<String, String>> {
        match self.speaker() {
            Some(node) => Arc::clone(&node.facts.labels),
            None => Arc::new(self.labels().clone()),
        }
    }

    /// Annotations: the claim's until registered, then the Node's.
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        match (self.speaker(), &self.claim) {
            (Some(node), _) => &node.facts.annotations,
            (None, Some(claim)) => claim.metadata.annotations.as_ref().unwrap_or(&NONE),
            (None, None) => &NONE,
        }
    }

    /// The value of one label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels().get(key).map(String::as_str)
    }

    /// The hostname label, or the name (scheduling 23-6).
    pub fn hostname(&self) -> &str {
        self.label(labels::HOSTNAME).unwrap_or_else(|| self.name())
    }

    /// The NodePool that it belongs to.
    pub fn nodepool(&self) -> Option<&str> {
        self.label(labels::NODEPOOL)
    }

    /// The instance type it was sold as: from the claim, since the platform overwrites the Node's label (architecture §7.14).
    pub fn instance_type(&self) -> Option<&str> {
        self.claim
            .as_ref()
            .and_then(|claim| claim.instance_type())
            .or_else(|| self.label(labels::INSTANCE_TYPE))
    }

    /// The provider ID, the Node's if there is a Node.
    pub fn provider_id(&self) -> Option<&str> {
        let of_node = self.node.as_ref().and_then(|node| node.provider_id.as_deref());
        of_node.or_else(|| self.claim.as_ref().and_then(|claim| claim.provider_id()))
    }

    /// The taints that pods must tolerate to be planned here (lifecycle 16.4): what will go by itself is left out until initialized.
    pub fn taints(&self) -> Vec<Taint> {
        let taints = match (self.speaker(), &self.claim) {
            (Some(node), _) => node.taints.as_slice(),
            (None, Some(claim)) => claim.spec.taints.as_slice(),
            (None, None) => &[],
        };
        if self.is_initialized() {
            return taints.to_vec();
        }
        let mut passing = labels::known_ephemeral_taints();
        passing.extend(
            self.claim
                .iter()
                .flat_map(|claim| claim.spec.startup_taints.iter().cloned()),
        );
        let stays = |taint: &&Taint| !passing.iter().any(|gone| is_same(gone, taint));
        taints.iter().filter(stays).cloned().collect()
    }

    /// What it has in all, `nodes: 1` included (lifecycle 16.4).
    pub fn capacity(&self) -> ResourceList {
        let own = self.resources(|node| &node.facts.capacity, |status| &status.capacity);
        own.into_owned().with(names::NODES, Quantity::units(1))
    }

    /// What it offers to pods.
    pub fn allocatable(&self) -> Cow<'_, ResourceList> {
        self.resources(|node| &node.facts.allocatable, |status| &status.allocatable)
    }

    /// Until initialized: the Node's values where they are not zero, else the claim's (scheduling 23-7).
    fn resources<'a>(
        &'a self,
        of_node: impl Fn(&'a NodeEntry) -> &'a ResourceList,
        of_claim: impl Fn(&'a crate::api::NodeClaimStatus) -> &'a crate::api::ResourceList,
    ) -> Cow<'a, ResourceList> {
        let node = self.node.as_deref().map(of_node);
        if let (true, Some(node)) = (self.is_initialized(), node) {
            return Cow::Borrowed(node);
        }
        let status = self.claim.as_ref().and_then(|claim| claim.status.as_ref());
        let mut result = status
            .map(|status| ResourceList::from_api(of_claim(status)))
            .unwrap_or_default();
        for (name, quantity) in node.into_iter().flat_map(ResourceList::iter) {
            if !quantity.is_zero() || result.get(name).is_none() {
                result.set(name, quantity);
            }
        }
        Cow::Owned(result)
    }

    /// Whether the claim is known to have a type: labels and capacity are written (architecture §3.4). A planned claim holds only its ledger's pods.
    pub fn is_resolved(&self) -> bool {
        self.node.is_some()
            || self.claim.as_ref().is_some_and(|claim| {
                claim.instance_type().is_some()
                    && claim
                        .status
                        .as_ref()
                        .is_some_and(|status| !status.allocatable.is_empty())
            })
    }

    /// Whether it is going away (lifecycle 16.5): marked, or the claim is deleting or terminating its instance, or a Node that is not ours is deleting.
    pub fn is_marked_for_deletion(&self) -> bool {
        self.marked
            || match (&self.claim, &self.node) {
                (Some(claim), _) => claim.is_deleting() || claim.facts.is_true(conditions::INSTANCE_TERMINATING),
                (None, Some(node)) => node.is_deleting(),
                (None, None) => false,
            }
    }

    /// Whether pods were lately promised to it (lifecycle 16.6).
    pub fn is_nominated(&self, now: DateTime<Utc>) -> bool {
        self.nominated_until.is_some_and(|until| now < until)
    }
}

fn is_same(a: &Taint, b: &Taint) -> bool {
    labels::same_taint(a, b)
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;

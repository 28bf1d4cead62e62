//! What we have decided and nobody can see yet: which pod is planned on which machine, which node awaits pods, which is marked for deletion.
//!
//! Keeps a plan until the pod is bound or its machine dies (architecture §3.3); nothing of it survives a restart, pending pods are then simulated
//! again against the live claims. Relies on nothing; [`Cluster`](super::Cluster) owns one and lets it hear of each change.

use super::object::{Key, Uid};
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One machine of ours or a node of somebody else's, by the name under which it is a state node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineId {
    /// A machine with a NodeClaim, by the claim's name.
    Claim(Arc<str>),
    /// A Node without NodeClaim, by its name.
    Node(Arc<str>),
}

impl std::fmt::Display for MachineId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Claim(name) => write!(f, "nodeclaim/{name}"),
            Self::Node(name) => write!(f, "node/{name}"),
        }
    }
}

/// A pod and where it shall go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The pod.
    pub pod: Key,
    /// Its UID: a plan is not for a successor of the same name.
    pub uid: Uid,
    /// The machine.
    pub machine: MachineId,
}

/// Plans by pod; cheap to share.
pub type Plans = Arc<BTreeMap<Key, Plan>>;

/// What we have decided.
#[derive(Debug, Default)]
pub struct Ledger {
    plans: Plans,
    by_machine: BTreeMap<MachineId, BTreeSet<Key>>,
    nominated: BTreeMap<MachineId, DateTime<Utc>>,
    marked: BTreeSet<MachineId>,
}

impl Ledger {
    /// The plans.
    pub fn plans(&self) -> Plans {
        Arc::clone(&self.plans)
    }

    /// Pods planned on a machine.
    pub fn planned_on(&self, machine: &MachineId) -> impl Iterator<Item = &Key> {
        self.by_machine.get(machine).into_iter().flatten()
    }

    /// Until when a machine awaits pods.
    pub fn nominated_until(&self, machine: &MachineId) -> Option<DateTime<Utc>> {
        self.nominated.get(machine).copied()
    }

    /// Whether disruption has marked a machine for deletion.
    pub fn is_marked(&self, machine: &MachineId) -> bool {
        self.marked.contains(machine)
    }

    /// Writes down a plan; it replaces the pod's former one.
    pub fn plan(&mut self, plan: Plan) {
        self.forget_pod(&plan.pod);
        self.by_machine
            .entry(plan.machine.clone())
            .or_default()
            .insert(plan.pod.clone());
        Arc::make_mut(&mut self.plans).insert(plan.pod.clone(), plan);
    }

    /// Protects a machine until then (lifecycle 16.6); a later time extends.
    pub fn nominate(&mut self, machine: MachineId, until: DateTime<Utc>) {
        let known = self.nominated.entry(machine).or_insert(until);
        *known = (*known).max(until);
    }

    /// Marks or unmarks a machine; says whether that changed anything.
    pub fn mark(&mut self, machine: MachineId, mark: Mark) -> bool {
        match mark {
            Mark::ForDeletion => self.marked.insert(machine),
            Mark::Not => self.marked.remove(&machine),
        }
    }

    /// The pod is bound or gone: its plan is fulfilled or void. Yields the machine.
    pub fn forget_pod(&mut self, pod: &Key) -> Option<MachineId> {
        if !self.plans.contains_key(pod) {
            return None;
        }
        let plan = Arc::make_mut(&mut self.plans).remove(pod)?;
        if let Some(pods) = self.by_machine.get_mut(&plan.machine) {
            pods.remove(pod);
            if pods.is_empty() {
                self.by_machine.remove(&plan.machine);
            }
        }
        Some(plan.machine)
    }

    /// The machine is gone: so are its plans and marks. Yields how many pods lost their plan.
    pub fn forget_machine(&mut self, machine: &MachineId) -> usize {
        self.nominated.remove(machine);
        self.marked.remove(machine);
        let pods = self.by_machine.remove(machine).unwrap_or_default();
        if !pods.is_empty() {
            let plans = Arc::make_mut(&mut self.plans);
            for pod in &pods {
                plans.remove(pod);
            }
        }
        pods.len()
    }
}

/// Whether a machine shall count as marked for deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It is about to go.
    ForDeletion,
    /// It stays after all.
    Not,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(pod: &str, claim: &str) -> Plan {
        Plan {
            pod: Key::namespaced("ns", pod),
            uid: pod.into(),
            machine: MachineId::Claim(claim.into()),
        }
    }

    #[test]
    fn a_plan_ends_with_its_pod_or_its_machine() {
        let mut ledger = Ledger::default();
        for (pod, claim) in [("a", "x"), ("b", "x"), ("c", "y")] {
            ledger.plan(plan(pod, claim));
        }
        assert_eq!(
            ledger.forget_pod(&Key::namespaced("ns", "a")),
            Some(MachineId::Claim("x".into()))
        );
        assert_eq!(ledger.forget_machine(&MachineId::Claim("x".into())), 1);
        assert_eq!(ledger.plans().len(), 1);
        assert_eq!(ledger.planned_on(&MachineId::Claim("y".into())).count(), 1);
    }

    #[test]
    fn a_pod_has_one_plan_the_newest() {
        let mut ledger = Ledger::default();
        ledger.plan(plan("a", "x"));
        ledger.plan(plan("a", "y"));
        assert_eq!(ledger.planned_on(&MachineId::Claim("x".into())).count(), 0);
        assert_eq!(
            ledger.plans().values().next().unwrap().machine,
            MachineId::Claim("y".into())
        );
    }

    #[test]
    fn a_nomination_is_extended_and_never_shortened() {
        // lifecycle 16.6
        let (early, late) = (DateTime::UNIX_EPOCH, DateTime::from_timestamp(20, 0).unwrap());
        let (mut ledger, machine) = (Ledger::default(), MachineId::Node("n".into()));
        ledger.nominate(machine.clone(), late);
        ledger.nominate(machine.clone(), early);
        assert_eq!(ledger.nominated_until(&machine), Some(late));
    }
}

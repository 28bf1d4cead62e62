//! What half-done commands left behind: taints and reasons of nodes that nobody is disrupting any more (disruption 1.4).
//!
//! After a restart or a failure the book of commands is empty; whatever carries their marks and is not going would be left without pods for ever.
//! Called at the start of each disruption pass.

use crate::api::{Conditioned, conditions, labels};
use crate::cluster::entries::{ClaimEntry, NodeEntry};
use crate::cluster::{MachineId, Snapshot};
use k8s_openapi::api::core::v1::Taint;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Marks to take back.
#[derive(Debug, Clone, PartialEq)]
pub struct Leftover {
    /// The node to take the taint from.
    pub tainted: Option<Arc<NodeEntry>>,
    /// The claim to take the reason from.
    pub reasoned: Option<Arc<ClaimEntry>>,
}

/// All marks that no command accounts for. A node that is deleting keeps its taint: that is draining's.
pub fn leftovers(snapshot: &Snapshot, busy: &BTreeSet<MachineId>) -> Vec<Leftover> {
    let idle = snapshot
        .machines
        .values()
        .filter(|machine| !busy.contains(&machine.id) && !machine.is_marked_for_deletion());
    idle.filter_map(|machine| {
        let (claim, node) = (machine.claim.as_ref()?, machine.node.as_ref());
        let tainted = node.filter(|node| !node.is_deleting() && is_tainted(node));
        let reason = claim.facts.condition(conditions::DISRUPTION_REASON);
        let reasoned = reason.is_some() && machine.is_initialized();
        (tainted.is_some() || reasoned).then(|| Leftover {
            tainted: tainted.map(Arc::clone),
            reasoned: reasoned.then(|| Arc::clone(claim)),
        })
    })
    .collect()
}

fn is_tainted(node: &NodeEntry) -> bool {
    let disrupted = labels::disrupted_taint();
    node.taints.iter().any(|taint| labels::same_taint(taint, &disrupted))
}

/// The node's taints without the mark.
pub fn untainted(taints: &[Taint]) -> Vec<Taint> {
    let disrupted = labels::disrupted_taint();
    let others = taints.iter().filter(|taint| !labels::same_taint(taint, &disrupted));
    others.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Mark;
    use crate::disruption::fixture::Fixture;
    use serde_json::json;

    fn marked() -> Fixture {
        let mut fixture = Fixture::new();
        let reason = json!({ "status": { "conditions": [{ "type": "DisruptionReason", "status": "True", "reason": "Empty", "lastTransitionTime": "2026-03-02T09:00:00Z" }] } });
        fixture.machine_with("a", &reason);
        fixture.node_with(
            "a",
            &json!({ "spec": { "taints": [{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }, { "key": "own", "effect": "NoSchedule" }] } }),
        );
        fixture
    }

    #[test]
    fn marks_of_no_command_are_taken_back() {
        // TA-01
        let left = leftovers(&marked().snapshot(), &BTreeSet::new());
        assert_eq!(left.len(), 1);
        let node = left[0].tainted.as_ref().unwrap();
        assert_eq!(untainted(&node.taints).len(), 1);
        assert!(left[0].reasoned.is_some());
    }

    #[test]
    fn marks_of_commands_and_of_what_is_going_stay() {
        let mut fixture = marked();
        let busy = BTreeSet::from([MachineId::Claim("a".into())]);
        assert!(leftovers(&fixture.snapshot(), &busy).is_empty());
        fixture.mark("a", Mark::ForDeletion);
        assert!(leftovers(&fixture.snapshot(), &BTreeSet::new()).is_empty());
    }

    #[test]
    fn a_deleting_node_keeps_its_taint() {
        let mut fixture = marked();
        fixture.node_with("a", &json!({ "metadata": { "deletionTimestamp": "2026-03-02T09:00:00Z" }, "spec": { "taints": [{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }] } }));
        let left = leftovers(&fixture.snapshot(), &BTreeSet::new());
        assert!(left[0].tainted.is_none() && left[0].reasoned.is_some());
    }
}

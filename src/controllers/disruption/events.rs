//! The Events of disruption (surface §4.2). Most are told on both the Node and the NodeClaim, whichever there are.

use crate::api::{NodeClaim, NodePool};
use crate::cluster::StateNode;
use crate::cluster::entries::{ClaimEntry, NodeEntry, PoolEntry};
use crate::k8s::events::{Event, EventType, Involved, Recorder, Window};
use k8s_openapi::api::core::v1::Node;
use std::time::Duration;

/// Unconsolidatable is told once in this time (disruption 3.3).
const UNCONSOLIDATABLE: Window = Window::For(Duration::from_mins(15));
/// A blocking budget is told once in this time (disruption 4.6).
const BUDGET: Window = Window::For(Duration::from_mins(1));

fn involved(machine: &StateNode) -> impl Iterator<Item = Involved> {
    let node = machine.node.as_ref().map(|node| Involved::entry::<Node>(&node.meta));
    let claim = machine
        .claim
        .as_ref()
        .map(|claim| Involved::entry::<NodeClaim>(&claim.meta));
    node.into_iter().chain(claim)
}

/// The machine is no candidate.
pub(super) fn blocked(recorder: &Recorder, machine: &StateNode, message: &str) {
    for object in involved(machine) {
        let uid = object.uid.clone();
        recorder.publish(Event::new(EventType::Normal, "DisruptionBlocked", object, message).deduped_by([uid]));
    }
}

/// The machine is none for consolidation.
pub(super) fn unconsolidatable(recorder: &Recorder, machine: &StateNode, message: &str) {
    for object in involved(machine) {
        let uid = object.uid.clone();
        let event = Event::new(EventType::Normal, "Unconsolidatable", object, message);
        recorder.publish(event.deduped_by([uid]).within(UNCONSOLIDATABLE));
    }
}

/// The pool has nodes and its budgets allow none of them to go.
pub(super) fn blocking_budget(pool: &PoolEntry, reason: &str) -> Event {
    let object = Involved::entry::<NodePool>(&pool.meta);
    let values = [object.uid.clone(), reason.to_owned()];
    let message = format!("No allowed disruptions for disruption reason {reason} due to blocking budget");
    Event::new(EventType::Normal, "DisruptionBlocked", object, message)
        .deduped_by(values)
        .within(BUDGET)
}

/// A candidate's claim was deleted.
pub(super) fn terminating(recorder: &Recorder, node: &NodeEntry, claim: &ClaimEntry, reason: &str) {
    let (node, claim) = (
        Involved::entry::<Node>(&node.meta),
        Involved::entry::<NodeClaim>(&claim.meta),
    );
    for object in [node, claim] {
        let values = [object.uid.clone(), reason.to_owned()];
        let message = format!("Disrupting {}: {reason}", object.kind);
        recorder.publish(Event::new(EventType::Normal, "DisruptionTerminating", object, message).deduped_by(values));
    }
}

/// A replacement is on its way.
pub(super) fn launching(recorder: &Recorder, claim: &ClaimEntry, reason: &str) {
    let object = Involved::entry::<NodeClaim>(&claim.meta);
    let uid = object.uid.clone();
    let message = format!("Launching NodeClaim: {reason}");
    let event = Event::new(EventType::Normal, "DisruptionLaunching", object.clone(), message);
    recorder.publish(event.deduped_by([uid.clone(), reason.to_owned()]));
    let message = "Waiting on readiness to continue disruption";
    let event = Event::new(EventType::Normal, "DisruptionWaitingReadiness", object, message);
    recorder.publish(event.deduped_by([uid]));
}

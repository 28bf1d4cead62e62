//! What this process remembers and what the provider says of a claim's machine, as the facts that `lifecycle::launch` decides on.
//!
//! The memory exists because a status patch may fail or be invisible for a while after the provider accepted an order (lifecycle 3.2); it is
//! kept per claim UID and forgotten with the claim. Called by the lifecycle and termination controllers.

use crate::api::{Conditioned, NodeClaim, conditions};
use crate::cloud::{Accepted, Attachment, CreateOutcome, MachineIdentity, MachineState, Stage};
use crate::lifecycle::launch::Machine;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Whether an order may have been sent whose answer is not known, before the one that is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Earlier {
    /// By an earlier process, or by this one.
    Possible,
    /// There was none.
    #[default]
    None,
}

/// What is remembered of one claim.
#[derive(Debug, Clone, Default)]
struct Memory {
    accepted: Option<Accepted>,
    outcome: CreateOutcome,
    earlier: Earlier,
    missing_since: Option<DateTime<Utc>>,
}

/// What this process remembers of the machines it ordered, by claim UID.
#[derive(Debug, Default)]
pub struct Orders(Mutex<BTreeMap<String, Memory>>);

impl Orders {
    /// An order is about to be sent: until it is answered, "not found" is not "gone". `before` is what this process does not remember by itself.
    pub fn sending(&self, uid: &str, before: Earlier) {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = orders.entry(uid.to_owned()).or_insert_with(|| Memory {
            outcome: CreateOutcome::NeverSent,
            earlier: before,
            ..Memory::default()
        });
        if memory.outcome == CreateOutcome::Unknown {
            memory.earlier = Earlier::Possible;
        }
        memory.outcome = CreateOutcome::Unknown;
    }

    /// The provider accepted the order.
    pub fn accepted(&self, uid: &str, accepted: Accepted) {
        self.known(uid, |memory| {
            memory.accepted = Some(accepted);
            memory.outcome = CreateOutcome::Known;
            memory.earlier = Earlier::None;
        });
    }

    /// The provider answered that it will not do it: nothing was ordered by this; what was sent before is as unknown as it was.
    pub fn refused(&self, uid: &str) {
        self.known(uid, |memory| {
            if memory.earlier == Earlier::None {
                memory.outcome = CreateOutcome::Known;
            }
        });
    }

    /// What was accepted, if it was in this process.
    pub fn details(&self, uid: &str) -> Option<Accepted> {
        self.known(uid, |memory| memory.accepted.clone()).flatten()
    }

    /// The claim is gone.
    pub fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// The claim's machine as the provider knows it. A provider ID is recorded only of an order that was answered, in whatever process.
    pub fn identity(&self, claim: &NodeClaim) -> MachineIdentity {
        let outcome = if claim.provider_id().is_some() {
            CreateOutcome::Known
        } else {
            self.known(claim.uid(), |memory| memory.outcome).unwrap_or_default()
        };
        MachineIdentity {
            claim_uid: claim.uid().to_owned(),
            provider_id: claim.provider_id().map(str::to_owned),
            capacity_type: claim.capacity_type().and_then(|word| word.parse().ok()),
            instance_type: claim.instance_type().map(str::to_owned),
            create_outcome: outcome,
            attachment: if claim.is_true(conditions::LAUNCHED) {
                Attachment::Recorded
            } else {
                Attachment::Unrecorded
            },
            node_name: claim.node_name().map(str::to_owned),
        }
    }

    /// Turns the provider's answer into the facts of a launch; remembers since when a machine has been missing.
    pub fn facts(&self, claim: &NodeClaim, state: &MachineState, now: DateTime<Utc>) -> Machine {
        if *state != MachineState::Absent {
            self.known(claim.uid(), |memory| memory.missing_since = None);
        }
        match state {
            MachineState::Unknown => Machine::Unreachable { says: None },
            MachineState::Taken => Machine::Taken,
            MachineState::Present { going_away: true, .. } => Machine::GoingAway,
            MachineState::Present {
                stage: Stage::Attached, ..
            } => Machine::Attached,
            MachineState::Present {
                stage: Stage::Waiting { reason, message },
                ..
            } => Machine::Waiting {
                reason: (*reason).to_owned(),
                message: message.clone(),
            },
            MachineState::Absent if claim.provider_id().is_some() || self.details(claim.uid()).is_some() => {
                Machine::Missing {
                    since: self.with(claim.uid(), |memory| *memory.missing_since.get_or_insert(now)),
                }
            }
            MachineState::Absent => Machine::NotOrdered,
        }
    }

    /// Works on what is remembered of a claim, if anything is: a question about a claim that is gone must leave nothing behind.
    fn known<T>(&self, uid: &str, work: impl FnOnce(&mut Memory) -> T) -> Option<T> {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        orders.get_mut(uid).map(work)
    }

    fn with<T>(&self, uid: &str, work: impl FnOnce(&mut Memory) -> T) -> T {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(orders.entry(uid.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(provider_id: Option<&str>) -> NodeClaim {
        let mut claim = NodeClaim::default();
        claim.metadata.uid = Some("u".to_owned());
        claim.status.get_or_insert_default().provider_id = provider_id.map(str::to_owned);
        claim
    }

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    #[test]
    fn a_machine_is_missing_since_the_first_of_an_unbroken_row_of_answers() {
        let (orders, claim) = (Orders::default(), claim(Some("rackspacespot://c/spot/u")));
        assert_eq!(
            orders.facts(&claim, &MachineState::Absent, at(1)),
            Machine::Missing { since: at(1) }
        );
        assert_eq!(
            orders.facts(&claim, &MachineState::Absent, at(5)),
            Machine::Missing { since: at(1) }
        );
        assert_eq!(
            orders.facts(&claim, &MachineState::Unknown, at(6)),
            Machine::Unreachable { says: None }
        );
        assert_eq!(
            orders.facts(&claim, &MachineState::Absent, at(9)),
            Machine::Missing { since: at(9) }
        );
    }

    #[test]
    fn a_claim_without_record_and_memory_was_never_ordered() {
        let orders = Orders::default();
        assert_eq!(
            orders.facts(&claim(None), &MachineState::Absent, at(1)),
            Machine::NotOrdered
        );
    }

    #[test]
    fn after_a_restart_a_claim_that_records_its_machine_is_known_to_have_been_ordered() {
        let orders = Orders::default();
        assert_eq!(orders.identity(&claim(None)).create_outcome, CreateOutcome::Unknown);
        let recorded = claim(Some("rackspacespot://c/spot/u"));
        assert_eq!(orders.identity(&recorded).create_outcome, CreateOutcome::Known);
    }

    #[test]
    fn an_order_on_its_way_is_unknown_until_it_is_answered() {
        let (orders, claim) = (Orders::default(), claim(None));
        orders.sending("u", Earlier::None);
        assert_eq!(orders.identity(&claim).create_outcome, CreateOutcome::Unknown);
        orders.refused("u");
        assert_eq!(orders.identity(&claim).create_outcome, CreateOutcome::Known);
    }

    #[test]
    fn a_refusal_says_nothing_about_an_earlier_order_without_an_answer() {
        let outcome = |orders: &Orders| orders.identity(&claim(None)).create_outcome;
        let by_this_process = Orders::default();
        by_this_process.sending("u", Earlier::None);
        by_this_process.sending("u", Earlier::None);
        by_this_process.refused("u");
        assert_eq!(outcome(&by_this_process), CreateOutcome::Unknown);
        let by_an_earlier_one = Orders::default();
        by_an_earlier_one.sending("u", Earlier::Possible);
        by_an_earlier_one.refused("u");
        assert_eq!(outcome(&by_an_earlier_one), CreateOutcome::Unknown);
    }

    #[test]
    fn of_a_claim_that_is_gone_nothing_is_remembered_whoever_asks_late() {
        let orders = Orders::default();
        orders.sending("u", Earlier::None);
        orders.facts(&claim(Some("rackspacespot://c/spot/u")), &MachineState::Absent, at(1));
        orders.forget("u");
        // a pass over its Node that began before, and the answer to an order
        orders.identity(&claim(None));
        orders.refused("u");
        orders.facts(&claim(None), &MachineState::Unknown, at(2));
        assert_eq!(orders.details("u"), None);
        assert!(orders.0.lock().unwrap().is_empty());
    }
}

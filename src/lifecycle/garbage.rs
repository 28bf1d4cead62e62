//! Decides what is left over: claims whose machine is gone, machines whose claim is gone, and second machines of one claim.
//!
//! Both directions rest on *complete* answers only: an unreachable or partial cloud means unknown, never gone. Called by the garbage controller
//! with one machine list and, for the second direction, a claim list that was begun after the machine list had been answered
//! (architecture §7.20).

use crate::scheduling::CapacityType;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeSet;

/// A machine younger than this is never collected: its claim may be on its way (architecture §7.20).
pub const MACHINE_MIN_AGE: TimeDelta = TimeDelta::minutes(5);

/// Whether the provider's list contains every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// Every machine is in it.
    Complete,
    /// Some may be missing: nothing may be concluded from absence.
    Partial,
}

/// What garbage collection looks at on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // a view of independent facts
pub struct ClaimFacts {
    /// Registered is True.
    pub registered: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// Its machine is in the list and is not going away.
    pub listed: bool,
    /// What its one Node says; a living kubelet is stronger evidence than the list (lifecycle 9.3).
    pub node: NodeSays,
    /// Another Node that was ordered for it is Ready: the machine that became its own was replaced by the platform (architecture §7.21).
    pub succeeded: bool,
}

/// What is heard of a claim's Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeSays {
    /// It is Ready.
    Ready,
    /// There is none, or its kubelet says that it is not Ready.
    NotReady,
    /// Its kubelet is not heard any more.
    Nothing,
}

/// Whether a claim is left over because its machine is gone (lifecycle 9.2, 9.3).
///
/// Differs: so it is when the platform has put another machine in the place of one that is not heard any more. That one never becomes the claim's Node,
/// bills, and would be taken for the claim's for ever.
pub fn claim_is_garbage(listing: Listing, claim: &ClaimFacts) -> bool {
    let gone = !claim.listed && claim.node != NodeSays::Ready;
    let replaced = claim.succeeded && claim.node == NodeSays::Nothing;
    listing == Listing::Complete && claim.registered && !claim.deleting && (gone || replaced)
}

/// A machine as the garbage collector sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineFacts {
    /// UID of the claim it was ordered for; the machine's name.
    pub claim_uid: String,
    /// When it was ordered; unknown counts as just now.
    pub created: Option<DateTime<Utc>>,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// It carries the label that marks what we ordered.
    pub labelled_ours: bool,
    /// It is going away already.
    pub going_away: bool,
}

/// What becomes of a machine without claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orphan {
    /// It has a claim, or is going away, or is too young, or too little is known: nothing to do.
    Keep,
    /// Ours beyond doubt: remove it.
    Collect,
    /// It looks like one of ours, but neither label nor memory proves it: tell the operator and never delete (all machine orders have UUID
    /// names, those of users too).
    Report,
}

/// Decides what becomes of a machine (architecture §7.20). `live` are the UIDs of all claims, from a list begun after the machine list was
/// complete; `seen` are the UIDs of claims that this process has known.
pub fn orphan(
    listing: Listing,
    machine: &MachineFacts,
    live: &BTreeSet<String>,
    seen: &BTreeSet<String>,
    now: DateTime<Utc>,
) -> Orphan {
    if listing == Listing::Partial || machine.going_away || live.contains(&machine.claim_uid) {
        return Orphan::Keep;
    }
    let old_enough = machine
        .created
        .is_some_and(|created| now.signed_duration_since(created) > MACHINE_MIN_AGE);
    if !old_enough {
        return Orphan::Keep;
    }
    if machine.labelled_ours || seen.contains(&machine.claim_uid) {
        Orphan::Collect
    } else {
        Orphan::Report
    }
}

/// What a live claim says of its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// Its capacity type, once an order of it was answered.
    pub capacity_type: Option<CapacityType>,
    /// A machine of that type is in the list under the claim's name, and is not going away.
    pub listed: bool,
}

/// Whether a machine is a second one of a live claim: of another capacity type than the claim's own, which is there too. Its order came late, after
/// another had been placed (architecture §6), and it would bill as long as the claim lives.
pub fn is_second(listing: Listing, machine: &MachineFacts, claim: Recorded, now: DateTime<Utc>) -> bool {
    let other = claim.capacity_type.is_some_and(|own| own != machine.capacity_type);
    let old_enough = machine
        .created
        .is_some_and(|created| now.signed_duration_since(created) > MACHINE_MIN_AGE);
    listing == Listing::Complete && other && claim.listed && !machine.going_away && old_enough
}

#[cfg(test)]
mod tests {
    use super::*;

    const GONE: ClaimFacts = ClaimFacts {
        registered: true,
        deleting: false,
        listed: false,
        node: NodeSays::NotReady,
        succeeded: false,
    };

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000, 0).unwrap()
    }

    fn machine(age_minutes: i64) -> MachineFacts {
        let created = Some(now() - TimeDelta::minutes(age_minutes));
        MachineFacts {
            claim_uid: "u1".into(),
            created,
            capacity_type: CapacityType::OnDemand,
            labelled_ours: true,
            going_away: false,
        }
    }

    fn set(uids: &[&str]) -> BTreeSet<String> {
        uids.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_claim_is_garbage_only_when_every_sign_agrees() {
        assert!(claim_is_garbage(Listing::Complete, &GONE));
        assert!(!claim_is_garbage(Listing::Partial, &GONE));
        assert!(!claim_is_garbage(
            Listing::Complete,
            &ClaimFacts {
                registered: false,
                ..GONE
            }
        ));
        assert!(!claim_is_garbage(
            Listing::Complete,
            &ClaimFacts { deleting: true, ..GONE }
        ));
        assert!(!claim_is_garbage(
            Listing::Complete,
            &ClaimFacts { listed: true, ..GONE }
        ));
        assert!(!claim_is_garbage(
            Listing::Complete,
            &ClaimFacts {
                node: NodeSays::Ready,
                ..GONE
            }
        ));
    }

    #[test]
    fn a_claim_whose_machine_was_replaced_is_garbage_once_its_own_is_not_heard() {
        // architecture §7.21
        let replaced = |node| ClaimFacts {
            listed: true,
            succeeded: true,
            node,
            ..GONE
        };
        assert!(claim_is_garbage(Listing::Complete, &replaced(NodeSays::Nothing)));
        assert!(!claim_is_garbage(Listing::Partial, &replaced(NodeSays::Nothing)));
        assert!(
            !claim_is_garbage(Listing::Complete, &replaced(NodeSays::NotReady)),
            "its kubelet lives"
        );
        assert!(!claim_is_garbage(Listing::Complete, &replaced(NodeSays::Ready)));
        let alone = ClaimFacts {
            succeeded: false,
            ..replaced(NodeSays::Nothing)
        };
        assert!(
            !claim_is_garbage(Listing::Complete, &alone),
            "silence alone is for node repair"
        );
    }

    #[test]
    fn a_labelled_machine_without_claim_is_collected_after_five_minutes() {
        assert_eq!(
            orphan(Listing::Complete, &machine(5), &set(&[]), &set(&[]), now()),
            Orphan::Keep
        );
        assert_eq!(
            orphan(Listing::Complete, &machine(6), &set(&[]), &set(&[]), now()),
            Orphan::Collect
        );
    }

    #[test]
    fn a_machine_whose_labels_were_wiped_is_collected_only_when_we_knew_its_claim() {
        let wiped = MachineFacts {
            labelled_ours: false,
            ..machine(60)
        };
        assert_eq!(
            orphan(Listing::Complete, &wiped, &set(&[]), &set(&["u1"]), now()),
            Orphan::Collect
        );
        assert_eq!(
            orphan(Listing::Complete, &wiped, &set(&[]), &set(&["u2"]), now()),
            Orphan::Report
        );
    }

    #[test]
    fn a_second_machine_of_a_live_claim_goes_once_it_is_old_and_the_claims_own_is_there() {
        // architecture §6, §7.20
        let own = Recorded {
            capacity_type: Some(CapacityType::Spot),
            listed: true,
        };
        assert!(is_second(Listing::Complete, &machine(6), own, now()));
        assert!(!is_second(Listing::Complete, &machine(5), own, now()), "too young");
        assert!(!is_second(Listing::Partial, &machine(6), own, now()));
        let alone = Recorded { listed: false, ..own };
        assert!(!is_second(Listing::Complete, &machine(6), alone, now()), "the only one");
        for capacity_type in [None, Some(CapacityType::OnDemand)] {
            let other = Recorded { capacity_type, ..own };
            assert!(!is_second(Listing::Complete, &machine(6), other, now()), "{other:?}");
        }
        let going = MachineFacts {
            going_away: true,
            ..machine(6)
        };
        assert!(!is_second(Listing::Complete, &going, own, now()));
    }

    #[test]
    fn nothing_is_collected_on_doubt() {
        assert_eq!(
            orphan(Listing::Partial, &machine(60), &set(&[]), &set(&["u1"]), now()),
            Orphan::Keep
        );
        assert_eq!(
            orphan(Listing::Complete, &machine(60), &set(&["u1"]), &set(&["u1"]), now()),
            Orphan::Keep
        );
        let going = MachineFacts {
            going_away: true,
            ..machine(60)
        };
        assert_eq!(
            orphan(Listing::Complete, &going, &set(&[]), &set(&["u1"]), now()),
            Orphan::Keep
        );
        let ageless = MachineFacts {
            created: None,
            ..machine(60)
        };
        assert_eq!(
            orphan(Listing::Complete, &ageless, &set(&[]), &set(&["u1"]), now()),
            Orphan::Keep
        );
    }
}

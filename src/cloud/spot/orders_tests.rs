use super::*;
use crate::cloud::spot::types::Cloudspace;
use std::collections::BTreeSet;

const UID: &str = "7f3b0c52-4c1e-4f0e-9a55-0d2f6a1b9c11";

/// A pool that has its server.
pub(super) fn pool(kind: PoolKind) -> Pool {
    Pool {
        kind,
        name: UID.into(),
        cloudspace: "cs".into(),
        server_class: "c".into(),
        bid: None,
        desired: 1,
        custom_labels: BTreeMap::new(),
        labels: BTreeMap::new(),
        created: None,
        deleting: false,
        status: "Fulfilled".into(),
        won: 1,
    }
}

/// A view that began so many seconds after `start`, with pools and server keys.
fn view(start: Instant, seconds: u64, pools: &[PoolKind], servers: &[&str]) -> View {
    View {
        began: start + Duration::from_secs(seconds),
        cloudspace: Some(Cloudspace {
            name: "cs".into(),
            region: "r".into(),
            phase: "Ready".into(),
            assigned_servers: Some(servers.iter().map(|key| ((*key).to_owned(), named(key))).collect()),
        }),
        pools: pools
            .iter()
            .map(|kind| ((*kind, UID.to_owned()), pool(*kind)))
            .collect(),
        complete: PoolKind::ALL.into_iter().collect::<BTreeSet<_>>(),
    }
}

fn machine() -> MachineIdentity {
    MachineIdentity {
        claim_uid: UID.into(),
        ..MachineIdentity::default()
    }
}

fn stage(judgement: &Judgement) -> &Stage {
    match &judgement.state {
        MachineState::Present { stage, .. } => stage,
        other => panic!("{other:?}"),
    }
}

fn key(suffix: &str) -> String {
    format!("{UID}-{suffix}")
}

/// Server `…-a` has the name `prod-a`.
fn named(key: &str) -> String {
    key.rsplit('-').next().map(|suffix| format!("prod-{suffix}")).unwrap()
}

#[test]
fn a_server_is_attached_when_a_key_begins_with_the_pools_name() {
    // architecture §7.13
    let start = Instant::now();
    let mut orders = Orders::default();
    orders.accepted(UID, PoolKind::Spot, "c", start);
    let other = "00000000-0000-4000-8000-000000000000-abcde";
    let waiting = orders.judge("cs", &machine(), &view(start, 5, &[PoolKind::Spot], &[other]));
    assert!(matches!(
        stage(&waiting),
        Stage::Waiting {
            reason: AWAITING_SERVER_ASSIGNMENT,
            ..
        }
    ));
    let attached = orders.judge(
        "cs",
        &machine(),
        &view(start, 10, &[PoolKind::Spot], &[other, &key("abcde")]),
    );
    assert_eq!(stage(&attached), &Stage::Attached);
    assert_eq!(attached.first_server, Some(key("abcde")));
    assert!(
        matches!(&attached.state, MachineState::Present { provider_id: Some(id), .. }
        if id == &format!("rackspacespot://cs/spot/{UID}"))
    );
}

#[test]
fn a_server_that_left_two_views_in_a_row_was_taken_and_one_view_proves_nothing() {
    // architecture §7.21
    let start = Instant::now();
    let mut orders = Orders::default();
    orders.accepted(UID, PoolKind::Spot, "c", start);
    let see = |orders: &mut Orders, at, servers: &[&str]| {
        orders
            .judge("cs", &machine(), &view(start, at, &[PoolKind::Spot], servers))
            .state
    };
    see(&mut orders, 5, &[&key("a")]);
    assert!(matches!(
        see(&mut orders, 10, &[]),
        MachineState::Present {
            stage: Stage::Attached,
            ..
        }
    ));
    // the same view again counts once
    assert!(matches!(see(&mut orders, 10, &[]), MachineState::Present { .. }));
    assert!(matches!(
        see(&mut orders, 15, &[&key("a")]),
        MachineState::Present { .. }
    ));
    assert!(matches!(see(&mut orders, 20, &[]), MachineState::Present { .. }));
    assert_eq!(see(&mut orders, 25, &[]), MachineState::Taken);
}

#[test]
fn a_second_server_for_one_claim_never_becomes_its_node() {
    // architecture §7.21
    let start = Instant::now();
    let mut orders = Orders::default();
    orders.accepted(UID, PoolKind::Spot, "c", start);
    orders.judge("cs", &machine(), &view(start, 5, &[PoolKind::Spot], &[&key("a")]));
    let second = orders.judge("cs", &machine(), &view(start, 99, &[PoolKind::Spot], &[&key("b")]));
    assert_eq!(second.state, MachineState::Taken);
}

#[test]
fn after_a_restart_the_nodes_name_tells_the_first_server_from_the_second_and_a_stranger_ends_nothing() {
    // architecture §7.21
    let start = Instant::now();
    let joined = MachineIdentity {
        node_name: Some("prod-z".into()),
        ..machine()
    };
    let mut orders = Orders::default();
    let mut see = |at, servers: &[&str]| orders.judge("cs", &joined, &view(start, at, &[PoolKind::Spot], servers));
    let both = see(5, &[&key("a"), &key("z")]);
    assert_eq!((both.first_server, both.stranger), (Some(key("z")), false));
    assert_eq!(see(10, &[&key("a")]).state, MachineState::Taken, "known from here on");

    let mut restarted = Orders::default();
    let alone = restarted.judge("cs", &joined, &view(start, 5, &[PoolKind::Spot], &[&key("a")]));
    assert_eq!(stage(&alone), &Stage::Attached);
    assert!(alone.stranger);
    let again = restarted.judge("cs", &joined, &view(start, 10, &[PoolKind::Spot], &[&key("a")]));
    assert!(!again.stranger, "it is told once");
}

#[test]
fn after_a_restart_the_claims_provider_id_tells_that_a_server_was_attached() {
    let start = Instant::now();
    let mut orders = Orders::default();
    let joined = MachineIdentity {
        provider_id: Some("openstack:///be48".into()),
        ..machine()
    };
    orders.judge("cs", &joined, &view(start, 5, &[PoolKind::Spot], &[]));
    let second = orders.judge("cs", &joined, &view(start, 10, &[PoolKind::Spot], &[]));
    assert_eq!(second.state, MachineState::Taken);
}

#[test]
fn after_a_restart_a_launched_claim_whose_node_never_joined_is_known_to_have_had_a_server() {
    // architecture §7.21
    let start = Instant::now();
    let mut orders = Orders::default();
    let launched = MachineIdentity {
        provider_id: Some(provider_id("cs", PoolKind::Spot, UID)),
        attachment: Attachment::Recorded,
        ..machine()
    };
    let first = orders.judge("cs", &launched, &view(start, 5, &[PoolKind::Spot], &[]));
    assert_eq!(stage(&first), &Stage::Attached, "one view proves nothing");
    let second = orders.judge("cs", &launched, &view(start, 10, &[PoolKind::Spot], &[]));
    assert_eq!(second.state, MachineState::Taken);
}

#[test]
fn absence_counts_only_in_a_view_that_is_complete_and_newer_than_the_order() {
    let start = Instant::now();
    let mut orders = Orders::default();
    orders.accepted(UID, PoolKind::Spot, "c", start + Duration::from_secs(10));
    let state = |orders: &mut Orders, view: View| orders.judge("cs", &machine(), &view).state;
    assert!(matches!(
        state(&mut orders, view(start, 9, &[], &[])),
        MachineState::Present { .. }
    ));
    let mut partial = view(start, 20, &[], &[]);
    partial.complete.remove(&PoolKind::Spot);
    assert_eq!(state(&mut orders, partial), MachineState::Unknown);
    assert_eq!(state(&mut orders, view(start, 20, &[], &[])), MachineState::Absent);
}

#[test]
fn both_kinds_are_looked_at_when_the_capacity_type_is_unknown() {
    // architecture §7.6
    let start = Instant::now();
    let found = judge("cs", None, &machine(), &view(start, 1, &[PoolKind::OnDemand], &[]));
    assert_eq!(found.kind, Some(PoolKind::OnDemand));
    let recorded = MachineIdentity {
        capacity_type: Some(PoolKind::Spot.capacity_type()),
        ..machine()
    };
    assert_eq!(kinds_of(None, &recorded), [PoolKind::Spot]);
}

#[test]
fn a_cloudspace_without_status_says_nothing_about_servers() {
    let start = Instant::now();
    let mut silent = view(start, 5, &[PoolKind::Spot], &[]);
    if let Some(cloudspace) = &mut silent.cloudspace {
        cloudspace.assigned_servers = None;
    }
    assert_eq!(judge("cs", None, &machine(), &silent).state, MachineState::Unknown);
}

#[test]
fn not_found_is_not_the_last_word_while_a_create_may_still_take_effect() {
    let start = Instant::now();
    let settles = Duration::from_mins(1);
    let mut orders = Orders::default();
    orders.sending(UID, PoolKind::Spot, "c", start);
    let is_final = |orders: &Orders, outcome, after| {
        absence_is_final(
            orders.get(UID),
            outcome,
            start,
            settles,
            start + Duration::from_secs(after),
        )
    };
    assert!(!is_final(&orders, CreateOutcome::Known, 59));
    assert!(is_final(&orders, CreateOutcome::Known, 60));
    orders.forget(UID);
    assert!(!is_final(&orders, CreateOutcome::Unknown, 59));
    assert!(is_final(&orders, CreateOutcome::NeverSent, 0));
}

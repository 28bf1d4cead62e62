//! One test per rule of lifecycle §1.

use super::*;
use crate::api::{NodeClaim, NodeOverlay, NodePool, time::to_k8s};
use chrono::TimeDelta;
use proptest::prelude::*;

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000, 0).unwrap() + TimeDelta::seconds(seconds)
}

fn claim() -> NodeClaim {
    let mut claim = NodeClaim::default();
    claim.metadata.creation_timestamp = Some(to_k8s(at(0)));
    claim.metadata.generation = Some(1);
    claim
}

fn types(object: &impl Conditioned) -> Vec<&str> {
    object
        .conditions()
        .iter()
        .map(|condition| condition.type_.as_str())
        .collect()
}

fn ready(claim: &NodeClaim) -> (ConditionStatus, &str, &str) {
    let root = claim.condition(READY).unwrap();
    (root.status, root.reason.as_str(), root.message.as_str())
}

#[test]
fn each_kind_has_its_dependents() {
    // lifecycle 1.1, surface §3
    let mut overlay = NodeOverlay::default();
    let mut pool = NodePool::default();
    let mut claim = claim();
    assert!(overlay.initialize_conditions(at(0)));
    pool.initialize_conditions(at(0));
    claim.initialize_conditions(at(0));
    assert_eq!(types(&overlay), [VALIDATION_SUCCEEDED, READY]);
    assert_eq!(types(&pool), [VALIDATION_SUCCEEDED, NODE_CLASS_READY, READY]);
    assert_eq!(types(&claim), [LAUNCHED, REGISTERED, INITIALIZED, READY]);
}

#[test]
fn missing_conditions_are_unknown_since_the_objects_creation() {
    // lifecycle 1.2
    let mut claim = claim();
    assert!(claim.initialize_conditions(at(500)));
    for condition in claim.conditions() {
        assert_eq!(condition.status, ConditionStatus::Unknown);
        assert_eq!(condition.reason, "AwaitingReconciliation");
        assert_eq!(condition.message, "object is awaiting reconciliation");
        assert_eq!(condition.last_transition_time, at(0));
        assert_eq!(condition.observed_generation, Some(1));
    }
    assert!(
        !claim.initialize_conditions(at(600)),
        "a second time there is nothing to add"
    );
}

#[test]
fn a_dependent_that_stays_unknown_keeps_the_creation_time() {
    // lifecycle 1.2, surface T2
    let mut claim = claim();
    assert!(claim.set_unknown(LAUNCHED, "AwaitingServerAssignment", "waiting", at(900)));
    assert_eq!(claim.condition(LAUNCHED).unwrap().last_transition_time, at(0));
}

#[test]
fn the_transition_time_moves_with_the_status_and_only_then() {
    // lifecycle 1.3
    let mut claim = claim();
    claim.set_true(LAUNCHED, at(10));
    assert_eq!(claim.condition(LAUNCHED).unwrap().last_transition_time, at(10));
    assert!(claim.set_true_because(LAUNCHED, "Another", "text", at(20)));
    let launched = claim.condition(LAUNCHED).unwrap();
    assert_eq!(
        (launched.last_transition_time, launched.reason.as_str()),
        (at(10), "Another")
    );
    claim.set_unknown(LAUNCHED, "Lost", "", at(30));
    assert_eq!(claim.condition(LAUNCHED).unwrap().last_transition_time, at(30));
}

#[test]
fn a_new_condition_of_its_own_begins_now() {
    // lifecycle 1.3
    let mut claim = claim();
    claim.set_true(DRIFTED, at(77));
    assert_eq!(claim.condition(DRIFTED).unwrap().last_transition_time, at(77));
}

#[test]
fn times_are_kept_in_whole_seconds_as_they_will_be_stored() {
    let mut claim = claim();
    claim.set_true(LAUNCHED, at(10) + TimeDelta::milliseconds(900));
    assert_eq!(claim.condition(LAUNCHED).unwrap().last_transition_time, at(10));
    let stored: NodeClaim = serde_json::from_value(serde_json::to_value(&claim).unwrap()).unwrap();
    assert_eq!(stored.conditions(), claim.conditions());
}

#[test]
fn setting_what_is_already_so_changes_nothing() {
    // lifecycle 1.3
    let mut claim = claim();
    assert!(claim.set_true(LAUNCHED, at(10)));
    let before = claim.clone();
    assert!(!claim.set_true(LAUNCHED, at(20)));
    assert_eq!(claim, before);
}

#[test]
fn true_without_a_reason_is_its_own_reason() {
    // lifecycle 1.4
    let mut claim = claim();
    claim.set_true(REGISTERED, at(1));
    let registered = claim.condition(REGISTERED).unwrap();
    assert_eq!(
        (registered.reason.as_str(), registered.message.as_str()),
        ("Registered", "")
    );
}

#[test]
fn the_root_is_true_when_all_dependents_are() {
    // lifecycle 1.5
    let mut claim = claim();
    claim.set_true(LAUNCHED, at(1));
    claim.set_true(REGISTERED, at(2));
    assert!(!claim.is_ready());
    claim.set_true(INITIALIZED, at(3));
    assert_eq!(ready(&claim), (ConditionStatus::True, "Ready", ""));
    assert_eq!(claim.condition(READY).unwrap().last_transition_time, at(3));
}

#[test]
fn the_root_is_unknown_while_dependents_are_and_names_the_newest_first() {
    // lifecycle 1.5
    let mut claim = claim();
    claim.set_true(LAUNCHED, at(1));
    claim.set_true(REGISTERED, at(2));
    claim.set_unknown(REGISTERED, "NodeNotFound", "", at(5));
    assert_eq!(
        ready(&claim),
        (
            ConditionStatus::Unknown,
            "ReconcilingDependents",
            "Registered=Unknown, Initialized=Unknown"
        )
    );
}

#[test]
fn the_root_is_false_when_a_dependent_is() {
    // lifecycle 1.5
    let mut claim = claim();
    claim.set_true(LAUNCHED, at(1));
    claim.set_false(REGISTERED, "MultipleNodesFound", "two", at(5));
    assert_eq!(
        ready(&claim),
        (
            ConditionStatus::False,
            "UnhealthyDependents",
            "Registered=False, Initialized=Unknown"
        )
    );
}

#[test]
fn a_false_dependent_of_an_older_generation_does_not_make_the_root_false() {
    // lifecycle 1.5
    let mut pool = NodePool::default();
    pool.metadata.generation = Some(1);
    pool.set_false(NODE_CLASS_READY, "NodeClassNotFound", "", at(1));
    assert!(pool.is_false(READY));
    pool.metadata.generation = Some(2);
    pool.set_true(VALIDATION_SUCCEEDED, at(2));
    assert!(pool.is_unknown(READY));
}

#[test]
fn a_true_dependent_of_an_older_generation_holds_the_root_back_until_it_is_set_again() {
    // lifecycle 1.5, lifecycle 1.6
    let mut pool = NodePool::default();
    pool.metadata.generation = Some(1);
    pool.set_true(VALIDATION_SUCCEEDED, at(1));
    pool.set_true(NODE_CLASS_READY, at(1));
    assert!(pool.is_ready());
    pool.metadata.generation = Some(2);
    assert!(pool.set_true(VALIDATION_SUCCEEDED, at(2)), "the generation moves");
    assert!(pool.is_unknown(READY));
    assert_eq!(pool.condition(READY).unwrap().message, "NodeClassReady=True");
    assert!(pool.set_true(NODE_CLASS_READY, at(3)));
    assert!(pool.is_ready());
    assert_eq!(
        pool.condition(VALIDATION_SUCCEEDED).unwrap().last_transition_time,
        at(1)
    );
}

#[test]
fn conditions_of_their_own_do_not_touch_the_root() {
    // lifecycle 1.1
    let mut claim = claim();
    for type_ in [LAUNCHED, REGISTERED, INITIALIZED] {
        claim.set_true(type_, at(1));
    }
    claim.set_false(
        CONSISTENT_STATE_FOUND,
        "ConsistencyCheckFailed",
        "Consistency Check Failed",
        at(2),
    );
    assert!(claim.is_ready());
}

#[test]
fn while_the_object_is_being_deleted_every_condition_follows_its_generation() {
    // lifecycle 1.7
    let mut claim = claim();
    claim.set_true(LAUNCHED, at(1));
    claim.metadata.generation = Some(2);
    claim.metadata.deletion_timestamp = Some(to_k8s(at(5)));
    claim.set_unknown(DRAINED, "Draining", "", at(6));
    assert!(
        claim
            .conditions()
            .iter()
            .all(|condition| condition.observed_generation == Some(2)),
        "{:?}",
        claim.status
    );
}

#[test]
fn conditions_are_in_the_order_of_their_transitions_with_the_root_last() {
    // lifecycle 1.8
    let mut claim = claim();
    claim.set_true(DRIFTED, at(30));
    claim.set_true(LAUNCHED, at(40));
    claim.set_true(CONSOLIDATABLE, at(20));
    assert_eq!(
        types(&claim),
        [REGISTERED, INITIALIZED, CONSOLIDATABLE, DRIFTED, LAUNCHED, READY]
    );
}

#[test]
fn clearing_removes_what_stands_for_itself_and_nothing_else() {
    // lifecycle 1.8
    let mut claim = claim();
    assert_eq!(claim.clear_condition(DRIFTED), Ok(false));
    claim.set_true(DRIFTED, at(30));
    claim.set_true(CONSOLIDATABLE, at(20));
    assert_eq!(claim.clear_condition(DRIFTED), Ok(true));
    assert_eq!(
        types(&claim),
        [CONSOLIDATABLE, INITIALIZED, LAUNCHED, READY, REGISTERED],
        "by type after a removal"
    );
    for type_ in [LAUNCHED, READY] {
        assert_eq!(claim.clear_condition(type_), Err(ClearError { type_: type_.into() }));
    }
}

#[test]
fn a_missing_condition_is_unknown_and_neither_true_nor_false() {
    // lifecycle 1.9
    let claim = claim();
    assert!(claim.is_unknown(LAUNCHED));
    assert!(!claim.is_true(LAUNCHED) && !claim.is_false(LAUNCHED));
}

#[test]
fn a_condition_with_less_in_it_than_upstream_writes_is_read() {
    // surface T22: a claim's reason and message may be absent
    let condition: Condition = serde_json::from_value(serde_json::json!({
        "type": "Drained", "status": "Perhaps", "lastTransitionTime": null,
    }))
    .unwrap();
    assert!(condition.is_unknown());
    assert_eq!((condition.reason.as_str(), condition.observed_generation), ("", None));
}

#[derive(Debug, Clone)]
enum Step {
    Set(&'static str, ConditionStatus),
    Clear(&'static str),
    NextGeneration,
    StartDeleting,
}

fn any_step() -> impl Strategy<Value = Step> {
    let type_ = prop::sample::select(vec![
        LAUNCHED,
        REGISTERED,
        INITIALIZED,
        DRIFTED,
        CONSOLIDATABLE,
        DRAINED,
    ]);
    let status = prop::sample::select(vec![
        ConditionStatus::True,
        ConditionStatus::False,
        ConditionStatus::Unknown,
    ]);
    prop_oneof![
        6 => (type_.clone(), status).prop_map(|(type_, status)| Step::Set(type_, status)),
        2 => type_.prop_map(Step::Clear),
        1 => Just(Step::NextGeneration),
        1 => Just(Step::StartDeleting),
    ]
}

proptest! {
    #[test]
    fn whatever_is_done_the_root_follows_and_every_condition_is_there_once(
        steps in prop::collection::vec((any_step(), 0_i64..100), 1..30),
    ) {
        let mut claim = claim();
        let mut now = 0;
        claim.initialize_conditions(at(0));
        for (step, later) in steps {
            now += later;
            let before = claim.clone();
            let changed = match step {
                Step::Set(type_, status) => claim.set_condition(type_, status, "Reason", "text", at(now)),
                Step::Clear(type_) => claim.clear_condition(type_).unwrap_or(false),
                Step::NextGeneration => {
                    claim.metadata.generation = claim.metadata.generation.map(|generation| generation + 1);
                    continue;
                }
                Step::StartDeleting => {
                    claim.metadata.deletion_timestamp.get_or_insert(to_k8s(at(now)));
                    continue;
                }
            };
            prop_assert_eq!(changed, claim.conditions() != before.conditions());
            let mut names = types(&claim);
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            prop_assert_eq!(names.len(), count, "a condition is there twice");
            prop_assert!(claim.conditions().iter().all(|condition| condition.last_transition_time <= at(now)));
            if matches!(step, Step::Set(..)) {
                // setting what is already so leaves even the order of an earlier removal
                prop_assert!(!changed || types(&claim).pop() == Some(READY));
                let well = NodeClaim::DEPENDENTS.iter().all(|type_| {
                    let dependent = claim.condition(type_).unwrap();
                    dependent.is_true() && dependent.observed_generation == claim.metadata.generation
                });
                prop_assert_eq!(claim.is_ready(), well);
            }
        }
    }
}

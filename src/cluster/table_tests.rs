use super::*;
use crate::cluster::object::{Kind, Meta};

type Words = Table<&'static str>;

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000 + seconds, 0).unwrap()
}

fn source() -> Source {
    Source::of(Kind::NodeClaim)
}

fn key(name: &str) -> Key {
    Key::cluster(name)
}

fn entry(name: &str, uid: &str, version: u64, facts: &'static str) -> Arc<Entry<&'static str>> {
    let meta = Meta {
        key: key(name),
        uid: uid.into(),
        version: Version::of(version),
        created: None,
        deleting: None,
    };
    Arc::new(Entry { meta, facts })
}

/// A table in which "a" was observed at version 10.
fn with_a() -> Words {
    let mut table = Words::default();
    table.list(
        &source(),
        Version::of(10),
        at(0),
        vec![entry("a", "ua", 10, "old")],
        &BTreeSet::new(),
    );
    table
}

fn facts(table: &Words, name: &str) -> Option<&'static str> {
    table.get(&key(name)).map(|entry| entry.facts)
}

fn doubts(table: &Words, now: DateTime<Utc>) -> Vec<String> {
    table.doubts(now).map(ToString::to_string).collect()
}

#[test]
fn an_older_event_never_undoes_an_assumption() {
    let mut table = with_a();
    table.assume(&source(), entry("a", "ua", 20, "patched"), at(1)).unwrap();
    assert!(table.apply(&source(), entry("a", "ua", 15, "late")).is_none());
    assert_eq!(facts(&table, "a"), Some("patched"));
    assert_eq!(table.assumptions(), 1);
}

#[test]
fn an_assumption_ends_by_an_event_at_its_version() {
    let mut table = with_a();
    table.assume(&source(), entry("a", "ua", 20, "patched"), at(1));
    table.apply(&source(), entry("a", "ua", 20, "patched"));
    assert_eq!((facts(&table, "a"), table.assumptions()), (Some("patched"), 0));
}

#[test]
fn what_only_confirms_moves_nothing() {
    let mut table = with_a();
    table.assume(&source(), entry("a", "ua", 20, "patched"), at(1));
    assert!(table.apply(&source(), entry("a", "ua", 20, "patched")).is_none());
    let again = vec![entry("a", "ua", 20, "patched")];
    assert!(
        table
            .list(&source(), Version::of(30), at(2), again, &BTreeSet::new())
            .is_empty()
    );
    assert_eq!(table.assumptions(), 0);
}

#[test]
fn an_assumption_ends_by_an_event_past_its_version() {
    let mut table = with_a();
    table.assume(&source(), entry("a", "ua", 20, "patched"), at(1));
    table.apply(&source(), entry("a", "ua", 25, "by others"));
    assert_eq!((facts(&table, "a"), table.assumptions()), (Some("by others"), 0));
}

#[test]
fn an_assumption_ends_by_the_deletion_of_its_uid_and_of_no_other() {
    let mut table = with_a();
    table.assume(&source(), entry("b", "ub", 20, "created"), at(1));
    assert!(
        table
            .delete(&source(), &key("b"), &"another".into(), Version::of(21))
            .is_none()
    );
    assert_eq!(facts(&table, "b"), Some("created"));
    assert!(
        table
            .delete(&source(), &key("b"), &"ub".into(), Version::of(22))
            .is_some()
    );
    assert_eq!((facts(&table, "b"), table.assumptions()), (None, 0));
}

#[test]
fn a_list_past_the_write_ends_the_assumption_of_what_it_does_not_contain() {
    let mut table = with_a();
    table.assume(&source(), entry("b", "ub", 20, "created"), at(1));
    table.list(
        &source(),
        Version::of(30),
        at(2),
        vec![entry("a", "ua", 10, "old")],
        &BTreeSet::new(),
    );
    assert_eq!((facts(&table, "b"), table.assumptions()), (None, 0));
}

#[test]
fn a_list_past_the_write_ends_the_assumption_of_what_it_contains() {
    let mut table = with_a();
    table.assume(&source(), entry("a", "ua", 20, "patched"), at(1));
    table.list(
        &source(),
        Version::of(30),
        at(2),
        vec![entry("a", "ua", 22, "newer")],
        &BTreeSet::new(),
    );
    assert_eq!((facts(&table, "a"), table.assumptions()), (Some("newer"), 0));
}

#[test]
fn a_stale_list_neither_removes_nor_undoes_what_we_wrote() {
    let mut table = with_a();
    table.assume(&source(), entry("a", "ua", 20, "patched"), at(1));
    table.assume(&source(), entry("b", "ub", 21, "created"), at(1));
    table.list(
        &source(),
        Version::of(12),
        at(2),
        vec![entry("a", "ua", 10, "old")],
        &BTreeSet::new(),
    );
    assert_eq!(
        (facts(&table, "a"), facts(&table, "b")),
        (Some("patched"), Some("created"))
    );
    assert_eq!(table.assumptions(), 2);
}

#[test]
fn a_stale_list_does_not_remove_what_a_watch_has_told_but_a_read_may() {
    let mut table = with_a();
    table.apply(&source(), entry("b", "ub", 50, "told"));
    table.apply(&source(), entry("a", "ua", 51, "newer"));
    table.list(
        &source(),
        Version::of(40),
        at(5),
        vec![entry("a", "ua", 10, "old")],
        &BTreeSet::new(),
    );
    assert_eq!((facts(&table, "a"), facts(&table, "b")), (Some("newer"), Some("told")));
    assert_eq!(doubts(&table, at(5)), ["a", "b"]);
    // The watch goes on from the stale list and tells it again.
    table.apply(&source(), entry("b", "ub", 50, "told"));
    // The server was really set back.
    table.read(&source(), &key("a"), at(6), Some(entry("a", "ua", 10, "old")));
    assert_eq!(
        (facts(&table, "a"), facts(&table, "b"), table.assumptions()),
        (Some("old"), Some("told"), 0)
    );
}

#[test]
fn what_a_list_misses_and_a_later_event_tells_is_back() {
    let mut table = with_a();
    table.list(&source(), Version::of(20), at(1), Vec::new(), &BTreeSet::new());
    assert_eq!(facts(&table, "a"), None);
    table.apply(&source(), entry("a", "ua", 21, "back"));
    assert_eq!(facts(&table, "a"), Some("back"));
}

#[test]
fn where_versions_are_untold_the_time_of_the_list_decides() {
    let mut table = Words::default();
    table.assume(&source(), entry("b", "ub", 0, "created"), at(5));
    table.list(&source(), Version::UNKNOWN, at(4), Vec::new(), &BTreeSet::new());
    assert_eq!(facts(&table, "b"), Some("created"), "begun before the write");
    table.list(&source(), Version::UNKNOWN, at(6), Vec::new(), &BTreeSet::new());
    assert_eq!(facts(&table, "b"), None, "begun after the write");
}

#[test]
fn a_bookmark_past_the_write_puts_the_assumption_in_doubt_at_once() {
    let mut table = with_a();
    table.assume(&source(), entry("b", "ub", 20, "created"), at(1));
    table.bookmark(&source(), Version::of(19));
    assert!(doubts(&table, at(2)).is_empty());
    table.bookmark(&source(), Version::of(20));
    assert_eq!(doubts(&table, at(2)), ["b"]);
}

#[test]
fn an_unconfirmed_assumption_is_in_doubt_after_thirty_seconds_and_again_after_thirty_more() {
    let mut table = with_a();
    table.assume(&source(), entry("b", "ub", 20, "created"), at(1));
    assert!(doubts(&table, at(30)).is_empty());
    assert_eq!(doubts(&table, at(31)), ["b"]);
    table.postpone(&key("b"), at(31));
    assert!(doubts(&table, at(60)).is_empty());
    assert_eq!(doubts(&table, at(61)), ["b"]);
}

#[test]
fn the_answer_to_a_read_ends_the_assumption() {
    let mut table = with_a();
    table.assume(&source(), entry("a", "ua", 20, "patched"), at(1));
    table.assume(&source(), entry("b", "ub", 21, "created"), at(1));
    table.read(&source(), &key("b"), at(31), None);
    // Even to an older version: the server was set back, and it is asked after the write.
    table.read(&source(), &key("a"), at(31), Some(entry("a", "ua", 9, "restored")));
    assert_eq!((facts(&table, "a"), facts(&table, "b")), (Some("restored"), None));
    assert_eq!(table.assumptions(), 0);
}

#[test]
fn a_read_that_began_before_the_write_says_nothing_about_it() {
    let mut table = with_a();
    table.assume(&source(), entry("b", "ub", 20, "created"), at(10));
    table.read(&source(), &key("b"), at(9), None);
    assert_eq!((facts(&table, "b"), table.assumptions()), (Some("created"), 1));
}

#[test]
fn a_read_of_an_unknown_outcome_brings_what_was_found() {
    let mut table = with_a();
    table.read(
        &source(),
        &key("b"),
        at(5),
        Some(entry("b", "ub", 20, "created after all")),
    );
    assert_eq!(facts(&table, "b"), Some("created after all"));
}

#[test]
fn what_came_and_went_before_we_heard_our_own_answer_stays_away() {
    // by the deletion of its uid
    let mut table = with_a();
    table.apply(&source(), entry("b", "ub", 20, "created"));
    table.delete(&source(), &key("b"), &"ub".into(), Version::of(21));
    assert!(
        table
            .assume(&source(), entry("b", "ub", 20, "created"), at(1))
            .is_none()
    );
    // by a list that is past the write
    let mut table = with_a();
    table.list(&source(), Version::of(30), at(1), Vec::new(), &BTreeSet::new());
    assert!(
        table
            .assume(&source(), entry("b", "ub", 20, "created"), at(2))
            .is_none()
    );
    assert_eq!(facts(&table, "b"), None);
}

#[test]
fn a_uid_that_is_gone_never_comes_back_but_its_name_may() {
    let mut table = with_a();
    table.assume_gone(&key("a"), &"ua".into());
    assert_eq!(facts(&table, "a"), None);
    assert!(table.apply(&source(), entry("a", "ua", 12, "late event")).is_none());
    table.list(
        &source(),
        Version::of(11),
        at(1),
        vec![entry("a", "ua", 10, "stale list")],
        &BTreeSet::new(),
    );
    assert_eq!(facts(&table, "a"), None);
    table.apply(&source(), entry("a", "ua2", 13, "a new one"));
    assert_eq!(facts(&table, "a"), Some("a new one"));
}

#[test]
fn an_event_of_a_replaced_object_does_not_touch_its_successor() {
    let mut table = with_a();
    table.assume(&source(), entry("a", "ua2", 30, "successor"), at(1));
    assert!(
        table
            .delete(&source(), &key("a"), &"ua".into(), Version::of(25))
            .is_none()
    );
    assert!(table.apply(&source(), entry("a", "ua", 24, "dying")).is_none());
    assert_eq!(facts(&table, "a"), Some("successor"));
}

#[test]
fn what_cannot_be_read_keeps_what_was_last_known_of_it() {
    let mut table = with_a();
    let unread = BTreeSet::from([key("a")]);
    table.list(&source(), Version::of(30), at(1), Vec::new(), &unread);
    assert_eq!(facts(&table, "a"), Some("old"));
}

#[test]
fn a_list_of_one_class_kind_leaves_the_other_alone() {
    let (one, other) = (
        Source {
            kind: Kind::NodeClass,
            class: "A.g".into(),
        },
        Source {
            kind: Kind::NodeClass,
            class: "B.g".into(),
        },
    );
    let named = |class: &str| {
        let mut named = entry("n", class, 5, "class").as_ref().clone();
        named.meta.key.scope = class.into();
        Arc::new(named)
    };
    let mut table = Words::default();
    table.list(&one, Version::of(5), at(0), vec![named("A.g")], &BTreeSet::new());
    table.list(&other, Version::of(6), at(0), vec![named("B.g")], &BTreeSet::new());
    table.list(&one, Version::of(7), at(1), Vec::new(), &BTreeSet::new());
    assert_eq!(table.entries().len(), 1);
}

#[test]
fn a_snapshot_shares_with_the_table_until_one_of_them_moves() {
    let mut table = with_a();
    let before = table.entries();
    assert!(Arc::ptr_eq(&before, &table.entries()));
    table.apply(&source(), entry("a", "ua", 11, "new"));
    assert_eq!(before.get(&key("a")).unwrap().facts, "old");
    assert_eq!(facts(&table, "a"), Some("new"));
}

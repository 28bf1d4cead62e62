//! Two operators on the real control plane: one leads, and killed or frozen it loses nothing and repeats nothing.
//!
//! `REAL_LEASE=1` runs with the usual lease of 15 s and a frost of 60 s instead of short ones, and prints the seconds of each hand-over.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "replicas/door.rs"]
mod door;
#[path = "replicas/process.rs"]
mod process;
#[path = "replicas/sight.rs"]
mod sight;
#[path = "replicas/story.rs"]
mod story;
mod support;

use door::{Doors, Point, Side, Then, Trap};
use karpenter::clock::SystemClock;
use process::{Replica, Terms, signal};
use sandbox::machines::{Fleet, MachineOptions};
use sandbox::spot::{Admin, Options, Spot, http_sender};
use std::sync::Arc;
use std::time::Duration;
use story::Scenery;
use support::controlplane::ControlPlane;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

fn real() -> bool {
    std::env::var_os("REAL_LEASE").is_some_and(|value| value == "1")
}

fn terms(warm: bool) -> Terms {
    Terms {
        lease: if real() { "15s" } else { "5s" },
        warm,
    }
}

/// The lease, and how long a holder is frozen.
fn lease_and_frost() -> (Duration, Duration) {
    if real() {
        (Duration::from_secs(15), Duration::from_mins(1))
    } else {
        (Duration::from_secs(5), Duration::from_secs(8))
    }
}

/// Keeps what plays the rest of the world alive.
struct Alive {
    _plane: ControlPlane,
    _stop: tokio_util::sync::DropGuard,
}

async fn scenery() -> Scenery {
    let plane = ControlPlane::start().await;
    plane.apply_crds().await;
    let client = plane.client().await;
    let spot = Spot::new(Options::short(), Arc::new(SystemClock), Admin::Hidden);
    let stop = CancellationToken::new();
    let machines = MachineOptions {
        pod_start_seconds: 0.5,
        pod_stop_seconds: Some(0.5),
        ..MachineOptions::default()
    };
    tokio::spawn(Fleet::new(spot.clone(), client.clone(), machines).run(stop.child_token()));
    let (platform, token) = (spot.clone(), stop.child_token());
    tokio::spawn(async move { platform.run(http_sender(), token).await });
    let alive = Alive {
        _plane: plane,
        _stop: stop.drop_guard(),
    };
    let scenery = Scenery::new(client, spot, std::sync::Mutex::new(alive));
    scenery.furnish().await;
    scenery
}

async fn doors(scenery: &Scenery) -> Doors {
    Doors::open(scenery.client.clone(), scenery.spot.router()).await
}

// architecture §3.5
#[tokio::test(flavor = "multi_thread")]
async fn only_the_holder_writes_and_its_death_hands_over_within_the_leases_time() {
    let scenery = scenery().await;
    let mut first = Replica::start("first", doors(&scenery).await, terms(false));
    let leader = scenery.holder_after("").await;
    let second = Replica::start("second", doors(&scenery).await, terms(false));
    scenery.pods_come(2).await;
    assert!(!first.doors.writes().is_empty());
    let of_second: Vec<String> = second.doors.writes().into_iter().map(|write| write.what).collect();
    assert!(of_second.is_empty(), "{of_second:?}");

    let (lease, _) = lease_and_frost();
    let killed = Instant::now();
    first.kill().await;
    scenery.holder_after(&leader).await;
    let took = killed.elapsed();
    println!(
        "hand-over after a kill: {:.1} s with a lease of {} s",
        took.as_secs_f64(),
        lease.as_secs()
    );
    // the machine is busy with other tests
    assert!(took <= lease + Duration::from_millis(1_500), "{took:?}");
    scenery.pods_go().await;
    let seen = scenery.seen();
    assert_eq!((seen.claims.len(), &seen.claims), (2, &seen.pools));
}

/// What is counted, so that the n-th of it is the one that is meant.
const CLAIM_MADE: (Side, &str) = (Side::Kubernetes, "POST /apis/karpenter.sh/v1/nodeclaims");
const CLAIM_DELETED: (Side, &str) = (Side::Kubernetes, "DELETE /apis/karpenter.sh/v1/nodeclaims");
const POOL_DELETED: (Side, &str) = (Side::Spot, "DELETE ");
/// The first two orders are refused for the increment of their bids.
const POOL_ORDERED: (Side, &str, usize) = (Side::Spot, "POST ", 3);

/// A holder is frozen while this write of it is leaving, and revived long after another took over.
async fn frozen((side, of): (Side, &'static str), nth: usize) {
    let scenery = scenery().await;
    let mut first = Replica::start("first", doors(&scenery).await, terms(false));
    let (id, sprung) = (first.id(), Arc::new(Notify::new()));
    let told = Arc::clone(&sprung);
    first.doors.set(Trap {
        side,
        of,
        point: Point::Before,
        nth,
        then: Then::GoOn,
        spring: Box::new(move || {
            signal("-STOP", id);
            told.notify_one();
        }),
    });
    let leader = scenery.holder_after("").await;
    let second = Replica::start("second", doors(&scenery).await, terms(true));
    let waking = async {
        sprung.notified().await;
        tokio::time::sleep(lease_and_frost().1).await;
        assert_ne!(scenery.holder().await, leader, "nobody took over");
        // what had left before it was frozen has arrived
        let before = first.doors.writes().len();
        signal("-CONT", id);
        let code = tokio::time::timeout(Duration::from_secs(30), first.ended()).await;
        assert_eq!(code.expect("it ends when it wakes"), Some(2), "{}", first.written());
        let more: Vec<String> = first.doors.writes().drain(before..).map(|write| write.what).collect();
        assert!(more.len() <= 1, "it wrote after it woke: {more:?}");
    };
    let story = async {
        scenery.pods_come(2).await;
        scenery.pods_go().await;
    };
    tokio::join!(waking, story);
    let seen = scenery.seen();
    assert_eq!((seen.claims.len(), &seen.claims), (2, &seen.pools), "{of} {nth}");
    println!("frozen at {of} {nth}: nothing was left at {:.1} s", scenery.passed());
    assert!(!second.doors.writes().is_empty(), "the other did nothing");
}

// architecture §3.5
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_frozen_while_it_makes_a_claim_changes_nothing_twice() {
    frozen(CLAIM_MADE, 1).await;
}

// architecture §3.5
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_frozen_while_it_orders_a_pool_changes_nothing_twice() {
    let (side, of, nth) = POOL_ORDERED;
    frozen((side, of), nth).await;
}

// architecture §3.5
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_frozen_while_it_ends_a_pool_changes_nothing_twice() {
    frozen(POOL_DELETED, 1).await;
}

/// Killed at this write, and started again.
async fn killed(scenery: &Scenery, side: Side, of: &'static str, point: Point, nth: usize) {
    let sprung = Arc::new(Notify::new());
    let told = Arc::clone(&sprung);
    let mut first = Replica::start("first", doors(scenery).await, terms(false));
    first.doors.set(Trap {
        side,
        of,
        point,
        nth,
        then: Then::Vanish,
        spring: Box::new(move || told.notify_one()),
    });
    let killing = async {
        sprung.notified().await;
        first.kill().await;
        Replica::start("second", doors(scenery).await, terms(false))
    };
    let story = async {
        scenery.pods_come(2).await;
        scenery.pods_go().await;
    };
    let (mut second, ()) = tokio::join!(killing, story);
    let seen = scenery.seen();
    assert_eq!(
        (seen.claims.len(), &seen.claims),
        (2, &seen.pools),
        "{of} {point:?} {nth}"
    );
    println!(
        "killed {point:?} {of} {nth}: nothing was left at {:.1} s",
        scenery.passed()
    );
    // whoever comes next begins without a leader
    signal("-TERM", second.id());
    assert_eq!(second.ended().await, Some(0));
}

// Each other write is tried in the simulated world (kills.rs).
#[tokio::test(flavor = "multi_thread")]
async fn killed_when_a_claim_was_made_or_before_one_is_deleted_it_goes_on_where_it_was() {
    let scenery = scenery().await;
    killed(&scenery, CLAIM_MADE.0, CLAIM_MADE.1, Point::After, 1).await;
    killed(&scenery, CLAIM_DELETED.0, CLAIM_DELETED.1, Point::Before, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_when_a_pool_was_ordered_or_its_end_asked_for_it_goes_on_where_it_was() {
    let scenery = scenery().await;
    let (side, of, nth) = POOL_ORDERED;
    killed(&scenery, side, of, Point::After, nth).await;
    killed(&scenery, POOL_DELETED.0, POOL_DELETED.1, Point::After, 1).await;
}

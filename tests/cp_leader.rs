//! Two operators on the real control plane: one leads, and killed or frozen it loses nothing and repeats nothing.
//!
//! The operator is killed at an even sample of its writes, which `SEED` shifts; `EVERY=1` kills it at each, which takes over half an hour.
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

use door::{Doors, Held, Point, Side, Then, Trap};
use karpenter::clock::SystemClock;
use process::{Replica, Terms, signal};
use sandbox::machines::{Fleet, MachineOptions};
use sandbox::spot::{Admin, Options, Spot, http_sender};
use std::sync::{Arc, Mutex};
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

// architecture §3.5
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_created_when_another_leads_and_has_bought_gets_no_machine() {
    let (scenery, held) = (scenery().await, Held::default());
    let mut first = Replica::start("first", doors(&scenery).await, terms(false));
    let id = first.id();
    let (side, of) = CLAIM_MADE;
    first.doors.set(Trap {
        side,
        of,
        point: Point::Before,
        nth: 1,
        then: Then::Late(held.clone()),
        spring: Box::new(move || signal("-STOP", id)),
    });
    let leader = scenery.holder_after("").await;
    let _second = Replica::start("second", doors(&scenery).await, terms(true));
    let there = scenery.pods_run(2).await;
    assert_ne!(scenery.holder().await, leader, "nobody took over");
    assert_eq!(held.arrive().await, 201);
    // what is bought for it would come with one of the next passes
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(scenery.seen().pools, there.pools);
    signal("-CONT", id);
    let code = tokio::time::timeout(Duration::from_secs(30), first.ended()).await;
    assert_eq!(code.expect("it ends when it wakes"), Some(2), "{}", first.written());
    scenery.pods_go().await;
    let seen = scenery.seen();
    assert_eq!(
        (seen.claims.len(), seen.pools.len()),
        (3, 2),
        "it came, and without a pool it went"
    );
}

/// Killed at this write, and started again; says whether there was such a write.
async fn killed(scenery: &Scenery, side: Side, of: &'static str, point: Point, nth: usize) -> bool {
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
    let mut second = None;
    let killing = async {
        sprung.notified().await;
        first.kill().await;
        second = Some(Replica::start("second", doors(scenery).await, terms(false)));
        std::future::pending::<()>().await;
    };
    let story = async {
        scenery.pods_come(2).await;
        scenery.pods_go().await;
    };
    tokio::select! {
        biased;
        () = story => {}
        () = killing => {}
    }
    let seen = scenery.seen();
    assert_eq!(
        (seen.claims.len(), &seen.claims),
        (2, &seen.pools),
        "{of} {point:?} {nth}"
    );
    let struck = second.is_some();
    let writes = first.doors.writes().iter().filter(|write| write.side == side).count();
    assert!(
        struck || writes < nth,
        "write {nth} to {side:?} was there and not struck"
    );
    let mut last = second.unwrap_or(first);
    println!(
        "killed {point:?} {side:?} {of} {nth}{}: nothing was left at {:.1} s",
        if struck { "" } else { " (there was no such write)" },
        scenery.passed()
    );
    // whoever comes next begins without a leader
    signal("-TERM", last.id());
    assert_eq!(last.ended().await, Some(0));
    struck
}

/// How many writes a launch and a removal have that nobody disturbs.
async fn count(scenery: &Scenery) -> [usize; 2] {
    let mut operator = Replica::start("undisturbed", doors(scenery).await, terms(false));
    scenery.pods_come(2).await;
    scenery.pods_go().await;
    let writes = operator.doors.writes();
    signal("-TERM", operator.id());
    assert_eq!(operator.ended().await, Some(0));
    SIDES.map(|side| writes.iter().filter(|write| write.side == side).count())
}

const SIDES: [Side; 2] = [Side::Kubernetes, Side::Spot];
/// Control planes that histories are played on at the same time.
const PLANES: usize = 2;
/// Histories that are played unless `EVERY=1` asks for each; each takes most of a minute, nearly all of it intervals of the operator.
const SAMPLE: usize = 8;

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// Every so manieth of all points, from one that the seed chooses.
fn sampled(writes: [usize; 2]) -> Vec<(Side, Point, usize)> {
    let all = SIDES.into_iter().zip(writes).flat_map(|(side, writes)| {
        (1..=writes).flat_map(move |nth| [Point::Before, Point::After].map(|point| (side, point, nth)))
    });
    let all: Vec<_> = all.collect();
    let step = if number("EVERY") == Some(1) {
        1
    } else {
        all.len().div_ceil(SAMPLE)
    };
    let seed = number("SEED").unwrap_or(7);
    let chosen: Vec<_> = all.iter().copied().skip(seed % step).step_by(step).collect();
    println!(
        "{writes:?} writes; {} of {} kills, SEED={seed}",
        chosen.len(),
        all.len()
    );
    chosen
}

// Each write is tried in the simulated world (kills.rs), and here with EVERY=1; otherwise an even sample of them.
#[tokio::test(flavor = "multi_thread")]
async fn killed_before_or_after_any_of_a_sample_of_all_writes_it_goes_on_where_it_was() {
    let first = scenery().await;
    let points = sampled(count(&first).await);
    let wanted = points.len();
    let left = Mutex::new(points.into_iter());
    let play = async |scenery: &Scenery| {
        let mut struck = 0;
        loop {
            let next = left.lock().unwrap().next();
            let Some((side, point, nth)) = next else { return struck };
            struck += usize::from(killed(scenery, side, "", point, nth).await);
        }
    };
    let others = (1..PLANES).map(async |_| play(&scenery().await).await);
    let (here, elsewhere) = tokio::join!(play(&first), futures::future::join_all(others));
    let struck = here + elsewhere.iter().sum::<usize>();
    // a history may be some writes shorter than the one that was counted, since two changes of one object may come together
    println!("{struck} of {wanted} kills; the others' histories were shorter");
    assert!(struck * 4 >= wanted * 3, "{struck} of {wanted}");
}

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

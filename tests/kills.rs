//! The real binary, killed with SIGKILL and frozen with SIGSTOP at each of its writes, over loopback against the simulated world, in real time.
//!
//! Several worlds run beside each other, since most of the time everybody waits.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "replicas/door.rs"]
mod door;
#[path = "replicas/process.rs"]
mod process;
#[path = "replicas/story.rs"]
mod story;

use door::{Doors, Point, Side, Then, Trap};
use futures::StreamExt as _;
use karpenter::clock::SystemClock;
use process::{Replica, Terms, signal};
use sandbox::spot::Options;
use sandbox::world::World;
use std::sync::Arc;
use std::time::Duration;
use story::Scenery;
use tokio::sync::Notify;

const PODS: u32 = 2;
/// Worlds at a time.
const AT_ONCE: usize = 6;

/// Every so manieth write; `EVERY=1` tries each. The in-process world tries each in any case (tests/operator/kills.rs): here it is shown that a real
/// process behaves alike, and each history takes real time.
fn every(usual: usize) -> usize {
    let given = std::env::var("EVERY").ok().and_then(|text| text.parse().ok());
    given.filter(|step| *step > 0).unwrap_or(usual)
}
const SHORT: Terms = Terms {
    lease: "3s",
    warm: false,
};

async fn scenery() -> Scenery {
    let world = World::builder(7)
        .with(|options| {
            options.spot = Options::short();
            options.machines.pod_stop_seconds = Some(0.5);
        })
        .clock(Arc::new(SystemClock))
        .start()
        .await
        .unwrap();
    let scenery = Scenery::new(
        world.client(),
        world.spot().clone(),
        Lives(std::sync::Mutex::new(world)),
    );
    scenery.furnish().await;
    scenery
}

/// Keeps a world alive for whoever may be on another thread.
struct Lives(#[allow(dead_code, reason = "held, not read")] std::sync::Mutex<World>);

async fn doors(scenery: &Scenery) -> Doors {
    Doors::open(scenery.client.clone(), scenery.spot.router()).await
}

/// How many writes a launch and a removal have, when nobody disturbs them.
async fn undisturbed() -> [(Side, usize); 2] {
    let scenery = scenery().await;
    let operator = Replica::start("alone", doors(&scenery).await, SHORT);
    scenery.pods_come(PODS).await;
    scenery.pods_go().await;
    let writes = operator.doors.writes();
    [Side::Kubernetes, Side::Spot].map(|side| (side, writes.iter().filter(|write| write.side == side).count()))
}

/// One history: killed at the n-th write, and started again. Says whether there was such a write.
async fn killed(side: Side, point: Point, nth: usize) -> bool {
    let scenery = scenery().await;
    let sprung = Arc::new(Notify::new());
    let doors_of_first = doors(&scenery).await;
    let told = Arc::clone(&sprung);
    doors_of_first.set(Trap {
        side,
        point,
        nth,
        then: Then::Vanish,
        spring: Box::new(move || told.notify_one()),
    });
    let mut first = Replica::start("first", doors_of_first, SHORT);
    let struck = std::sync::atomic::AtomicBool::new(false);
    let killing = async {
        sprung.notified().await;
        first.kill().await;
        struck.store(true, std::sync::atomic::Ordering::Relaxed);
        let _second = Replica::start("second", doors(&scenery).await, SHORT);
        std::future::pending::<()>().await;
    };
    let story = async {
        scenery.pods_come(PODS).await;
        scenery.pods_go().await;
    };
    tokio::select! {
        biased;
        () = story => {}
        () = killing => {}
    }
    let seen = scenery.seen();
    let told = format!("killed {point:?} write {nth} to {side:?}");
    assert_eq!(seen.claims, seen.pools, "{told}");
    assert_eq!(
        seen.claims.len(),
        usize::try_from(PODS).unwrap(),
        "{told}: claims for pods that had one"
    );
    struck.into_inner()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_before_or_after_any_write_it_goes_on_where_it_was() {
    let mut all = Vec::new();
    for (side, writes) in undisturbed().await {
        assert!(writes >= 4, "{side:?}: {writes}");
        for nth in (1..=writes).step_by(every(13)) {
            all.extend([Point::Before, Point::After].map(|point| (side, point, nth)));
        }
    }
    let count = all.len();
    let histories = futures::stream::iter(all).map(|(side, point, nth)| async move { killed(side, point, nth).await });
    let struck: Vec<bool> = histories.buffer_unordered(AT_ONCE).collect().await;
    let struck = struck.into_iter().filter(|struck| *struck).count();
    println!("{struck} of {count} histories had their kill");
    // a history may be a write or two shorter than the one that was counted
    assert!(
        struck * 10 >= count * 7,
        "only {struck} of {count} histories had a kill"
    );
}

/// One history: the holder is frozen at its n-th write for longer than the lease while another stands by, and wakes up when that one has done the
/// work. Says whether there was such a write.
async fn frozen(side: Side, nth: usize) -> bool {
    let scenery = scenery().await;
    let doors_of_first = doors(&scenery).await;
    let mut first = Replica::start("first", doors_of_first.clone(), SHORT);
    let (id, sprung) = (first.id(), Arc::new(Notify::new()));
    let told = Arc::clone(&sprung);
    doors_of_first.set(Trap {
        side,
        point: Point::Before,
        nth,
        // the request that was leaving
        then: Then::GoOn,
        spring: Box::new(move || {
            signal("-STOP", id);
            told.notify_one();
        }),
    });
    let leader = scenery.holder_after("").await;
    let second = Replica::start("second", doors(&scenery).await, Terms { warm: true, ..SHORT });
    let waking = async {
        sprung.notified().await;
        scenery.holder_after(&leader).await;
        // by now the other has begun to work
        tokio::time::sleep(Duration::from_secs(2)).await;
        // what had left before it was frozen has arrived
        let before = doors_of_first.writes().len();
        signal("-CONT", id);
        let code = tokio::time::timeout(Duration::from_secs(20), first.ended()).await;
        assert_eq!(code.expect("it ends when it wakes"), Some(2), "{}", first.written());
        assert!(first.written().contains("leader election lost"), "{}", first.written());
        before
    };
    let story = async {
        scenery.pods_come(PODS).await;
        scenery.pods_go().await;
    };
    let before = {
        let mut waking = std::pin::pin!(waking);
        let mut story = std::pin::pin!(story);
        tokio::select! {
            biased;
            before = &mut waking => {
                story.await;
                Some(before)
            }
            // there was no such write
            () = &mut story => None,
        }
    };
    let Some(before) = before else { return false };
    let told = format!("frozen at write {nth} to {side:?}");
    let more: Vec<String> = doors_of_first
        .writes()
        .drain(before..)
        .map(|write| write.what)
        .collect();
    assert!(more.len() <= 1, "{told}: it wrote after it woke: {more:?}");
    let seen = scenery.seen();
    assert_eq!(seen.claims, seen.pools, "{told}");
    assert_eq!(seen.claims.len(), usize::try_from(PODS).unwrap(), "{told}");
    assert!(!second.doors.writes().is_empty(), "{told}: the other did nothing");
    true
}

// architecture §3.5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_at_any_write_for_longer_than_the_lease_it_sends_at_most_what_was_leaving_and_ends() {
    let writes = undisturbed().await;
    let all = writes
        .into_iter()
        .flat_map(|(side, writes)| (1..=writes).step_by(every(20)).map(move |nth| (side, nth)));
    let all: Vec<_> = all.collect();
    let count = all.len();
    let histories = futures::stream::iter(all).map(|(side, nth)| async move { frozen(side, nth).await });
    let struck: Vec<bool> = histories.buffer_unordered(AT_ONCE).collect().await;
    let struck = struck.into_iter().filter(|struck| *struck).count();
    println!("{struck} of {count} histories had their frost");
    assert!(
        struck * 10 >= count * 7,
        "only {struck} of {count} histories had a frost"
    );
}

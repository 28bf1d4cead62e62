//! The real binary, killed with SIGKILL before and after the answer to each of its writes, and frozen with SIGSTOP at a spread of them, over loopback
//! against the simulated world, in real time.
//!
//! Nearly all of a history's time is waiting for intervals of the operator (a poll of 5 s for the server, 10 s of nomination, 10 s between two looks at
//! what is empty, 15 s of validation, 5 s of drain, 5 s for the end of the machine, and the lease of whoever was killed), so many worlds run beside each
//! other. What limits them is the processor: about one second for each history in a debug build.
//!
//! Some are held back while their sender is frozen, and arrive when another leads and has bought: nothing can stop a request that has left.
//!
//! `EVERY=1` freezes at each write too, and `EVERY=10` makes do with a tenth of kills and frosts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "replicas/door.rs"]
mod door;
#[path = "replicas/late.rs"]
mod late;
#[path = "replicas/process.rs"]
mod process;
#[path = "replicas/sight.rs"]
mod sight;
#[path = "replicas/story.rs"]
mod story;

use door::{Doors, Point, Side, Then, Trap};
use futures::StreamExt as _;
use karpenter::clock::SystemClock;
use process::{Replica, Terms, signal};
use sandbox::spot::Options;
use sandbox::world::World;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use story::Scenery;
use tokio::sync::{Notify, Semaphore, SetOnce};

const PODS: u32 = 2;
/// Histories at a time: nearly all of their time is waiting for the intervals of the operator.
const KILLS_AT_ONCE: usize = 56;
const FROSTS_AT_ONCE: usize = 16;
const SIDES: [Side; 2] = [Side::Kubernetes, Side::Spot];
/// So many histories without an n-th write, and it is believed that most have none.
const SHORT_ONES: usize = 3;
/// No history has more writes than this.
const MOST_WRITES: usize = 200;
/// Shorter than usual, and long enough for an operator that has to wait for a processor.
const SHORT: Terms = Terms {
    lease: "10s",
    warm: false,
};

/// Every so manieth write; `EVERY=1` tries each.
fn every(usual: usize) -> usize {
    let given = std::env::var("EVERY").ok().and_then(|text| text.parse().ok());
    given.filter(|step| *step > 0).unwrap_or(usual)
}

/// Starting is what costs; a history begins when the one before it has a leader, as fast as the machine is.
async fn begin(doors: Doors, scenery: &Scenery) -> (Replica, String) {
    static GATE: Semaphore = Semaphore::const_new(2);
    let _one_of_few = GATE.acquire().await.unwrap();
    let first = Replica::start("first", doors, SHORT);
    let leader = scenery.holder_after("").await;
    (first, leader)
}

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

/// The writes of an undisturbed history, known when it has ended.
#[derive(Default)]
struct Count(SetOnce<[Vec<String>; 2]>);

impl Count {
    /// Plays a launch and a removal that nobody disturbs.
    async fn find(&self) {
        let scenery = scenery().await;
        let (operator, _) = begin(doors(&scenery).await, &scenery).await;
        scenery.pods_come(PODS).await;
        scenery.pods_go().await;
        let found = SIDES.map(|side| writes_of(&operator, side));
        assert!(
            found.iter().all(|writes| (6..MOST_WRITES).contains(&writes.len())),
            "{found:?}"
        );
        self.0.set(found).unwrap();
    }

    async fn writes(&self, side: Side) -> Vec<String> {
        self.0.wait().await[usize::from(side == Side::Spot)].clone()
    }
}

fn writes_of(operator: &Replica, side: Side) -> Vec<String> {
    let writes = operator.doors.writes().into_iter();
    writes
        .filter(|write| write.side == side)
        .map(|write| write.what)
        .collect()
}

/// Plays the history for each write that there is, several at a time.
async fn at_each_write(
    at_once: usize,
    what: &str,
    points: impl IntoIterator<Item = (Side, Point, usize)>,
    history: impl AsyncFn(Side, Point, usize) -> History,
) {
    let count = &Count::default();
    let history = &history;
    let histories = futures::stream::iter(points)
        .map(|(side, point, nth)| async move {
            // the first ones there are surely
            if nth > 6 && nth > count.writes(side).await.len() {
                return None;
            }
            Some((side, nth, tried(async || history(side, point, nth).await).await))
        })
        .buffer_unordered(at_once)
        .filter_map(std::future::ready);
    let ((), tried) = tokio::join!(count.find(), histories.collect::<Vec<_>>());
    for side in SIDES {
        let undisturbed = count.writes(side).await;
        let of_side = || tried.iter().filter(|(of, ..)| *of == side);
        let struck = of_side().filter(|(_, _, short)| short.is_none()).count();
        println!(
            "{side:?}: {struck} of {} histories {what}; {} writes",
            of_side().count(),
            undisturbed.len()
        );
        for (_, nth, short) in of_side() {
            if let Some(writes) = short {
                account_for(side, *nth, &undisturbed, writes);
            }
        }
    }
}

/// No history of those that were tried had an n-th write: says which writes of the undisturbed one they did without. They can only be such as come
/// together with another: two changes of one object in one patch, and what was said twice there. After the answer to the last write of all the history
/// may be over before anybody is killed.
fn account_for(side: Side, nth: usize, undisturbed: &[String], writes: &[String]) {
    if writes.len() == nth {
        println!("{side:?}: write {nth} was the last one, and nobody was left to be killed after it");
        return;
    }
    assert!(
        writes.len() < nth,
        "{side:?}: write {nth} was there and not struck: {writes:?}"
    );
    let mut left = kinds(writes);
    let mut missing = Vec::new();
    for kind in kinds(undisturbed) {
        match left.iter().position(|other| *other == kind) {
            Some(at) => drop(left.swap_remove(at)),
            None => missing.push(kind),
        }
    }
    println!("{side:?}: no history had write {nth}; they did without {missing:?}");
    // not said twice, such as a bid that was right at once and the end of a pool that was seen to go
    let there = kinds(writes);
    let merges = |kind: &String| kind.starts_with("PATCH ") || there.contains(kind);
    assert!(missing.iter().all(merges), "{side:?}: write {nth}: {missing:?}");
    assert!(
        missing.len() + nth > undisturbed.len(),
        "{side:?}: write {nth} is not accounted for by {missing:?}"
    );
}

/// Writes without the names of the objects, which differ from history to history.
fn kinds(writes: &[String]) -> Vec<String> {
    let kind = |what: &String| {
        let parts = what.split('/').map(|part| {
            let is_kind = part.chars().all(|c| c.is_ascii_lowercase()) || part.ends_with(' ') || part.starts_with('v');
            if is_kind { part } else { "*" }
        });
        parts.collect::<Vec<_>>().join("/")
    };
    writes.iter().map(kind).collect()
}

/// What a history was.
#[derive(Debug, Clone, PartialEq, Eq)]
enum History {
    /// It befell an operator at its n-th write, and the story went on to its end.
    Struck,
    /// There was no such write; these were there.
    Unstruck(Vec<String>),
    /// An operator lost its lease and ended, since the machine was too busy for it; nothing was shown.
    Disturbed,
}

/// Tries until it befalls an operator; the longest of several undisturbed histories in which there was no such write.
async fn tried(history: impl AsyncFn() -> History) -> Option<Vec<String>> {
    let mut short: Vec<Vec<String>> = Vec::new();
    for _ in 0..5 {
        match history().await {
            History::Struck => return None,
            // a history may be some writes shorter than another
            History::Unstruck(writes) => short.push(writes),
            History::Disturbed => println!("an operator lost its lease on a busy machine: once more"),
        }
        if short.len() == SHORT_ONES {
            break;
        }
    }
    let longest = short.into_iter().max_by_key(Vec::len);
    Some(longest.expect("five times in a row an operator lost its lease, although it ran"))
}

/// Waits until an operator ends by itself, which it may do for one reason only.
async fn ended(operator: &mut Replica) {
    let code = operator.ended().await;
    let written = operator.written();
    assert!(
        code == Some(2) && written.contains("leader election lost"),
        "it ended with {code:?}: {written}"
    );
}

/// Kills the first operator when it is time, and starts another. Ends only if one of them ends by itself.
async fn kill_and_start_again(scenery: &Scenery, first: &mut Replica, sprung: &Notify, struck: &OnceLock<f64>) {
    tokio::select! {
        biased;
        () = sprung.notified() => first.kill().await,
        () = ended(first) => return,
    }
    struck.set(scenery.passed()).unwrap();
    let mut second = Replica::start("second", doors(scenery).await, SHORT);
    ended(&mut second).await;
}

/// One history: killed at the n-th write, and started again.
async fn killed(side: Side, point: Point, nth: usize) -> History {
    let scenery = scenery().await;
    let sprung = Arc::new(Notify::new());
    let doors_of_first = doors(&scenery).await;
    let told = Arc::clone(&sprung);
    doors_of_first.set(Trap {
        side,
        of: "",
        point,
        nth,
        then: Then::Vanish,
        spring: Box::new(move || told.notify_one()),
    });
    let (mut first, _) = begin(doors_of_first, &scenery).await;
    let (struck, run) = (OnceLock::new(), OnceLock::new());
    let story = async {
        scenery.pods_come(PODS).await;
        run.set(scenery.passed()).unwrap();
        scenery.pods_go().await;
    };
    tokio::select! {
        biased;
        () = story => {}
        () = kill_and_start_again(&scenery, &mut first, &sprung, &struck) => return History::Disturbed,
    }
    let told = format!("killed {point:?} write {nth} to {side:?}");
    println!(
        "{told}: at {:.1} s, pods ran at {:.1} s, nothing was left at {:.1} s",
        struck.get().unwrap_or(&f64::NAN),
        run.get().unwrap(),
        scenery.passed()
    );
    as_it_should_be(&scenery, &told);
    match struck.get() {
        Some(_) => History::Struck,
        None => History::Unstruck(writes_of(&first, side)),
    }
}

fn as_it_should_be(scenery: &Scenery, told: &str) {
    let seen = scenery.seen();
    assert_eq!(seen.claims, seen.pools, "{told}");
    assert_eq!(
        seen.claims.len(),
        usize::try_from(PODS).unwrap(),
        "{told}: claims for pods that had one"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_before_or_after_any_write_it_goes_on_where_it_was() {
    let points = SIDES.into_iter().flat_map(|side| {
        (1..MOST_WRITES)
            .step_by(every(1))
            .flat_map(move |nth| [Point::Before, Point::After].map(|point| (side, point, nth)))
    });
    at_each_write(KILLS_AT_ONCE, "had their kill", points, killed).await;
}

async fn come_and_go(scenery: &Scenery) {
    scenery.pods_come(PODS).await;
    scenery.pods_go().await;
}

/// One history: the holder is frozen at its n-th write for longer than the lease while another stands by, and wakes up when that one has begun to
/// work.
async fn frozen(side: Side, point: Point, nth: usize) -> History {
    let scenery = scenery().await;
    let doors_of_first = doors(&scenery).await;
    let frost = Frost::default();
    let write = Write {
        side,
        of: "",
        point,
        nth,
    };
    // the request that was leaving
    frost.set(&doors_of_first, write, Then::GoOn);
    let (mut first, leader) = begin(doors_of_first, &scenery).await;
    frost.id.set(first.id()).unwrap();
    let mut second = Replica::start("second", doors(&scenery).await, Terms { warm: true, ..SHORT });
    let doors_of_second = second.doors.clone();
    let told = format!("frozen at write {nth} to {side:?}");
    let mut story = std::pin::pin!(come_and_go(&scenery));
    let rest = OnceLock::new();
    let doors_of_first = first.doors.clone();
    let mut waking = std::pin::pin!(wake_up(&scenery, &mut first, &leader, &frost.sprung, &rest, &told));
    let history = async {
        tokio::select! {
            biased;
            history = &mut waking => {
                if history == History::Struck {
                    story.await;
                }
                history
            }
            // the other has done the rest before the first woke up
            () = &mut story => {
                if frost.struck.load(Ordering::SeqCst) {
                    waking.await
                } else {
                    unstruck(&doors_of_first, side)
                }
            }
        }
    };
    let history = unless_ended(&mut second, history).await;
    if history == History::Struck {
        as_it_should_be(&scenery, &told);
        let idle = doors_of_second.writes().is_empty();
        assert!(
            !idle || rest.get() == Some(&Rest::Nothing),
            "{told}: the other did nothing"
        );
        println!("{told}: nothing was left at {:.1} s", scenery.passed());
    }
    history
}

/// Which write of a process.
#[derive(Clone, Copy)]
struct Write {
    side: Side,
    of: &'static str,
    point: Point,
    nth: usize,
}

/// Freezes a process at one of its writes.
#[derive(Default)]
struct Frost {
    /// The process, once it is known.
    id: Arc<OnceLock<u32>>,
    struck: Arc<AtomicBool>,
    sprung: Arc<Notify>,
}

impl Frost {
    /// At this write; what becomes of the write itself is said by `then`.
    fn set(&self, doors: &Doors, write: Write, then: Then) {
        let (holder, strikes, told) = (Arc::clone(&self.id), Arc::clone(&self.struck), Arc::clone(&self.sprung));
        doors.set(Trap {
            side: write.side,
            of: write.of,
            point: write.point,
            nth: write.nth,
            then,
            spring: Box::new(move || {
                signal("-STOP", *holder.wait());
                strikes.store(true, Ordering::SeqCst);
                told.notify_one();
            }),
        });
    }
}

/// The writes of a history that had none for the trap.
fn unstruck(doors: &Doors, side: Side) -> History {
    let writes = doors.writes().into_iter().filter(|write| write.side == side);
    History::Unstruck(writes.map(|write| write.what).collect())
}

/// A history is disturbed when the replica that stands by ends.
async fn unless_ended(second: &mut Replica, history: impl Future<Output = History>) -> History {
    tokio::select! {
        biased;
        history = history => history,
        () = ended(second) => History::Disturbed,
    }
}

/// What there was to do when the other began to lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Something,
    /// Frozen at the very last write, the first had left nothing.
    Nothing,
}

/// Wakes the frozen one when another is at work: it sends nothing but what was leaving, and ends.
async fn wake_up(
    scenery: &Scenery,
    first: &mut Replica,
    leader: &str,
    sprung: &Notify,
    rest: &OnceLock<Rest>,
    told: &str,
) -> History {
    tokio::select! {
        biased;
        () = sprung.notified() => {}
        () = ended(first) => return History::Disturbed,
    }
    scenery.holder_after(leader).await;
    let over = scenery.seen().claims.len() == usize::try_from(PODS).unwrap() && scenery.sight.there().claims.is_empty();
    rest.set(if over { Rest::Nothing } else { Rest::Something }).unwrap();
    // by now the other has begun to work
    tokio::time::sleep(Duration::from_secs(2)).await;
    // what had left before it was frozen has arrived
    let before = first.doors.writes().len();
    signal("-CONT", first.id());
    let in_time = tokio::time::timeout(Duration::from_secs(20), ended(first)).await;
    in_time.expect("it ends when it wakes");
    let mut writes = first.doors.writes();
    let more: Vec<String> = writes.drain(before..).map(|write| write.what).collect();
    assert!(more.len() <= 1, "{told}: it wrote after it woke: {more:?}");
    History::Struck
}

// architecture §3.5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_at_any_write_for_longer_than_the_lease_it_sends_at_most_what_was_leaving_and_ends() {
    let points = SIDES.into_iter().flat_map(|side| {
        let step = if side == Side::Spot { 1 } else { every(4) };
        (1..MOST_WRITES)
            .step_by(step)
            .map(move |nth| (side, Point::Before, nth))
    });
    at_each_write(FROSTS_AT_ONCE, "had their frost", points, frozen).await;
}

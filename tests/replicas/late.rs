//! Writes that arrive when their sender is frozen, another leads, and that one has bought: nothing can stop a request that has left (architecture §3.5).

use crate::door::{Held, Point, Side, Then};
use crate::process::{Replica, Terms, signal};
use crate::story::Scenery;
use crate::{
    FROSTS_AT_ONCE, Frost, History, MOST_WRITES, PODS, SHORT, SIDES, Write, at_each_write, begin, doors, ended, every,
    scenery, tried, unless_ended, unstruck,
};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Notify;

/// A write that arrives late.
#[derive(Default)]
struct Late {
    frost: Frost,
    held: Held,
    /// The pods run although it has not arrived.
    run: Notify,
    /// What it was, once it has arrived.
    arrived: OnceLock<String>,
}

impl Late {
    fn is_struck(&self) -> bool {
        self.frost.struck.load(Ordering::SeqCst)
    }

    /// Pods come, and go once it is known that nothing is bought for what came late.
    async fn come_and_go(&self, scenery: &Scenery) {
        let there = scenery.pods_run(PODS).await;
        if self.is_struck() {
            self.run.notify_one();
            arrival(&self.arrived).await;
            // what another would buy for it comes with one of the next passes
            tokio::time::sleep(Duration::from_secs(8)).await;
            assert_eq!(scenery.seen().pools, there.pools, "bought for a write that came late");
        }
        scenery.pods_go().await;
    }

    /// Lets it arrive when another than `leader` leads and has bought, and wakes its sender; false if that one ended before.
    async fn arrive(&self, scenery: &Scenery, first: &mut Replica, leader: &str, told: &str) -> bool {
        tokio::select! {
            biased;
            () = self.frost.sprung.notified() => {}
            () = ended(first) => return false,
        }
        let what = self.held.what().await;
        scenery.holder_after(leader).await;
        // the launch is over, or the removal goes on without it
        let _ = tokio::time::timeout(Duration::from_secs(20), self.run.notified()).await;
        let code = self.held.arrive().await;
        println!("{told} came late and was answered {code}: {what}");
        self.arrived.set(what).unwrap();
        signal("-CONT", first.id());
        let in_time = tokio::time::timeout(Duration::from_secs(20), ended(first)).await;
        in_time.expect("it ends when it wakes");
        true
    }
}

/// One history: the holder is frozen while its n-th write `of` this sort is on its way, which arrives only when another leads and has bought what is
/// needed.
async fn late(side: Side, of: &'static str, nth: usize) -> History {
    let scenery = scenery().await;
    let (late, told) = (Late::default(), format!("{side:?} write {nth}"));
    let doors_of_first = doors(&scenery).await;
    let point = Point::Before;
    let write = Write { side, of, point, nth };
    late.frost.set(&doors_of_first, write, Then::Late(late.held.clone()));
    let (mut first, leader) = begin(doors_of_first, &scenery).await;
    late.frost.id.set(first.id()).unwrap();
    let mut second = Replica::start("second", doors(&scenery).await, Terms { warm: true, ..SHORT });
    let doors_of_first = first.doors.clone();
    let history = async {
        let mut story = std::pin::pin!(late.come_and_go(&scenery));
        let mut arriving = std::pin::pin!(late.arrive(&scenery, &mut first, &leader, &told));
        let undisturbed = tokio::select! {
            biased;
            undisturbed = &mut arriving => {
                if undisturbed {
                    story.await;
                }
                undisturbed
            }
            () = &mut story => {
                if !late.is_struck() {
                    return unstruck(&doors_of_first, side);
                }
                arriving.await
            }
        };
        if undisturbed {
            History::Struck
        } else {
            History::Disturbed
        }
    };
    let history = unless_ended(&mut second, history).await;
    if history == History::Struck {
        nothing_was_bought_for_it(&scenery, late.arrived.get().unwrap(), &told).await;
    }
    history
}

async fn arrival(arrived: &OnceLock<String>) {
    while arrived.get().is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// One pool for each pod; only a create that came late may have left one more claim for a while, and that never had a machine.
async fn nothing_was_bought_for_it(scenery: &Scenery, late: &str, told: &str) {
    // what came when everything was over goes too
    scenery.pods_go().await;
    let (seen, pods) = (scenery.seen(), usize::try_from(PODS).unwrap());
    assert_eq!(seen.pools.len(), pods, "{told}: {late}");
    assert!(seen.pools.is_subset(&seen.claims), "{told}: {late}");
    let most = pods + usize::from(late == CLAIM_MADE);
    assert!(seen.claims.len() <= most, "{told}: {late}: {:?}", seen.claims);
}

/// What a create of a claim is called at the door.
const CLAIM_MADE: &str = "POST /apis/karpenter.sh/v1/nodeclaims";

// architecture §3.5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_arrives_when_another_leads_and_has_bought_buys_nothing_and_changes_nothing_twice() {
    let points = SIDES.into_iter().flat_map(|side| {
        let step = if side == Side::Spot { 1 } else { every(3) };
        (1..MOST_WRITES)
            .step_by(step)
            .map(move |nth| (side, Point::Before, nth))
    });
    let any = async |side, _, nth| late(side, "", nth).await;
    at_each_write(FROSTS_AT_ONCE, "came late", points, any).await;
}

// architecture §3.5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_created_when_another_leads_and_has_bought_gets_no_machine() {
    let histories = (1..=usize::try_from(PODS).unwrap()).map(|nth| async move {
        let short = tried(async || late(Side::Kubernetes, CLAIM_MADE, nth).await).await;
        assert_eq!(short, None, "no create of a {nth}. claim");
    });
    futures::future::join_all(histories).await;
}

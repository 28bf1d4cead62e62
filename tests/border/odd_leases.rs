//! Leases that somebody deleted, Events that hang, and clocks that jump: still never two write, and nobody waits for what is not worth it.

use crate::electing::{Replica, Scene, epoch, until};
use crate::world::{KARPENTER, crd, create, seconds};
use chrono::{DateTime, TimeDelta, Utc};
use karpenter::clock::{Clock, TokioClock};
use karpenter::k8s::election::Ended;
use kube::api::DeleteParams;
use sandbox::api::{ApiFaults, Fault, FaultRule};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

impl Scene {
    /// Our kinds are served, and nothing is there of them.
    async fn serve_our_kinds(&self) {
        for file in ["karpenter.sh_nodepools", "karpenter.sh_nodeclaims"] {
            let definition = crd(&format!("{file}.yaml"));
            create(
                &self.api,
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                definition,
            )
            .await;
        }
    }

    /// There is something to lead.
    async fn furnish(&self) {
        self.serve_our_kinds().await;
        let class = json!({ "group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default" });
        let pool = json!({ "metadata": { "name": "default" },
            "spec": { "template": { "spec": { "nodeClassRef": class, "requirements": [] } } } });
        create(&self.api, KARPENTER, "NodePool", pool).await;
    }

    async fn delete_the_lease(&self) {
        self.leases()
            .delete("karpenter-leader-election", &DeleteParams::default())
            .await
            .unwrap();
    }

    fn cut_off(&self, users: &[&str]) {
        let rules = vec![FaultRule::new(Fault::InternalError, 1.0).users(users)];
        self.api.set_faults(ApiFaults { rules });
    }
}

/// For a minute never two may write, and between two is the time of a write.
async fn one_at_a_time(replicas: &[&Replica]) {
    let mut last: Option<(usize, Instant)> = None;
    for _ in 0..6_000 {
        let leading: Vec<usize> = (0..replicas.len()).filter(|n| replicas[*n].leads()).collect();
        assert!(leading.len() <= 1, "{leading:?} write at once");
        if let (Some((before, at)), Some(now)) = (last, leading.first())
            && before != *now
        {
            let pause = at.elapsed();
            assert!(pause >= Duration::from_secs(4), "only {pause:?} between two writers");
        }
        last = leading.first().map(|now| (*now, Instant::now())).or(last);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

// architecture §3.5
#[tokio::test(start_paused = true)]
async fn a_replica_that_starts_while_somebody_deletes_the_lease_leaves_it_to_its_holder() {
    for after in [10, 700, 1_300, 1_990] {
        let scene = Scene::new();
        scene.furnish().await;
        let a = scene.replica("a");
        seconds(20).await;
        tokio::time::sleep(Duration::from_millis(after)).await;
        scene.delete_the_lease().await;
        let b = scene.replica("b");
        one_at_a_time(&[&a, &b]).await;
        assert!(a.leads() && !b.leads(), "the holder made it again");
    }
}

// architecture §3.5
#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_not_taken_before_a_holder_that_hears_nothing_has_ended() {
    let scene = Scene::new();
    scene.furnish().await;
    let a = scene.replica("a");
    seconds(21).await;
    scene.cut_off(&["a"]);
    scene.delete_the_lease().await;
    let b = scene.replica("b");
    one_at_a_time(&[&a, &b]).await;
    assert_eq!(a.running.await.unwrap(), Ended::Lost);
    assert!(b.leads(), "somebody takes over");
}

// architecture §3.5
#[tokio::test(start_paused = true)]
async fn a_candidate_that_could_not_look_for_a_while_does_not_take_a_deleted_lease_at_once() {
    let scene = Scene::new();
    let (a, b) = (scene.replica("a"), scene.replica("b"));
    seconds(20).await;
    scene.cut_off(&["b"]);
    // meanwhile a renews; what b saw of it is long over
    seconds(20).await;
    scene.cut_off(&["a"]);
    scene.delete_the_lease().await;
    one_at_a_time(&[&a, &b]).await;
    assert!(b.leads(), "somebody takes over");
}

// architecture §3.5
#[tokio::test(start_paused = true)]
async fn the_first_replica_of_a_fresh_install_leads_at_once() {
    let bare = Scene::new();
    let with_kinds = Scene::new();
    with_kinds.serve_our_kinds().await;
    for scene in [bare, with_kinds] {
        let a = scene.replica("a");
        let took = until("a leads", || a.leads()).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
}

// architecture §3.5
#[tokio::test(start_paused = true)]
async fn where_nobody_can_say_whether_there_is_something_to_lead_the_first_replica_waits() {
    let scene = Scene::new();
    scene.serve_our_kinds().await;
    let deaf = FaultRule::new(
        Fault::TimeoutBefore {
            after: Duration::from_mins(1),
        },
        1.0,
    );
    let rules = vec![deaf.resources(&["nodeclaims.karpenter.sh"])];
    scene.api.set_faults(ApiFaults { rules });
    let a = scene.replica("a");
    let took = until("a leads", || a.leads()).await;
    assert!((15..25).contains(&took.as_secs()), "{took:?}");
}

// architecture §7.18
#[tokio::test(start_paused = true)]
async fn an_event_that_hangs_keeps_neither_the_lease_from_being_renewed_nor_from_being_given_back() {
    let scene = Scene::new();
    let hangs = FaultRule::new(
        Fault::TimeoutBefore {
            after: Duration::from_mins(1),
        },
        1.0,
    );
    let rules = vec![hangs.resources(&["events"])];
    scene.api.set_faults(ApiFaults { rules });
    let (a, b) = (scene.replica("a"), scene.replica("b"));
    until("a leads", || a.leads()).await;
    seconds(60).await;
    assert!(a.leads() && !b.leads());
    a.leave.cancel();
    let took = until("b leads", || b.leads()).await;
    assert!(took <= Duration::from_secs(1), "{took:?}");
    assert_eq!(a.running.await.unwrap(), Ended::Left);
}

/// A wall clock that somebody sets while it runs.
struct Jumping {
    inner: TokioClock,
    seconds: AtomicI64,
}

impl Clock for Jumping {
    fn now(&self) -> DateTime<Utc> {
        self.inner.now() + TimeDelta::seconds(self.seconds.load(Ordering::Relaxed))
    }
}

// architecture §3.5
#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_jumps_while_the_lease_is_held_changes_nothing() {
    let scene = Scene::new();
    let clock = Arc::new(Jumping {
        inner: TokioClock::starting_at(epoch()),
        seconds: AtomicI64::new(0),
    });
    let shared: karpenter::clock::SharedClock = Arc::clone(&clock) as _;
    let (a, b) = (scene.replica_with("a", shared), scene.replica("b"));
    for jump in [0, 86_400, -86_400, 11, 0] {
        seconds(20).await;
        clock.seconds.store(jump, Ordering::Relaxed);
        one_at_a_time(&[&a, &b]).await;
        assert!(a.leads() && !b.leads(), "after a jump to {jump} s");
    }
    a.kill();
    let took = until("b leads", || b.leads()).await;
    assert!((12..16).contains(&took.as_secs()), "{took:?}");
}

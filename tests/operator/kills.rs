//! The operator is killed before or after the answer to each of its writes, in a launch and in a removal, and another one goes on: one pool for each
//! claim, no pool without claim, no claim lost, no pod planned twice.

use crate::scene::{Kill, Role, Scene, Seen, Side};
use sandbox::api::HookPoint;
use sandbox::spot::{Control, Fault};
use std::sync::Arc;
use tokio::sync::Notify;

const PODS: u32 = 2;

/// What became of one history.
struct History {
    seen: Seen,
    struck: bool,
}

/// Pods come and go while the operator is killed at one of its writes; another starts, or takes over.
async fn history(kill: Option<Kill>, successor: Successor, pace: Pace) -> History {
    let scene = Scene::start(7).await;
    let signal = Arc::new(Notify::new());
    let role = match successor {
        Successor::Restarted => Role::Alone,
        Successor::StandingBy(role) => role,
    };
    let first = scene.operator_to_be_killed("first", role, kill, &signal);
    let mut standing_by = None;
    if let Successor::StandingBy(role) = successor {
        scene
            .until("the first leads", 1, |world| {
                !world.values("leases.coordination.k8s.io").is_empty()
            })
            .await;
        standing_by = Some(scene.operator("second", role));
    }
    let struck = std::sync::atomic::AtomicBool::new(false);
    let story = async {
        scene.pods_come(PODS).await;
        scene.pods_go().await;
    };
    let killing = async {
        signal.notified().await;
        struck.store(true, std::sync::atomic::Ordering::Relaxed);
        first.kill().await;
        if pace == Pace::Slow {
            scene.world.spot().with(|platform| platform.control(slow_catalogue()));
        }
        let _second = standing_by.unwrap_or_else(|| scene.operator("second", role));
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = story => {}
        () = killing => {}
    }
    History {
        seen: scene.seen(),
        struck: struck.into_inner(),
    }
}

/// How fast the platform answers whoever comes second.
#[derive(Clone, Copy, PartialEq)]
enum Pace {
    Usual,
    /// What it sells is known only long after the first look at the pods.
    Slow,
}

fn slow_catalogue() -> Control {
    Control::Fault {
        method: Some("GET".into()),
        path: "serverclasses".into(),
        times: 10_000,
        fault: Fault::Slow { milliseconds: 5_000 },
    }
}

#[derive(Clone, Copy)]
enum Successor {
    Restarted,
    StandingBy(Role),
}

/// Kills at every `step`-th write until a history ends before its kill; says how many kills there were.
async fn at_every_write(side: Side, point: HookPoint, successor: Successor, step: usize) -> usize {
    let undisturbed = history(None, successor, Pace::Usual).await.seen;
    assert_eq!(undisturbed.claims.len(), usize::try_from(PODS).unwrap());
    let mut kills = 0;
    for nth in (1..).step_by(step) {
        let kill = Kill { side, point, nth };
        let told = format!("{kill:?}");
        let history = history(Some(kill), successor, Pace::Usual).await;
        if !history.struck {
            break;
        }
        kills += 1;
        let seen = history.seen;
        assert_eq!(seen.claims, seen.pools, "{told}");
        // another number would be claims for pods that had one
        assert_eq!(seen.claims.len(), undisturbed.claims.len(), "{told}");
    }
    kills
}

#[tokio::test(start_paused = true)]
async fn killed_before_any_write_to_kubernetes_takes_effect() {
    let kills = at_every_write(Side::Kubernetes, HookPoint::Before, Successor::Restarted, 1).await;
    assert!(kills >= 20, "a launch and a removal have more writes than {kills}");
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_write_to_kubernetes_and_before_its_answer() {
    let kills = at_every_write(Side::Kubernetes, HookPoint::After, Successor::Restarted, 1).await;
    assert!(kills >= 20, "a launch and a removal have more writes than {kills}");
}

#[tokio::test(start_paused = true)]
async fn killed_before_any_order_or_return_reaches_the_platform() {
    let kills = at_every_write(Side::Spot, HookPoint::Before, Successor::Restarted, 1).await;
    assert!(kills >= 4, "two pools are made and deleted, not only {kills}");
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_order_or_return_and_before_the_platforms_answer() {
    let kills = at_every_write(Side::Spot, HookPoint::After, Successor::Restarted, 1).await;
    assert!(kills >= 4, "two pools are made and deleted, not only {kills}");
}

// architecture §3.5
#[tokio::test(start_paused = true)]
async fn a_replica_that_stands_by_goes_on_where_the_leader_was_killed() {
    for role in [Role::Cold, Role::Warm] {
        for point in [HookPoint::Before, HookPoint::After] {
            let successor = Successor::StandingBy(role);
            assert!(at_every_write(Side::Spot, point, successor, 2).await >= 2);
            assert!(at_every_write(Side::Kubernetes, point, successor, 13).await >= 2);
        }
    }
}

// architecture §3.3: claims that were made and never ordered are filled before others are made
#[tokio::test(start_paused = true)]
async fn whoever_comes_next_fills_the_claims_it_finds_although_they_have_no_type_yet() {
    for nth in 1..=9 {
        let (side, point) = (Side::Kubernetes, HookPoint::After);
        let history = history(Some(Kill { side, point, nth }), Successor::Restarted, Pace::Slow).await;
        assert!(history.struck);
        assert_eq!(
            history.seen.claims.len(),
            usize::try_from(PODS).unwrap(),
            "killed after write {nth}"
        );
    }
}

// Right after a restart "not found" is no proof for a claim that was perhaps ordered a moment before; for one that records its machine it is.
#[tokio::test(start_paused = true)]
async fn a_node_given_back_right_after_a_restart_goes_as_fast_as_any_other() {
    let scene = Scene::start(7).await;
    let first = scene.operator("first", Role::Alone);
    scene.pods_come(PODS).await;
    first.kill().await;
    let killed = scene.world.now();
    let _second = scene.operator("second", Role::Alone);
    scene.world.scale("deployment/web", 0).await.unwrap();
    for claim in scene.world.claims() {
        scene.world.delete(&format!("nodeclaim/{claim}")).await.unwrap();
    }
    scene
        .until("the claims are gone", 1, |world| world.claims().is_empty())
        .await;
    let took = scene.world.now() - killed;
    assert!(took.num_seconds() <= 25, "{took}");
}

//! What becomes of orders: servers, pre-emption, loss, deletion, outages, and how often the platform is asked.

use super::world::{CLASS, Setup, World, identity, of_type, uid};
use karpenter::cloud::{Deletion, MachineState, Provider, Stage};
use karpenter::scheduling::CapacityType;
use sandbox::spot::{Control, Fault, Options};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_machine_is_ordered_attached_deleted_and_gone() {
    let world = World::new();
    let claim = world.claim(1, CLASS, "spot");
    world.provider.create(&claim).await.unwrap();
    let took = world.wait_until_attached(&claim).await;
    assert!(took >= Duration::from_mins(1), "{took:?}");
    let machine = of_type(&claim, CapacityType::Spot);
    assert_eq!(world.provider.delete(&machine).await.unwrap(), Deletion::InProgress);
    // Confirmed only by the platform, which takes half a minute (rackspace-spot 7 row 21).
    let mut polls = 0;
    while world.provider.delete(&machine).await.unwrap() == Deletion::InProgress {
        polls += 1;
        assert!(polls < 30);
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert!(world.pools().is_empty());
    assert_eq!(world.asked("DELETE", "spotnodepools"), 1);
    assert_eq!(world.provider.get(&machine).await.unwrap(), MachineState::Absent);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_waiting_claims_cost_three_requests_every_five_seconds() {
    let world = World::new();
    let claims: Vec<_> = (0..100).map(|n| world.claim(n, CLASS, "spot")).collect();
    for claim in &claims {
        world.provider.create(claim).await.unwrap();
    }
    let before = world.spot.with(|p| p.ledger().asked());
    for _ in 0..12 {
        for claim in &claims {
            let state = world.provider.get(&identity(claim)).await.unwrap();
            assert!(
                matches!(
                    state,
                    MachineState::Present {
                        stage: Stage::Waiting { .. },
                        ..
                    }
                ),
                "{state:?}"
            );
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let asked = world.spot.with(|p| p.ledger().asked()) - before;
    assert!(asked <= 3 * 13, "{asked} requests in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_taken_is_seen_although_the_pool_wins_again() {
    // architecture §7.21
    let mut options = Options::default();
    options.quirks.preemption_notice = false;
    let world = World::with(Setup {
        options,
        ..Setup::default()
    });
    let claim = world.claim(1, CLASS, "spot");
    world.provider.create(&claim).await.unwrap();
    world.wait_until_attached(&claim).await;
    world.control(Control::Kill { pool: uid(1) });
    let mut polls = 0;
    loop {
        match world.provider.get(&identity(&claim)).await.unwrap() {
            MachineState::Taken => break,
            MachineState::Present {
                stage: Stage::Attached, ..
            } => {}
            other => panic!("{other:?}"),
        }
        polls += 1;
        assert!(polls < 30, "never seen");
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    // Long after, when the pool has won another server, it still is not this claim's.
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(
        world.provider.get(&identity(&claim)).await.unwrap(),
        MachineState::Taken
    );
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_somebody_else_deleted_is_absent() {
    let world = World::new();
    let claim = world.claim(1, CLASS, "spot");
    world.provider.create(&claim).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.control(Control::VanishPool { pool: uid(1) });
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        world.provider.get(&identity(&claim)).await.unwrap(),
        MachineState::Absent
    );
}

#[tokio::test(start_paused = true)]
async fn during_an_outage_nothing_is_known_and_nothing_is_gone() {
    let world = World::with(Setup {
        tries: 2,
        ..Setup::default()
    });
    let claim = world.claim(1, CLASS, "spot");
    world.provider.create(&claim).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.spot.with(|p| p.options_mut().faults.outage = true);
    assert_eq!(
        world.provider.get(&identity(&claim)).await.unwrap(),
        MachineState::Unknown
    );
    assert!(world.provider.list().await.is_err());
    assert!(world.provider.delete(&identity(&claim)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_list_without_one_kind_says_that_it_is_incomplete() {
    let world = World::with(Setup {
        tries: 1,
        ..Setup::default()
    });
    world.provider.create(&world.claim(1, CLASS, "spot")).await.unwrap();
    assert!(world.provider.list().await.unwrap().complete);
    world.fault("GET", "ondemandnodepools", 9, Fault::Error { code: 500 });
    let list = world.provider.list().await.unwrap();
    assert!(!list.complete);
    assert_eq!(list.machines.len(), 1);
    assert!(list.machines[0].ours);
    assert_eq!(list.machines[0].claim_uid, uid(1));
}

#[tokio::test(start_paused = true)]
async fn both_kinds_are_deleted_when_the_capacity_type_is_unknown() {
    // architecture §7.6
    let setup = Setup::default();
    let mut world = World::with(setup.clone());
    let claim = world.claim(1, CLASS, "on-demand");
    world.provider.create(&claim).await.unwrap();
    world.restart(&setup);
    let machine = identity(&claim);
    for _ in 0..20 {
        if world.provider.delete(&machine).await.unwrap() == Deletion::Gone {
            break;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert!(world.pools().is_empty());
    assert_eq!(world.provider.delete(&machine).await.unwrap(), Deletion::Gone);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_not_found_neither_ends_a_deletion_nor_loses_a_machine() {
    let world = World::new();
    let claim = world.claim(1, CLASS, "spot");
    world.provider.create(&claim).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let machine = of_type(&claim, CapacityType::Spot);
    world.fault("DELETE", "spotnodepools", 1, Fault::NotFound);
    assert_eq!(world.provider.delete(&machine).await.unwrap(), Deletion::InProgress);
    assert!(matches!(
        world.provider.get(&machine).await.unwrap(),
        MachineState::Present { going_away: false, .. }
    ));
    assert_eq!(world.provider.delete(&machine).await.unwrap(), Deletion::InProgress);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(world.provider.delete(&machine).await.unwrap(), Deletion::Gone);
    assert!(world.pools().is_empty());
}

#[tokio::test(start_paused = true)]
async fn lists_that_lag_never_make_a_new_order_absent() {
    let mut options = Options::default();
    options.quirks.list_lag = 20.0;
    let world = World::with(Setup {
        options,
        ..Setup::default()
    });
    let claim = world.claim(1, CLASS, "spot");
    world.provider.create(&claim).await.unwrap();
    for _ in 0..10 {
        let state = world.provider.get(&identity(&claim)).await.unwrap();
        assert!(
            !matches!(state, MachineState::Absent | MachineState::Taken),
            "{state:?}"
        );
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn labels_that_the_platform_wiped_are_written_again() {
    // architecture §7.5
    let world = World::new();
    let claim = world.claim(1, CLASS, "spot");
    world.provider.create(&claim).await.unwrap();
    world.control(Control::WipeLabels { pool: uid(1) });
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.provider.get(&identity(&claim)).await.unwrap();
    let labels = world
        .spot
        .with(|p| p.pools().next().unwrap().spec.custom_labels.clone());
    assert_eq!(
        labels.get("karpenter.rackspace.com/managed").map(String::as_str),
        Some("true")
    );
    assert_eq!(labels.get("karpenter.rackspace.com/nodeclaim-uid"), Some(&uid(1)));
}

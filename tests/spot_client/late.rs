//! One machine for each claim, also when orders come late and "not found" is said of what is there: a claim that may be of either kind is not ordered
//! in the other kind while the first order may still be carried out (architecture §6).

use super::world::{CLASS, Setup, World, identity, of_type, uid};
use karpenter::api::{NodeClaim, labels, time};
use karpenter::cloud::spot::types::{NewPool, PoolKind};
use karpenter::cloud::{CreateOutcome, Deletion, MachineIdentity, Provider, Remedy};
use karpenter::scheduling::CapacityType;
use sandbox::spot::{Fault, Options};
use std::collections::BTreeMap;
use std::time::Duration;

/// `settles_in` of the world, and a little more.
const SETTLED: Duration = Duration::from_secs(61);

/// A claim that may become a pool of either kind; spot is cheaper.
fn of_either(world: &World) -> NodeClaim {
    let mut claim = world.claim(1, CLASS, "spot");
    for requirement in &mut claim.spec.requirements {
        if requirement.key == labels::CAPACITY_TYPE {
            requirement.values = vec!["spot".into(), "on-demand".into()];
        }
    }
    claim
}

/// The same, made when the present process began, so that an earlier one may have ordered for it.
fn found_at_the_start(world: &World) -> NodeClaim {
    let mut claim = of_either(world);
    claim.metadata.creation_timestamp = Some(time::to_k8s(world.clock.now()));
    claim
}

/// From now on on-demand is the only choice.
fn spot_is_not_sold(world: &World) {
    world.provider.did_not_deliver(CLASS, CapacityType::Spot);
}

/// An order of an earlier process is carried out.
async fn arrives(world: &World, kind: PoolKind) {
    let pool = NewPool {
        kind,
        name: uid(1),
        cloudspace: "sandbox".into(),
        server_class: CLASS.into(),
        bid: (kind == PoolKind::Spot).then(|| "0.52".parse().unwrap()),
        labels: BTreeMap::new(),
        custom_labels: BTreeMap::new(),
        custom_annotations: BTreeMap::new(),
        custom_taints: Vec::new(),
    };
    world.client.create_pool(&pool).await.unwrap();
}

fn sent(world: &World) -> (usize, usize) {
    (
        world.asked("POST", "spotnodepools"),
        world.asked("POST", "ondemandnodepools"),
    )
}

#[tokio::test(start_paused = true)]
async fn while_the_outcome_of_an_order_is_unknown_the_other_kind_is_not_ordered() {
    let world = World::new();
    world.provider.discover().await.unwrap();
    world.fault("POST", "spotnodepools", 9, Fault::Error { code: 502 });
    let claim = of_either(&world);
    let error = world.provider.create(&claim).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::LookFirst);
    spot_is_not_sold(&world);
    let error = world.provider.create(&claim).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::TryElsewhere);
    assert!(error.to_string().contains("an earlier spot order"), "{error}");
    assert_eq!(sent(&world).1, 0, "a second machine, should the first come");
    tokio::time::advance(SETTLED).await;
    let accepted = world.provider.create(&claim).await.unwrap();
    assert_eq!(accepted.capacity_type, CapacityType::OnDemand);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_one_order_does_not_settle_an_earlier_one_without_an_answer() {
    let world = World::new();
    world.provider.discover().await.unwrap();
    world.fault("POST", "spotnodepools", 1, Fault::Error { code: 502 });
    world.fault("POST", "spotnodepools", 9, Fault::Error { code: 403 });
    let claim = of_either(&world);
    let error = world.provider.create(&claim).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::LookFirst, "{error}");
    let deletion = world.provider.delete(&identity(&claim)).await.unwrap();
    assert_eq!(deletion, Deletion::InProgress, "it may still come");
}

#[tokio::test(start_paused = true)]
async fn an_order_that_not_found_hides_is_found_in_the_lists() {
    let mut options = Options::default();
    options.quirks.flapping_not_found = 1.0;
    let world = World::with(Setup {
        options,
        ..Setup::default()
    });
    world.provider.discover().await.unwrap();
    world.fault("POST", "spotnodepools", 1, Fault::LostAfter);
    let claim = of_either(&world);
    let error = world.provider.create(&claim).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::LookFirst, "it was there a moment ago: {error}");
    spot_is_not_sold(&world);
    tokio::time::advance(SETTLED).await;
    let accepted = world.provider.create(&claim).await.unwrap();
    assert_eq!(accepted.capacity_type, CapacityType::Spot);
    assert_eq!(world.pools(), [uid(1)]);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_a_claim_of_either_kind_waits_until_an_earlier_order_would_have_come() {
    for arrives_late in [true, false] {
        let mut world = World::new();
        world.restart(&Setup::default());
        world.provider.discover().await.unwrap();
        spot_is_not_sold(&world);
        let claim = found_at_the_start(&world);
        let error = world.provider.create(&claim).await.unwrap_err();
        assert_eq!(error.remedy(), Remedy::LookFirst, "{error}");
        assert_eq!(sent(&world), (0, 0));
        let expected = if arrives_late {
            arrives(&world, PoolKind::Spot).await;
            CapacityType::Spot
        } else {
            tokio::time::advance(SETTLED).await;
            CapacityType::OnDemand
        };
        let accepted = world.provider.create(&claim).await.unwrap();
        assert_eq!(accepted.capacity_type, expected);
        assert_eq!(world.pools(), [uid(1)], "one machine");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_an_earlier_order_of_a_claim_that_this_process_made_or_that_can_only_be_of_one_kind() {
    let world = World::new();
    world.provider.discover().await.unwrap();
    let claim = found_at_the_start(&world);
    world.provider.made_here(claim.uid());
    world.provider.create(&claim).await.unwrap();
    assert_eq!(world.asked("GET", &uid(1)), 0, "nobody can have ordered before");

    let world = World::new();
    world.provider.discover().await.unwrap();
    let mut claim = world.claim(1, CLASS, "spot");
    claim.metadata.creation_timestamp = Some(time::to_k8s(world.clock.now()));
    world.provider.create(&claim).await.unwrap();
    assert_eq!(world.pools(), [uid(1)]);
}

async fn delete(world: &World, machine: &MachineIdentity) {
    for _ in 0..100 {
        if world.provider.delete(machine).await.unwrap() == Deletion::Gone {
            return;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    panic!("never gone");
}

#[tokio::test(start_paused = true)]
async fn with_the_claim_go_machines_of_both_kinds_also_after_a_restart() {
    for restarted in [false, true] {
        let mut world = World::new();
        let claim = of_either(&world);
        world.provider.create(&claim).await.unwrap();
        arrives(&world, PoolKind::OnDemand).await;
        assert_eq!(world.pools().len(), 2);
        if restarted {
            world.restart(&Setup::default());
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        delete(&world, &of_type(&claim, CapacityType::Spot)).await;
        assert!(world.pools().is_empty(), "restarted: {restarted}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_machines_one_can_be_ended() {
    let world = World::new();
    let claim = of_either(&world);
    world.provider.create(&claim).await.unwrap();
    arrives(&world, PoolKind::OnDemand).await;
    tokio::time::advance(Duration::from_secs(10)).await;
    let list = world.provider.list().await.unwrap();
    let second = list
        .machines
        .iter()
        .find(|machine| machine.capacity_type == CapacityType::OnDemand);
    world.provider.end(second.unwrap()).await.unwrap();
    tokio::time::advance(Duration::from_mins(5)).await;
    let left = world.provider.list().await.unwrap().machines;
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].capacity_type, CapacityType::Spot);
    let again = world.provider.create(&claim).await.unwrap();
    assert_eq!(again.capacity_type, CapacityType::Spot, "the claim's own is remembered");
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_earlier_order_is_unknown_is_not_gone_before_that_would_have_come() {
    let world = World::new();
    world.provider.discover().await.unwrap();
    let claim = found_at_the_start(&world);
    let unknown = MachineIdentity {
        create_outcome: CreateOutcome::Unknown,
        ..identity(&claim)
    };
    let deletion = world.provider.delete(&unknown).await.unwrap();
    assert_eq!(deletion, Deletion::InProgress);
    tokio::time::advance(SETTLED).await;
    assert_eq!(world.provider.delete(&unknown).await.unwrap(), Deletion::Gone);
}

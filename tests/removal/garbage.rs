//! Collection in both directions: claims without machine, machines without claim.

use crate::world::{KARPENTER, World, seconds};
use chrono::{DateTime, TimeDelta, Utc};
use karpenter::cloud::{Machine, Provider};
use karpenter::scheduling::CapacityType;
use serde_json::json;

async fn machine(world: &World) -> String {
    let budgets = json!({ "spec": { "disruption": { "budgets": [{ "nodes": "0" }] } } });
    world.patch(KARPENTER, "NodePool", "", "default", budgets).await;
    world.machine("a", &json!({})).await
}

async fn node_goes_silent(world: &World) {
    let down = json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] } });
    world.patch_status("v1", "Node", "", "a", down).await;
}

fn foreign(uid: &str, age_minutes: i64, ours: bool) -> Machine {
    let now: DateTime<Utc> = DateTime::from_timestamp(1_767_225_600, 0).unwrap();
    Machine {
        claim_uid: uid.to_owned(),
        provider_id: None,
        created: now.checked_sub_signed(TimeDelta::minutes(age_minutes)),
        going_away: false,
        ours,
        instance_type: Some("t1".into()),
        capacity_type: CapacityType::Spot,
    }
}

fn deleted(world: &World, uid: &str) -> bool {
    world.provider.calls().contains(&format!("delete {uid}"))
}

#[tokio::test(start_paused = true)]
async fn a_claim_goes_when_its_machine_was_removed_from_outside() {
    let world = World::start().await;
    let uid = machine(&world).await;
    world.provider.lose(&uid);
    node_goes_silent(&world).await;
    world.until("all is gone", 300, || world.is_gone("a", &uid)).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_kubelet_lives_is_not_collected_whatever_the_list_says() {
    let world = World::start().await;
    let uid = machine(&world).await;
    world.provider.lose(&uid);
    seconds(600).await;
    assert!(world.claim("a").await.is_some(), "the node is Ready");
    node_goes_silent(&world).await;
    world.until("all is gone", 300, || world.is_gone("a", &uid)).await;
}

// architecture §7.21
#[tokio::test(start_paused = true)]
async fn a_claim_goes_when_the_platform_put_another_machine_in_the_place_of_its_own() {
    let world = World::start().await;
    let uid = machine(&world).await;
    node_goes_silent(&world).await;
    seconds(600).await;
    assert!(world.claim("a").await.is_some(), "silence alone is for node repair");
    world.join("b", &uid, "b").await;
    world.until("all is gone", 300, || world.is_gone("a", &uid)).await;
}

#[tokio::test(start_paused = true)]
async fn an_orphan_of_ours_is_collected_after_five_minutes() {
    let world = World::start().await;
    world.provider.add_foreign(foreign("orphan", 0, true));
    seconds(290).await;
    assert!(!deleted(&world, "orphan"), "it is too young");
    seconds(150).await;
    assert!(deleted(&world, "orphan"));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_nothing_proves_to_be_ours_is_told_and_left_alone() {
    let world = World::start().await;
    let class = json!({ "metadata": { "name": "default" }, "spec": {} });
    world
        .create("karpenter.rackspace.com/v1", "RackspaceSpotNodeClass", class)
        .await;
    world.provider.add_foreign(foreign("somebodys", 600, false));
    seconds(600).await;
    assert!(!deleted(&world, "somebodys"));
    let told = world.events("UnclaimedMachine", "default").await;
    assert!(told[0].starts_with("Machine somebodys has no NodeClaim"), "{told:?}");
    assert!((world.metrics.nodeclaims.unclaimed_machines.get([]) - 1.0).abs() < 1e-9);
}

#[tokio::test(start_paused = true)]
async fn a_machine_with_a_live_claim_is_never_an_orphan() {
    let world = World::start().await;
    let uid = machine(&world).await;
    // the same machine as the platform lists it, old and without our mark
    let own = world.provider.list().await.unwrap().machines.remove(0).capacity_type;
    world.provider.add_foreign(Machine {
        capacity_type: own,
        ..foreign(&uid, 600, false)
    });
    seconds(600).await;
    assert!(!deleted(&world, &uid) && world.claim("a").await.is_some());
}

// architecture §6, §7.20
#[tokio::test(start_paused = true)]
async fn a_second_machine_of_a_live_claim_is_ended_and_the_claims_own_stays() {
    let world = World::start().await;
    let uid = machine(&world).await;
    let own = world.provider.list().await.unwrap().machines.remove(0);
    let other = match own.capacity_type {
        CapacityType::Spot => CapacityType::OnDemand,
        _ => CapacityType::Spot,
    };
    // its labels were wiped, as happens
    world.provider.add_foreign(Machine {
        capacity_type: other,
        ..foreign(&uid, 600, false)
    });
    seconds(300).await;
    assert_eq!(world.provider.list().await.unwrap().machines, [own]);
    assert!(world.claim("a").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_concluded_while_the_cloud_cannot_be_asked() {
    let world = World::start().await;
    let uid = machine(&world).await;
    world.provider.add_foreign(foreign("orphan", 600, true));
    world.provider.set_reachable(false);
    node_goes_silent(&world).await;
    seconds(1200).await;
    assert!(world.claim("a").await.is_some() && !deleted(&world, &uid) && !deleted(&world, "orphan"));
}

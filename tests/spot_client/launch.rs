//! Orders: bids on the wire, refusals, unclear outcomes, adoption.

use super::world::{CLASS, Setup, World, claim, identity, uid};
use karpenter::api::time;
use karpenter::cloud::spot::types::{NewPool, PoolKind};
use karpenter::cloud::{CloudError, Deletion, Provider, Remedy, Stage};
use karpenter::pricing::BidRulesSetting;
use karpenter::scheduling::CapacityType;
use sandbox::spot::{BidRules, Control, Fault, Options, Price};
use std::collections::BTreeMap;

/// A class whose three percentiles differ: 0.011, 0.036, 1.921 (aus-syd-1).
const VOLATILE: &str = "ch.vs1.2xlarge-syd";

fn options(rules: BidRules, region: &str) -> Options {
    let mut options = Options {
        bid_rules: rules,
        ..Options::default()
    };
    options.account.cloudspaces[0].region = region.into();
    options
}

#[tokio::test(start_paused = true)]
async fn three_percentiles_make_three_bids_on_the_wire_under_both_rules() {
    for (platform, rules, expected) in [
        (BidRules::Seed, BidRulesSetting::Seed, ["0.012", "0.038", "2.02"]),
        (BidRules::Ladder, BidRulesSetting::Ladder, ["0.02", "0.04", "2.02"]),
    ] {
        for (percentile, bid) in ["P20", "P50", "P80"].into_iter().zip(expected) {
            let options = options(platform, "aus-syd-1");
            let world = World::with(Setup {
                options,
                rules,
                percentile,
                ..Setup::default()
            });
            world.provider.feed().refresh().await;
            world.provider.create(&world.claim(1, VOLATILE, "spot")).await.unwrap();
            assert_eq!(world.bids(), [bid], "{percentile} under {platform:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn on_auto_the_first_refusal_moves_the_process_to_the_ladder_for_good() {
    // architecture §7.7
    let world = World::with(Setup {
        options: options(BidRules::Ladder, "aus-syd-1"),
        percentile: "P20",
        ..Setup::default()
    });
    world.provider.feed().refresh().await;
    for number in 1..=3 {
        world
            .provider
            .create(&world.claim(number, VOLATILE, "spot"))
            .await
            .unwrap();
    }
    // 0.012 is fine under the older rules and no rung: refused once, and the process has learnt.
    let refused: Vec<String> = world.spot.with(|platform| {
        let bids = platform.ledger().bids().iter();
        bids.filter(|bid| bid.refused.is_some())
            .map(|bid| bid.bid.clone())
            .collect()
    });
    assert_eq!(refused, ["0.012"]);
    assert_eq!(world.bids(), ["0.02", "0.02", "0.02"]);
    assert_eq!(world.asked("POST", "spotnodepools"), 4);
}

#[tokio::test(start_paused = true)]
async fn launches_that_are_refused_at_the_same_time_all_bid_again() {
    // architecture §7.7: what one launch learns from its refusal is no news to the other, and no reason to leave the class alone
    let world = World::with(Setup {
        options: options(BidRules::Ladder, "aus-syd-1"),
        percentile: "P20",
        ..Setup::default()
    });
    world.provider.feed().refresh().await;
    world.provider.discover().await.unwrap();
    world.spot.with(|platform| platform.options_mut().faults.slow = 1.0);
    let claims = [1, 2].map(|number| world.claim(number, VOLATILE, "spot"));
    let (one, other) = tokio::join!(world.provider.create(&claims[0]), world.provider.create(&claims[1]));
    one.unwrap();
    other.unwrap();
    assert_eq!(world.bids(), ["0.02", "0.02"]);
    assert_eq!(world.asked("POST", "spotnodepools"), 4);

    world.control(Control::SetMarket {
        class: VOLATILE.into(),
        price: Price::mills(900),
    });
    let claims = [3, 4].map(|number| world.claim(number, VOLATILE, "spot"));
    let (one, other) = tokio::join!(world.provider.create(&claims[0]), world.provider.create(&claims[1]));
    one.unwrap();
    other.unwrap();
    assert_eq!(world.bids()[2..], ["0.97", "0.97"]);
    assert_eq!(world.asked("POST", "spotnodepools"), 8);
}

#[tokio::test(start_paused = true)]
async fn an_accepted_order_says_everything_that_scheduling_needs() {
    // architecture §3.4
    let world = World::new();
    let claim = world.claim(1, CLASS, "spot");
    let accepted = world.provider.create(&claim).await.unwrap();
    assert_eq!(
        accepted.provider_id.unwrap(),
        format!("rackspacespot://sandbox/spot/{}", uid(1))
    );
    assert_eq!(accepted.instance_type, CLASS);
    assert_eq!(accepted.labels["topology.kubernetes.io/zone"], "us-east-iad-1");
    assert_eq!(accepted.labels["karpenter.sh/capacity-type"], "spot");
    assert!(!accepted.allocatable.amount("memory").is_zero());
    assert!(matches!(
        accepted.stage,
        Stage::Waiting {
            reason: "AwaitingServerAssignment",
            ..
        }
    ));
}

#[tokio::test(start_paused = true)]
async fn asking_again_orders_nothing_more() {
    let world = World::new();
    let claim = world.claim(1, CLASS, "spot");
    let first = world.provider.create(&claim).await.unwrap();
    let second = world.provider.create(&claim).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(world.asked("POST", "spotnodepools"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_order_whose_answer_was_lost_is_looked_up_and_not_sent_again() {
    let world = World::new();
    world.provider.discover().await.unwrap();
    world.fault("POST", "spotnodepools", 1, Fault::LostAfter);
    world.provider.create(&world.claim(1, CLASS, "spot")).await.unwrap();
    assert_eq!(world.asked("POST", "spotnodepools"), 1);
    assert_eq!(world.pools(), [uid(1)]);
}

#[tokio::test(start_paused = true)]
async fn an_order_that_was_lost_on_the_way_is_sent_again_after_a_look() {
    let world = World::new();
    world.provider.discover().await.unwrap();
    world.fault("POST", "spotnodepools", 1, Fault::LostBefore);
    world.provider.create(&world.claim(1, CLASS, "spot")).await.unwrap();
    assert_eq!(world.asked("POST", "spotnodepools"), 2);
    assert_eq!(world.asked("GET", &uid(1)), 1);
    assert_eq!(world.pools(), [uid(1)]);
}

#[tokio::test(start_paused = true)]
async fn an_order_whose_outcome_stays_unknown_is_never_assumed_and_its_absence_not_final_at_once() {
    let world = World::new();
    world.provider.discover().await.unwrap();
    world.fault("POST", "spotnodepools", 9, Fault::Error { code: 502 });
    let claim = world.claim(1, CLASS, "spot");
    let error = world.provider.create(&claim).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::LookFirst);
    // "Not found" is not "gone" while the create may still take effect (architecture §6).
    assert_eq!(
        world.provider.delete(&identity(&claim)).await.unwrap(),
        Deletion::InProgress
    );
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    assert_eq!(world.provider.delete(&identity(&claim)).await.unwrap(), Deletion::Gone);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_operator_finds_its_order_and_places_no_second_one() {
    let setup = Setup::default();
    let mut world = World::with(setup.clone());
    let mut claim = world.claim(1, CLASS, "spot");
    claim.metadata.creation_timestamp = Some(time::to_k8s(world.clock.now()));
    world.provider.create(&claim).await.unwrap();
    tokio::time::advance(std::time::Duration::from_mins(2)).await;
    world.restart(&setup);
    let accepted = world.provider.create(&claim).await.unwrap();
    assert_eq!(accepted.instance_type, CLASS);
    assert_eq!(world.asked("POST", "spotnodepools"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pool_of_another_class_under_the_claims_name_is_not_adopted() {
    // architecture §6
    let world = World::new();
    world.provider.discover().await.unwrap();
    let other = NewPool {
        kind: PoolKind::Spot,
        name: uid(1),
        cloudspace: "sandbox".into(),
        server_class: "mh.vs1.large-iad".into(),
        bid: Some("0.52".parse().unwrap()),
        labels: BTreeMap::new(),
        custom_labels: BTreeMap::new(),
        custom_annotations: BTreeMap::new(),
        custom_taints: Vec::new(),
    };
    world.client.create_pool(&other).await.unwrap();
    let error = world.provider.create(&world.claim(1, CLASS, "spot")).await.unwrap_err();
    assert_eq!(error.condition_reason(), "PoolConflict");
}

#[tokio::test(start_paused = true)]
async fn a_market_that_moved_is_read_again_and_the_bid_corrected() {
    let world = World::new();
    world.provider.discover().await.unwrap();
    world.control(Control::SetMarket {
        class: CLASS.into(),
        price: Price::mills(900),
    });
    world.provider.create(&world.claim(1, CLASS, "spot")).await.unwrap();
    assert_eq!(world.bids(), ["0.97"]); // 0.945, on the ladder
    let refused = world
        .spot
        .with(|p| p.ledger().bids().iter().filter(|b| b.refused.is_some()).count());
    assert!(refused >= 1, "the first bid was made from the old price");
}

#[tokio::test(start_paused = true)]
async fn a_market_that_moved_makes_another_class_the_cheapest() {
    // architecture §7.7, §7.15
    let world = World::new();
    world.provider.discover().await.unwrap();
    let mut claim = world.claim(1, CLASS, "spot");
    let requirement = claim.spec.requirements.last_mut().unwrap();
    requirement.values = vec![CLASS.into(), "gp.vs1.xlarge-iad".into()];
    world.control(Control::SetMarket {
        class: CLASS.into(),
        price: Price::mills(900),
    });
    let accepted = world.provider.create(&claim).await.unwrap();
    assert_eq!(
        accepted.instance_type, "gp.vs1.xlarge-iad",
        "0.03 an hour, and the other 0.90"
    );
    assert_eq!(world.pools(), [uid(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_class_that_did_not_deliver_is_left_alone_and_the_next_claim_gets_another() {
    // architecture §7.3
    let world = World::new();
    let first = world.provider.create(&claim_of(&world, 1)).await.unwrap();
    world.provider.did_not_deliver(&first.instance_type, CapacityType::Spot);
    let second = world.provider.create(&claim_of(&world, 2)).await.unwrap();
    assert_ne!(first.instance_type, second.instance_type);
}

#[tokio::test(start_paused = true)]
async fn on_demand_is_ordered_as_an_on_demand_pool_without_a_bid() {
    let world = World::new();
    let accepted = world
        .provider
        .create(&world.claim(1, CLASS, "on-demand"))
        .await
        .unwrap();
    assert_eq!(
        accepted.provider_id.unwrap(),
        format!("rackspacespot://sandbox/ondemand/{}", uid(1))
    );
    assert_eq!(world.asked("POST", "ondemandnodepools"), 1);
    assert!(world.bids().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_nothing_satisfies_is_told_why() {
    let world = World::new();
    let error = world
        .provider
        .create(&world.claim(1, "no.such.class", "spot"))
        .await
        .unwrap_err();
    assert!(matches!(error, CloudError::InsufficientCapacity { .. }), "{error}");
    assert!(error.to_string().contains("0 are compatible"), "{error}");
    assert!(world.pools().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_class_that_is_not_ready_orders_nothing() {
    let world = World::new();
    world.provider.node_classes().remove("default");
    let error = world.provider.create(&world.claim(1, CLASS, "spot")).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::WaitForNodeClass);
    assert!(world.pools().is_empty());
}

fn claim_of(world: &World, number: u8) -> karpenter::api::NodeClaim {
    let mut claim = claim(number, "spot");
    claim.metadata.creation_timestamp = world.claim(number, CLASS, "spot").metadata.creation_timestamp;
    claim
}

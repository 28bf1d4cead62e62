//! No pod is bought for twice, whatever happens to requests, watches and the process (architecture §3.2, §3.5).

use crate::world::{CLAIMS, Inside, MINUTE, condition, deployment, node_class, node_pool, of_classes};
use sandbox::api::{Fault, FaultRule, HookPoint, Verb};
use sandbox::spot::Control;
use sandbox::world::Order;
use serde_json::{Value, json};
use std::time::Duration;

const LARGE: &str = "gp.vs1.large-iad";
const LIMIT: Duration = Duration::from_mins(45);
const SECOND: Duration = Duration::from_secs(1);
/// The effect, but no answer that anybody waits for.
const LOST: Fault = Fault::TimeoutAfter {
    after: Duration::from_secs(30),
};
const DROP: Fault = Fault::DropWatch {
    within: Duration::from_secs(5),
};

/// Pools and classes are there and usable, nothing is bought yet.
async fn ready(seed: u64) -> Inside {
    let inside = Inside::short(seed).await;
    let pool = node_pool("default", &of_classes("on-demand", &[LARGE]), &json!({}));
    inside.apply(&[node_class(), pool]).await;
    inside.world.pass(MINUTE).await;
    inside
}

/// Pods of which each needs a machine of its own.
async fn wants(inside: &Inside, pods: u32) {
    inside.apply(&[deployment("web", pods, "3", &json!({}))]).await;
}

async fn all_run(inside: &Inside, pods: usize) {
    inside
        .until("all pods have a node", LIMIT, |world| world.bound() == pods)
        .await;
    // what is bought for nothing would come with one of the next passes
    inside.world.pass(40 * SECOND).await;
    let lives = inside.lives();
    assert_eq!(lives.len(), pods, "{pods} pods need {pods} claims: {lives:#?}");
    assert_eq!(inside.orders().len(), pods, "one pool for each: {:?}", inside.orders());
}

fn every(fault: Fault, verbs: &[Verb]) -> FaultRule {
    FaultRule::new(fault, 1.0).verbs(verbs).resources(&[CLAIMS])
}

/// The watch of claims ends every few seconds, so that other faults cut it off soon.
async fn with_short_watches(seed: u64) -> Inside {
    let mut inside = ready(seed).await;
    inside.kill().await;
    inside.faults([every(DROP, &[Verb::Watch])]);
    inside.restart();
    inside.world.pass(MINUTE).await;
    inside
}

#[tokio::test(start_paused = true)]
async fn a_create_that_took_effect_without_an_answer_while_nothing_can_be_read_buys_once() {
    let inside = with_short_watches(1).await;
    inside.faults([
        every(LOST, &[Verb::Create]),
        every(Fault::InternalError, &[Verb::Get, Verb::Watch, Verb::List]),
    ]);
    inside.world.pass(10 * SECOND).await;
    wants(&inside, 2).await;
    inside.world.pass(40 * SECOND).await;
    assert_eq!(inside.lives().len(), 2, "{:#?}", inside.lives());
    inside.faults([]);
    all_run(&inside, 2).await;
    inside.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_create_that_took_effect_while_reads_are_of_the_past_buys_once() {
    let inside = with_short_watches(2).await;
    inside.faults([
        every(LOST, &[Verb::Create]),
        every(Fault::StaleRead { back: 1_000 }, &[Verb::Get, Verb::List]),
        every(Fault::InternalError, &[Verb::Watch]),
    ]);
    inside.world.pass(10 * SECOND).await;
    wants(&inside, 2).await;
    inside.world.pass(40 * SECOND).await;
    assert_eq!(inside.lives().len(), 2, "{:#?}", inside.lives());
    inside.faults([]);
    all_run(&inside, 2).await;
    inside.end().await;
}

/// Seed 5667 of the bad days: the class was looked at while reads were of the past, and never again.
#[tokio::test(start_paused = true)]
async fn a_node_class_that_reads_of_the_past_do_not_show_serves_on() {
    let inside = ready(5).await;
    let classes = "rackspacespotnodeclasses.karpenter.rackspace.com";
    let past = FaultRule::new(Fault::StaleRead { back: 1_000 }, 1.0);
    inside.faults([past.verbs(&[Verb::Get]).resources(&[classes])]);
    inside.world.pass(6 * MINUTE).await;
    wants(&inside, 1).await;
    inside.world.pass(30 * SECOND).await;
    assert_eq!(inside.lives().len(), 1, "{:#?}", inside.lives());
    inside.faults([]);
    all_run(&inside, 1).await;
    inside.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_create_that_never_arrived_is_sent_again_soon() {
    let inside = ready(3).await;
    let after = 30 * SECOND;
    inside.faults([every(Fault::TimeoutBefore { after }, &[Verb::Create])]);
    wants(&inside, 2).await;
    inside.world.pass(30 * SECOND).await;
    assert!(inside.lives().is_empty());
    inside.faults([]);
    let took = inside
        .until("two claims", MINUTE, |world| world.claims().len() == 2)
        .await;
    assert!(took <= 15 * SECOND, "{took:?}");
    all_run(&inside, 2).await;
    inside.end().await;
}

#[tokio::test(start_paused = true)]
async fn dropped_watches_and_lost_answers_by_the_dozen_buy_once() {
    for seed in 10..14 {
        let inside = ready(seed).await;
        let after = 10 * SECOND;
        let chance = |fault, share, verbs: &[Verb]| FaultRule::new(fault, share).verbs(verbs);
        let writes = [Verb::Create, Verb::Patch, Verb::Update, Verb::Delete];
        inside.faults([
            chance(Fault::TimeoutAfter { after }, 0.2, &writes),
            chance(Fault::TimeoutBefore { after }, 0.1, &writes),
            chance(
                Fault::InternalError,
                0.2,
                &[Verb::Create, Verb::Patch, Verb::Get, Verb::List],
            ),
            chance(Fault::Conflict, 0.2, &[Verb::Patch]),
            chance(Fault::StaleRead { back: 30 }, 0.2, &[Verb::List]),
            chance(
                Fault::DropWatch {
                    within: Duration::from_secs(20),
                },
                0.5,
                &[Verb::Watch],
            ),
        ]);
        wants(&inside, 5).await;
        inside.world.pass(5 * MINUTE).await;
        inside.faults([]);
        all_run(&inside, 5).await;
        inside.end().await;
    }
}

/// A launch from the first pending pod to the bound one, cut at every write of the operator in turn.
async fn cut_at_each_write(point: HookPoint) {
    for nth in 1_u64.. {
        let mut inside = ready(20).await;
        inside.kill_at(point, nth);
        wants(&inside, 2).await;
        let ended = inside
            .world
            .wait_until("the end of the operator", 5 * MINUTE, |_| inside.has_ended());
        if ended.await.is_err() {
            assert!(nth > 10, "a launch has more than {nth} writes");
            all_run(&inside, 2).await;
            return;
        }
        inside.kill().await;
        inside.world.pass(3 * SECOND).await;
        inside.restart();
        all_run(&inside, 2).await;
        inside.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_ends_before_any_of_its_writes_buys_once() {
    cut_at_each_write(HookPoint::Before).await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_ends_before_the_answer_to_any_of_its_writes_buys_once() {
    cut_at_each_write(HookPoint::After).await;
}

/// A claim as another process would have made it for the same pods, and as it arrives: with a name of its own and nothing known of a machine.
fn made_by_another(inside: &Inside, owned: bool) -> Value {
    let mut claim = inside.world.values(CLAIMS).remove(0);
    let metadata = claim["metadata"].clone();
    claim["metadata"] = json!({ "name": "default-late", "annotations": metadata["annotations"],
        "labels": { "karpenter.sh/nodepool": "default" } });
    if owned {
        claim["metadata"]["ownerReferences"] = metadata["ownerReferences"].clone();
    }
    claim.as_object_mut().unwrap().remove("status");
    claim
}

fn life_of(inside: &Inside, name: &str) -> crate::world::Life {
    let lives = inside.lives();
    lives.into_iter().find(|life| life.name == name).unwrap()
}

// architecture §3.5
#[tokio::test(start_paused = true)]
async fn nothing_is_ordered_for_a_claim_of_an_earlier_leader_that_arrives_after_its_pods_were_planned_anew() {
    let inside = ready(30).await;
    wants(&inside, 2).await;
    inside
        .until("two claims", MINUTE, |world| world.claims().len() == 2)
        .await;
    inside.apply(&[made_by_another(&inside, true)]).await;
    inside.world.pass(20 * SECOND).await;
    let late = life_of(&inside, "default-late");
    let said = |condition: &Value| condition["type"] == "Launched" && condition["reason"] == "SentByEarlierLeader";
    let conditions = late.last["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(said), "{late:?}");
    inside
        .until("it is gone", 2 * MINUTE, |world| world.claims().len() == 2)
        .await;
    inside
        .until("all pods have a node", LIMIT, |world| world.bound() == 2)
        .await;
    inside.world.pass(40 * SECOND).await;
    assert_eq!(inside.lives().len(), 3, "{:#?}", inside.lives());
    let uid = late.last["metadata"]["uid"].as_str().unwrap().to_owned();
    assert!(!inside.orders().contains(&uid));
    assert_eq!(inside.orders().len(), 2, "one machine for each pod");
    inside.end().await;
}

// architecture §3.5
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_there_at_the_start_or_that_somebody_made_by_hand_gets_its_machine() {
    let mut inside = ready(31).await;
    wants(&inside, 1).await;
    inside.until("a claim", MINUTE, |world| world.claims().len() == 1).await;
    let by_hand = made_by_another(&inside, false);
    inside.apply(&[by_hand]).await;
    inside
        .until("a machine for it too", MINUTE, |world| world.pools().len() == 2)
        .await;
    inside.kill().await;
    let mut there = made_by_another(&inside, true);
    there["metadata"]["name"] = json!("default-there");
    inside.apply(&[there]).await;
    inside.restart();
    inside
        .until("and for the one that waited", 2 * MINUTE, |world| {
            world.pools().len() == 3
        })
        .await;
    inside.end().await;
}

// architecture §6, §7.20
#[tokio::test(start_paused = true)]
async fn a_second_machine_of_the_other_kind_is_given_back_while_the_claim_lives() {
    let inside = ready(32).await;
    wants(&inside, 1).await;
    all_run(&inside, 1).await;
    let uid = inside.orders().remove(0);
    let order = Order {
        pool: &uid,
        labels: [("karpenter.rackspace.com/managed", "true")].into(),
        ..Order::default()
    };
    inside.control(Control::SetStock {
        class: order.class.to_owned(),
        stock: 0,
    });
    assert_eq!(inside.world.order(&order), 201);
    assert_eq!(inside.world.pools().len(), 2);
    inside.world.pass(4 * MINUTE).await;
    assert_eq!(inside.world.pools().len(), 2, "it is too young to be sure of");
    inside
        .until("one is left", 5 * MINUTE, |world| world.pools().len() == 1)
        .await;
    inside.world.pass(5 * MINUTE).await;
    assert_eq!(inside.world.bound(), 1, "the claim's own stays, and its pod");
    assert_eq!(inside.lives().len(), 1);
    inside.end().await;
}

/// A world whose operator has just been killed: a machine is ordered, and its claim knows nothing of it.
async fn ordered_and_not_recorded() -> Inside {
    for nth in 1..20 {
        let inside = ready(21).await;
        inside.kill_at(HookPoint::Before, nth);
        wants(&inside, 1).await;
        let known = |claim: &Value| claim["status"]["providerID"].is_string();
        for _ in 0..60 {
            inside.world.pass(SECOND).await;
            if inside.has_ended() || inside.world.values(CLAIMS).iter().any(known) {
                break;
            }
        }
        let is_recorded = inside.world.values(CLAIMS).iter().any(known);
        if inside.has_ended() && !inside.world.pools().is_empty() && !is_recorded {
            return inside;
        }
        assert!(!is_recorded, "no write lies between the order and its record");
    }
    panic!("no order in the first writes");
}

/// The node joined while no operator ran.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_node_joined_before_its_order_was_recorded_knows_its_machine_all_the_same() {
    let mut inside = ordered_and_not_recorded().await;
    inside
        .until("its node is there", 20 * MINUTE, |world| !world.nodes().is_empty())
        .await;
    inside.world.pass(5 * MINUTE).await;
    inside.restart();
    all_run(&inside, 1).await;
    let lives = inside.lives();
    assert_eq!(lives.len(), 1, "{lives:#?}");
    let claim = inside.object(CLAIMS, &lives[0].name);
    for label in [
        "node.kubernetes.io/instance-type",
        "karpenter.sh/capacity-type",
        "topology.kubernetes.io/zone",
    ] {
        assert!(claim["metadata"]["labels"][label].is_string(), "{label}: {claim:#}");
    }
    assert!(claim["status"]["capacity"]["cpu"].is_string(), "{claim:#}");
    inside.world.pass(10 * MINUTE).await;
    let claim = inside.object(CLAIMS, &lives[0].name);
    assert_ne!(condition(&claim, "Drifted")["status"], "True", "{claim:#}");
    inside.end().await;
}

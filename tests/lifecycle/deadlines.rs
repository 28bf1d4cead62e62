//! The marks of 30 s, 15 and 30 minutes: who is given up, when, and what is bought next (architecture §7.2, §7.3).

use crate::world::{CLAIMS, Inside, MINUTE, condition, deployment, node_class, node_pool, of_classes};
use chrono::TimeDelta;
use sandbox::spot::{Distribution, Options};
use sandbox::world::WorldOptions;
use serde_json::{Value, json};
use std::time::Duration;

const CHEAP: &str = "gp.vs1.medium-iad";
const DEAR: &str = "gp.vs1.large-iad";
const SECOND: Duration = Duration::from_secs(1);

/// An operator that may buy two classes on demand, and one pod that fits either.
async fn one_pod(seed: u64, settings: &[(&str, &str)], change: impl FnOnce(&mut WorldOptions)) -> Inside {
    let inside = Inside::start(seed, settings, |options| {
        options.spot = Options::short();
        change(options);
    })
    .await;
    inside
        .apply(&[
            node_class(),
            node_pool("default", &of_classes("spot", &[CHEAP, DEAR]), &json!({})),
        ])
        .await;
    inside.apply(&[deployment("web", 1, "1", &json!({}))]).await;
    inside
}

fn class_of(claim: &Value) -> &str {
    claim["metadata"]["labels"]["node.kubernetes.io/instance-type"]
        .as_str()
        .unwrap_or_default()
}

fn health(inside: &Inside) -> Value {
    condition(
        &inside.object("nodepools.karpenter.sh", "default"),
        "NodeRegistrationHealthy",
    )
}

/// How long each claim lived that has gone.
fn ages(inside: &Inside) -> Vec<TimeDelta> {
    inside
        .lives()
        .iter()
        .filter_map(|life| Some(life.went? - life.came))
        .collect()
}

fn about(age: TimeDelta, wanted: Duration) -> bool {
    // what is left is the platform's confirmation that the pool is gone
    let wanted = TimeDelta::from_std(wanted).unwrap();
    age >= wanted && age < wanted + TimeDelta::seconds(30)
}

// architecture §7.3
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_come_within_thirty_minutes_ends_claim_and_pool_and_another_class_is_next() {
    let inside = one_pod(1, &[], |options| {
        options.spot.quirks.never_built_classes.insert(CHEAP.to_owned());
    })
    .await;
    inside
        .until("the pool is ordered", MINUTE, |world| world.pools().len() == 1)
        .await;
    inside.world.pass(28 * MINUTE).await;
    let claims = inside.world.values(CLAIMS);
    assert_eq!((claims.len(), class_of(&claims[0])), (1, CHEAP));
    let launched = condition(&claims[0], "Launched");
    assert_eq!(
        (&launched["status"], &launched["reason"]),
        (&json!("Unknown"), &json!("AwaitingServerAssignment"))
    );
    assert_ne!(health(&inside)["status"], "False");
    inside
        .until("the pod runs", 5 * MINUTE, |world| world.bound() == 1)
        .await;
    let lives = inside.lives();
    assert_eq!(lives.len(), 2, "{lives:#?}");
    assert!(about(ages(&inside)[0], 30 * MINUTE), "{lives:#?}");
    assert_eq!(
        class_of(&lives[1].last),
        DEAR,
        "the class that did not deliver cools down"
    );
    assert_eq!(inside.world.pools().len(), 1, "the pool of the first claim is gone");
    assert_eq!(inside.orders().len(), 2);
    inside.end().await;
}

// architecture §7.3
#[tokio::test(start_paused = true)]
async fn a_launch_that_timed_out_marks_its_pool_at_once_and_a_node_that_joins_takes_the_mark_away() {
    let inside = one_pod(2, &[("RACKSPACE_LAUNCH_TIMEOUT", "2m")], |options| {
        options.spot.quirks.never_built_classes.insert(CHEAP.to_owned());
    })
    .await;
    inside
        .until("the mark", 5 * MINUTE, |_| health(&inside)["status"] == "False")
        .await;
    assert_eq!(health(&inside)["reason"], "AwaitingServerAssignment");
    inside
        .until("the pod runs", 5 * MINUTE, |world| world.bound() == 1)
        .await;
    // one success among four outcomes of which two were failures is not enough (lifecycle 12.5)
    assert_eq!(health(&inside)["status"], "False");
    inside.end().await;
}

// architecture §7.3: the cool-down doubles, and a delivery ends it
#[tokio::test(start_paused = true)]
async fn a_class_that_did_not_deliver_is_left_alone_for_a_quarter_of_an_hour() {
    let inside = one_pod(3, &[("RACKSPACE_LAUNCH_TIMEOUT", "2m")], |options| {
        options.spot.quirks.never_built_classes.insert(CHEAP.to_owned());
    })
    .await;
    inside
        .until("the pod runs", 10 * MINUTE, |world| world.bound() == 1)
        .await;
    // one of its pods fits the machine that is there, the other does not
    inside.apply(&[deployment("early", 2, "1400m", &json!({}))]).await;
    inside
        .until("the early pods run", 10 * MINUTE, |world| world.bound() == 3)
        .await;
    inside.world.pass(16 * MINUTE).await;
    inside.apply(&[deployment("late", 2, "1400m", &json!({}))]).await;
    inside
        .until("another order", 10 * MINUTE, |_| inside.orders().len() >= 4)
        .await;
    let classes: Vec<String> = inside
        .lives()
        .iter()
        .map(|life| class_of(&life.last).to_owned())
        .collect();
    assert_eq!(classes.first().map(String::as_str), Some(CHEAP));
    assert!(
        classes[1..classes.len() - 1].iter().all(|class| class == DEAR),
        "{classes:?}"
    );
    assert_eq!(
        classes.last().map(String::as_str),
        Some(CHEAP),
        "tried again after its time: {classes:?}"
    );
    inside.end().await;
}

// architecture §7.2
#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_join_within_fifteen_minutes_of_its_server_ends_claim_and_pool() {
    let inside = one_pod(4, &[], |options| {
        // twenty minutes for the server: the clock of the node begins only then
        options.spot.delays.build = Distribution::Fixed(1_200.0);
        options.spot.quirks.never_joins_classes.insert(CHEAP.to_owned());
    })
    .await;
    inside
        .until("the server is there", 25 * MINUTE, |world| {
            world
                .values(CLAIMS)
                .iter()
                .any(|claim| condition(claim, "Launched")["status"] == "True")
        })
        .await;
    inside.world.pass(14 * MINUTE + 50 * SECOND).await;
    let first = inside.lives()[0].clone();
    assert!(first.went.is_none(), "{first:?}");
    inside
        .until("the claim goes", MINUTE, |_| inside.lives()[0].went.is_some())
        .await;
    let registered = condition(&inside.lives()[0].last, "Registered");
    assert_eq!(
        (&registered["status"], &registered["reason"]),
        (&json!("Unknown"), &json!("NodeNotFound"))
    );
    assert!(inside.world.spot().with(|platform| {
        platform
            .pools()
            .all(|pool| pool.meta.name != first.last["metadata"]["uid"].as_str().unwrap())
    }));
    // one failure of four is no bad health yet (lifecycle 12.6)
    assert_ne!(health(&inside)["status"], "False");
    inside.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_needs_seventeen_seconds_of_thirty_is_ordered_once() {
    let inside = one_pod(5, &[("RACKSPACE_LAUNCH_TIMEOUT", "30s")], |options| {
        options.spot.delays.build = Distribution::Fixed(15.0);
        options.spot.delays.join = Distribution::Fixed(20.0);
    })
    .await;
    inside
        .until("the pod runs", 5 * MINUTE, |world| world.bound() == 1)
        .await;
    inside.world.pass(MINUTE).await;
    assert_eq!(inside.lives().len(), 1, "{:#?}", inside.lives());
    assert_eq!(inside.orders().len(), 1);
    inside.end().await;
}

//! The life of a pool on the simulated platform, by the numbers (rackspace-spot §5, §7).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

use chrono::{DateTime, TimeDelta, Utc};
use sandbox::spot::{Answer, Control, Delays, Distribution, Options, Phase, Platform, Price};
use serde_json::{Value, json};

const NS: &str = "/apis/ngpc.rxt.io/v1/namespaces/org-knyiltp8zznvkz5g";
const POOL: &str = "7f3b0c52-4c1e-4f0e-9a55-0d2f6a1b9c11";
const OTHER: &str = "8f3b0c52-4c1e-4f0e-9a55-0d2f6a1b9c22";
const CLASS: &str = "mh.vs1.large-iad";

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
}

/// A platform with delays that are easy to count with: build 100 s, key with it, Node 30 s later.
fn options() -> Options {
    Options {
        delays: Delays {
            build: Distribution::Fixed(100.0),
            join: Distribution::Fixed(30.0),
            ..Delays::default()
        },
        ..Options::default()
    }
}

fn platform() -> Platform {
    Platform::new(options(), at(0))
}

fn ask(platform: &mut Platform, seconds: i64, method: &str, path: &str, body: &Value) -> Answer {
    platform.advance(at(seconds));
    let call = platform.call(method, path, body);
    platform.answer(at(seconds), &call)
}

fn get(platform: &mut Platform, seconds: i64, path: &str) -> Value {
    let answer = ask(platform, seconds, "GET", path, &Value::Null);
    assert_eq!(answer.code, 200, "{}", answer.body_text());
    serde_json::from_slice(&answer.body).unwrap()
}

fn pool_body(name: &str, bid: &str, desired: u32) -> Value {
    json!({"metadata": {"name": name}, "spec": {"serverClass": CLASS, "desired": desired, "cloudSpace": "sandbox", "bidPrice": bid}})
}

fn create(platform: &mut Platform, seconds: i64, body: &Value) -> Answer {
    ask(platform, seconds, "POST", &format!("{NS}/spotnodepools"), body)
}

fn status(platform: &mut Platform, seconds: i64, name: &str) -> Value {
    get(platform, seconds, &format!("{NS}/spotnodepools/{name}"))["status"].clone()
}

fn keys(platform: &mut Platform, seconds: i64) -> Vec<String> {
    let space = get(platform, seconds, &format!("{NS}/cloudspaces/sandbox"));
    space["status"]["assignedServers"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

#[test]
fn a_pool_goes_from_no_status_over_pending_to_fulfilled_and_its_server_is_attached_later() {
    // rows 9, 10, 13, 14
    let mut platform = platform();
    assert_eq!(create(&mut platform, 5, &pool_body(POOL, "0.01", 1)).code, 201);
    assert_eq!(status(&mut platform, 5, POOL), Value::Null);
    assert_eq!(status(&mut platform, 6, POOL), json!({"bidStatus": "Pending"}));
    assert_eq!(
        status(&mut platform, 10, POOL),
        json!({"bidStatus": "Fulfilled", "wonCount": 1})
    );
    let space = get(&mut platform, 109, &format!("{NS}/cloudspaces/sandbox"));
    assert_eq!(space["status"]["assignedServers"], json!({}));
    assert_eq!(space["status"]["pendingAllocations"].as_object().unwrap().len(), 1);
    assert_eq!(
        space["status"]["bids"][POOL],
        json!({"bidName": POOL, "type": "spot", "wonCount": 1})
    );
    let keys = keys(&mut platform, 110);
    assert_eq!(keys.len(), 1);
    let suffix = keys[0].strip_prefix(&format!("{POOL}-")).unwrap();
    assert!(
        suffix.len() == 5 && suffix.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()),
        "{suffix}"
    );
    let class = get(
        &mut platform,
        111,
        &format!("/apis/ngpc.rxt.io/v1/serverclasses/{CLASS}"),
    );
    assert_eq!(class["status"]["lastAuction"], json!(at(110).timestamp()));
    assert_eq!(class["status"]["available"], json!(49));
}

#[test]
fn stock_of_zero_leaves_a_bid_pending_for_ever_while_the_class_stays_available() {
    // row 31
    let mut platform = platform();
    platform.control(Control::SetStock {
        class: CLASS.into(),
        stock: 0,
    });
    create(&mut platform, 1, &pool_body(POOL, "0.01", 1));
    assert_eq!(
        status(&mut platform, 86_400, POOL),
        json!({"bidStatus": "Pending", "wonCount": 0})
    );
    let class = get(
        &mut platform,
        86_400,
        &format!("/apis/ngpc.rxt.io/v1/serverclasses/{CLASS}"),
    );
    assert_eq!(
        (&class["spec"]["availability"], &class["status"]["available"]),
        (&json!("available"), &json!(0))
    );
}

#[test]
fn a_price_above_the_bid_takes_the_server_six_minutes_later_and_the_pool_wins_again_with_another_one() {
    // rows 18, 20; rackspace-spot 5.6
    let mut platform = platform();
    create(&mut platform, 1, &pool_body(POOL, "0.01", 1));
    platform.advance(at(205));
    let first = platform.servers_of(POOL)[0].uuid.clone();
    platform.control(Control::SetMarket {
        class: CLASS.into(),
        price: Price::mills(11),
    });
    assert_eq!(
        status(&mut platform, 210, POOL),
        json!({"bidStatus": "Lost", "wonCount": 0})
    );
    assert_eq!(keys(&mut platform, 210 + 359).len(), 1);
    assert_eq!(keys(&mut platform, 210 + 360).len(), 0);
    platform.control(Control::SetMarket {
        class: CLASS.into(),
        price: Price::mills(10),
    });
    assert_eq!(
        status(&mut platform, 580, POOL),
        json!({"bidStatus": "Fulfilled", "wonCount": 1})
    );
    let second = platform.servers_of(POOL)[0].uuid.clone();
    assert_ne!(first, second);
    let node_deleted = platform
        .servers()
        .find(|server| server.uuid == first)
        .unwrap()
        .node_deleted_at
        .unwrap();
    let after_death = node_deleted - at(570);
    assert!((45..=60).contains(&after_death.num_seconds()), "row 19: {after_death}");
}

#[test]
fn without_notice_the_server_is_gone_at_once() {
    // row 18
    let mut options = options();
    options.quirks.preemption_notice = false;
    let mut platform = Platform::new(options, at(0));
    create(&mut platform, 1, &pool_body(POOL, "0.01", 1));
    platform.advance(at(205));
    platform.control(Control::Preempt { pool: POOL.into() });
    assert_eq!(keys(&mut platform, 205).len(), 0);
}

#[test]
fn a_deleted_pool_lingers_until_its_servers_are_gone_and_its_name_is_taken_until_then() {
    // rows 21, 22
    let mut platform = platform();
    create(&mut platform, 1, &pool_body(POOL, "0.01", 1));
    let path = format!("{NS}/spotnodepools/{POOL}");
    let first = ask(&mut platform, 205, "DELETE", &path, &Value::Null);
    assert_eq!(first.code, 200);
    assert!(get(&mut platform, 206, &path)["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(ask(&mut platform, 210, "DELETE", &path, &Value::Null).code, 200);
    let again = create(&mut platform, 234, &pool_body(POOL, "0.01", 1));
    assert_eq!(again.code, 409);
    assert!(again.body_text().contains("AlreadyExists"));
    let gone = ask(&mut platform, 235, "GET", &path, &Value::Null);
    assert_eq!(gone.code, 404);
    assert!(
        gone.body_text()
            .contains(&format!("spotnodepools.ngpc.rxt.io \\\"{POOL}\\\" not found"))
    );
    assert_eq!(create(&mut platform, 236, &pool_body(POOL, "0.01", 1)).code, 201);
}

#[test]
fn a_higher_bid_takes_a_machine_only_after_the_notice_of_the_lower_one() {
    // rackspace-spot 5.1, row 11
    let mut platform = platform();
    platform.control(Control::SetStock {
        class: CLASS.into(),
        stock: 1,
    });
    create(&mut platform, 1, &pool_body(POOL, "0.01", 1));
    create(&mut platform, 202, &pool_body(OTHER, "0.02", 1));
    platform.advance(at(210));
    assert_eq!(platform.servers_of(OTHER)[0].phase, Phase::Queued);
    platform.advance(at(569));
    assert_eq!(platform.servers_of(OTHER)[0].phase, Phase::Queued);
    platform.advance(at(570));
    assert_eq!(platform.servers_of(OTHER)[0].phase, Phase::Building);
    assert!(platform.servers_of(POOL).is_empty());
}

#[test]
fn a_new_account_hits_its_speed_bump() {
    // rackspace-spot 6
    let mut options = options();
    options.quirks.speed_bump = Some(6);
    let mut platform = Platform::new(options, at(0));
    create(&mut platform, 1, &pool_body(POOL, "0.01", 5));
    create(&mut platform, 2, &pool_body(OTHER, "0.01", 3));
    assert_eq!(
        status(&mut platform, 20, POOL),
        json!({"bidStatus": "Fulfilled", "wonCount": 5})
    );
    assert_eq!(
        status(&mut platform, 3600, OTHER),
        json!({"bidStatus": "SpeedBump Hit", "wonCount": 1})
    );
}

#[test]
fn a_fulfilled_pool_may_never_get_a_server_or_never_a_node() {
    // row 32, rackspace-spot 6
    let mut options = options();
    options.quirks.never_built_classes.insert(CLASS.into());
    let mut platform = Platform::new(options.clone(), at(0));
    create(&mut platform, 1, &pool_body(POOL, "0.01", 1));
    assert_eq!(
        status(&mut platform, 86_400, POOL),
        json!({"bidStatus": "Fulfilled", "wonCount": 1})
    );
    assert!(keys(&mut platform, 86_400).is_empty());
    options.quirks.never_built_classes.clear();
    options.quirks.never_joins_classes.insert(CLASS.into());
    let mut platform = Platform::new(options, at(0));
    create(&mut platform, 1, &pool_body(POOL, "0.01", 1));
    assert_eq!(keys(&mut platform, 86_400).len(), 1);
    assert!(platform.machine_orders().is_empty());
}

#[test]
fn a_server_costs_the_higher_of_market_price_and_floor_from_running_to_its_end() {
    // rackspace-spot 1: billing
    let mut options = options();
    options.market.floors.insert(CLASS.into(), Price::mills(10));
    let mut platform = Platform::new(options, at(0));
    create(&mut platform, 1, &pool_body(POOL, "0.02", 1));
    platform.advance(at(110 + 3600));
    assert_eq!(
        platform.cost_of(POOL).to_string(),
        "0.010000000",
        "market 0.005, floor 0.01"
    );
    platform.control(Control::SetMarket {
        class: CLASS.into(),
        price: Price::mills(20),
    });
    platform.advance(at(110 + 7200));
    assert_eq!(platform.cost_of(POOL).to_string(), "0.030000000");
    let path = format!("{NS}/spotnodepools/{POOL}");
    ask(&mut platform, 110 + 7200, "DELETE", &path, &Value::Null);
    platform.advance(at(86_400));
    assert_eq!(
        platform.cost_of(POOL).to_string(),
        "0.030166666",
        "30 s of release at 0.02"
    );
}

#[test]
fn speed_divides_the_delays_and_multiplies_the_bill() {
    let mut options = options();
    options.speed = 10;
    let mut platform = Platform::new(options, at(0));
    create(&mut platform, 0, &pool_body(POOL, "0.01", 1));
    assert_eq!(
        status(&mut platform, 1, POOL),
        json!({"bidStatus": "Fulfilled", "wonCount": 1})
    );
    assert_eq!(keys(&mut platform, 10).len(), 0);
    assert_eq!(keys(&mut platform, 11).len(), 1);
    platform.advance(at(11 + 360));
    assert_eq!(
        platform.cost_of(POOL).to_string(),
        "0.005000000",
        "a tenth of an hour of ours is an hour of theirs"
    );
}

#[test]
fn a_lowered_desired_gives_back_the_youngest_and_a_changed_bid_is_pending_for_one_auction() {
    // row 10; rackspace-spot 3.5, 5.7
    let mut platform = platform();
    create(&mut platform, 1, &pool_body(POOL, "0.01", 3));
    platform.advance(at(205));
    let path = format!("{NS}/spotnodepools/{POOL}");
    ask(
        &mut platform,
        205,
        "PATCH",
        &path,
        &json!({"spec": {"bidPrice": "0.02"}}),
    );
    assert_eq!(
        status(&mut platform, 206, POOL),
        json!({"bidStatus": "Pending", "wonCount": 3})
    );
    assert_eq!(
        status(&mut platform, 210, POOL),
        json!({"bidStatus": "Fulfilled", "wonCount": 3})
    );
    ask(&mut platform, 211, "PATCH", &path, &json!({"spec": {"desired": 1}}));
    assert_eq!(
        status(&mut platform, 220, POOL),
        json!({"bidStatus": "Fulfilled", "wonCount": 1})
    );
    assert_eq!(keys(&mut platform, 251).len(), 1);
}

#[test]
fn the_same_seed_gives_the_same_world_in_whatever_steps_time_is_advanced() {
    let run = |step: i64| {
        let mut options = Options::default();
        options.market.moves_per_week = 20_000.0;
        let mut platform = Platform::new(options, at(0));
        create(&mut platform, 1, &pool_body(POOL, "0.01", 3));
        create(&mut platform, 1, &pool_body(OTHER, "0.02", 3));
        let mut now = 1;
        while now < 7200 {
            now += step;
            platform.advance(at(now));
        }
        platform.advance(at(7300));
        (
            platform.servers().cloned().collect::<Vec<_>>(),
            platform.ledger().total(),
            platform.summary(),
        )
    };
    let once = run(7199);
    assert_eq!(once, run(1));
    assert_eq!(once, run(1));
    assert!(!once.0.is_empty());
}

#[test]
fn the_delays_have_the_assumed_median_and_tail() {
    // row 32: median 9 minutes from winning to a Node, tail to 30 minutes
    let mut minutes = Vec::new();
    let mut options = Options::default();
    options.market.stock = 10_000;
    let mut platform = Platform::new(options, at(0));
    for number in 0..400 {
        create(
            &mut platform,
            1,
            &pool_body(&format!("7f3b0c52-4c1e-4f0e-9a55-{number:012}"), "0.01", 1),
        );
    }
    platform.advance(at(20));
    for server in platform.servers() {
        minutes.push((server.joins_at.unwrap() - server.won_at).num_seconds() / 60);
        let before_join = server.joins_at.unwrap() - server.attached_at.unwrap();
        assert!(
            (TimeDelta::seconds(30)..=TimeDelta::seconds(120)).contains(&before_join),
            "row 14"
        );
    }
    minutes.sort_unstable();
    assert!((8..=9).contains(&minutes[200]), "{}", minutes[200]);
    assert!((18..=30).contains(&minutes[395]), "{}", minutes[395]);
}

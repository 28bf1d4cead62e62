//! What the API of the simulated platform takes and refuses, and in which words (rackspace-spot §2 to §4, §7).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

use chrono::{DateTime, Utc};
use sandbox::spot::{Answer, Bearer, BidRules, Call, Control, Fault, FeedMode, Options, Platform, Price};
use serde_json::{Value, json};

const NS: &str = "/apis/ngpc.rxt.io/v1/namespaces/org-knyiltp8zznvkz5g";
const POOL: &str = "7f3b0c52-4c1e-4f0e-9a55-0d2f6a1b9c11";
const CLASS: &str = "mh.vs1.large-iad";
const DENIED: &str = "admission webhook \"vspotnodepool.ngpc.rxt.io\" denied the request: ";

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
}

fn platform_with(change: impl FnOnce(&mut Options)) -> Platform {
    let mut options = Options::default();
    change(&mut options);
    Platform::new(options, at(0))
}

fn ask(platform: &mut Platform, method: &str, path: &str, body: &Value) -> Answer {
    let call = platform.call(method, path, body);
    platform.answer(at(1), &call)
}

fn value(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

fn pool(name: &str, class: &str, bid: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"serverClass": class, "desired": 1, "cloudSpace": "sandbox", "bidPrice": bid}})
}

/// Code and message of a creation.
fn create(platform: &mut Platform, body: &Value) -> (u16, String) {
    let answer = ask(platform, "POST", &format!("{NS}/spotnodepools"), body);
    (
        answer.code,
        value(&answer)["message"].as_str().unwrap_or_default().to_owned(),
    )
}

/// What each step of the next test's ladder is told, the last one being accepted.
fn refusals_in_order() -> [(u16, String); 9] {
    [
        (
            422,
            "bidPrice can only be a positive number up to three decimal places".to_owned(),
        ),
        (403, "must be a lowercase UUID".to_owned()),
        (403, "cloudspaces.ngpc.rxt.io \"elsewhere\" not found".to_owned()),
        (403, "serverclasses.ngpc.rxt.io \"no-such-class\" not found".to_owned()),
        (
            403,
            format!(
                "{DENIED}BidPrice validation failed: failed to parse serverclass min bid price: strconv.ParseFloat: parsing \"\": invalid syntax"
            ),
        ),
        (403, format!("{DENIED}bid price 0.005000 is not on the bid ladder")),
        (
            403,
            format!(
                "{DENIED}BidPrice validation failed: BidPrice must be greater than or equal to the minimum bid price of 0.020000, but got 0.010000"
            ),
        ),
        (
            403,
            format!(
                "{DENIED}BidPrice validation failed: BidPrice must be greater than or equal to the market price of 0.030000, but got 0.020000"
            ),
        ),
        (201, String::new()),
    ]
}

#[test]
fn checks_come_in_the_assumed_order_each_hiding_the_next() {
    // row 7: pattern, name, cloudspace, class, floor parse, increment, floor, market
    let mut platform = platform_with(|options| {
        options.market.prices.insert(CLASS.into(), Price::mills(30));
        options.market.floors.insert(CLASS.into(), Price::mills(20));
    });
    let mut body = pool("karpenter-x", "no-such-class", "$1");
    body["spec"]["cloudSpace"] = json!("elsewhere");
    let mut seen = Vec::new();
    for (pointer, better) in [
        ("/spec/bidPrice", "0.005"),
        ("/metadata/name", POOL),
        ("/spec/cloudSpace", "sandbox"),
        ("/spec/serverClass", "io.bm2-iad"),
        ("/spec/serverClass", CLASS),
        ("/spec/bidPrice", "0.01"),
        ("/spec/bidPrice", "0.02"),
        ("/spec/bidPrice", "0.03"),
    ] {
        seen.push(create(&mut platform, &body));
        *body.pointer_mut(pointer).unwrap() = json!(better);
    }
    seen.push(create(&mut platform, &body));
    let expected = refusals_in_order();
    for ((code, text), (wanted, words)) in seen.iter().zip(&expected) {
        assert!(
            code == wanted && text.contains(words.as_str()),
            "{code} {text:?} instead of {wanted} {words:?}"
        );
    }
    let bids = platform.ledger().bids();
    assert_eq!(bids.len(), 9, "every bid on the wire is written down");
    assert_eq!(bids.iter().filter(|bid| bid.refused.is_none()).count(), 1);
    assert_eq!((bids[8].market, bids[8].bid.as_str()), (Some(Price::mills(30)), "0.03"));
    assert_eq!(bids[8].percentiles.map(|p| p.len()), Some(3));
}

#[test]
fn names_are_lower_case_uuids() {
    // row 4
    let mut platform = platform_with(|_| {});
    for name in [
        "karpenter-7f3b0c52",
        "7F3B0C52-4C1E-4F0E-9A55-0D2F6A1B9C11",
        "7f3b0c524c1e4f0e9a550d2f6a1b9c11",
    ] {
        let (code, text) = create(&mut platform, &pool(name, CLASS, "0.01"));
        assert!(
            code == 403 && text.starts_with(DENIED) && text.contains("must be a lowercase UUID"),
            "{code} {text}"
        );
    }
}

#[test]
fn a_denial_may_come_under_other_codes() {
    // row 3
    for code in [403, 422, 400] {
        let mut platform = platform_with(|options| options.quirks.denial_code = code);
        assert_eq!(create(&mut platform, &pool(POOL, CLASS, "0.05")).0, code);
    }
}

#[test]
fn the_rule_set_can_be_changed_while_it_runs() {
    // rows 5, 6
    let mut platform = platform_with(|_| {});
    assert_eq!(create(&mut platform, &pool(POOL, CLASS, "0.05")).0, 403);
    platform.options_mut().bid_rules = BidRules::Seed;
    assert_eq!(create(&mut platform, &pool(POOL, CLASS, "0.05")).0, 201);
}

#[test]
fn an_update_validates_the_whole_object_unless_told_otherwise() {
    // row 8
    for (revalidate, expected) in [(true, 403), (false, 200)] {
        let mut platform = platform_with(|options| options.quirks.revalidate_bid_on_update = revalidate);
        create(&mut platform, &pool(POOL, CLASS, "0.01"));
        platform.control(Control::SetMarket {
            class: CLASS.into(),
            price: Price::mills(20),
        });
        let path = format!("{NS}/spotnodepools/{POOL}");
        assert_eq!(
            ask(
                &mut platform,
                "PATCH",
                &path,
                &json!({"spec": {"customLabels": {"a": "b"}}})
            )
            .code,
            expected
        );
        assert_eq!(
            ask(&mut platform, "PATCH", &path, &json!({"spec": {"bidPrice": "0.013"}})).code,
            403
        );
        assert_eq!(
            ask(&mut platform, "PATCH", &path, &json!({"spec": {"bidPrice": "0.03"}})).code,
            200
        );
    }
}

#[test]
fn stale_writes_conflict_and_unknown_fields_vanish() {
    // rackspace-spot 3.0
    let mut platform = platform_with(|_| {});
    let mut body = pool(POOL, CLASS, "0.01");
    body["spec"]["haControlPlane"] = json!(true);
    create(&mut platform, &body);
    let path = format!("{NS}/spotnodepools/{POOL}");
    let mut object = value(&ask(&mut platform, "GET", &path, &Value::Null));
    assert!(object["spec"].get("haControlPlane").is_none());
    assert_eq!(
        object["metadata"]["labels"],
        json!({"ngpc.rxt.io/cloudspace": "sandbox"}),
        "row 15"
    );
    object["spec"]["desired"] = json!(2);
    assert_eq!(ask(&mut platform, "PUT", &path, &object).code, 200);
    let stale = ask(&mut platform, "PUT", &path, &object);
    assert_eq!((stale.code, value(&stale)["reason"].clone()), (409, json!("Conflict")));
    assert!(
        stale
            .body_text()
            .contains("the object has been modified; please apply your changes to the latest version and try again")
    );
    let mut call = platform.call(
        "PATCH",
        &path,
        &json!([{"op": "replace", "path": "/spec/desired", "value": 3}]),
    );
    assert_eq!(platform.answer(at(1), &call).code, 400, "an array is no merge patch");
    call.content_type = Some("application/json-patch+json".into());
    assert_eq!(platform.answer(at(1), &call).code, 200);
    call.content_type = Some("application/strategic-merge-patch+json".into());
    assert_eq!(platform.answer(at(1), &call).code, 415);
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(ask(&mut platform, "PUT", &path, &object).code, 422);
}

#[test]
fn lists_are_selected_and_paged() {
    let mut platform = platform_with(|options| options.quirks.adds_cloudspace_label = false);
    for number in 0..5 {
        let mut body = pool(&format!("7f3b0c52-4c1e-4f0e-9a55-{number:012}"), CLASS, "0.01");
        if number < 3 {
            body["metadata"]["labels"] = json!({"ngpc.rxt.io/cloudspace": "sandbox"});
        }
        assert_eq!(create(&mut platform, &body).0, 201);
    }
    let mut names = Vec::new();
    let mut next = String::new();
    loop {
        let path = format!("{NS}/spotnodepools?limit=2&continue={next}");
        let page = value(&ask(&mut platform, "GET", &path, &Value::Null));
        names.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["metadata"]["name"].clone()),
        );
        next = page["metadata"]["continue"].as_str().unwrap().to_owned();
        if next.is_empty() {
            break;
        }
    }
    assert_eq!(names.len(), 5);
    let path = format!("{NS}/spotnodepools?labelSelector=ngpc.rxt.io%2Fcloudspace%3Dsandbox");
    let selected = value(&ask(&mut platform, "GET", &path, &Value::Null));
    assert_eq!(selected["items"].as_array().unwrap().len(), 3);
    assert_eq!(
        ask(
            &mut platform,
            "GET",
            &format!("{NS}/spotnodepools?limit=x"),
            &Value::Null
        )
        .code,
        400
    );
}

fn exchange(platform: &mut Platform, token: &str) -> Answer {
    let call = Call {
        method: "POST".into(),
        path: "/oauth/token".into(),
        content_type: Some("application/x-www-form-urlencoded".into()),
        body: format!("grant_type=refresh_token&client_id=mwG3lUMV8KyeMqHe4fJ5Bb3nM1vBvRNa&refresh_token={token}")
            .into_bytes(),
        ..Call::default()
    };
    platform.answer(at(1), &call)
}

#[test]
fn the_bearer_is_the_id_token_and_a_refusal_is_plain_text() {
    // rows 1, 2, 33
    let mut platform = platform_with(|_| {});
    let tokens = value(&exchange(&mut platform, "sandbox-refresh-token"));
    assert_eq!(tokens["expires_in"], 86400);
    let organizations = |platform: &mut Platform, bearer: &str, seconds| {
        let call = Call {
            method: "GET".into(),
            path: "/apis/auth.ngpc.rxt.io/v1/organizations".into(),
            authorization: Some(format!("Bearer {bearer}")),
            ..Call::default()
        };
        platform.answer(at(seconds), &call)
    };
    let id_token = tokens["id_token"].as_str().unwrap();
    let good = value(&organizations(&mut platform, id_token, 2));
    assert_eq!(
        good["organizations"][1]["metadata"]["namespace"], "org-knyiltp8zznvkz5g",
        "the token's is second"
    );
    let opaque = organizations(&mut platform, tokens["access_token"].as_str().unwrap(), 2);
    assert_eq!((opaque.code, opaque.content_type), (401, "text/plain"));
    assert!(
        opaque
            .body_text()
            .starts_with("Jwt is not in the form of Header.Payload.Signature")
    );
    assert_eq!(
        organizations(&mut platform, id_token, 3601).body_text(),
        "Jwt is expired"
    );
    let requests: Vec<Bearer> = platform.ledger().requests().map(|request| request.bearer).collect();
    assert_eq!(
        requests,
        [Bearer::Missing, Bearer::Valid, Bearer::Malformed, Bearer::Expired]
    );
    assert!(
        platform
            .ledger()
            .requests()
            .all(|request| !request.body.contains("sandbox-refresh-token"))
    );
}

#[test]
fn a_revoked_refresh_token_is_an_invalid_grant() {
    let mut platform = platform_with(|_| {});
    platform.control(Control::RevokeToken);
    let refused = exchange(&mut platform, "sandbox-refresh-token");
    assert_eq!(
        (refused.code, value(&refused)["error"].clone()),
        (403, json!("invalid_grant"))
    );
    platform.control(Control::RestoreToken);
    assert_eq!(exchange(&mut platform, "sandbox-refresh-token").code, 200);
}

#[test]
fn ordered_faults_hit_the_requests_they_name_and_lost_answers_had_their_effect_or_not() {
    let path = format!("{NS}/spotnodepools");
    for (fault, code, exists) in [
        (Fault::LostBefore, 504, false),
        (Fault::LostAfter, 504, true),
        (Fault::Error { code: 500 }, 500, false),
        (Fault::Slow { milliseconds: 1500 }, 201, true),
        (Fault::Garbage, 201, true),
    ] {
        let mut platform = platform_with(|_| {});
        platform.control(Control::Fault {
            method: Some("POST".into()),
            path: "spotnodepools".into(),
            times: 1,
            fault,
        });
        assert_eq!(
            ask(&mut platform, "GET", &path, &Value::Null).code,
            200,
            "another method"
        );
        assert_eq!(ask(&mut platform, "POST", &path, &pool(POOL, CLASS, "0.01")).code, code);
        assert_eq!(platform.pool(POOL).is_some(), exists, "{fault:?}");
        assert_eq!(ask(&mut platform, "GET", &path, &Value::Null).code, 200);
    }
}

#[test]
fn the_rate_limit_answers_429_with_retry_after() {
    // row 29
    let mut platform = platform_with(|options| options.faults.rate_limit = Some(2));
    let path = format!("{NS}/spotnodepools");
    let answers: Vec<Answer> = (0..3).map(|_| ask(&mut platform, "GET", &path, &Value::Null)).collect();
    assert_eq!(
        answers.iter().map(|answer| answer.code).collect::<Vec<_>>(),
        [200, 200, 429]
    );
    assert!(answers[2].headers.contains(&("retry-after", "1".into())));
}

#[test]
fn late_lists_flapping_reads_and_random_faults_come_from_the_seed() {
    let run = || {
        let mut platform = platform_with(|options| {
            options.quirks.list_lag = 5.0;
            options.quirks.flapping_not_found = 0.5;
            options.faults.server_errors = 0.1;
        });
        while create(&mut platform, &pool(POOL, CLASS, "0.01")).0 != 201 {}
        let path = format!("{NS}/spotnodepools/{POOL}");
        let codes: Vec<u16> = (0..40)
            .map(|_| ask(&mut platform, "GET", &path, &Value::Null).code)
            .collect();
        let list = format!("{NS}/spotnodepools");
        let items = loop {
            let answer = ask(&mut platform, "GET", &list, &Value::Null);
            if answer.code == 200 {
                break value(&answer)["items"].as_array().unwrap().len();
            }
        };
        assert_eq!(items, 0, "lists are five seconds late");
        (codes, platform.ledger().requests().cloned().collect::<Vec<_>>())
    };
    let once = run();
    assert!(once.0.contains(&200) && once.0.contains(&404));
    assert_eq!(once, run());
}

#[test]
fn the_feed_knows_what_the_caller_has() {
    // row 30
    let mut platform = platform_with(|_| {});
    let mut call = Call {
        method: "GET".into(),
        path: "/percentiles.json".into(),
        ..Call::default()
    };
    let first = platform.answer(at(1), &call);
    let header = |answer: &Answer, name: &str| answer.headers.iter().find(|(key, _)| *key == name).unwrap().1.clone();
    assert_eq!(
        value(&first)["regions"]["us-east-iad-1"]["serverclasses"][CLASS]["market_price"],
        "0.005000"
    );
    call.if_none_match = Some(header(&first, "etag"));
    let known = platform.answer(at(2), &call);
    assert_eq!((known.code, known.body.len()), (304, 0));
    platform.control(Control::SetMarket {
        class: CLASS.into(),
        price: Price::mills(6),
    });
    assert_eq!(platform.answer(at(3), &call).code, 200);
    call.if_none_match = None;
    call.if_modified_since = Some(header(&first, "last-modified"));
    assert_eq!(platform.answer(at(4), &call).code, 304);
    assert_eq!(platform.answer(at(11), &call).code, 200, "written again at the auction");
}

#[test]
fn a_bad_feed_is_bad_in_many_ways() {
    for (mode, code, json) in [
        (FeedMode::Outage, 503, false),
        (FeedMode::Missing, 403, false),
        (FeedMode::Broken, 200, false),
        (FeedMode::Empty, 200, true),
        (FeedMode::NoClasses, 200, true),
        (FeedMode::Hostile, 200, true),
    ] {
        let mut platform = platform_with(|options| options.feed = mode);
        let answer = ask(&mut platform, "GET", "/percentiles.json", &Value::Null);
        assert_eq!(answer.code, code, "{mode:?}");
        assert_eq!(serde_json::from_slice::<Value>(&answer.body).is_ok(), json, "{mode:?}");
    }
    let mut platform = platform_with(|options| options.feed = FeedMode::Huge);
    assert!(ask(&mut platform, "GET", "/percentiles.json", &Value::Null).body.len() > 20 << 20);
}

#[test]
fn on_demand_prices_and_gpus_are_as_assumed() {
    // rows 27, 28
    let class = |platform: &mut Platform, name: &str| {
        value(&ask(
            platform,
            "GET",
            &format!("/apis/ngpc.rxt.io/v1/serverclasses/{name}"),
            &Value::Null,
        ))
    };
    let mut platform = platform_with(|_| {});
    assert_eq!(
        class(&mut platform, "gp.vs1.medium-iad")["spec"]["onDemandPricing"]["cost"],
        "0.019"
    );
    assert_eq!(
        class(&mut platform, "gp.vs1.medium-iad")["spec"]["minBidPricePerHour"],
        "0.01"
    );
    let gpu = "gpu.vs2.xlargeplusplus-sjc";
    assert!(class(&mut platform, gpu)["spec"]["resources"].get("gpu").is_none());
    platform.options_mut().quirks.gpu_count = true;
    assert_eq!(class(&mut platform, gpu)["spec"]["resources"]["gpu"], "1");
}

#[test]
fn a_pool_that_vanishes_and_keys_that_vanish_are_two_things() {
    let mut platform = platform_with(|_| {});
    create(&mut platform, &pool(POOL, CLASS, "0.01"));
    platform.advance(at(3600));
    let assigned = |platform: &mut Platform| {
        let call = platform.call("GET", &format!("{NS}/cloudspaces/sandbox"), &Value::Null);
        value(&platform.answer(at(3600), &call))["status"]["assignedServers"]
            .as_object()
            .unwrap()
            .len()
    };
    assert_eq!(assigned(&mut platform), 1);
    platform.control(Control::RemoveKeys { pool: POOL.into() });
    assert_eq!((assigned(&mut platform), platform.servers_of(POOL).len()), (0, 1));
    platform.control(Control::VanishPool { pool: POOL.into() });
    assert!(platform.pool(POOL).is_none() && platform.servers_of(POOL).is_empty());
}

#[test]
fn only_one_pool_of_a_cloudspace_may_autoscale() {
    // rackspace-spot 4.4
    let mut platform = platform_with(|_| {});
    let mut body = pool(POOL, CLASS, "0.01");
    body["spec"]["autoscaling"] = json!({"enabled": true, "minNodes": 1, "maxNodes": 2});
    assert_eq!(create(&mut platform, &body).0, 201);
    body["metadata"]["name"] = json!("8f3b0c52-4c1e-4f0e-9a55-0d2f6a1b9c22");
    assert_eq!(create(&mut platform, &body).0, 403);
}

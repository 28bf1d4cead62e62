//! Tokens, retries and unclear outcomes.

use super::world::{Setup, World};
use karpenter::cloud::spot::SpotError;
use karpenter::cloud::spot::types::PoolKind;
use sandbox::spot::{Control, Fault, Options};
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn twenty_callers_at_once_cause_one_token_exchange() {
    let world = World::new();
    let calls = (0..20).map(|_| world.client.cloudspace("sandbox"));
    for answer in futures::future::join_all(calls).await {
        assert_eq!(answer.unwrap().region, "us-east-iad-1");
    }
    assert_eq!(world.asked("POST", "/oauth/token"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_a_minute_before_its_own_exp_and_no_request_is_ever_refused() {
    // rackspace-spot 2.2, 7 row 1: the token lives an hour although `expires_in` says a day
    let world = World::new();
    world.client.cloudspace("sandbox").await.unwrap();
    tokio::time::advance(Duration::from_mins(58)).await;
    world.client.cloudspace("sandbox").await.unwrap();
    assert_eq!(world.asked("POST", "/oauth/token"), 1);
    tokio::time::advance(Duration::from_secs(90)).await;
    world.client.cloudspace("sandbox").await.unwrap();
    assert_eq!(world.asked("POST", "/oauth/token"), 2);
    let refused = world
        .spot
        .with(|p| p.ledger().requests().filter(|r| r.code == 401).count());
    assert_eq!(refused, 0);
}

#[tokio::test(start_paused = true)]
async fn an_unexpected_401_leads_to_one_new_token_and_one_more_try() {
    let world = World::new();
    world.client.cloudspace("sandbox").await.unwrap();
    world.control(Control::EndTokens);
    world.client.cloudspace("sandbox").await.unwrap();
    assert_eq!(world.asked("POST", "/oauth/token"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_revoked_token_is_said_so_asked_for_rarely_and_used_again_once_restored() {
    let world = World::new();
    world.control(Control::RevokeToken);
    for _ in 0..5 {
        let error = world.client.cloudspace("sandbox").await.unwrap_err();
        assert!(matches!(error, SpotError::Credentials { .. }), "{error}");
        assert!(!error.to_string().contains("sandbox-refresh-token"), "{error}");
    }
    assert_eq!(world.asked("POST", "/oauth/token"), 1);
    world.control(Control::RestoreToken);
    tokio::time::advance(Duration::from_secs(31)).await;
    world.client.cloudspace("sandbox").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_organization_is_the_tokens_own_and_not_the_first_listed() {
    // architecture §7.9, rackspace-spot 7 row 33
    let world = World::new();
    assert_eq!(world.client.organizations().await.unwrap().len(), 2);
    assert_eq!(world.client.namespace().await.unwrap(), "org-knyiltp8zznvkz5g");
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured() {
    let world = World::new();
    world.client.cloudspace("sandbox").await.unwrap();
    world.fault("GET", "/cloudspaces/", 1, Fault::TooMany { retry_after: 17 });
    let started = Instant::now();
    world.client.cloudspace("sandbox").await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(17) && started.elapsed() < Duration::from_secs(18));
}

#[tokio::test(start_paused = true)]
async fn a_failing_read_is_tried_as_often_as_set_and_then_given_up() {
    let world = World::with(Setup {
        tries: 3,
        ..Setup::default()
    });
    world.client.cloudspace("sandbox").await.unwrap();
    world.fault("GET", "/cloudspaces/", 99, Fault::Error { code: 503 });
    let before = world.asked("GET", "/cloudspaces/");
    let error = world.client.cloudspace("sandbox").await.unwrap_err();
    assert!(matches!(error, SpotError::Unavailable { tries: 3, .. }), "{error}");
    assert_eq!(world.asked("GET", "/cloudspaces/") - before, 3);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_comes_is_given_up_and_asked_again() {
    let world = World::new();
    world.fault("GET", "/cloudspaces/", 1, Fault::LostBefore);
    let started = Instant::now();
    world.client.cloudspace("sandbox").await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_json_is_reported_and_not_believed() {
    let world = World::new();
    world.fault("GET", "/cloudspaces/", 1, Fault::Garbage);
    let error = world.client.cloudspace("sandbox").await.unwrap_err();
    assert!(matches!(error, SpotError::BadAnswer { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_object_is_not_found() {
    let world = World::new();
    assert!(matches!(
        world.client.cloudspace("nowhere").await.unwrap_err(),
        SpotError::NotFound { .. }
    ));
    let pool = world
        .client
        .pool(PoolKind::Spot, "7f3b0c52-4c1e-4f0e-9a55-0d2f6a1b9c11")
        .await;
    assert!(matches!(pool.unwrap_err(), SpotError::NotFound { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_rate_limited_platform_is_served_within_its_limit() {
    let mut options = Options::default();
    options.faults.rate_limit = Some(5);
    let world = World::with(Setup {
        options,
        tries: 20,
        ..Setup::default()
    });
    let calls = (0..40).map(|_| world.client.cloudspace("sandbox"));
    for answer in futures::future::join_all(calls).await {
        answer.unwrap();
    }
}

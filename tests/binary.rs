//! The executable as a user meets it: exit codes, ports, logs, signals (surface §6.4, §8; architecture §7.18). Real time, loopback only.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code; clippy's own exemption knows only functions marked as tests"
)]

#[path = "binary/process.rs"]
mod process;
#[path = "binary/scrape.rs"]
mod scrape;

use process::{Operator, api_server, finished};
use std::time::Duration;
use tokio::time::Instant;

const TOKEN: &str = "a-token-that-nobody-may-see";

// surface §6.4
#[test]
fn help_goes_to_stderr_and_ends_with_zero() {
    let ended = finished(&["--help"], &[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));
    assert!(
        ended.stderr.contains("--batch-idle-duration") && ended.stderr.contains("SPOT_CLOUDSPACE_NAME"),
        "{}",
        ended.stderr
    );
}

// surface §6.4
#[test]
fn a_bad_setting_is_named_on_stderr_and_ends_with_two() {
    let set = [("SPOT_CLOUDSPACE_NAME", "x"), ("SPOT_REFRESH_TOKEN", TOKEN)];
    let ended = finished(&["--log-level=warn"], &set);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert_eq!(
        ended.stderr,
        "validating cli flags / env vars, invalid LOG_LEVEL \"warn\"\n"
    );
    let ended = finished(&["--kubeconfig=/x"], &set);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("--kubeconfig"), "{}", ended.stderr);
    let ended = finished(&[], &set[1..]);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.stderr.contains("SPOT_CLOUDSPACE_NAME is not set"),
        "{}",
        ended.stderr
    );
}

// surface §6.4
#[test]
fn without_any_cluster_configuration_it_ends_with_one() {
    let set = [
        ("SPOT_CLOUDSPACE_NAME", "x"),
        ("SPOT_REFRESH_TOKEN", TOKEN),
        ("HOME", "/nowhere"),
    ];
    let ended = finished(&[], &set);
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    let line: serde_json::Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&line["level"], &line["message"]),
        (&"ERROR".into(), &"unable to get kubeconfig".into())
    );
}

// surface §6.4
#[test]
fn an_api_server_that_is_not_there_ends_it_with_two() {
    let folder = process::folder();
    let kubeconfig = process::kubeconfig(&folder, "http://127.0.0.1:1");
    let set = [
        ("SPOT_CLOUDSPACE_NAME", "x"),
        ("SPOT_REFRESH_TOKEN", TOKEN),
        ("DISABLE_LEADER_ELECTION", "true"),
        ("KUBECONFIG", kubeconfig.as_str()),
    ];
    let ended = finished(&[], &set);
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("the Kubernetes API does not answer"),
        "{}",
        ended.stdout
    );
}

// surface §6.4
#[test]
fn without_a_namespace_for_the_lease_it_ends_with_two_and_says_what_to_set() {
    let folder = process::folder();
    let kubeconfig = process::kubeconfig(&folder, "http://127.0.0.1:1");
    let set = [
        ("SPOT_CLOUDSPACE_NAME", "x"),
        ("SPOT_REFRESH_TOKEN", TOKEN),
        ("KUBECONFIG", kubeconfig.as_str()),
    ];
    let ended = finished(&[], &set);
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    for words in [
        "unable to find leader election namespace",
        "LEADER_ELECTION_NAMESPACE",
        "DISABLE_LEADER_ELECTION",
    ] {
        assert!(ended.stdout.contains(words), "{}", ended.stdout);
    }
}

/// What the operator says and how it ends when it starts with this token for that cloudspace.
async fn first_login(token: &str, cloudspace: &str) -> process::Ended {
    first_login_at(process::platform(TOKEN).await, token, cloudspace).await
}

/// The same at this platform.
async fn first_login_at(platform: [(&'static str, String); 3], token: &str, cloudspace: &str) -> process::Ended {
    let kubeconfig = process::kubeconfig(&process::folder(), &api_server().await);
    let mut set = vec![
        ("SPOT_CLOUDSPACE_NAME", cloudspace.to_owned()),
        ("SPOT_REFRESH_TOKEN", token.to_owned()),
        ("DISABLE_LEADER_ELECTION", "true".to_owned()),
        ("KUBECONFIG", kubeconfig),
    ];
    set.extend(platform);
    tokio::task::spawn_blocking(move || {
        let set: Vec<_> = set.iter().map(|(name, value)| (*name, value.as_str())).collect();
        finished(&["--metrics-port=0", "--health-probe-port=0"], &set)
    })
    .await
    .unwrap()
}

// surface §6.4
#[tokio::test]
async fn a_token_that_the_platform_does_not_accept_ends_the_start_with_two() {
    let ended = first_login("another-token-that-nobody-may-see", "sandbox").await;
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    assert!(
        ended
            .stdout
            .contains("authenticating to Rackspace Spot: the refresh token was not accepted (status 403)"),
        "{}",
        ended.stdout
    );
    assert!(!ended.stdout.contains("another-token"), "{}", ended.stdout);
}

// surface §6.4
#[tokio::test]
async fn a_cloudspace_that_does_not_exist_ends_the_start_with_two() {
    let ended = first_login(TOKEN, "nowhere").await;
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    let says = r#"cloudspace \"nowhere\" does not exist in the token's organization; SPOT_CLOUDSPACE_NAME names it"#;
    assert!(ended.stdout.contains(says), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("authenticated to Rackspace Spot"),
        "{}",
        ended.stdout
    );
}

// surface §6.4
#[tokio::test]
async fn a_cloudspace_without_a_region_ends_the_start_with_two() {
    let mut options = sandbox::spot::Options::default();
    options.account.refresh_token = TOKEN.to_owned();
    options.account.cloudspaces[0].region = String::new();
    let ended = first_login_at(process::platform_of(options).await, TOKEN, "sandbox").await;
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    assert!(
        ended.stdout.contains(r#"reading cloudspace \"sandbox\""#) && ended.stdout.contains("region"),
        "{}",
        ended.stdout
    );
}

// surface §6.1
#[tokio::test]
async fn profiles_are_served_only_where_they_are_wanted() {
    let api_server = api_server().await;
    for (more, expected) in [(&[][..], 404), (&["--enable-profiling"], 200)] {
        let operator = Operator::start_with(&api_server, TOKEN, more).await;
        let (status, text) = operator.get_profile("/debug/pprof/").await;
        assert_eq!(status, expected, "{more:?}: {text}");
        assert_eq!(operator.stop("-TERM").await.code, Some(0));
    }
}

#[tokio::test]
async fn it_serves_metrics_and_probes_and_stops_cleanly_at_sigterm() {
    let operator = Operator::start(&api_server().await, TOKEN).await;
    assert_eq!(operator.get_health("/healthz").await, (200, "ok".to_owned()));
    let metrics = operator.get_metrics().await;
    assert!(metrics.contains("karpenter_build_info{"), "{metrics}");
    assert!(metrics.contains("process_resident_memory_bytes "), "{metrics}");
    scrape::assert_is_as_upstream_shows_it(&metrics);
    let ended = operator.stop("-TERM").await;
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    for line in ended.stdout.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
        assert!(
            ["DEBUG", "INFO", "ERROR"].contains(&line["level"].as_str().unwrap()),
            "{line}"
        );
        assert!(line["message"].is_string() && line["logger"].is_string(), "{line}");
    }
    for written in [&ended.stdout, &ended.stderr, &metrics] {
        assert!(!written.contains(TOKEN), "the token is in what the operator wrote");
    }
}

#[tokio::test]
async fn sigint_stops_it_too() {
    let operator = Operator::start(&api_server().await, TOKEN).await;
    assert_eq!(operator.stop("-INT").await.code, Some(0));
}

fn platform_at(address: &str) -> [(&'static str, String); 3] {
    ["SPOT_BASE_URL", "SPOT_AUTH_URL", "NGPC_PRICE_DETAILS_URL"].map(|name| (name, address.to_owned()))
}

// architecture §7.18
#[tokio::test]
async fn sigterm_stops_it_while_the_api_server_does_not_answer() {
    let (api_server, asked) = process::silent_server().await;
    let operator = Operator::begin(&api_server, TOKEN, platform_at("http://127.0.0.1:1"));
    asked.await.unwrap();
    let started = Instant::now();
    let ended = operator.stop("-TERM").await;
    // without a handler it would die of the signal here, and as the first process of a container not at all
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

// surface §6.4
#[tokio::test]
async fn it_is_not_ready_while_the_platform_does_not_let_it_in_and_stops_all_the_same() {
    let (platform, asked) = process::silent_server().await;
    let mut operator = Operator::begin(&api_server().await, TOKEN, platform_at(&platform));
    operator.serves().await;
    asked.await.unwrap();
    let (status, report) = operator.get_health("/readyz/login").await;
    assert_eq!(status, 500, "{report}");
    assert!(report.contains("Rackspace Spot has not let us in yet"), "{report}");
    assert_eq!(operator.get_health("/healthz").await.0, 200);
    assert_eq!(operator.stop("-TERM").await.code, Some(0));

    let operator = Operator::start(&api_server().await, TOKEN).await;
    let started = Instant::now();
    while operator.get_health("/readyz/login").await.0 != 200 {
        assert!(started.elapsed() < Duration::from_secs(30), "it is never let in");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

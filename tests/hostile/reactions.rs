//! Each bad object and the words that its author sees, row by row in `tests/data/hostile/reactions/*.json`.
//!
//! A row: a name, the input, and what the reaction must contain. When one differs: words may change, but they must still name the place and what is
//! wanted there.

use super::corpus::folder;
use axum::Router;
use axum::body::Body;
use chrono::DateTime;
use karpenter::api::nodepool::DisruptionReason;
use karpenter::api::{NodePool, RackspaceSpotNodeClass, decode, validation};
use karpenter::clock::{SharedClock, TokioClock};
use karpenter::cloud::CloudError;
use karpenter::cloud::spot::nodeclasses::percentile_of;
use karpenter::cloud::spot::types::PoolKind;
use karpenter::cloud::spot::{AuthSettings, ClientSettings, RetrySettings, ServiceTransport, SpotClient, Tokens};
use karpenter::disruption::budgets;
use karpenter::operator::{Environment, Options};
use karpenter::pricing::PriceTable;
use karpenter::scheduling::validation::{joined, validate_pod};
use karpenter::scheduling::{Pod, Volumes, WellKnownLabels};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    input: Value,
    says: Vec<String>,
}

/// Holds each row's words against what `react` says; a reaction without words is none.
fn hold(table: &str, least: usize, react: impl Fn(&Value) -> Option<String>) {
    let path = folder().join("reactions").join(format!("{table}.json"));
    let rows: Vec<Row> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(rows.len() >= least, "{table} has lost rows");
    let mut wrong = Vec::new();
    for row in rows {
        let said = react(&row.input).unwrap_or_default();
        if row.says.is_empty() || !row.says.iter().all(|words| said.contains(words)) {
            wrong.push(format!("{}: wanted {:?}, heard {said:?}", row.name, row.says));
        }
    }
    assert!(wrong.is_empty(), "{table}:\n{}", wrong.join("\n"));
}

/// A text as it is, anything else as JSON.
fn bytes(input: &Value) -> Vec<u8> {
    input
        .as_str()
        .map_or_else(|| input.to_string(), str::to_owned)
        .into_bytes()
}

#[test]
fn node_pools() {
    let now = DateTime::from_timestamp(1_772_442_000, 0).unwrap();
    hold("nodepools", 20, |input| match decode::<NodePool>(input.clone()) {
        Err(error) => Some(error.to_string()),
        Ok(pool) => {
            let faults = validation::validate_nodepool(&pool).message();
            let budgets = budgets::allowed_for(&pool.spec.disruption.budgets, &DisruptionReason::Empty, 3, now);
            Some(faults + &budgets.err().map(|error| error.to_string()).unwrap_or_default())
        }
    });
}

#[test]
fn node_classes() {
    hold("nodeclasses", 5, |input| {
        match decode::<RackspaceSpotNodeClass>(input.clone()) {
            Err(error) => Some(error.to_string()),
            Ok(class) => percentile_of(&class.spec.bid_percentile).err(),
        }
    });
}

#[test]
fn pods() {
    hold("pods", 8, |input| {
        match decode::<k8s_openapi::api::core::v1::Pod>(input.clone()) {
            Err(error) => Some(error.to_string()),
            Ok(pod) => Some(joined(&validate_pod(
                &Pod::from_api(&pod),
                &Volumes::default(),
                &WellKnownLabels::default(),
            ))),
        }
    });
}

#[test]
fn feeds() {
    hold("feeds", 8, |input| {
        PriceTable::parse(&bytes(input))
            .err()
            .map(|problem| problem.to_string())
    });
}

#[test]
fn settings() {
    hold("settings", 12, |input| {
        let mut environment = Environment::from([("SPOT_CLOUDSPACE_NAME", "space"), ("SPOT_REFRESH_TOKEN", "token")]);
        let set = input.as_object().unwrap();
        for (name, value) in set {
            environment = environment.with(name, value.as_str().unwrap());
        }
        let error = Options::read([], &environment).err()?;
        assert_eq!(error.exit_code(), 2);
        Some(error.to_string())
    });
}

/// What a client says that hears this from the platform, and this from the token endpoint.
fn heard(tokens: &Value, answers: &Value) -> Option<String> {
    let (tokens, answers) = (bytes(tokens), bytes(answers));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async move {
        let router = Router::new()
            .route(
                "/oauth/token",
                axum::routing::post(move || std::future::ready(tokens.clone())),
            )
            .fallback(move || std::future::ready(answers.clone()));
        let transport = Arc::new(ServiceTransport::<_, Body>::new(router));
        let clock: SharedClock = Arc::new(TokioClock::starting_at(DateTime::UNIX_EPOCH));
        let retry = RetrySettings {
            tries: 2,
            ..RetrySettings::default()
        };
        let timeout = Duration::from_secs(5);
        let auth = AuthSettings {
            url: "http://spot.test".into(),
            client_id: "client".into(),
            refresh_token: Some(SecretString::from("very-secret")),
            access_token: None,
            timeout,
            retry,
        };
        let tokens = Tokens::new(transport.clone(), Arc::clone(&clock), auth, 1);
        let settings = ClientSettings {
            base_url: "http://spot.test".into(),
            request_timeout: timeout,
            retry,
            at_once: 4,
            per_second: 100,
            burst: 100,
        };
        let client = SpotClient::new(transport, tokens, clock, settings, 1);
        let mut said = Vec::new();
        said.extend(client.cloudspace("space").await.err());
        match client.pools(PoolKind::Spot).await {
            Err(error) => said.push(error),
            Ok(listed) => return Some(listed.unreadable.iter().map(|field| field.to_string() + "; ").collect()),
        }
        let words: Vec<String> = said
            .into_iter()
            .map(|error| CloudError::from(error).full_text())
            .collect();
        let words = words.join("; ");
        assert!(!words.contains("very-secret"), "{words}");
        Some(words)
    })
}

#[test]
fn tokens() {
    hold("tokens", 6, |input| heard(input, &Value::Null));
}

#[test]
fn answers() {
    // Good until 2099, of organization org_A.
    let token = serde_json::json!({ "id_token": "e30.eyJleHAiOjQxMDAwMDAwMDAsIm9yZ19pZCI6Im9yZ19BIn0.c2ln" });
    hold("answers", 6, |input| heard(&token, input));
}

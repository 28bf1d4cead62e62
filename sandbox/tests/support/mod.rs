//! What the tests of the simulated API server share.

#![allow(dead_code)] // each test file uses its own part of it

use karpenter::clock::TokioClock;
use sandbox::api::{ApiOptions, ApiServer};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;

/// A server on the paused clock, which shows 2026-01-01.
pub fn world() -> ApiServer {
    seeded(1)
}

pub fn seeded(seed: u64) -> ApiServer {
    with_options(seed, ApiOptions::default())
}

pub fn with_options(seed: u64, options: ApiOptions) -> ApiServer {
    let epoch = chrono::DateTime::parse_from_rfc3339("2026-01-01T00:00:00Z")
        .unwrap()
        .to_utc();
    ApiServer::new(Arc::new(TokioClock::starting_at(epoch)), seed, options)
}

/// A typed object from JSON.
pub fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A plain pod.
pub fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [
        {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m"}}}]}})
}

/// The code of an API error.
pub fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("not an API error: {other:?}"),
    }
}

/// The reason of an API error.
pub fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.reason.clone(),
        other => panic!("not an API error: {other:?}"),
    }
}

/// The message of an API error.
pub fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => panic!("not an API error: {other:?}"),
    }
}

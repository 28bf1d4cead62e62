//! What the tests of the simulated API server share.

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

/// Our own definitions as they are shipped.
pub fn install_crds(server: &ApiServer) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crds");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let definition: Value = serde_saphyr::from_str(&text).unwrap();
        server.handle().create(&definition).unwrap();
    }
}

/// A minimal NodePool.
pub fn node_pool(name: &str) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {"template": {"spec": {
        "nodeClassRef": {"group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default"},
        "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "Exists"}]}}}})
}

/// A client's view of NodePools.
pub fn node_pools(client: kube::Client) -> kube::Api<kube::core::DynamicObject> {
    let kind = kube::core::GroupVersionKind::gvk("karpenter.sh", "v1", "NodePool");
    kube::Api::all_with(client, &kube::core::ApiResource::from_gvk(&kind))
}

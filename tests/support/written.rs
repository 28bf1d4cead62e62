//! What the operator showed to anybody, kept in files for who looks for secrets in it (`tests/no-secrets`): its log, a scrape, all Events, and every object
//! whose status it writes.

use super::controlplane::eventually;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Kinds that it writes to, and the Events about them.
const SHOWN: [(&str, &str, &str); 7] = [
    ("", "v1", "Event"),
    ("", "v1", "Node"),
    ("", "v1", "Pod"),
    ("coordination.k8s.io", "v1", "Lease"),
    ("karpenter.sh", "v1", "NodePool"),
    ("karpenter.sh", "v1", "NodeClaim"),
    ("karpenter.rackspace.com", "v1", "RackspaceSpotNodeClass"),
];

/// The folder of this test binary.
pub fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("written")
        .join(env!("CARGO_CRATE_NAME"));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// An empty log of this name.
pub fn log(name: &str) -> PathBuf {
    let log = folder().join(format!("{name}.log"));
    std::fs::write(&log, "").unwrap();
    log
}

/// The text of a scrape of the operator that wrote this log last; it may be about to say where it serves, when it was just started again.
pub async fn scrape(log: &Path) -> String {
    let what = format!("a scrape of who writes {}", log.display());
    eventually(&what, Duration::from_mins(1), async || {
        let log = std::fs::read_to_string(log).unwrap();
        let serving = log.lines().rev().find(|line| line.contains("Serving metrics server"))?;
        let line: Value = serde_json::from_str(serving).ok()?;
        let port = line["bindAddress"].as_str()?.rsplit(':').next()?;
        let answer = reqwest::get(format!("http://127.0.0.1:{port}/metrics")).await.ok()?;
        answer.error_for_status().ok()?.text().await.ok()
    })
    .await
}

/// Keeps what a scrape, all Events and all objects with a status say now.
pub async fn keep(client: &Client, log: &Path, name: &str) {
    let mut kept = String::new();
    for (group, version, kind) in SHOWN {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let objects = Api::<DynamicObject>::all_with(client.clone(), &resource);
        for object in objects.list(&ListParams::default()).await.unwrap().items {
            kept.push_str(&serde_json::to_string(&object).unwrap());
            kept.push('\n');
        }
    }
    assert!(kept.contains("\"reason\":"), "no Event and no condition was shown");
    kept.push_str(&scrape(log).await);
    std::fs::write(folder().join(format!("{name}.shown.log")), kept).unwrap();
}

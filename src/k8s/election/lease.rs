//! The Lease at the API server, and the Events about it. One request per call, sent once.

use super::record::Record;
use crate::api::time;
use crate::k8s::client::ApiClient;
use chrono::{DateTime, Utc};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

/// Where the Lease is.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) client: ApiClient,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Place {
    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.kube(), &self.namespace)
    }

    /// The Lease, if there is one.
    pub(super) async fn get(&self) -> Result<Option<Lease>, kube::Error> {
        self.leases().get_opt(&self.name).await
    }

    /// Whether there is nothing yet that a leader could be at work on: neither pools of nodes nor claims, or not even their kinds. What cannot be
    /// asked is not nothing.
    pub(super) async fn has_nothing_to_lead(&self) -> bool {
        for kind in ["nodepools", "nodeclaims"] {
            let request = http::Request::get(format!("/apis/karpenter.sh/v1/{kind}?limit=1")).body(Vec::new());
            let Ok(request) = request else { return false };
            match self.client.kube().request::<Value>(request).await {
                Ok(list) if is_empty(&list) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Ok(_) | Err(_) => return false,
            }
        }
        true
    }

    /// Makes the Lease.
    pub(super) async fn create(&self, record: &Record) -> Result<Lease, kube::Error> {
        let mut lease = Lease::default();
        lease.metadata.name = Some(self.name.clone());
        lease.metadata.namespace = Some(self.namespace.clone());
        record.write(&mut lease);
        self.leases().create(&PostParams::default(), &lease).await
    }

    /// Writes the record into the Lease if nobody wrote it meanwhile: the version goes with it.
    pub(super) async fn update(&self, lease: &Lease, record: &Record) -> Result<Lease, kube::Error> {
        let mut lease = lease.clone();
        record.write(&mut lease);
        self.leases().replace(&self.name, &PostParams::default(), &lease).await
    }

    /// Tells who leads or does no longer (surface §4.2). An Event that does not get through is no reason to do anything.
    pub(super) async fn tell(&self, lease: &Lease, identity: &str, what: &str, now: DateTime<Utc>) {
        let event = self.event(lease, identity, what, now);
        let request = http::Request::post(format!("/api/v1/namespaces/{}/events", self.namespace))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(event.to_string().into_bytes());
        let Ok(request) = request else { return };
        if let Err(error) = self.client.kube().request::<Value>(request).await {
            tracing::debug!(%error, "event was not recorded");
        }
    }

    fn event(&self, lease: &Lease, identity: &str, what: &str, now: DateTime<Utc>) -> Value {
        let stamp = time::to_rfc3339(now);
        // whoever gives the lease back and whoever takes it may speak in the same instant
        let who = identity
            .bytes()
            .fold(0_i64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let unique = now.timestamp_nanos_opt().unwrap_or_default() ^ who;
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": { "name": format!("{}.{unique:x}", self.name), "namespace": self.namespace },
            "involvedObject": {
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "namespace": self.namespace, "name": self.name,
                "uid": lease.metadata.uid, "resourceVersion": lease.metadata.resource_version,
            },
            "reason": "LeaderElection", "message": format!("{identity} {what}"), "type": "Normal",
            "source": { "component": identity }, "reportingComponent": identity, "reportingInstance": "",
            "firstTimestamp": stamp, "lastTimestamp": stamp, "count": 1,
        })
    }
}

fn is_empty(list: &Value) -> bool {
    list.get("items").and_then(Value::as_array).is_some_and(Vec::is_empty)
}

/// Whether the API server answered that somebody else was faster.
pub(super) fn is_beaten(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

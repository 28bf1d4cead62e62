//! Cloudspaces: what they show of servers, bids and builds, and the little of them that can be changed (rackspace-spot 3.4, §7 rows 13, 14, 34).

use super::answer::{Answer, Call, Subject};
use super::calls::list;
use super::platform::{Cloudspace, Platform};
use super::pool::{PoolKind, time};
use super::pools_api::{patched, text_at};
use super::server::Phase;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const WEBHOOK: &str = "vcloudspace.ngpc.rxt.io";

fn subject(name: &str) -> Subject<'_> {
    Subject {
        plural: "cloudspaces",
        kind: "CloudSpace",
        name,
    }
}

impl Platform {
    pub(super) fn route_cloudspaces(&mut self, call: &Call, name: Option<&str>) -> Answer {
        match (call.method.as_str(), name) {
            ("GET", None) => {
                let items: Vec<_> = self
                    .cloudspaces
                    .values()
                    .map(|space| self.cloudspace_json(space))
                    .collect();
                list("CloudSpace", self.version, &items)
            }
            ("GET", Some(name)) => self.get_cloudspace(name),
            ("PATCH", Some(name)) => self.patch_cloudspace(name, call),
            ("DELETE", Some(name)) => self.delete_cloudspace(name),
            ("POST", None) => Answer::failure(
                403,
                "Forbidden",
                "the sandbox creates no cloudspaces: name them in its options",
            ),
            _ => Answer::failure(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            ),
        }
    }

    fn get_cloudspace(&self, name: &str) -> Answer {
        self.cloudspaces.get(name).map_or_else(
            || subject(name).not_found(),
            |space| Answer::json(200, &self.cloudspace_json(space)),
        )
    }

    /// Only the webhook and the version may change (the operator needs the webhook alone).
    fn patch_cloudspace(&mut self, name: &str, call: &Call) -> Answer {
        let Some(space) = self.cloudspaces.get(name) else {
            return subject(name).not_found();
        };
        let old = self.cloudspace_json(space);
        let body = match patched(&old, call) {
            Ok(body) => body,
            Err(answer) => return answer,
        };
        if text_at(&body, "/metadata/resourceVersion") != space.version.to_string() {
            return subject(name).conflict();
        }
        let without_mutable = |object: &Value| {
            let mut spec = object.get("spec").cloned().unwrap_or_default();
            if let Some(spec) = spec.as_object_mut() {
                spec.remove("webhook");
                spec.remove("kubernetesVersion");
            }
            spec
        };
        if text_at(&body, "/spec/deploymentType") != "gen2" {
            return subject(name).invalid(&[super::answer::Cause {
                field: "spec.deploymentType".into(),
                reason: "FieldValueInvalid",
                message: "Invalid value: \"string\": update to the deploymentType not allowed".into(),
            }]);
        }
        let (before, after) = (without_mutable(&old), without_mutable(&body));
        // Unknown fields are dropped before the webhook sees the object.
        let moved = before
            .as_object()
            .into_iter()
            .flatten()
            .any(|(key, value)| after.get(key) != Some(value));
        if moved {
            let text = "only kubernetesVersion and webhook can be updated";
            return subject(name).denied(self.options.quirks.denial_code, WEBHOOK, text);
        }
        let webhook = text_at(&body, "/spec/webhook");
        let kubernetes_version = text_at(&body, "/spec/kubernetesVersion");
        let version = self.next_version();
        if let Some(space) = self.cloudspaces.get_mut(name) {
            space.seed.webhook = (!webhook.is_empty()).then_some(webhook);
            space.seed.kubernetes_version = kubernetes_version;
            space.version = version;
            space.generation += 1;
        }
        self.get_cloudspace(name)
    }

    /// Row 34: deletion is out of scope; the phase says so and nothing else happens.
    fn delete_cloudspace(&mut self, name: &str) -> Answer {
        let now = self.now;
        let Some(space) = self.cloudspaces.get_mut(name) else {
            return subject(name).not_found();
        };
        space.deleting.get_or_insert(now);
        let uid = space.uid.clone();
        self.next_version();
        subject(name).deleted(&uid)
    }

    /// The object as the API shows it.
    pub(super) fn cloudspace_json(&self, space: &Cloudspace) -> Value {
        let mut metadata = json!({
            "name": space.seed.name, "namespace": self.options.account.namespace(), "uid": space.uid,
            "resourceVersion": space.version.to_string(), "generation": space.generation,
            "creationTimestamp": time(space.created),
        });
        if let (Some(deleting), Some(metadata)) = (space.deleting, metadata.as_object_mut()) {
            metadata.insert("deletionTimestamp".into(), json!(time(deleting)));
        }
        let names = |kind: PoolKind| -> Vec<&String> {
            self.pools
                .values()
                .filter(|pool| pool.kind == kind && pool.spec.cloud_space == space.seed.name)
                .map(|pool| &pool.meta.name)
                .collect()
        };
        let mut spec = json!({
            "region": space.seed.region, "kubernetesVersion": space.seed.kubernetes_version, "cloud": "default",
            "deploymentType": "gen2", "cni": "calico", "HAControlPlane": false,
            "bidRequests": names(PoolKind::Spot), "onDemandRequests": names(PoolKind::OnDemand),
        });
        if let (Some(webhook), Some(spec)) = (&space.seed.webhook, spec.as_object_mut()) {
            spec.insert("webhook".into(), json!(webhook));
        }
        json!({"apiVersion": "ngpc.rxt.io/v1", "kind": "CloudSpace", "metadata": metadata, "spec": spec, "status": self.cloudspace_status(space)})
    }

    fn cloudspace_status(&self, space: &Cloudspace) -> Value {
        let ready = self
            .servers
            .values()
            .any(|s| s.cloudspace == space.seed.name && s.shows(self.now));
        json!({
            "phase": if space.deleting.is_some() { "Deleting" } else { "Ready" },
            "health": if ready { "Healthy" } else { "Unhealthy" },
            "reason": "", "APIServerEndpoint": format!("hcp-{}.spot.rackspace.com", space.uid),
            "currentKubernetesVersion": space.seed.kubernetes_version, "firstReadyTimestamp": time(space.created),
            "assignedServers": self.assigned_servers(space), "bids": self.bids(space),
            "pendingAllocations": self.pending_allocations(space),
        })
    }

    /// Rows 13 and 14.
    fn assigned_servers(&self, space: &Cloudspace) -> Map<String, Value> {
        self.servers
            .values()
            .filter(|server| server.cloudspace == space.seed.name && server.shows(self.now))
            .map(|server| {
                let state = if server.registered_at.is_some() {
                    "Ready"
                } else {
                    "Provisioning"
                };
                let entry = json!({
                    "IP": server.ip, "clusterRole": "worker", "error": "", "serverClassName": server.class,
                    "serverName": server.node_name, "serverType": server.pool.kind.server_type(), "state": state,
                });
                (server.key.clone(), entry)
            })
            .collect()
    }

    fn bids(&self, space: &Cloudspace) -> Map<String, Value> {
        self.pools
            .values()
            .filter(|pool| pool.spec.cloud_space == space.seed.name)
            .filter_map(|pool| {
                let bid = json!({"bidName": pool.meta.name, "type": pool.kind.server_type(), "wonCount": pool.won?});
                Some((pool.meta.name.clone(), bid))
            })
            .collect()
    }

    fn pending_allocations(&self, space: &Cloudspace) -> Map<String, Value> {
        let mut waiting: BTreeMap<&str, (u32, &super::server::Server)> = BTreeMap::new();
        for server in self
            .servers
            .values()
            .filter(|server| server.cloudspace == space.seed.name)
        {
            if matches!(server.phase, Phase::Queued | Phase::Building) && server.counts() {
                waiting.entry(&server.pool.name).or_insert((0, server)).0 += 1;
            }
        }
        waiting
            .into_values()
            .map(|(count, server)| {
                let request = json!({
                    "allocatedCount": 0, "count": count, "serverClassName": server.class,
                    "bidName": server.pool.name, "bidType": server.pool.kind.server_type(),
                });
                (server.internal_id.clone(), request)
            })
            .collect()
    }
}

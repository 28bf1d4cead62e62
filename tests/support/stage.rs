//! What a scenario may do and see, the same in both worlds.
//!
//! ```text
//! scenario(&mut impl Stage) ──┬─ simulated::Simulated   in-process world, paused clock, the operator as a task
//!                             └─ real::Real             etcd, kube-apiserver, kube-scheduler, kube-controller-manager, the operator's binary
//! ```
//!
//! Both give a client of the Kubernetes API and the same simulated platform; all verbs are built on these two, so that a difference in what a scenario sees
//! is a difference between the worlds. A scenario has a corner: its namespace, and the name that its NodePools begin with. What it sees and counts
//! is its corner, so that several can play on one control plane at the same time.

use super::picture::{Picture, condition, name};
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use sandbox::machines::MachineOptions;
use sandbox::spot::{Control, Delays, Distribution, Options, Spot};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Between two looks at the world.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// In what kind of world a scenario plays; those with the same setting may share one.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Names it.
    pub name: &'static str,
    /// Added to the operator's environment.
    pub operator: &'static [(&'static str, &'static str)],
    /// Changes the platform's options, which are those of [`quick`].
    pub platform: fn(&mut Options),
}

/// Nothing special.
pub const USUAL: Setting = Setting {
    name: "usual",
    operator: &[],
    platform: |_| {},
};

/// The platform with seconds where the real one takes minutes.
pub fn quick() -> Options {
    Options {
        delays: Delays {
            auction: 1.0,
            pending: 0.2,
            build: Distribution::Between(1.0, 2.0),
            join: Distribution::Between(0.5, 1.0),
            ready: Distribution::Between(1.0, 2.0),
            labels: Distribution::Between(0.0, 0.5),
            taints: 2.0,
            cloud_controller: 0.5,
            notice: 8.0,
            release: 1.0,
            node_deletion: Distribution::Between(2.0, 3.0),
            ..Delays::short()
        },
        ..Options::short()
    }
}

/// The machines that go with it.
pub fn quick_machines() -> MachineOptions {
    MachineOptions {
        pod_start_seconds: 0.5,
        pod_stop_seconds: Some(0.5),
        ..MachineOptions::default()
    }
}

/// The operator's environment but for the addresses.
pub fn environment(more: &[(&str, &str)]) -> Vec<(String, String)> {
    let usual = [
        ("LEADER_ELECTION_NAMESPACE", "default"),
        // whoever is started after a kill waits no longer than this
        ("LEADER_ELECTION_LEASE_DURATION", "5s"),
        // a node that was meant for a pod is spared for two batches and at least 10 s
        ("BATCH_MAX_DURATION", "5s"),
        ("SPOT_CLOUDSPACE_NAME", "sandbox"),
        ("SPOT_REFRESH_TOKEN", "sandbox-refresh-token"),
        ("LOG_LEVEL", "debug"),
    ];
    usual
        .iter()
        .chain(more)
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// A kind that scenarios write or look at.
fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// The API version of a kind.
fn version_of(kind: &str) -> &'static str {
    match kind {
        "NodePool" | "NodeClaim" => "karpenter.sh/v1",
        "RackspaceSpotNodeClass" => "karpenter.rackspace.com/v1",
        "Deployment" | "StatefulSet" | "DaemonSet" => "apps/v1",
        "PodDisruptionBudget" => "policy/v1",
        "VolumeAttachment" | "StorageClass" => "storage.k8s.io/v1",
        _ => "v1",
    }
}

fn is_cluster_wide(kind: &str) -> bool {
    matches!(
        kind,
        "NodePool"
            | "NodeClaim"
            | "RackspaceSpotNodeClass"
            | "Node"
            | "Namespace"
            | "PersistentVolume"
            | "VolumeAttachment"
            | "StorageClass"
    )
}

/// A world with an operator, seen from one corner of it.
pub trait Stage {
    /// A client of the administrator.
    fn client(&self) -> Client;

    /// The platform.
    fn spot(&self) -> &Spot;

    /// The namespace of this scenario, and what its NodePools are called or begin with.
    fn corner(&self) -> &str;

    /// How long anything may take.
    fn patience(&self) -> Duration;

    /// Ends the operator and starts another with this added to its environment.
    async fn restart_operator(&mut self, settings: &[(&str, &str)]);

    /// What else there is to tell when something did not happen.
    fn story(&self) -> String;

    /// The objects of a kind: all, or those of the corner's namespace.
    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let resource = resource(version_of(kind), kind);
        if is_cluster_wide(kind) {
            Api::all_with(self.client(), &resource)
        } else {
            Api::namespaced_with(self.client(), self.corner(), &resource)
        }
    }

    /// Applies an object, as `kubectl apply --server-side` would; a namespaced one goes to the corner.
    async fn apply(&self, object: &Value) {
        let text = |field: &str| object.pointer(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        assert_eq!(text("/apiVersion"), version_of(kind), "{kind}");
        let (api, by) = (self.api(kind), PatchParams::apply("scenario").force());
        if let Err(error) = api.patch(name, &by, &Patch::Apply(object)).await {
            panic!("applying {kind} {name}: {error}");
        }
    }

    /// Sets the number of replicas of a Deployment or StatefulSet.
    async fn scale(&self, kind: &str, name: &str, replicas: u32) {
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        let (api, by) = (self.api(kind), PatchParams::default());
        if let Err(error) = api.patch_scale(name, &by, &patch).await {
            panic!("scaling {kind} {name} to {replicas}: {error}");
        }
    }

    /// Changes fields of an object.
    async fn patch(&self, kind: &str, name: &str, fields: &Value) {
        let (api, by) = (self.api(kind), PatchParams::default());
        if let Err(error) = api.patch(name, &by, &Patch::Merge(fields)).await {
            panic!("changing {kind} {name}: {error}");
        }
    }

    /// Deletes an object.
    async fn delete(&self, kind: &str, name: &str) {
        if let Err(error) = self.api(kind).delete(name, &DeleteParams::default()).await {
            panic!("deleting {kind} {name}: {error}");
        }
    }

    /// The objects of a kind: all, or those of the corner's namespace.
    async fn objects(&self, kind: &str) -> Vec<Value> {
        // Any version will do: what is waited for comes again.
        let list = self.api(kind).list(&ListParams::default().match_any()).await;
        let list = list.unwrap_or_else(|error| panic!("listing {kind}: {error}"));
        list.items
            .into_iter()
            .map(|object| serde_json::to_value(object).unwrap())
            .collect()
    }

    /// How the corner looks now.
    async fn picture(&self) -> Picture {
        let pods = self.objects("Pod").await;
        let (nodes, claims) = (self.objects("Node").await, self.objects("NodeClaim").await);
        self.spot()
            .with(|platform| Picture::of(self.corner(), pods, nodes, claims, platform))
    }

    /// Waits until the corner looks so, and returns how it looks then.
    async fn until(&self, what: &str, condition: impl Fn(&Picture) -> bool) -> Picture {
        let started = Instant::now();
        loop {
            let picture = self.picture().await;
            if condition(&picture) {
                return picture;
            }
            if started.elapsed() >= self.patience() {
                let events = events(self.objects("Event").await);
                let (patience, story) = (self.patience(), self.story());
                panic!(
                    "{}: not within {patience:?}: {what}\n{picture}\nevents:\n{events}\n{story}",
                    self.corner()
                );
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the corner looks so, and fails as soon as it does not look as it has to all the while.
    async fn until_while(
        &self,
        what: &str,
        condition: impl Fn(&Picture) -> bool,
        always: &str,
        holds: impl Fn(&Picture) -> bool,
    ) -> Picture {
        self.until(what, |picture| {
            assert!(
                holds(picture),
                "{}: not so: {always}\n{picture}\n{}",
                self.corner(),
                self.story()
            );
            condition(picture)
        })
        .await
    }

    /// Waits until a PodDisruptionBudget allows so many disruptions.
    async fn until_budgeted(&self, budget: &str, disruptions: u64) {
        let started = Instant::now();
        loop {
            let all = self.objects("PodDisruptionBudget").await;
            let allowed = all.iter().find(|one| name(one) == budget);
            if allowed.is_some_and(|one| one["status"]["disruptionsAllowed"] == disruptions) {
                return;
            }
            assert!(
                started.elapsed() < self.patience(),
                "{budget} does not allow {disruptions}: {all:?}"
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Looks for so long, and fails as soon as the corner does not look so.
    async fn meanwhile(&self, what: &str, time: Duration, holds: impl Fn(&Picture) -> bool) {
        let started = Instant::now();
        while started.elapsed() < time {
            let picture = self.picture().await;
            assert!(
                holds(&picture),
                "{}: not so: {what}\n{picture}\n{}",
                self.corner(),
                self.story()
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Does something to the platform.
    fn control(&self, what: Control) {
        self.spot().with(|platform| platform.control(what));
    }

    /// Changes the platform's options; only in a world that no other scenario shares.
    fn set_platform(&self, change: impl FnOnce(&mut Options)) {
        self.spot().with(|platform| change(platform.options_mut()));
    }

    /// Waits until so many pods run, and no other is there.
    async fn running(&self, pods: usize) -> Picture {
        let what = format!("{pods} running pods");
        self.until(&what, |picture| {
            picture.pods.len() == pods && picture.running().count() == pods
        })
        .await
    }

    /// Waits until these NodePools are ready, so that a pass considers them all.
    async fn until_ready(&self, node_pools: &[&str]) {
        let started = Instant::now();
        loop {
            let all = self.objects("NodePool").await;
            let ready = |wanted: &&&str| {
                let is_it = |pool: &&Value| name(pool) == **wanted;
                all.iter()
                    .find(is_it)
                    .is_some_and(|pool| condition(pool, "Ready").0 == "True")
            };
            if node_pools.iter().filter(ready).count() == node_pools.len() {
                return;
            }
            assert!(
                started.elapsed() < self.patience(),
                "not ready: {node_pools:?}\n{}",
                self.story()
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until no claim, no node and no pool of the corner is left.
    async fn nothing_left(&self) -> Picture {
        self.until("nothing left", |picture| {
            picture.claims.is_empty() && picture.nodes.is_empty() && picture.pools.is_empty()
        })
        .await
    }
}

/// Events as lines.
fn events(mut events: Vec<Value>) -> String {
    events.sort_by_key(|event| event["lastTimestamp"].to_string());
    let line = |event: &Value| {
        let (about, reason) = (&event["involvedObject"], &event["reason"]);
        format!("  {} {} {reason}: {}", about["kind"], about["name"], event["message"])
    };
    events.iter().map(line).collect::<Vec<_>>().join("\n")
}

//! What a replica does until it leads, and how it begins (architecture §3.5).
//!
//! ```text
//! stand by ─▶ led ─▶ lists that began after that are in ─▶ everything appears to the queues ─▶ begun
//! ```
//!
//! A replica that keeps its caches warm (`DISABLE_CONTROLLER_WARMUP=false`) watches from the start and lists again when it leads what a purchase is
//! decided by: what its watches show may be a moment old, and a claim of that moment would be bought twice. The others begin to watch when they
//! lead. Run by the wiring; controllers wait for `begun`.

use crate::clock::SharedClock;
use crate::cloud::spot::SpotProvider;
use crate::cluster::{Kind, Source};
use crate::k8s::client::ApiClient;
use crate::k8s::cluster_task::ClusterHandle;
use crate::k8s::hub::HubHandle;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often a replica without watches looks whether our kinds are served.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// What a purchase is decided by.
const FRESH: [Kind; 4] = [Kind::NodeClaim, Kind::NodePool, Kind::Node, Kind::Pod];

/// Since when a replica watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watching {
    /// Since its start, and no other replica can have written before.
    Always,
    /// Since its start, while another replica may write.
    Warm,
    /// Since it leads.
    WhenLed,
}

/// The moments of a replica's life that others wait for.
#[derive(Debug, Clone, Default)]
pub(super) struct Moments {
    /// It leads.
    pub(super) led: CancellationToken,
    /// Its controllers may work.
    pub(super) begun: CancellationToken,
}

impl Moments {
    /// From when on the watches run.
    pub(super) fn watched_from(&self, watching: Watching) -> CancellationToken {
        if watching == Watching::WhenLed {
            return self.led.clone();
        }
        let now = CancellationToken::new();
        now.cancel();
        now
    }
}

/// Waits for a moment; false if the stop comes first.
pub(super) async fn until(moment: &CancellationToken, stop: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = stop.cancelled() => false,
        () = moment.cancelled() => true,
    }
}

/// The way from standing by to leading.
pub(super) struct StandBy {
    pub(super) watching: Watching,
    pub(super) moments: Moments,
    pub(super) hub: HubHandle,
    pub(super) cluster: ClusterHandle,
    pub(super) provider: Arc<SpotProvider>,
    pub(super) clock: SharedClock,
}

impl StandBy {
    /// Waits to lead, begins, and then for `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = self.begin() => {}
        }
        stop.cancelled().await;
    }

    async fn begin(&self) {
        self.moments.led.cancelled().await;
        if self.watching == Watching::Warm {
            self.hub.refresh(&FRESH.map(Source::of)).await;
        }
        // closed: the process ends, and nobody begins anything any more
        if self.cluster.completed().await.is_err() {
            return;
        }
        self.provider.takes_over(self.clock.now());
        if self.cluster.begin().await.is_ok() {
            self.moments.begun.cancel();
        }
    }
}

/// Looks whether our kinds are served, for the readiness of a replica that does not watch them yet; ends its looking when it leads.
pub(super) async fn look_for_kinds(
    client: ApiClient,
    served: Arc<AtomicBool>,
    led: CancellationToken,
    stop: CancellationToken,
) {
    let looking = async {
        while !led.is_cancelled() {
            served.store(are_served(&client).await, Ordering::Relaxed);
            tokio::select! {
                biased;
                () = led.cancelled() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => return,
        () = looking => {}
    }
    stop.cancelled().await;
}

async fn are_served(client: &ApiClient) -> bool {
    let Ok(request) = http::Request::get("/apis/karpenter.sh/v1").body(Vec::new()) else {
        return false;
    };
    let Ok(found) = client.kube().request::<Value>(request).await else {
        return false;
    };
    let resources = found.get("resources").and_then(Value::as_array);
    let names: Vec<&str> = resources
        .into_iter()
        .flatten()
        .filter_map(|resource| resource.get("name")?.as_str())
        .collect();
    ["nodepools", "nodeclaims"].iter().all(|name| names.contains(name))
}

//! How much memory the operator holds with 500 nodes and 15,000 pods (issue 3: below 64 MiB): the release binary as a process of its own, against
//! an API server and a platform in this process.
//!
//! `make bench` builds the binary, runs this, and shows what it found. `OPERATOR=FILE` names another binary. The memory is read when it has settled
//! after `/readyz`; the most it ever took is shown too, since lists are larger than what is kept of them. Then the metrics are scraped, and the
//! memory is read again when that has settled: what a scrape needs must not stay.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement that cannot be set up has nothing to say, and its result goes to stdout"
)]

#[path = "cluster/objects.rs"]
mod objects;

use karpenter::clock::{SharedClock, SystemClock};
use objects::{NODES, PODS};
use sandbox::api::{ApiOptions, ApiServer, Exposure, Garbage, Identity, NewNodes, kubeconfig};
use sandbox::spot::{Admin, Options, Spot, http_sender};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

const BUDGET_MIB: f64 = 64.0;
const TOKEN: &str = "resident";
/// How long the operator may take until it is ready.
const PATIENCE: Duration = Duration::from_mins(3);
/// After this long at rest, the allocator has given back what it does not need.
const SETTLED: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often the metrics are scraped.
const SCRAPES: usize = 10;

#[tokio::main]
async fn main() -> ExitCode {
    let stop = CancellationToken::new();
    let clock: SharedClock = Arc::new(SystemClock);
    let (server, platform) = serve(&clock, &stop).await;
    let mut operator = start(&server, &platform).await;
    wait_until_ready(&mut operator).await;
    let at_ready = resident(&operator, "VmRSS:");
    tokio::time::sleep(SETTLED).await;
    let (settled, most) = (resident(&operator, "VmRSS:"), resident(&operator, "VmHWM:"));
    let program = resident(&operator, "RssFile:");
    let scrapes = scrape(&operator).await;
    tokio::time::sleep(SETTLED).await;
    let scraped = resident(&operator, "VmRSS:");
    operator.child.kill().await.unwrap();
    stop.cancel();
    println!(
        "{NODES} nodes, {PODS} pods: {at_ready:.1} MiB when ready, {most:.1} MiB at most; at rest {program:.1} MiB are the program itself"
    );
    println!("{SCRAPES} scrapes: {scrapes}; {scraped:.1} MiB after them");
    println!("resident: {settled:.1} MiB (budget {BUDGET_MIB})");
    if settled.max(scraped) < BUDGET_MIB {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The API server with the cluster in it, and the platform; their addresses.
async fn serve(clock: &SharedClock, stop: &CancellationToken) -> (String, String) {
    // The pods' ReplicaSets are not there.
    let options = ApiOptions {
        garbage: Garbage::Kept,
        new_nodes: NewNodes::AsWritten,
        ..ApiOptions::default()
    };
    let api = ApiServer::new(Arc::clone(clock), 1, options);
    api.add_token(TOKEN, Identity::new("system:admin", &["system:masters"]));
    fill(&api);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let until = stop.clone().cancelled_owned();
    tokio::spawn(async move { api.serve(listener, Exposure::Loopback, until).await });

    let spot = Spot::new(Options::default(), Arc::clone(clock), Admin::Hidden);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let platform = format!("http://{}", listener.local_addr().unwrap());
    let router = spot.router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let until = stop.clone();
    tokio::spawn(async move { spot.run(http_sender(), until).await });
    (kubeconfig(address, TOKEN), platform)
}

fn fill(api: &ApiServer) {
    let handle = api.handle();
    for crd in karpenter::api::crd::all() {
        handle.create(&crd.manifest).unwrap();
    }
    for name in (0..objects::NAMESPACES).map(|number| format!("team-{number:02}")) {
        handle
            .create(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
            .unwrap();
    }
    let group = "karpenter.rackspace.com";
    let class = json!({ "apiVersion": format!("{group}/v1"), "kind": "RackspaceSpotNodeClass", "metadata": { "name": "default" }, "spec": {} });
    let pool = json!({ "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "default" },
        "spec": { "template": { "spec": { "requirements": [],
            "nodeClassRef": { "group": group, "kind": "RackspaceSpotNodeClass", "name": "default" } } } } });
    for object in [class, pool] {
        handle.create(&object).unwrap();
    }
    let with_status = |mut object: Value| {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        let mut created = handle.create(&object).unwrap();
        created["status"] = object["status"].clone();
        handle.update_status(&created).unwrap();
    };
    (0..NODES).map(objects::node).for_each(with_status);
    (0..PODS).map(objects::pod).for_each(with_status);
}

/// The operator, and where its probes and metrics are.
struct Operator {
    child: Child,
    health: u16,
    metrics: u16,
}

/// What the scrapes were like.
struct Scrapes {
    bytes: u32,
    /// From the first to the last byte of each, sorted.
    took: Vec<Duration>,
}

impl std::fmt::Display for Scrapes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let millis = |place: usize| self.took[place].as_secs_f64() * 1e3;
        write!(
            f,
            "{:.1} MB, {:.0} ms at the median, {:.0} ms at most",
            f64::from(self.bytes) / 1e6,
            millis(self.took.len() / 2),
            millis(self.took.len() - 1)
        )
    }
}

/// Scrapes as often as it is said, and makes sure that every pod is in the text.
async fn scrape(operator: &Operator) -> Scrapes {
    let address = format!("http://127.0.0.1:{}/metrics", operator.metrics);
    let (mut bytes, mut took) = (0, Vec::new());
    for _ in 0..SCRAPES {
        let began = tokio::time::Instant::now();
        let text = reqwest::get(&address).await.unwrap().text().await.unwrap();
        took.push(began.elapsed());
        bytes = u32::try_from(text.len()).unwrap();
        assert_eq!(text.matches("karpenter_pods_state{").count(), PODS);
    }
    took.sort_unstable();
    Scrapes { bytes, took }
}

async fn start(kubeconfig: &str, platform: &str) -> Operator {
    let binary = std::env::var_os("OPERATOR").map_or_else(
        || PathBuf::from("target/release/karpenter-provider-rackspace-spot"),
        PathBuf::from,
    );
    let folder = std::env::temp_dir().join(format!("resident-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("kubeconfig");
    std::fs::write(&file, kubeconfig).unwrap();
    let (health, metrics) = (free_port().await, free_port().await);
    let feed = format!("{platform}/percentiles.json");
    let child = Command::new(&binary)
        .args([
            format!("--metrics-port={metrics}"),
            format!("--health-probe-port={health}"),
        ])
        .env_clear()
        .env("KUBECONFIG", &file)
        .envs([
            ("SPOT_CLOUDSPACE_NAME", "sandbox"),
            ("DISABLE_LEADER_ELECTION", "true"),
            ("SPOT_REFRESH_TOKEN", "sandbox-refresh-token"),
            ("SPOT_BASE_URL", platform),
            ("SPOT_AUTH_URL", platform),
            ("NGPC_PRICE_DETAILS_URL", &feed),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn();
    let child = child.unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
    Operator { child, health, metrics }
}

/// A port that was free a moment ago.
async fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().port()
}

async fn wait_until_ready(operator: &mut Operator) {
    let address = format!("http://127.0.0.1:{}/readyz", operator.health);
    let ready = async {
        loop {
            if let Some(ended) = operator.child.try_wait().unwrap() {
                panic!("the operator ended: {ended}");
            }
            if reqwest::get(&address)
                .await
                .is_ok_and(|answer| answer.status().is_success())
            {
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let ready = tokio::time::timeout(PATIENCE, ready).await;
    ready.unwrap_or_else(|_| panic!("the operator was not ready within {PATIENCE:?}"));
}

/// A line of the operator's `/proc/…/status`, in MiB.
fn resident(operator: &Operator, line: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", operator.child.id().unwrap())).unwrap();
    let line = status.lines().find(|known| known.starts_with(line)).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024.0
}

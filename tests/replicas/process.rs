//! Operators as processes of their own, and signals to them.

use super::door::Doors;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::process::{Child, Command};

const BINARY: &str = env!("CARGO_BIN_EXE_karpenter-provider-rackspace-spot");

/// How replicas are started.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// `LEADER_ELECTION_LEASE_DURATION`.
    pub lease: &'static str,
    /// Whether caches are kept warm while another leads.
    pub warm: bool,
}

/// One operator.
pub struct Replica {
    pub doors: Doors,
    child: Child,
    log: PathBuf,
}

/// Where all that the operator writes is kept, for who looks for secrets in it.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("written")
        .join(env!("CARGO_CRATE_NAME"));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn kubeconfig(doors: &Doors, path: &Path) {
    let server = format!("http://{}", doors.kubernetes);
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": server } }], "users": [{ "name": "c", "user": {} }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "c" } }],
    });
    std::fs::write(path, text.to_string()).unwrap();
}

impl Replica {
    /// Starts an operator behind these doors.
    pub fn start(name: &str, doors: Doors, terms: Terms) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let file = |end: &str| folder().join(format!("{}-{number}-{name}.{end}", std::process::id()));
        kubeconfig(&doors, &file("kubeconfig"));
        let log = file("log");
        let written = std::fs::File::create(&log).unwrap();
        let platform = format!("http://{}", doors.spot);
        let child = Command::new(BINARY)
            .args(["--metrics-port=0", "--health-probe-port=0"])
            .env_clear()
            .envs([
                ("KUBECONFIG", file("kubeconfig").to_str().unwrap()),
                ("LEADER_ELECTION_NAMESPACE", "default"),
                ("LEADER_ELECTION_LEASE_DURATION", terms.lease),
                ("DISABLE_CONTROLLER_WARMUP", if terms.warm { "false" } else { "true" }),
                ("SPOT_CLOUDSPACE_NAME", "sandbox"),
                ("SPOT_REFRESH_TOKEN", "sandbox-refresh-token"),
                ("SPOT_BASE_URL", &platform),
                ("SPOT_AUTH_URL", &platform),
                ("NGPC_PRICE_DETAILS_URL", &format!("{platform}/percentiles.json")),
                // a node that was meant for a pod is spared for two batches and at least 10 s
                ("BATCH_MAX_DURATION", "5s"),
                ("LOG_LEVEL", "debug"),
            ])
            .stdin(Stdio::null())
            .stdout(written.try_clone().unwrap())
            .stderr(written)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { doors, child, log }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Ends it at once.
    pub async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Its exit code, when it ends by itself.
    pub async fn ended(&mut self) -> Option<i32> {
        self.child.wait().await.unwrap().code()
    }

    /// What it wrote.
    pub fn written(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

/// Sends a signal, such as `-STOP`.
pub fn signal(signal: &str, process: u32) {
    let sent = std::process::Command::new("kill")
        .args([signal, &process.to_string()])
        .status();
    assert!(sent.unwrap().success(), "kill {signal} {process}");
}

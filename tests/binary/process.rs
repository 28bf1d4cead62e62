//! The operator as a child process.

use axum::Router;
use axum::routing::get;
use karpenter::clock::SystemClock;
use sandbox::spot::{Admin, Spot};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

const BINARY: &str = env!("CARGO_BIN_EXE_karpenter-provider-rackspace-spot");
const PATIENCE: Duration = Duration::from_secs(30);

/// A process that ended.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Keeps what was written where `tests/no-secrets` looks for tokens.
    fn kept(self) -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("written").join("binary");
        std::fs::create_dir_all(&folder).unwrap();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let file = folder.join(format!("{}-{number}.log", std::process::id()));
        std::fs::write(file, format!("{}{}", self.stdout, self.stderr)).unwrap();
        self
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// Runs it to its end, with nothing in its environment but `set`.
pub fn finished(arguments: &[&str], set: &[(&str, &str)]) -> Ended {
    let mut command = std::process::Command::new(BINARY);
    command
        .args(arguments)
        .env_clear()
        .envs(set.iter().copied())
        .stdin(Stdio::null());
    Ended::from(command.output().unwrap()).kept()
}

/// A fresh folder that the system's temporary folder holds.
pub fn folder() -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let folder = std::env::temp_dir().join(format!(
        "binary-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    ));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes a kubeconfig for `server`.
pub fn kubeconfig(folder: &Path, server: &str) -> String {
    let path = folder.join("kubeconfig");
    let text = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "test", "cluster": { "server": server } }],
        "users": [{ "name": "test", "user": {} }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        "current-context": "test",
    });
    std::fs::write(&path, text.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// An API server that knows its version and nothing else.
pub async fn api_server() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let version = serde_json::json!({
        "major": "1", "minor": "33", "gitVersion": "v1.33.0", "gitCommit": "", "gitTreeState": "", "buildDate": "",
        "goVersion": "", "compiler": "", "platform": "",
    });
    let router = Router::new().route("/version", get(move || async move { axum::Json(version) }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

/// A server that takes every connection and never says a word; yields where it is, and a word when somebody came.
pub async fn silent_server() -> (String, tokio::sync::oneshot::Receiver<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (came, somebody) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let (mut came, mut held) = (Some(came), Vec::new());
        while let Ok((connection, _)) = listener.accept().await {
            held.push(connection);
            if let Some(came) = came.take() {
                let _ = came.send(());
            }
        }
    });
    (format!("http://{address}"), somebody)
}

/// A platform whose account has this refresh token; yields where it is, as settings.
pub async fn platform(refresh_token: &str) -> [(&'static str, String); 3] {
    let mut options = sandbox::spot::Options::default();
    options.account.refresh_token = refresh_token.to_owned();
    platform_of(options).await
}

/// The same with everything as it is told.
pub async fn platform_of(options: sandbox::spot::Options) -> [(&'static str, String); 3] {
    let spot = Spot::new(options, Arc::new(SystemClock), Admin::Hidden);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, spot.router()).await });
    [
        ("NGPC_PRICE_DETAILS_URL", format!("{base}/percentiles.json")),
        ("SPOT_BASE_URL", base.clone()),
        ("SPOT_AUTH_URL", base),
    ]
}

/// A running operator.
pub struct Operator {
    child: Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    seen: String,
    metrics: u16,
    health: u16,
}

impl Operator {
    /// Starts it on a platform that accepts its refresh token, and waits until it serves.
    pub async fn start(api_server: &str, refresh_token: &str) -> Self {
        Self::start_with(api_server, refresh_token, &[]).await
    }

    /// The same with more arguments.
    pub async fn start_with(api_server: &str, refresh_token: &str, more: &[&str]) -> Self {
        let mut operator = Self::begin_with(api_server, refresh_token, platform(refresh_token).await, more);
        operator.serves().await;
        operator
    }

    /// Starts it, and waits for nothing.
    pub fn begin(api_server: &str, refresh_token: &str, platform: [(&'static str, String); 3]) -> Self {
        Self::begin_with(api_server, refresh_token, platform, &[])
    }

    fn begin_with(api_server: &str, refresh_token: &str, platform: [(&'static str, String); 3], more: &[&str]) -> Self {
        let kubeconfig = kubeconfig(&folder(), api_server);
        let mut child = Command::new(BINARY)
            .args(["--metrics-port=0", "--health-probe-port=0"])
            .args(more)
            .env_clear()
            .envs([
                ("SPOT_CLOUDSPACE_NAME", "sandbox"),
                ("SPOT_REFRESH_TOKEN", refresh_token),
                ("DISABLE_LEADER_ELECTION", "true"),
                ("KUBECONFIG", kubeconfig.as_str()),
            ])
            .envs(platform)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            child,
            lines,
            seen: String::new(),
            metrics: 0,
            health: 0,
        }
    }

    /// Waits until it serves.
    pub async fn serves(&mut self) {
        self.metrics = self.port_of("Serving metrics server").await;
        self.health = self.port_of("Serving health probe server").await;
    }

    async fn port_of(&mut self, message: &str) -> u16 {
        loop {
            let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
            let line = line
                .unwrap_or_else(|_| panic!("no {message:?} in\n{}", self.seen))
                .unwrap();
            let line = line.unwrap_or_else(|| panic!("it ended before {message:?}:\n{}", self.seen));
            self.seen.push_str(&line);
            self.seen.push('\n');
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            if value["message"] == message {
                return value["bindAddress"]
                    .as_str()
                    .unwrap()
                    .rsplit(':')
                    .next()
                    .unwrap()
                    .parse()
                    .unwrap();
            }
        }
    }

    /// Status and text of a probe.
    pub async fn get_health(&self, path: &str) -> (u16, String) {
        fetch(self.health, path).await
    }

    /// The text of a scrape.
    pub async fn get_metrics(&self) -> String {
        let (status, text) = fetch(self.metrics, "/metrics").await;
        assert_eq!(status, 200, "{text}");
        text
    }

    /// Status and text of a profile.
    pub async fn get_profile(&self, path: &str) -> (u16, String) {
        fetch(self.metrics, path).await
    }

    /// Sends a signal and waits for the end.
    pub async fn stop(mut self, signal: &str) -> Ended {
        let pid = self.child.id().unwrap().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .await
                .unwrap()
                .success()
        );
        while let Some(line) = tokio::time::timeout(PATIENCE, self.lines.next_line())
            .await
            .unwrap()
            .unwrap()
        {
            self.seen.push_str(&line);
            self.seen.push('\n');
        }
        let output = tokio::time::timeout(PATIENCE, self.child.wait_with_output())
            .await
            .unwrap()
            .unwrap();
        let mut ended = Ended::from(output);
        ended.stdout = self.seen;
        ended.kept()
    }
}

async fn fetch(port: u16, path: &str) -> (u16, String) {
    let response = reqwest::get(format!("http://127.0.0.1:{port}{path}")).await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

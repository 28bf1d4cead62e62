//! A real Kubernetes control plane for one test binary or one test.
//!
//! Starts etcd, kube-apiserver, kube-scheduler and kube-controller-manager on free ports of 127.0.0.1, with data in a
//! temporary folder, and ends them by their ids: on drop, and through a guardian process when the test is killed or ends
//! without dropping (a control plane in a static). Relies on the programs that `tests/controlplane/build` made, or on
//! `KUBEBUILDER_ASSETS`; where they are missing, starting fails with a sentence that says what to do, and so does the test.
//!
//! There are no kubelets: a node is what a test (or the simulated machines) writes through the API.
//!
//! Two ways to have one:
//! - [`ControlPlane::shared`]: one per test binary. Tests in it run at the same time and keep apart by namespace, so it
//!   suits those that touch no cluster-wide objects, or only ones with names of their own.
//! - [`ControlPlane::start`] and [`ControlPlane::start_with`]: one for this test, about five seconds, about 500 MB.
//!
//! Logs of the four programs, and the audit log, stay in `target/tmp/control-plane/<test binary>/` until its next run.

mod access;
mod audit;
mod objects;
pub mod process;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::Client;
use tokio::sync::OnceCell;

use access::Access;
pub use audit::{AuditEvent, Use};
pub use objects::eventually;
use process::{Guardian, Process};

/// One of the four programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// The scheduler, which binds pods to nodes.
    Scheduler,
    /// The controllers: Deployment, ReplicaSet, StatefulSet, Job, garbage collection, node lifecycle and so on.
    ControllerManager,
}

impl Part {
    const ALL: [Self; 4] = [Self::Etcd, Self::ApiServer, Self::Scheduler, Self::ControllerManager];

    fn program(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::Scheduler => "kube-scheduler",
            Self::ControllerManager => "kube-controller-manager",
        }
    }
}

/// How a control plane differs from the usual one.
#[derive(Clone, Debug, Default)]
pub struct Options {
    flags: BTreeMap<Part, Vec<String>>,
    left_out: Vec<Part>,
}

impl Options {
    /// Adds a flag, written `--name=value`; given after the usual ones, so that it wins.
    pub fn flag(mut self, part: Part, flag: &str) -> Self {
        self.flags.entry(part).or_default().push(flag.to_owned());
        self
    }

    /// Leaves the scheduler or the controller manager out.
    pub fn without(mut self, part: Part) -> Self {
        self.left_out.push(part);
        self
    }
}

/// A running control plane; dropping it ends it.
pub struct ControlPlane {
    // The order is that of starting.
    processes: Vec<(Part, Process)>,
    guardian: Guardian,
    access: Access,
    data: PathBuf,
    logs: PathBuf,
}

static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
static STARTED: AtomicU32 = AtomicU32::new(0);

/// On a machine that is busy compiling the programs take their time.
const READY_WITHIN: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(50);

impl ControlPlane {
    /// The one control plane of this test binary, started by whoever asks first.
    pub async fn shared() -> &'static Self {
        SHARED.get_or_init(Self::start).await
    }

    /// Starts the usual control plane for this test alone.
    pub async fn start() -> Self {
        Self::start_with(Options::default()).await
    }

    /// Starts a control plane with changes to the usual one.
    pub async fn start_with(options: Options) -> Self {
        match Self::try_start(&options).await {
            Ok(started) => started,
            Err(error) => panic!("the real control plane did not start: {error:#}"),
        }
    }

    async fn try_start(options: &Options) -> Result<Self> {
        let programs = programs()?;
        // A free port may be taken by somebody else before the program binds it: then all of it is tried again.
        let mut attempt = 1;
        loop {
            match Self::start_once(&programs, options).await {
                Err(error) if attempt < 3 && format!("{error:#}").contains("address already in use") => attempt += 1,
                other => return other,
            }
        }
    }

    async fn start_once(programs: &Path, options: &Options) -> Result<Self> {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let (data, logs) = folders(number)?;
        let [etcd, peer, api] = process::free_ports()?;
        let mut plane = Self {
            processes: Vec::new(),
            guardian: Guardian::start(&data)?,
            access: Access::new(&data, api)?,
            data,
            logs,
        };
        plane.run(programs, Part::Etcd, plane.etcd_flags(etcd, peer), options)?;
        plane.run(programs, Part::ApiServer, plane.apiserver_flags(etcd, api)?, options)?;
        plane.wait_until_ready().await?;
        for part in [Part::Scheduler, Part::ControllerManager] {
            if !options.left_out.contains(&part) {
                plane.run(programs, part, plane.client_flags(part)?, options)?;
            }
        }
        Ok(plane)
    }

    fn run(&mut self, programs: &Path, part: Part, mut flags: Vec<String>, options: &Options) -> Result<()> {
        flags.extend(options.flags.get(&part).into_iter().flatten().cloned());
        let log = self.log(part);
        let process = Process::start(&programs.join(part.program()), flags, log, &mut self.guardian)?;
        self.processes.push((part, process));
        Ok(())
    }

    fn etcd_flags(&self, client: u16, peer: u16) -> Vec<String> {
        let client = format!("http://127.0.0.1:{client}");
        let peer = format!("http://127.0.0.1:{peer}");
        vec![
            format!("--data-dir={}", self.data.join("etcd").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            // The data lives as long as the test.
            "--unsafe-no-fsync=true".to_owned(),
            "--log-level=warn".to_owned(),
        ]
    }

    fn apiserver_flags(&self, etcd: u16, port: u16) -> Result<Vec<String>> {
        let key = self.access.service_account_key();
        let key = key.display();
        let policy = self.data.join("audit-policy.json");
        fs::write(&policy, audit::policy())?;
        Ok(vec![
            format!("--etcd-servers=http://127.0.0.1:{etcd}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            // Nothing in the cluster asks for the `kubernetes` Service; a documentation address needs no network interface.
            "--advertise-address=192.0.2.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--cert-dir={}", self.access.certificates().display()),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={key}"),
            format!("--service-account-signing-key-file={key}"),
            "--authorization-mode=RBAC".to_owned(),
            format!("--token-auth-file={}", self.access.token_file().display()),
            // No kubelet mounts a token, and with the plugin pods wait for their ServiceAccount.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--allow-privileged=true".to_owned(),
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", self.audit_log().display()),
            // Written before the answer: a test that has its answer finds the line.
            "--audit-log-mode=blocking-strict".to_owned(),
        ])
    }

    fn client_flags(&self, part: Part) -> Result<Vec<String>> {
        let kubeconfig = self.access.kubeconfig_of_part(part)?;
        let mut flags = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        if part == Part::ControllerManager {
            flags.extend([
                format!(
                    "--service-account-private-key-file={}",
                    self.access.service_account_key().display()
                ),
                // Addresses of nodes are the cloud's business. The node lifecycle controller stays: it takes the not-ready taint off.
                "--controllers=*,-node-ipam-controller".to_owned(),
                // With the default client limits creating 1,000 pods takes a minute.
                "--kube-api-qps=200".to_owned(),
                "--kube-api-burst=300".to_owned(),
            ]);
        }
        Ok(flags)
    }

    /// Waits for `/readyz` and for the namespace `default`, which the server creates a moment later.
    async fn wait_until_ready(&mut self) -> Result<()> {
        let ready = async {
            while !self.access.is_ready().await {
                for (part, process) in &mut self.processes {
                    if let Some(status) = process.exited()? {
                        bail!("{} ended with {status}:\n{}", part.program(), process.last_lines());
                    }
                }
                tokio::time::sleep(POLL).await;
            }
            Ok(())
        };
        match tokio::time::timeout(READY_WITHIN, ready).await {
            Ok(outcome) => outcome,
            Err(_) => bail!(
                "kube-apiserver was not ready after {} s; its log is {}",
                READY_WITHIN.as_secs(),
                self.log(Part::ApiServer).display()
            ),
        }
    }

    /// Ends one program at once, as a crash would; `resume` starts it again on the same data and port.
    pub fn kill(&mut self, part: Part) {
        let process = self.process(part);
        process.end();
        let id = process.id();
        self.guardian.forget(id);
    }

    /// Starts a program again that `kill` ended, and waits until the API answers.
    pub async fn resume(&mut self, part: Part) {
        let index = self
            .processes
            .iter()
            .position(|(running, _)| *running == part)
            .expect("a part that was started");
        self.processes[index]
            .1
            .start_again(&mut self.guardian)
            .expect("the program that ran before");
        self.wait_until_ready().await.expect("the API answers again");
    }

    fn process(&mut self, part: Part) -> &mut Process {
        let found = self.processes.iter_mut().find(|(running, _)| *running == part);
        &mut found.expect("a part that was started").1
    }

    /// The process id of a program, for a test that measures or disturbs it.
    pub fn process_id(&mut self, part: Part) -> u32 {
        self.process(part).id()
    }

    /// A client with all rights. It belongs to the runtime of the calling test: take a new one in each test.
    pub async fn client(&self) -> Client {
        self.access.client().await.expect("a client from the admin kubeconfig")
    }

    /// The server's address, `https://127.0.0.1:PORT`.
    pub fn server(&self) -> &str {
        self.access.server()
    }

    /// A kubeconfig with all rights, for programs.
    pub fn admin_kubeconfig(&self) -> &Path {
        self.access.admin_kubeconfig()
    }

    /// The log of a program.
    pub fn log(&self, part: Part) -> PathBuf {
        self.logs.join(format!("{}.log", part.program()))
    }

    fn audit_log(&self) -> PathBuf {
        self.logs.join("audit.log")
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        for (_, process) in self.processes.iter_mut().rev() {
            process.end();
        }
        self.guardian.dismiss();
        if let Err(error) = fs::remove_dir_all(&self.data) {
            eprintln!("control plane: {} is left over: {error}", self.data.display());
        }
    }
}

/// The folder with the programs, or the sentence that says how to get them.
fn programs() -> Result<PathBuf> {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/controlplane/build");
    // The script owns the rule where they are; it builds nothing here.
    let answer = Command::new(&build)
        .arg("--where")
        .output()
        .with_context(|| format!("{}", build.display()))?;
    if !answer.status.success() {
        bail!(
            "{} --where: {}",
            build.display(),
            String::from_utf8_lossy(&answer.stderr).trim()
        );
    }
    let folder = PathBuf::from(String::from_utf8(answer.stdout)?.trim_end());
    missing_from(&folder).map_or(Ok(folder), |what| Err(anyhow::Error::msg(what)))
}

/// What to tell the reader when the folder does not hold all four programs.
pub fn missing_from(folder: &Path) -> Option<String> {
    let missing = Part::ALL
        .map(Part::program)
        .into_iter()
        .filter(|name| !folder.join(name).is_file());
    let missing = missing.collect::<Vec<_>>().join(", ");
    (!missing.is_empty()).then(|| {
        format!(
            "no {missing} in {}: run `make control-plane` (needs Go 1.26 or newer), or set KUBEBUILDER_ASSETS to a folder with the programs",
            folder.display()
        )
    })
}

/// A data folder that is gone afterwards, and a log folder that stays until the next run of the same test binary.
fn folders(number: u32) -> Result<(PathBuf, PathBuf)> {
    let process = std::process::id();
    let data = std::env::temp_dir().join(format!("karpenter-control-plane-{process}-{number}"));
    let binary = std::env::current_exe()?;
    // cargo names it `cp_smoke-<hash>`
    let stem = binary
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default();
    let name = stem.rsplit_once('-').map_or(stem.as_str(), |(name, _)| name);
    let logs = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("control-plane")
        .join(name)
        .join(number.to_string());
    for folder in [&data, &logs] {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        }
        fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    }
    Ok((data, logs))
}

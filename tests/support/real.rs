//! A scenario's stage on the real control plane: the four programs, the simulated platform with its machines and storage, and the operator's own binary.
//!
//! A plant is all of that for one [`Setting`]. Scenarios of the same setting share one, each in its corner; it is started by whoever comes first and ends
//! with the test binary, through its guardians. It lives on a runtime of its own, since every test has its own and takes it down at its end.

use super::controlplane::ControlPlane;
use super::controlplane::process::{Guardian, Process, Surroundings};
use super::stage::{Setting, Stage, environment, quick, quick_machines};
use super::written;
use karpenter::clock::SystemClock;
use kube::Client;
use sandbox::commands::cloud::play;
use sandbox::csi::CsiOptions;
use sandbox::spot::{Admin, Spot};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

const BINARY: &str = env!("CARGO_BIN_EXE_karpenter-provider-rackspace-spot");
/// Where the chart is installed, and the lease is.
const NAMESPACE: &str = "karpenter";
/// Where all chance comes from.
const SEED: u64 = 7;

/// The plants of this test binary, by the names of their settings.
static PLANTS: Mutex<BTreeMap<&str, Arc<OnceCell<Arc<Plant>>>>> = Mutex::new(BTreeMap::new());
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
});

/// A control plane with platform and operator.
pub struct Plant {
    plane: ControlPlane,
    spot: Spot,
    /// Where the platform is served.
    base: String,
    /// As whom the operator works.
    account: String,
    /// How it reaches the control plane as that account.
    kubeconfig: PathBuf,
    settings: &'static [(&'static str, &'static str)],
    log: PathBuf,
    operator: Mutex<Option<Operator>>,
}

/// The operator's process, and who ends it with the test.
struct Operator {
    process: Process,
    guardian: Guardian,
}

impl Plant {
    /// The plant of a setting, started if need be.
    pub async fn of(setting: &Setting) -> Arc<Self> {
        let cell = Arc::clone(PLANTS.lock().unwrap().entry(setting.name).or_default());
        let setting = *setting;
        let started = cell.get_or_init(|| async move {
            let starting = tokio::task::spawn_blocking(move || RUNTIME.block_on(Self::start(&setting)));
            Arc::new(starting.await.unwrap())
        });
        Arc::clone(started.await)
    }

    async fn start(setting: &Setting) -> Self {
        let log = written::log(&format!("operator-{}", setting.name));
        let plane = ControlPlane::start().await;
        plane.apply_crds().await;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        plane.apply(&namespace.to_string(), NAMESPACE).await;
        let (account, kubeconfig) = rights_of_the_chart(&plane).await;
        let mut options = quick();
        options.seed = SEED;
        (setting.platform)(&mut options);
        let spot = Spot::new(options, Arc::new(SystemClock), Admin::Served);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let playing = Box::pin(play(
            spot.clone(),
            Some(plane.client().await),
            quick_machines(),
            CsiOptions::default(),
            listener,
            CancellationToken::new(),
        ));
        tokio::spawn(async move { playing.await.unwrap() });
        let plant = Self {
            plane,
            spot,
            base,
            account,
            kubeconfig,
            settings: setting.operator,
            log,
            operator: Mutex::new(None),
        };
        plant.start_operator(&[]);
        plant
    }

    /// Kills the operator that runs, if one does, and starts one with this added to its environment.
    fn start_operator(&self, more: &[(&str, &str)]) {
        let mut operator = self.operator.lock().unwrap();
        if let Some(Operator {
            mut process,
            mut guardian,
        }) = operator.take()
        {
            process.end();
            guardian.dismiss();
        }
        let addresses = [
            ("KUBECONFIG", self.kubeconfig.to_str().unwrap()),
            ("SPOT_BASE_URL", &self.base),
            ("SPOT_AUTH_URL", &self.base),
            ("NGPC_PRICE_DETAILS_URL", &format!("{}/percentiles.json", self.base)),
        ];
        let lease = [("LEADER_ELECTION_NAMESPACE", NAMESPACE)];
        let variables = [&addresses, &lease[..], self.settings, more].concat();
        // Its folder is nobody's: a guardian cleans one up besides ending processes.
        let folder = std::env::temp_dir().join(format!("karpenter-operator-{}", self.base.replace(['/', ':'], "-")));
        let mut guardian = Guardian::start(&folder).unwrap();
        let process = Process::start_in(
            Surroundings::Only(environment(&variables)),
            Path::new(BINARY),
            vec!["--metrics-port=0".to_owned(), "--health-probe-port=0".to_owned()],
            self.log.clone(),
            &mut guardian,
        );
        *operator = Some(Operator {
            process: process.unwrap(),
            guardian,
        });
    }

    /// The last lines that the operator wrote.
    fn last_lines(&self, count: usize) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines
            .get(lines.len().saturating_sub(count)..)
            .unwrap_or_default()
            .join("\n")
    }
}

/// Applies the chart's ServiceAccount and what it may do; the account's name, and its kubeconfig.
async fn rights_of_the_chart(plane: &ControlPlane) -> (String, PathBuf) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut helm = std::process::Command::new(root.join("tests/controlplane/helm"));
    helm.args(["template", "karpenter"]).arg(root.join("charts/karpenter"));
    helm.args(["--namespace", NAMESPACE, "--set"]);
    let rendered = helm
        .arg("spot.cloudspaceName=sandbox,spot.existingSecret=spot")
        .output()
        .unwrap();
    assert!(
        rendered.status.success(),
        "{}",
        String::from_utf8_lossy(&rendered.stderr)
    );
    let objects: Vec<Value> = serde_saphyr::from_multiple(&String::from_utf8(rendered.stdout).unwrap()).unwrap();
    let of_kind = |kinds: &[&str]| -> Vec<&Value> {
        let wanted = |object: &&Value| kinds.iter().any(|kind| object["kind"] == *kind);
        objects.iter().filter(wanted).collect()
    };
    for object in of_kind(&[
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    ]) {
        plane.apply(&object.to_string(), NAMESPACE).await;
    }
    let account = of_kind(&["ServiceAccount"])[0]["metadata"]["name"].as_str().unwrap();
    (account.to_owned(), plane.kubeconfig_for(NAMESPACE, account).await)
}

/// A corner of a plant.
pub struct Real {
    plant: Arc<Plant>,
    /// It belongs to the runtime of this test.
    client: Client,
    corner: String,
}

impl Real {
    /// A corner of the plant of this setting.
    pub async fn start(corner: &str, setting: &Setting) -> Self {
        let plant = Plant::of(setting).await;
        let stage = Self {
            client: plant.plane.client().await,
            plant,
            corner: corner.to_owned(),
        };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": corner}});
        stage.apply(&namespace).await;
        stage
    }

    /// After a scenario: the chart's rights sufficed for all that was done on this plant so far, and what the operator shows is kept.
    pub async fn assert_nothing_was_forbidden(&self) {
        written::keep(&self.client, &self.plant.log, &self.corner).await;
        let user = format!("system:serviceaccount:{NAMESPACE}:{}", self.plant.account);
        let used = self.plant.plane.has_asked(&user);
        assert!(used, "{user} asked for nothing: the operator works under another name");
        let refused = self.plant.plane.rights_refused_to(&user);
        let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
        assert!(refused.is_empty(), "forbidden: {}", refused.join(", "));
    }
}

impl Stage for Real {
    fn client(&self) -> Client {
        self.client.clone()
    }

    fn spot(&self) -> &Spot {
        &self.plant.spot
    }

    fn corner(&self) -> &str {
        &self.corner
    }

    fn patience(&self) -> Duration {
        Duration::from_mins(3)
    }

    async fn restart_operator(&mut self, settings: &[(&str, &str)]) {
        self.plant.start_operator(settings);
    }

    fn story(&self) -> String {
        format!("operator:\n{}", self.plant.last_lines(60))
    }
}

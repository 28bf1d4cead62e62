//! `sandbox demo`: the main job, watched. A world with short delays over loopback, the real operator as a process beside it, the samples
//! applied, a deployment scaled up and down again, and a line for everything that happens.
//!
//! Succeeds only if every pod was bound and at the end nothing is left that costs money.

use super::serve::{Serve, Served};
use super::timeline::{Scene, Summary, Timeline};
use crate::spot::Options;
use crate::world::{World, WorldOptions};
use anyhow::{Context, bail};
use clap::Args;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often the timeline looks.
const LOOK: Duration = Duration::from_millis(200);
/// The manifests that a newcomer applies.
const SAMPLES: [&str; 3] = [
    include_str!("../../../config/samples/nodeclass.yaml"),
    include_str!("../../../config/samples/nodepool.yaml"),
    include_str!("../../../config/samples/inflate.yaml"),
];
/// Empty nodes go at once: nobody wants to watch a minute of nothing.
const HASTE: &str = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: default}\n\
                     spec: {disruption: {consolidateAfter: 1s, budgets: [{nodes: '100%'}]}}\n";

/// Shows the main job: pods pending, a server won at auction, pods bound, and everything given back.
#[derive(Debug, Clone, Args)]
pub struct Demo {
    /// How many pods are wished for.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub pods: u32,
    /// Where all chance comes from.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Longest time for each half: until all are bound, until all is gone.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub patience: u64,
    /// Writes a JSON summary.
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// Stays up afterwards, for kubectl.
    #[arg(long)]
    pub keep: bool,
}

/// How the demonstration speaks to whoever watches.
pub type Say<'a> = &'a mut (dyn FnMut(&str) + Send);

impl Demo {
    /// The options of its world: the platform's delays are seconds.
    pub fn options() -> WorldOptions {
        let mut options = WorldOptions {
            spot: Options::short(),
            ..WorldOptions::default()
        };
        options.machines.pod_stop_seconds = Some(1.0);
        options
    }

    /// Runs it; `operator` is the command that starts the operator, told where the world is by its environment.
    ///
    /// # Errors
    /// The world or the operator did not start, not every pod was bound, or something was left.
    pub async fn run(self, operator: Vec<String>, say: Say<'_>, stop: CancellationToken) -> anyhow::Result<Summary> {
        let folder = std::env::temp_dir().join(format!("sandbox-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let serve = Serve {
            kubernetes: ([127, 0, 0, 1], 0).into(),
            cloud: ([127, 0, 0, 1], 0).into(),
            speed: None,
            seed: self.seed,
            options: None,
            write_kubeconfig: folder.join("kubeconfig"),
            allow_remote: false,
        };
        let (world, served, doors) = serve.start(Self::options()).await?;
        say(&format!("world    is up: KUBECONFIG={}", served.kubeconfig.display()));
        let mut serving = std::pin::pin!(doors.open(&world, stop));
        let showing = async {
            let mut process = start(&operator, &served)?;
            let outcome = self.show(&world, &mut *say).await;
            if outcome.is_ok() && self.keep {
                say("world    stays up with its operator until interrupted");
                std::future::pending::<()>().await;
            }
            // Whether it ended well is told by its log; here only that it does end.
            let _ = process.start_kill();
            let _ = process.wait().await;
            outcome
        };
        tokio::select! {
            biased;
            outcome = &mut serving => {
                outcome?;
                bail!("interrupted")
            }
            outcome = showing => outcome,
        }
    }

    async fn show(&self, world: &World, say: Say<'_>) -> anyhow::Result<Summary> {
        for manifest in SAMPLES.iter().chain([&HASTE]) {
            world.apply(manifest).await.context("applying the samples")?;
        }
        let mut timeline = Timeline::default();
        let wished = usize::try_from(self.pods).unwrap_or(usize::MAX);
        say(&format!("you      scale inflate to {}", self.pods));
        let asked = Instant::now();
        world.scale("deployment/inflate", self.pods).await?;
        let bound = self
            .watch(world, &mut timeline, &mut *say, |scene| scene.bound == wished)
            .await;
        let seconds = bound.then(|| asked.elapsed().as_secs_f64());
        say("you      scale inflate to 0");
        world.scale("deployment/inflate", 0).await?;
        let empty = |scene: &Scene| scene.bound == 0 && scene.claims.is_empty() && scene.pools.is_empty();
        let gone = self.watch(world, &mut timeline, &mut *say, empty).await;
        let summary = timeline.summary(world, seconds);
        if let Some(path) = &self.summary {
            let text = serde_json::to_string_pretty(&summary).context("writing down the summary")?;
            std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        if !bound {
            bail!(
                "not every pod was bound within {} s\n{}",
                self.patience,
                world.picture()
            );
        }
        if !gone {
            bail!(
                "not everything was given back within {} s\n{}",
                self.patience,
                world.picture()
            );
        }
        Ok(summary)
    }

    /// Tells what happens until something is so; false when patience ends first.
    async fn watch(&self, world: &World, timeline: &mut Timeline, say: Say<'_>, done: impl Fn(&Scene) -> bool) -> bool {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(self.patience) {
            let scene = Scene::of(world);
            let over = done(&scene);
            for line in timeline.take(scene) {
                say(&line);
            }
            if over {
                return true;
            }
            tokio::time::sleep(LOOK).await;
        }
        false
    }
}

fn start(operator: &[String], served: &Served) -> anyhow::Result<Child> {
    let (program, arguments) = operator.split_first().context("no operator to start")?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true);
    command.envs(served.variables());
    let quiet = [
        ("METRICS_PORT", "0"),
        ("HEALTH_PROBE_PORT", "0"),
        ("DISABLE_LEADER_ELECTION", "true"),
    ];
    command
        .envs(quiet)
        .spawn()
        .with_context(|| format!("starting {program}"))
}

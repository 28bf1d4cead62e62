//! The sandbox commands.

use clap::{Parser, Subcommand};
use karpenter::operator::{Environment, start};
use sandbox::commands::chaos::Chaos;
use sandbox::commands::cloud::Cloud;
use sandbox::commands::demo::Demo;
use sandbox::commands::serve::Serve;
use std::io::Write as _;
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;

/// A world is made of small objects that come and go; and the operator itself runs on this one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The simulated world: run the operator, or any Spot client, without an account.
#[derive(Debug, Parser)]
#[command(name = "sandbox", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The main job from pending pods to servers and back, with the operator, in about a minute.
    Demo(Demo),
    /// The whole world: a Kubernetes API and the Spot platform, for kubectl and the operator.
    Serve(Serve),
    /// Only the Spot API, the price feed and the machines; nodes join the Kubernetes API of a kubeconfig.
    Cloud(Cloud),
    /// Bad days by seed, on a paused clock: faults, kills, market spikes.
    Chaos(Chaos),
    /// The operator itself, as the demonstration starts it.
    #[command(hide = true)]
    Operator {
        /// Its flags.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let command = match Arguments::parse().command {
        // It has a runtime and a log of its own.
        Command::Operator { arguments } => return start(arguments, &Environment::of_process()),
        // Each seed has a runtime of its own, and a log only on request.
        Command::Chaos(chaos) => return told(chaos.run(&mut |line| say(line))),
        other => other,
    };
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let outcome = tokio::runtime::Runtime::new()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run(command)));
    told(outcome)
}

fn told(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "sandbox: {problem:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let on_signal = stop.clone();
    let signals = tokio::spawn(async move {
        wait_for_signal().await;
        on_signal.cancel();
    });
    match command {
        Command::Demo(demo) => {
            let program = std::env::current_exe()?.display().to_string();
            let summary = demo
                .run(vec![program, "operator".into()], &mut |line| say(line), stop)
                .await?;
            say(&serde_json::to_string_pretty(&summary)?);
        }
        Command::Serve(serve) => serve.run(|served| say(served.to_string().trim_end()), stop).await?,
        Command::Cloud(cloud) => {
            let tell = |address| {
                say(&format!(
                    "SPOT_BASE_URL=http://{address} SPOT_AUTH_URL=http://{address}"
                ));
            };
            Box::pin(cloud.run(tell, stop)).await?;
        }
        // Done before the runtime was made.
        Command::Operator { .. } | Command::Chaos(_) => {}
    }
    signals.abort();
    Ok(())
}

/// Writes a line at once; whoever started us may not read what we say.
fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Returns at the first interrupt or terminate.
async fn wait_for_signal() {
    let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) else {
        return drop(tokio::signal::ctrl_c().await);
    };
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

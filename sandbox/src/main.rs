//! The sandbox commands.

use clap::{Parser, Subcommand};
use sandbox::commands::cloud::Cloud;
use std::io::Write as _;
use tokio_util::sync::CancellationToken;

/// The simulated world: run the operator, or any Spot client, without an account.
#[derive(Debug, Parser)]
#[command(name = "sandbox", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Only the Spot API, the price feed and the machines; nodes join the Kubernetes API of a kubeconfig.
    Cloud(Cloud),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let stop = CancellationToken::new();
    let on_signal = stop.clone();
    let signals = tokio::spawn(async move {
        wait_for_signal().await;
        on_signal.cancel();
    });
    match Arguments::parse().command {
        Command::Cloud(cloud) => {
            let say = |address| {
                let line = format!("SPOT_BASE_URL=http://{address} SPOT_AUTH_URL=http://{address}\n");
                // Whoever started us may not read what we say.
                let _ = std::io::stdout()
                    .write_all(line.as_bytes())
                    .and_then(|()| std::io::stdout().flush());
            };
            cloud.run(say, stop).await?;
        }
    }
    signals.abort();
    Ok(())
}

/// Returns at the first interrupt or terminate.
async fn wait_for_signal() {
    let mut terminate = match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        Ok(terminate) => terminate,
        Err(_) => return drop(tokio::signal::ctrl_c().await),
    };
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

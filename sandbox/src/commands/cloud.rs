//! `sandbox cloud`: the Spot API, the price feed, the machines and the CSI driver, joining Nodes to the Kubernetes API that a kubeconfig names.
//!
//! Any Spot client can talk to it: `SPOT_BASE_URL` and `SPOT_AUTH_URL` both point at the address it listens on, and the price feed is there too.

use crate::csi::{Csi, CsiOptions};
use crate::machines::{Fleet, MachineOptions};
use crate::spot::{Admin, Options, Spot, http_sender};
use anyhow::{Context, bail};
use clap::Args;
use karpenter::clock::SystemClock;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Serves the simulated platform and plays its machines.
#[derive(Debug, Clone, Args)]
pub struct Cloud {
    /// The Kubernetes API that nodes join; without it, only the Spot API is served.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// How many times faster the platform's delays pass.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub speed: Option<u32>,
    /// Where all chance comes from.
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// JSON or YAML: `spot:`, `machines:` and `csi:`, each as far as it differs from the defaults.
    #[arg(long, value_name = "FILE")]
    pub options: Option<PathBuf>,
    /// Listen on other addresses than loopback; nothing authenticates the callers of `/_sandbox/`.
    #[arg(long)]
    pub allow_remote: bool,
}

/// What an options file holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct CloudOptions {
    /// The platform.
    pub spot: Options,
    /// The machines.
    pub machines: MachineOptions,
    /// The storage.
    pub csi: CsiOptions,
}

impl CloudOptions {
    /// Reads a file; YAML, of which JSON is a part.
    ///
    /// # Errors
    /// The file cannot be read, or holds something else.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_saphyr::from_str(&text).with_context(|| format!("{} is no options file", path.display()))
    }
}

impl Cloud {
    /// The options of the file and the flags together; flags win.
    ///
    /// # Errors
    /// The file is no options file.
    pub fn effective_options(&self) -> anyhow::Result<CloudOptions> {
        let mut options = self
            .options
            .as_deref()
            .map_or_else(|| Ok(CloudOptions::default()), CloudOptions::read)?;
        options.spot.speed = self.speed.unwrap_or(options.spot.speed);
        options.spot.seed = self.seed.unwrap_or(options.spot.seed);
        Ok(options)
    }

    /// Serves until told to stop; `ready` hears the address.
    ///
    /// # Errors
    /// The address is not allowed or taken, or the kubeconfig is of no use.
    pub async fn run(self, ready: impl FnOnce(SocketAddr), stop: CancellationToken) -> anyhow::Result<()> {
        if !self.listen.ip().is_loopback() && !self.allow_remote {
            bail!(
                "--listen {}: only loopback addresses, unless --allow-remote is given",
                self.listen
            );
        }
        let options = self.effective_options()?;
        let admin = if self.listen.ip().is_loopback() {
            Admin::Served
        } else {
            Admin::Hidden
        };
        let spot = Spot::new(options.spot, Arc::new(SystemClock), admin);
        let client = match &self.kubeconfig {
            Some(path) => Some(client(path).await?),
            None => None,
        };
        let listener = TcpListener::bind(self.listen)
            .await
            .with_context(|| format!("listening on {}", self.listen))?;
        ready(listener.local_addr().context("asking for the address")?);
        Box::pin(play(spot, client, options.machines, options.csi, listener, stop)).await
    }
}

/// Serves a platform, and plays its machines and its storage against a Kubernetes API, until told to stop.
///
/// # Errors
/// Serving failed.
pub async fn play(
    spot: Spot,
    client: Option<kube::Client>,
    machines: MachineOptions,
    csi: CsiOptions,
    listener: TcpListener,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let cluster = async {
        match client {
            Some(client) => {
                let csi = Csi::new(client.clone(), Arc::clone(spot.clock()), csi);
                let fleet = Fleet::new(spot.clone(), client, machines);
                tokio::join!(fleet.run(stop.child_token()), csi.run(stop.child_token()));
            }
            None => stop.cancelled().await,
        }
    };
    let served = axum::serve(listener, spot.router()).with_graceful_shutdown(stop.clone().cancelled_owned());
    let time = spot.run(http_sender(), stop.child_token());
    tokio::select! {
        biased;
        outcome = served.into_future() => outcome.context("serving")?,
        () = async { tokio::join!(cluster, time); } => {}
    }
    Ok(())
}

async fn client(path: &Path) -> anyhow::Result<kube::Client> {
    let kubeconfig = Kubeconfig::read_from(path).with_context(|| format!("reading {}", path.display()))?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("{} is no usable kubeconfig", path.display()))?;
    // The fleet retries itself; the client's own retries would replay creates.
    config.default_retry = false;
    kube::Client::try_from(config).context("building the Kubernetes client")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_options_file_may_name_only_what_differs_and_mistakes_are_told() {
        let text = "spot:\n  bidRules: seed\n  quirks:\n    speedBump: 6\nmachines:\n  podStartSeconds: 0.5\n";
        let options: CloudOptions = serde_saphyr::from_str(text).unwrap();
        assert_eq!(options.spot.bid_rules, crate::spot::BidRules::Seed);
        assert_eq!(options.spot.quirks.speed_bump, Some(6));
        assert!(serde_saphyr::from_str::<CloudOptions>("spot:\n  quirks:\n    speedbump: 6\n").is_err());
    }

    #[tokio::test]
    async fn it_refuses_to_listen_elsewhere_unless_told() {
        let cloud = Cloud {
            kubeconfig: None,
            listen: "0.0.0.0:0".parse().unwrap(),
            speed: None,
            seed: None,
            options: None,
            allow_remote: false,
        };
        let problem = Box::pin(cloud.run(|_| {}, CancellationToken::new())).await.unwrap_err();
        assert!(problem.to_string().contains("--allow-remote"), "{problem}");
    }
}

//! `sandbox serve`: the whole simulated world over loopback, in real time: for kubectl, for the real operator, for any Spot client.

use crate::api::{Exposure, Identity, kubeconfig};
use crate::spot::{Admin, http_sender};
use crate::world::{World, WorldOptions};
use anyhow::{Context, bail};
use clap::Args;
use karpenter::clock::SystemClock;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The bearer token of the administrator; it guards a simulated cluster on loopback, no secret.
const TOKEN: &str = "sandbox-admin";

/// Serves a simulated Kubernetes API and the Spot platform, with machines, controllers and a scheduler behind them.
#[derive(Debug, Clone, Args)]
pub struct Serve {
    /// Where the Kubernetes API listens; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub kubernetes: SocketAddr,
    /// Where the Spot API and the price feed listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub cloud: SocketAddr,
    /// How many times faster the platform's delays pass.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub speed: Option<u32>,
    /// Where all chance comes from.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// JSON or YAML: `spot:`, `machines:` and `workloads:`, each as far as it differs from the defaults.
    #[arg(long, value_name = "FILE")]
    pub options: Option<PathBuf>,
    /// Where the kubeconfig is written.
    #[arg(long, value_name = "FILE", default_value = "sandbox.kubeconfig")]
    pub write_kubeconfig: PathBuf,
    /// Listen on other addresses than loopback; nothing protects the simulated world.
    #[arg(long)]
    pub allow_remote: bool,
}

/// Where a served world is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The Kubernetes API.
    pub kubernetes: SocketAddr,
    /// The Spot API.
    pub cloud: SocketAddr,
    /// The kubeconfig that was written.
    pub kubeconfig: PathBuf,
    /// The refresh token that the platform accepts; simulated.
    pub refresh_token: String,
    /// The cloudspace whose nodes join.
    pub cloudspace: String,
}

impl Served {
    /// The environment in which the operator, kubectl or any Spot client finds the world.
    pub fn variables(&self) -> [(&'static str, String); 6] {
        let cloud = format!("http://{}", self.cloud);
        [
            ("KUBECONFIG", self.kubeconfig.display().to_string()),
            ("SPOT_BASE_URL", cloud.clone()),
            ("SPOT_AUTH_URL", cloud.clone()),
            ("SPOT_REFRESH_TOKEN", self.refresh_token.clone()),
            ("SPOT_CLOUDSPACE_NAME", self.cloudspace.clone()),
            ("NGPC_PRICE_DETAILS_URL", format!("{cloud}/percentiles.json")),
        ]
    }
}

impl fmt::Display for Served {
    /// One `NAME=value` a line, for a shell to read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.variables()
            .iter()
            .try_for_each(|(name, value)| writeln!(f, "{name}={value}"))
    }
}

/// Reads an options file; YAML, of which JSON is a part.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub fn read_options(path: &Path) -> anyhow::Result<WorldOptions> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("{} is no options file", path.display()))
}

/// Refuses what other machines could reach, unless told.
fn check(address: SocketAddr, allow_remote: bool) -> anyhow::Result<()> {
    if !address.ip().is_loopback() && !allow_remote {
        bail!("{address}: only loopback addresses, unless --allow-remote is given");
    }
    Ok(())
}

async fn listen(address: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("listening on {address}"))?;
    let address = listener.local_addr().context("asking for the address")?;
    Ok((listener, address))
}

/// The sockets of a world, open but not answered yet.
#[derive(Debug)]
pub struct Doors {
    kubernetes: TcpListener,
    cloud: TcpListener,
    exposure: Exposure,
}

impl Doors {
    /// Serves a world until told to stop.
    ///
    /// # Errors
    /// A listener broke.
    pub async fn open(self, world: &World, stop: CancellationToken) -> anyhow::Result<()> {
        let kubernetes = world
            .api()
            .serve(self.kubernetes, self.exposure, stop.clone().cancelled_owned());
        let cloud = axum::serve(self.cloud, world.spot_router()).with_graceful_shutdown(stop.clone().cancelled_owned());
        tokio::select! {
            biased;
            // Open watches would hold a graceful end back; who is told to stop, stops.
            () = stop.cancelled() => Ok(()),
            outcome = kubernetes => outcome.context("serving the Kubernetes API"),
            outcome = cloud.into_future() => outcome.context("serving the Spot API"),
        }
    }
}

impl Serve {
    /// Serves until told to stop; `ready` hears where.
    ///
    /// # Errors
    /// An address is not allowed or taken, the options are of no use, or the kubeconfig cannot be written.
    pub async fn run(self, ready: impl FnOnce(&Served), stop: CancellationToken) -> anyhow::Result<()> {
        let options = self
            .options
            .as_deref()
            .map_or_else(|| Ok(WorldOptions::default()), read_options)?;
        let (world, served, doors) = self.start(options).await?;
        ready(&served);
        doors.open(&world, stop).await
    }

    /// Starts the world and takes its addresses.
    ///
    /// # Errors
    /// An address is not allowed or taken, or the kubeconfig cannot be written.
    pub async fn start(self, mut options: WorldOptions) -> anyhow::Result<(World, Served, Doors)> {
        check(self.kubernetes, self.allow_remote)?;
        check(self.cloud, self.allow_remote)?;
        options.spot.speed = self.speed.unwrap_or(options.spot.speed);
        let (refresh_token, cloudspace) = account(&options);
        let (kubernetes, kubernetes_address) = listen(self.kubernetes).await?;
        let (cloud, cloud_address) = listen(self.cloud).await?;
        let admin = if self.cloud.ip().is_loopback() {
            Admin::Served
        } else {
            Admin::Hidden
        };
        let builder = World::builder(self.seed)
            .options(options)
            .clock(Arc::new(SystemClock))
            .admin(admin);
        let world = builder
            .webhook(http_sender())
            .start()
            .await
            .context("starting the world")?;
        world.api().add_token(TOKEN, Identity::admin());
        std::fs::write(&self.write_kubeconfig, kubeconfig(kubernetes_address, TOKEN))
            .with_context(|| format!("writing {}", self.write_kubeconfig.display()))?;
        let served = Served {
            kubernetes: kubernetes_address,
            cloud: cloud_address,
            kubeconfig: std::path::absolute(&self.write_kubeconfig).unwrap_or_else(|_| self.write_kubeconfig.clone()),
            refresh_token,
            cloudspace,
        };
        let exposure = if self.allow_remote {
            Exposure::Anywhere
        } else {
            Exposure::Loopback
        };
        Ok((
            world,
            served,
            Doors {
                kubernetes,
                cloud,
                exposure,
            },
        ))
    }
}

fn account(options: &WorldOptions) -> (String, String) {
    let account = &options.spot.account;
    let cloudspace = account
        .cloudspaces
        .first()
        .map(|space| space.name.clone())
        .unwrap_or_default();
    (account.refresh_token.clone(), cloudspace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(address: &str) -> Serve {
        Serve {
            kubernetes: address.parse().unwrap(),
            cloud: "127.0.0.1:0".parse().unwrap(),
            speed: None,
            seed: 1,
            options: None,
            write_kubeconfig: "never-written".into(),
            allow_remote: false,
        }
    }

    #[tokio::test]
    async fn it_refuses_to_listen_elsewhere_unless_told() {
        let problem = serve("0.0.0.0:0")
            .run(|_| {}, CancellationToken::new())
            .await
            .unwrap_err();
        assert!(problem.to_string().contains("--allow-remote"), "{problem}");
    }

    #[test]
    fn a_shell_can_read_where_the_world_is() {
        let served = Served {
            kubernetes: "127.0.0.1:1".parse().unwrap(),
            cloud: "127.0.0.1:2".parse().unwrap(),
            kubeconfig: "/k".into(),
            refresh_token: "t".into(),
            cloudspace: "c".into(),
        };
        let expected = "KUBECONFIG=/k\nSPOT_BASE_URL=http://127.0.0.1:2\nSPOT_AUTH_URL=http://127.0.0.1:2\nSPOT_REFRESH_TOKEN=t\nSPOT_CLOUDSPACE_NAME=c\nNGPC_PRICE_DETAILS_URL=http://127.0.0.1:2/percentiles.json\n";
        assert_eq!(served.to_string(), expected);
    }
}

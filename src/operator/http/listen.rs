//! Where the servers listen, and how they stop.

use super::doorman::{Bounds, Doorman};
use axum::Router;
use std::future::Future;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Where one server listens.
#[derive(Debug)]
pub enum Listen {
    /// Nowhere: no socket is opened.
    Off,
    /// On all addresses of the machine; port 0 takes a free one.
    Port(u16),
    /// On this address; port 0 takes a free one.
    At(SocketAddr),
    /// Nowhere, but the routes are handed out: whoever simulates asks them without a socket.
    Inside(Arc<OnceLock<Router>>),
    /// On a socket that is bound already, so that its owner knows the port.
    Bound(std::net::TcpListener),
}

/// Where the operator's servers listen.
#[derive(Debug)]
pub struct Listeners {
    /// The metrics.
    pub metrics: Listen,
    /// The health probes.
    pub health: Listen,
}

impl Listeners {
    /// No socket at all.
    pub fn off() -> Self {
        Self {
            metrics: Listen::Off,
            health: Listen::Off,
        }
    }
}

/// A server that cannot listen: a start-up failure.
#[derive(Debug, thiserror::Error)]
#[error("listening for {server}")]
pub struct ListenError {
    /// Which server.
    pub server: &'static str,
    /// What the system said.
    #[source]
    pub source: std::io::Error,
}

impl Listen {
    /// Opens the socket, says where, and returns the server to run, if there is one.
    pub async fn serve(
        self,
        server: &'static str,
        router: Router,
        stop: CancellationToken,
    ) -> Result<Option<impl Future<Output = ()> + Send + 'static>, ListenError> {
        if let Self::Inside(routes) = &self {
            // The first server keeps its place: two with one slot is a mistake of the simulation, seen by what it answers.
            let _ = routes.set(router.clone());
        }
        let listener = self.open().await.map_err(|source| ListenError { server, source })?;
        let Some(listener) = listener else { return Ok(None) };
        let address = listener.local_addr().map_err(|source| ListenError { server, source })?;
        tracing::info!(bindAddress = %address, secure = false, "Serving {server} server");
        Ok(Some(async move {
            let ended = axum::serve(Doorman::new(listener, Bounds::default()), router)
                .with_graceful_shutdown(stop.cancelled_owned())
                .await;
            if let Err(error) = ended {
                tracing::error!(%error, "the {server} server ended");
            }
        }))
    }

    async fn open(self) -> std::io::Result<Option<TcpListener>> {
        match self {
            Self::Off | Self::Inside(_) => Ok(None),
            Self::At(address) => TcpListener::bind(address).await.map(Some),
            // Both address families as upstream has it; where the machine has no IPv6, the other alone.
            Self::Port(port) => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
                Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {
                    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await.map(Some)
                }
                bound => bound.map(Some),
            },
            Self::Bound(listener) => {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener).map(Some)
            }
        }
    }
}

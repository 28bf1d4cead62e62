//! The server behind a socket, for kubectl and the real operator binary: plain HTTP/1.1, real time.
//!
//! Never together with a paused clock (a pending socket would make time jump). Relies on axum; called by the sandbox's commands and a few tests.

use super::audit::Identity;
use super::error::ApiError;
use super::server::{ApiServer, refused};
use axum::body::Body;
use axum::extract::State;
use http::{HeaderMap, Request, Response, header};
use std::io;
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// kube-apiserver's limit for a request body.
const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// Who may reach a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// This machine only; any other address is refused.
    Loopback,
    /// Whoever can reach the address.
    Anywhere,
}

impl ApiServer {
    /// Serves until `stop` resolves.
    pub async fn serve(
        &self,
        listener: TcpListener,
        exposure: Exposure,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let address = listener.local_addr()?;
        if exposure == Exposure::Loopback && !address.ip().is_loopback() {
            let words =
                format!("{address} can be reached from other machines; the simulated API server has no protection");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, words));
        }
        let router = axum::Router::new().fallback(answer).with_state(self.clone());
        axum::serve(listener, router).with_graceful_shutdown(stop).await
    }
}

/// A kubeconfig for a served API server.
pub fn kubeconfig(address: SocketAddr, token: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: sandbox\nclusters:\n- name: sandbox\n  cluster:\n    server: http://{address}\n\
         contexts:\n- name: sandbox\n  context:\n    cluster: sandbox\n    user: sandbox\nusers:\n- name: sandbox\n  user:\n    token: {token}\n"
    )
}

async fn answer(State(server): State<ApiServer>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Some(identity) = identity(&server, &parts.headers) else {
        return refused(&ApiError::new(401, "Unauthorized", "Unauthorized")).map(Body::new);
    };
    let Ok(bytes) = axum::body::to_bytes(body, LARGEST_BODY).await else {
        let words = format!("Request entity too large: limit is {LARGEST_BODY}");
        return refused(&ApiError::new(413, "RequestEntityTooLarge", words)).map(Body::new);
    };
    server
        .answer(&identity, Request::from_parts(parts, bytes))
        .await
        .map(Body::new)
}

/// The identity behind a bearer token; an unknown token is nobody, none is the anonymous user.
fn identity(server: &ApiServer, headers: &HeaderMap) -> Option<Identity> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Some(Identity::new("system:anonymous", &["system:unauthenticated"]));
    };
    server.identity_of(value.to_str().ok()?.strip_prefix("Bearer ")?.trim())
}

//! A simulated API server on a loopback socket, in real time.

use super::support::{install_crds, node_pool, pod};
use karpenter::clock::SystemClock;
use sandbox::api::{ApiOptions, ApiServer, Exposure, Identity};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

pub struct Served {
    pub server: ApiServer,
    pub address: SocketAddr,
}

/// A served API server with our definitions, a node pool and two pods.
pub async fn served() -> Served {
    let server = ApiServer::new(Arc::new(SystemClock), 1, ApiOptions::default());
    install_crds(&server);
    server.add_token("secret", Identity::admin());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = server.clone();
    tokio::spawn(async move {
        serving
            .serve(listener, Exposure::Loopback, std::future::pending())
            .await
    });
    let handle = server.handle();
    handle.create(&node_pool("general")).unwrap();
    for name in ["one", "two"] {
        let mut wish = pod(name);
        wish["apiVersion"] = "v1".into();
        wish["kind"] = "Pod".into();
        handle.create(&wish).unwrap();
    }
    Served { server, address }
}

//! `sandbox cloud` beside a real control plane, within the test's process: seconds where the platform takes minutes.

use super::controlplane::ControlPlane;
use super::stage::{quick, quick_machines};
use sandbox::commands::cloud::{Cloud, CloudOptions};
use sandbox::csi::CsiOptions;
use std::net::SocketAddr;
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// Starts it with its machines joining this control plane; says where it listens. It reads its options from a file of this name, as the command does.
pub async fn beside(plane: &ControlPlane, name: &str, stop: CancellationToken) -> SocketAddr {
    let options = CloudOptions {
        spot: quick(),
        machines: quick_machines(),
        csi: CsiOptions::default(),
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME"));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{name}.json"));
    std::fs::write(&file, serde_json::to_vec(&options).unwrap()).unwrap();
    let cloud = Cloud {
        kubeconfig: Some(plane.admin_kubeconfig().to_owned()),
        listen: "127.0.0.1:0".parse().unwrap(),
        speed: None,
        seed: Some(7),
        options: Some(file),
        allow_remote: false,
    };
    let (ready, address) = tokio::sync::oneshot::channel();
    let serving = Box::pin(cloud.run(|address| _ = ready.send(address), stop));
    tokio::spawn(async move { serving.await.unwrap() });
    address.await.unwrap()
}

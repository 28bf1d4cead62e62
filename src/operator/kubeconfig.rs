//! Which cluster: `KUBECONFIG`, else the pod's service account, else `~/.kube/config` (surface §6.1).
//!
//! Called at the start only. The client does not retry by itself; the border in `k8s` does, under its own rules.

use super::build;
use super::environment::Environment;
use http::header::{HeaderValue, USER_AGENT};
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::path::PathBuf;

/// No configuration, or one that does not make a client.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The file is not there or is not a kubeconfig.
    #[error("reading the kubeconfig")]
    File(#[source] Box<kube::config::KubeconfigError>),
    /// Neither a kubeconfig nor a pod's service account.
    #[error("no KUBECONFIG, no service account of a pod, no ~/.kube/config")]
    Nothing(#[source] Box<kube::config::InClusterError>),
    /// Certificates or addresses that cannot be used.
    #[error("setting up the Kubernetes client")]
    Client(#[source] Box<kube::Error>),
}

/// A client of the cluster that the environment means.
pub(super) async fn client(environment: &Environment) -> Result<kube::Client, KubeconfigError> {
    let mut config = config(environment).await?;
    config.default_retry = false;
    if let Ok(agent) = HeaderValue::from_str(&format!("karpenter/{}", build::VERSION)) {
        config.headers.push((USER_AGENT, agent));
    }
    kube::Client::try_from(config).map_err(|error| KubeconfigError::Client(Box::new(error)))
}

async fn config(environment: &Environment) -> Result<kube::Config, KubeconfigError> {
    if let Some(paths) = environment.get("KUBECONFIG").filter(|paths| !paths.is_empty()) {
        return of_files(paths.split(':').filter(|path| !path.is_empty()).map(PathBuf::from)).await;
    }
    let in_cluster = match kube::Config::incluster() {
        Ok(config) => return Ok(config),
        Err(error) => error,
    };
    let home = environment
        .get("HOME")
        .map(|home| PathBuf::from(home).join(".kube").join("config"));
    match home.filter(|path| path.exists()) {
        Some(path) => of_files(std::iter::once(path)).await,
        None => Err(KubeconfigError::Nothing(Box::new(in_cluster))),
    }
}

/// Several files are merged as kubectl merges them; one that is missing is an error, since the user named it.
async fn of_files(paths: impl Iterator<Item = PathBuf>) -> Result<kube::Config, KubeconfigError> {
    let failed = |error| KubeconfigError::File(Box::new(error));
    let mut merged = Kubeconfig::default();
    for path in paths {
        merged = merged
            .merge(Kubeconfig::read_from(path).map_err(failed)?)
            .map_err(failed)?;
    }
    kube::Config::from_custom_kubeconfig(merged, &KubeConfigOptions::default())
        .await
        .map_err(failed)
}

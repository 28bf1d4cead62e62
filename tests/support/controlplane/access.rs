//! Who may talk to the control plane: keys, tokens, kubeconfigs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use secrecy::{ExposeSecret, SecretString};

use super::{ControlPlane, Part};

/// The users of the token file, all with all rights; their names tell them apart in the audit log.
const ADMIN: &str = "admin";
const USERS: [&str; 3] = [ADMIN, "kube-scheduler", "kube-controller-manager"];

/// Files and addresses by which the server is reached.
pub(super) struct Access {
    server: String,
    folder: PathBuf,
    admin_kubeconfig: PathBuf,
}

impl Access {
    /// Writes the key that signs ServiceAccount tokens and the token file; the server listens on `port`.
    pub(super) fn new(folder: &Path, port: u16) -> Result<Self> {
        let access = Self {
            server: format!("https://127.0.0.1:{port}"),
            admin_kubeconfig: folder.join("admin.kubeconfig"),
            folder: folder.to_owned(),
        };
        fs::write(access.service_account_key(), signing_key()?)?;
        let line = |user: &&str| format!("{},{user},{user},\"system:masters\"\n", static_token(user));
        fs::write(access.token_file(), USERS.iter().map(line).collect::<String>())?;
        Ok(access)
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    pub(super) fn admin_kubeconfig(&self) -> &Path {
        &self.admin_kubeconfig
    }

    pub(super) fn certificates(&self) -> PathBuf {
        self.folder.join("certificates")
    }

    /// The private key; the server takes the public one from the same file.
    pub(super) fn service_account_key(&self) -> PathBuf {
        self.folder.join("service-account.key")
    }

    pub(super) fn token_file(&self) -> PathBuf {
        self.folder.join("tokens.csv")
    }

    /// Whether the server says it is ready; before it has written its certificate nobody can ask.
    pub(super) async fn is_ready(&self) -> bool {
        if !self.admin_kubeconfig.exists()
            && self
                .write_kubeconfig(&self.admin_kubeconfig, &static_token(ADMIN))
                .is_err()
        {
            return false;
        }
        let Ok(client) = self.client().await else { return false };
        let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else {
            return false;
        };
        client.request_text(request).await.is_ok() && Api::<Namespace>::all(client).get("default").await.is_ok()
    }

    pub(super) async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(&self.admin_kubeconfig)?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // A proxy of the environment is not meant for the loopback address.
        config.proxy_url = None;
        Ok(Client::try_from(config)?)
    }

    pub(super) fn kubeconfig_of_part(&self, part: Part) -> Result<PathBuf> {
        let path = self.folder.join(format!("{}.kubeconfig", part.program()));
        self.write_kubeconfig(&path, &static_token(part.program()))?;
        Ok(path)
    }

    fn write_kubeconfig(&self, path: &Path, token: &str) -> Result<()> {
        let certificate = fs::read_to_string(self.certificates().join("apiserver.crt"))?;
        let complete = certificate.trim_end().ends_with("-----END CERTIFICATE-----");
        anyhow::ensure!(complete, "the server's certificate is not written yet");
        let content = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": self.server,
                "certificate-authority-data": STANDARD.encode(&certificate),
            }}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}],
        });
        // Named only when complete: a reader may be waiting for it. JSON is YAML.
        let unfinished = path.with_extension("unfinished");
        fs::write(&unfinished, content.to_string())?;
        fs::rename(&unfinished, path).with_context(|| format!("{}", path.display()))
    }
}

impl ControlPlane {
    /// A token for a ServiceAccount, by a TokenRequest as the kubelet makes it; valid for an hour.
    pub async fn token_for(&self, namespace: &str, service_account: &str) -> SecretString {
        let accounts = Api::<ServiceAccount>::namespaced(self.client().await, namespace);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(3600),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(service_account, &PostParams::default(), &request)
            .await;
        let status = answer.expect("a ServiceAccount of this name").status;
        status.expect("an issued token has a status").token.into()
    }

    /// A kubeconfig that holds only this token, for running a program with exactly its rights.
    pub fn kubeconfig_for_token(&self, name: &str, token: &SecretString) -> PathBuf {
        let path = self.access.folder.join(format!("{name}.kubeconfig"));
        self.access
            .write_kubeconfig(&path, token.expose_secret())
            .expect("the data folder can be written");
        path
    }

    /// The kubeconfig of a ServiceAccount: what a program has that runs in the cluster under that account.
    pub async fn kubeconfig_for(&self, namespace: &str, service_account: &str) -> PathBuf {
        let token = self.token_for(namespace, service_account).await;
        self.kubeconfig_for_token(&format!("{namespace}-{service_account}"), &token)
    }
}

/// A fixed token per user is enough: the server listens on the loopback address for as long as a test runs.
fn static_token(user: &str) -> String {
    format!("{user}-of-a-test")
}

/// A fresh RSA key in PEM.
fn signing_key() -> Result<String> {
    let unspecified = |_| anyhow::anyhow!("no RSA key could be made");
    let key = KeyPair::generate(KeySize::Rsa2048).map_err(unspecified)?;
    let der: Pkcs8V1Der<'_> = key.as_der().map_err(unspecified)?;
    let base64 = STANDARD.encode(der.as_ref());
    let lines = base64
        .as_bytes()
        .chunks(64)
        .map(String::from_utf8_lossy)
        .collect::<Vec<_>>()
        .join("\n");
    Ok(format!(
        "-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n"
    ))
}

//! An installation of the chart without its pod: ServiceAccount, rights and settings are the chart's, the process is the test's.

use super::chart::{objects, of_kind, template};
use super::scene::{Scene, name};
use serde_json::{Value, json};
use std::path::PathBuf;

pub const NAMESPACE: &str = "karpenter";

pub struct Installed {
    pub rendered: Vec<Value>,
    /// As whom the API server knows the operator.
    pub user: String,
    pub kubeconfig: PathBuf,
    pub environment: Vec<(String, String)>,
}

/// Applies what the chart renders with these values, but for the Deployment: its pod would wait for an image that nobody has, and the operator would buy a
/// server for it.
pub async fn install(scene: &Scene, more: &[&str]) -> Installed {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    scene.apply(&namespace, "").await.unwrap();
    let mut values = vec![
        "--set",
        "spot.cloudspaceName=sandbox",
        "--set",
        "spot.refreshToken=sandbox-refresh-token",
    ];
    values.extend(more);
    let rendered = objects(&template(&values).unwrap());
    for object in rendered.iter().filter(|object| object["kind"] != "Deployment") {
        scene.apply(object, NAMESPACE).await.unwrap();
    }
    let account = name(of_kind(&rendered, "ServiceAccount")[0]);
    Installed {
        user: format!("system:serviceaccount:{NAMESPACE}:{account}"),
        kubeconfig: scene.plane.kubeconfig_for(NAMESPACE, &account).await,
        environment: environment(&rendered),
        rendered,
    }
}

impl Installed {
    /// The chart's rights sufficed for all that the operator did.
    pub fn assert_nothing_was_forbidden(&self, scene: &Scene) {
        assert!(scene.plane.has_asked(&self.user), "{} asked for nothing", self.user);
        let refused = scene.plane.rights_refused_to(&self.user);
        let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
        assert!(refused.is_empty(), "forbidden: {}", refused.join(", "));
    }
}

/// The variables of the rendered Deployment that are plain texts, and the token of the Secret.
fn environment(rendered: &[Value]) -> Vec<(String, String)> {
    let container = &of_kind(rendered, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0];
    let plain = |variable: &Value| {
        Some((
            variable["name"].as_str()?.to_owned(),
            variable["value"].as_str()?.to_owned(),
        ))
    };
    let mut all: Vec<_> = container["env"].as_array().unwrap().iter().filter_map(plain).collect();
    all.push(("LEADER_ELECTION_NAMESPACE".to_owned(), NAMESPACE.to_owned()));
    let secret = &of_kind(rendered, "Secret")[0]["stringData"];
    all.extend(
        secret
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())),
    );
    all
}

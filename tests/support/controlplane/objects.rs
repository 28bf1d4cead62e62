//! Putting objects into the control plane, and waiting for what comes of them.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{self, Scope};
use serde_json::Value;

use super::ControlPlane;

/// Between two looks at something that real processes bring about.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Waits until a look at the cluster yields something; `what` names it in the message when time is up.
pub async fn eventually<T>(what: &str, within: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let seen = tokio::time::timeout(within, looking).await;
    seen.unwrap_or_else(|_| panic!("not within {} s: {what}", within.as_secs()))
}

impl ControlPlane {
    /// Creates a namespace that no other test of this binary uses, and answers its name.
    pub async fn namespace(&self, prefix: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.clone());
        let namespaces = Api::<Namespace>::all(self.client().await);
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .expect("a new namespace");
        name
    }

    /// Applies every document of a YAML text, as `kubectl apply --server-side` would; objects without a namespace go to `namespace`.
    pub async fn apply(&self, yaml: &str, namespace: &str) {
        for document in documents(yaml) {
            if let Err(error) = self.apply_one(&document, namespace).await {
                let (kind, name) = title(&document);
                panic!("applying {kind} {name}: {error:#}");
            }
        }
    }

    async fn apply_one(&self, document: &Value, namespace: &str) -> Result<()> {
        let object: DynamicObject = serde_json::from_value(document.clone())?;
        let types = object.types.as_ref().context("no apiVersion and kind")?;
        let kind = GroupVersionKind::try_from(types)?;
        let client = self.client().await;
        let (resource, capabilities) = discovery::pinned_kind(&client, &kind).await?;
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(client, &resource),
            Scope::Namespaced => {
                let namespace = object.metadata.namespace.as_deref().unwrap_or(namespace);
                Api::namespaced_with(client, namespace, &resource)
            }
        };
        let name = object.metadata.name.as_deref().context("no name")?;
        api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&object))
            .await?;
        Ok(())
    }

    /// Applies the project's CRDs from `/crds` and waits until their kinds are served; answers them by name.
    pub async fn apply_crds(&self) -> Vec<CustomResourceDefinition> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut files: Vec<_> = entries.map(|entry| entry.expect("a folder entry").path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
        files.sort();
        assert!(
            !files.is_empty(),
            "no CRDs in {}: run `make generate`",
            folder.display()
        );
        let mut names = Vec::new();
        for file in files {
            let yaml = fs::read_to_string(&file).expect("a readable CRD");
            names.extend(documents(&yaml).iter().map(|document| title(document).1));
            self.apply(&yaml, "default").await;
        }
        let mut served = Vec::new();
        for name in &names {
            served.push(self.established(name).await);
        }
        served
    }

    async fn established(&self, name: &str) -> CustomResourceDefinition {
        let crds = Api::<CustomResourceDefinition>::all(self.client().await);
        let what = format!("the CRD {name} is established");
        eventually(&what, Duration::from_secs(30), async || {
            let crd = crds.get(name).await.ok()?;
            let conditions = crd.status.as_ref()?.conditions.as_ref()?;
            let is_true = |kind: &str| conditions.iter().any(|one| one.type_ == kind && one.status == "True");
            is_true("Established").then_some(crd)
        })
        .await
    }
}

/// The non-empty documents of a YAML text.
fn documents(yaml: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).expect("YAML documents");
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

/// The kind and name of an object.
fn title(document: &Value) -> (String, String) {
    let text = |pointer: &str| {
        document
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    (text("/kind"), text("/metadata/name"))
}

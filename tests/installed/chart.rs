//! What helm makes of the chart.

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// Runs the helm of the control plane's cache; its output, or what it said.
pub fn helm(arguments: &[&str]) -> Result<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(root.join("tests/controlplane/helm"))
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}

/// `helm template karpenter charts/karpenter --namespace karpenter` and these.
pub fn template(more: &[&str]) -> Result<String, String> {
    let mut arguments = vec!["template", "karpenter", "charts/karpenter", "--namespace", "karpenter"];
    arguments.extend(more);
    helm(&arguments)
}

/// The objects in a rendered text.
pub fn objects(yaml: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    all.into_iter().filter(|object| !object.is_null()).collect()
}

pub fn of_kind<'o>(objects: &'o [Value], kind: &str) -> Vec<&'o Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

/// Kinds of the Prometheus operator, as far as an API server needs them to take objects.
pub fn monitoring(kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.monitoring.coreos.com") },
        "spec": { "group": "monitoring.coreos.com", "scope": "Namespaced", "names": { "kind": kind, "plural": plural },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] },
    })
}

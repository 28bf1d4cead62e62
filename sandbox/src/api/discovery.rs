//! Discovery: which groups, versions and kinds there are, as kubectl and client libraries ask before anything else.
//!
//! The plain (not aggregated) form, which every client falls back to. OpenAPI is in [`super::openapi`]. Called by [`super::server`] for paths
//! that name no kind.

use super::kinds::{Registry, Resource, Scope};
use super::openapi;
use super::server::{AnswerBody, full, response};
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The Kubernetes version that the server says it is, which is the one of the real control plane that judges it.
const VERSION: &str = "v1.36.1";

/// Answers a path, or `None` when nothing is there.
pub(crate) fn answer(registry: &Registry, path: &str) -> Option<Response<AnswerBody>> {
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    let value = match parts.as_slice() {
        ["healthz" | "readyz" | "livez", ..] => return Some(plain("ok")),
        ["version"] => json!({ "major": "1", "minor": "36", "gitVersion": VERSION, "platform": "linux/amd64",
            "gitCommit": "", "gitTreeState": "clean", "buildDate": "", "goVersion": "", "compiler": "" }),
        ["api"] => json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] }),
        ["apis"] => {
            let groups: Vec<Value> = groups(registry)
                .into_iter()
                .map(|(name, versions)| group(&name, &versions))
                .collect();
            json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
        }
        ["api", version] => kinds(registry, "", version)?,
        ["apis", name] => group(name, groups(registry).get(*name)?),
        ["apis", name, version] => kinds(registry, name, version)?,
        ["openapi", "v3"] => openapi::index(registry),
        ["openapi", "v3", "api", version] => openapi::document(registry, "", version)?,
        ["openapi", "v3", "apis", name, version] => openapi::document(registry, name, version)?,
        ["openapi", "v2"] => openapi::v2(registry),
        _ => return None,
    };
    Some(response(200, full(Bytes::from(value.to_string()))))
}

fn plain(text: &'static str) -> Response<AnswerBody> {
    let mut response = response(200, full(Bytes::from_static(text.as_bytes())));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

fn groups(registry: &Registry) -> BTreeMap<String, BTreeSet<String>> {
    let mut groups: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for resource in registry.all().filter(|r| !r.group.is_empty()) {
        groups
            .entry(resource.group.clone())
            .or_default()
            .insert(resource.version.clone());
    }
    groups
}

fn group(name: &str, versions: &BTreeSet<String>) -> Value {
    let version = |v: &String| json!({ "groupVersion": format!("{name}/{v}"), "version": v });
    let all: Vec<Value> = versions.iter().map(version).collect();
    json!({ "kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": all, "preferredVersion": all.first() })
}

fn kinds(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let served: Vec<&Arc<Resource>> = registry
        .all()
        .filter(|r| r.group == group && r.version == version)
        .collect();
    let first = served.first()?;
    let group_version = first.api_version();
    let resources: Vec<Value> = served.iter().flat_map(|r| entries(r)).collect();
    Some(
        json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources }),
    )
}

fn entries(resource: &Resource) -> Vec<Value> {
    let namespaced = resource.scope == Scope::Namespaced;
    let mut main = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": namespaced, "kind": resource.kind,
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    });
    if let Value::Object(map) = &mut main {
        if !resource.short_names.is_empty() {
            map.insert("shortNames".into(), resource.short_names.clone().into());
        }
        if !resource.categories.is_empty() {
            map.insert("categories".into(), resource.categories.clone().into());
        }
    }
    let mut all = vec![main];
    let sub = |name: &str, kind: &str, verbs: &[&str]| {
        json!({ "name": format!("{}/{name}", resource.plural), "singularName": "", "namespaced": namespaced,
            "kind": kind, "verbs": verbs })
    };
    if resource.has_status() {
        all.push(sub("status", &resource.kind, &["get", "patch", "update"]));
    }
    if resource.scale.is_some() {
        let mut scale = sub("scale", "Scale", &["get", "patch", "update"]);
        if let Value::Object(map) = &mut scale {
            map.insert("group".into(), "autoscaling".into());
            map.insert("version".into(), "v1".into());
        }
        all.push(scale);
    }
    if resource.is("", "Pod") {
        all.push(sub("binding", "Binding", &["create"]));
        let mut eviction = sub("eviction", "Eviction", &["create"]);
        if let Value::Object(map) = &mut eviction {
            map.insert("group".into(), "policy".into());
            map.insert("version".into(), "v1".into());
        }
        all.push(eviction);
    }
    all
}

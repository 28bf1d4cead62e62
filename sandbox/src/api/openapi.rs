//! OpenAPI, as little as kubectl needs: which kinds take `fieldValidation`, and the schemas of custom kinds for `kubectl explain`.
//!
//! Built-in kinds have no schema here: kubectl has its own types for them and lets the server validate. Called by [`super::discovery`].

use super::kinds::{Origin, Registry, Resource, Scope};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// `/openapi/v3`: where the documents are.
pub(crate) fn index(registry: &Registry) -> Value {
    let place = |r: &Resource| match r.group.as_str() {
        "" => format!("api/{}", r.version),
        group => format!("apis/{group}/{}", r.version),
    };
    let places: BTreeSet<String> = registry.all().map(|r| place(r)).collect();
    let paths: Map<String, Value> = places
        .into_iter()
        .map(|p| {
            let url = json!({ "serverRelativeURL": format!("/openapi/v3/{p}") });
            (p, url)
        })
        .collect();
    json!({ "paths": paths })
}

/// The document of one group and version.
pub(crate) fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for resource in registry.all().filter(|r| r.group == group && r.version == version) {
        paths.insert(object_path(resource), operations(resource));
        schemas.insert(schema_name(resource), schema(resource));
    }
    if paths.is_empty() {
        return None;
    }
    Some(json!({
        "openapi": "3.0.0", "info": { "title": "Kubernetes", "version": "unversioned" },
        "paths": paths, "components": { "schemas": schemas },
    }))
}

/// `/openapi/v2`, empty: clients that still ask for it find no schema and do not validate.
pub(crate) fn v2(_: &Registry) -> Value {
    json!({ "swagger": "2.0", "info": { "title": "Kubernetes", "version": "unversioned" }, "paths": {}, "definitions": {} })
}

fn object_path(resource: &Resource) -> String {
    let root = if resource.group.is_empty() {
        "/api".to_owned()
    } else {
        format!("/apis/{}", resource.group)
    };
    let namespace = if resource.scope == Scope::Namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    format!("{root}/{}{namespace}/{}/{{name}}", resource.version, resource.plural)
}

fn operations(resource: &Resource) -> Value {
    let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation"]
        .iter()
        .map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string", "uniqueItems": true } }))
        .collect();
    let kind = json!({ "group": resource.group, "version": resource.version, "kind": resource.kind });
    let operation = |action: &str| {
        json!({ "parameters": parameters, "responses": { "200": { "description": "OK" } },
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind })
    };
    json!({ "patch": operation("patch"), "put": operation("put"), "get": operation("get"), "delete": operation("delete") })
}

fn schema_name(resource: &Resource) -> String {
    let mut group: Vec<&str> = resource.group.split('.').filter(|p| !p.is_empty()).collect();
    group.reverse();
    let group = if group.is_empty() {
        "io.k8s.api.core".to_owned()
    } else {
        group.join(".")
    };
    format!("{group}.{}.{}", resource.version, resource.kind)
}

fn schema(resource: &Resource) -> Value {
    let mut schema = match &resource.origin {
        Origin::Custom(custom) => custom.compiled.source.clone(),
        Origin::BuiltIn(_) => json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
    };
    let kind = json!([{ "group": resource.group, "version": resource.version, "kind": resource.kind }]);
    if let Value::Object(map) = &mut schema {
        map.insert("x-kubernetes-group-version-kind".into(), kind);
    }
    schema
}

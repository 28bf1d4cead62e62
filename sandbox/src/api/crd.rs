//! CustomResourceDefinitions: each served one is a kind; its status says so.
//!
//! Differs from upstream: only the storage version is served, there is no conversion, and a removed definition takes its objects with it at once.
//! Called by [`super::core`] after each write to a definition.

use super::core::Core;
use super::kinds::{Column, Origin, Resource, ScalePaths, Scope, StatusWrites};
use super::object::{self, list, text};
use super::store::{ObjectKey, Stored};
use super::validation::CustomSchema;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const TABLE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Makes the served kinds follow the stored definitions.
pub(crate) fn follow(core: &mut Core, now: DateTime<Utc>) {
    let definitions: Vec<(ObjectKey, Arc<Stored>)> = core
        .store
        .objects(TABLE)
        .map(|(k, o)| (k.clone(), Arc::clone(o)))
        .collect();
    let mut defined = BTreeSet::new();
    for (key, stored) in definitions {
        let definition = stored.value();
        let qualified = qualified(definition);
        defined.insert(qualified.clone());
        let known = core.registry.get(&qualified).is_some_and(|r| match &r.origin {
            Origin::Custom(schema) => {
                schema.generation == object::generation(definition).unwrap_or(0)
                    && schema.definition == object::uid(definition)
            }
            Origin::BuiltIn(_) => true,
        });
        // Asked first: to compile a schema costs more than all else here.
        if !known && let Some(resource) = resource_of(definition) {
            core.serve(Arc::new(resource));
            establish(core, &key, definition.clone(), now);
        }
    }
    let custom = |r: &&Arc<Resource>| matches!(r.origin, Origin::Custom(_)) && !defined.contains(&r.qualified());
    let gone: Vec<String> = core.registry.all().filter(custom).map(|r| r.qualified()).collect();
    for qualified in gone {
        let keys: Vec<ObjectKey> = core.store.objects(&qualified).map(|(k, _)| k.clone()).collect();
        for key in keys {
            core.store.remove(&qualified, &key, None, now);
        }
        core.registry.remove(&qualified);
        core.store.stop_serving(&qualified);
    }
}

/// What the kind of a definition is called in the registry.
fn qualified(definition: &Value) -> String {
    super::kinds::qualified(text(definition, "/spec/names/plural"), text(definition, "/spec/group"))
}

fn establish(core: &mut Core, key: &ObjectKey, mut definition: Value, now: DateTime<Utc>) {
    let at = object::time_text(now);
    let condition = |kind: &str, reason: &str, message: &str| json!({ "type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": at });
    let versions: Vec<&str> = list(&definition, "/spec/versions")
        .iter()
        .map(|v| text(v, "/name"))
        .collect();
    let status = json!({
        "acceptedNames": definition.pointer("/spec/names"),
        "storedVersions": versions,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
    });
    if let Value::Object(root) = &mut definition {
        root.insert("status".into(), status);
    }
    core.store.put(TABLE, key, definition, now);
}

/// The kind that a definition describes, by its storage version.
pub(crate) fn resource_of(definition: &Value) -> Option<Resource> {
    let versions = list(definition, "/spec/versions");
    let stored = |v: &&Value| v.get("storage").and_then(Value::as_bool) == Some(true);
    let version = versions.iter().find(stored).or_else(|| versions.first())?;
    let own = |pointer: &str| text(definition, pointer).to_owned();
    let owned_list = |pointer: &str| {
        list(definition, pointer)
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect::<Vec<String>>()
    };
    let kind = own("/spec/names/kind");
    let singular = own("/spec/names/singular");
    let schema = version
        .pointer("/schema/openAPIV3Schema")
        .cloned()
        .unwrap_or_else(|| json!({"type": "object"}));
    let columns = list(version, "/additionalPrinterColumns").iter().map(column).collect();
    let selectable = list(version, "/selectableFields").iter().map(|f| text(f, "/jsonPath"));
    let resource = Resource {
        group: own("/spec/group"),
        version: text(version, "/name").to_owned(),
        plural: own("/spec/names/plural"),
        singular: if singular.is_empty() {
            kind.to_lowercase()
        } else {
            singular
        },
        short_names: owned_list("/spec/names/shortNames"),
        categories: owned_list("/spec/names/categories"),
        scope: if own("/spec/scope") == "Namespaced" {
            Scope::Namespaced
        } else {
            Scope::Cluster
        },
        status: match version.pointer("/subresources/status") {
            Some(_) => StatusWrites::Subresource,
            None => StatusWrites::Inline,
        },
        scale: version.pointer("/subresources/scale").map(scale_paths),
        selectable: selectable.map(|p| p.trim_start_matches('.').to_owned()).collect(),
        columns,
        origin: Origin::Custom(Box::new(CustomSchema::compile(
            &schema,
            object::uid(definition),
            object::generation(definition).unwrap_or(0),
        ))),
        kind,
    };
    (!resource.kind.is_empty() && !resource.plural.is_empty()).then_some(resource)
}

fn column(definition: &Value) -> Column {
    Column {
        name: text(definition, "/name").to_owned(),
        kind: text(definition, "/type").to_owned(),
        priority: object::number(definition, "/priority").unwrap_or(0),
        path: text(definition, "/jsonPath").to_owned(),
    }
}

fn scale_paths(scale: &Value) -> ScalePaths {
    let pointer = |key: &str| text(scale, key).replace('.', "/");
    ScalePaths {
        spec: pointer("/specReplicasPath"),
        status: pointer("/statusReplicasPath"),
        selector: Some(pointer("/labelSelectorPath")).filter(|p| !p.is_empty()),
    }
}

//! What a list and the events of a watch say, before any object is read.

use crate::cluster::{Key, Source, Version};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;

/// One page of a list.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    #[serde(default)]
    pub(super) metadata: PageMeta,
    /// As text: one object of five hundred as values would be many times as large, and they are read one by one.
    #[serde(default)]
    pub(super) items: Option<Vec<Box<RawValue>>>,
}

/// What a page says of the list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageMeta {
    #[serde(default)]
    pub(super) resource_version: Option<String>,
    #[serde(default, rename = "continue")]
    pub(super) next: Option<String>,
}

/// What can be said of an object even if it cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) key: Key,
    pub(super) uid: Arc<str>,
    pub(super) version: Version,
    /// The version as written: watches go on from it.
    pub(super) raw_version: String,
}

impl Identity {
    /// Looks for the few fields; what is not there is empty.
    pub(super) fn of(source: &Source, object: &Value) -> Self {
        let at = |field: &str| {
            let value = object.get("metadata").and_then(|metadata| metadata.get(field));
            value.and_then(Value::as_str).unwrap_or_default()
        };
        let scope = if source.class.is_empty() {
            at("namespace").into()
        } else {
            Arc::clone(&source.class)
        };
        Self {
            key: Key {
                scope,
                name: at("name").into(),
            },
            uid: at("uid").into(),
            version: Version::parse(at("resourceVersion")),
            raw_version: at("resourceVersion").to_owned(),
        }
    }
}

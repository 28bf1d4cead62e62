//! From an answer to bytes: plain objects, metadata only, or the Table that kubectl prints.
//!
//! Relies on [`super::table`] for the columns. Called by [`super::server`] and, per event, by [`super::watch`].

use super::core::Answer;
use super::kinds::Resource;
use super::read::Listing;
use super::route::{Call, Shape};
use super::store::Stored;
use super::table;
use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What of its object a table row carries along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowObject {
    Metadata,
    Whole,
    Nothing,
}

impl RowObject {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "Object" => Self::Whole,
            "None" => Self::Nothing,
            _ => Self::Metadata,
        }
    }
}

/// One object in the shape that was asked for.
pub(crate) fn one(
    shape: Shape,
    include: RowObject,
    resource: &Resource,
    object: &Arc<Stored>,
    now: DateTime<Utc>,
) -> Bytes {
    match shape {
        Shape::Objects => object.json().clone(),
        Shape::MetadataOnly => Bytes::from(metadata_only(object.value()).to_string()),
        Shape::Table => {
            let revision = object.revision();
            Bytes::from(table_of(include, resource, std::slice::from_ref(object), revision, now).to_string())
        }
    }
}

/// A whole answer.
pub(crate) fn answer(call: &Call, answer: &Answer, now: DateTime<Utc>) -> Bytes {
    let include = RowObject::parse(call.params.get("includeObject"));
    match answer {
        Answer::Value { value, .. } => Bytes::from(value.to_string()),
        Answer::Object { object, .. } => one(call.shape, include, &call.resource, object, now),
        Answer::List(listing) => list(call.shape, include, listing, now),
    }
}

fn list(shape: Shape, include: RowObject, listing: &Listing, now: DateTime<Utc>) -> Bytes {
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".into(), listing.revision.to_string().into());
    if let Some(next) = &listing.next {
        metadata.insert("continue".into(), next.clone().into());
    }
    if let Some(remaining) = listing.remaining {
        metadata.insert("remainingItemCount".into(), remaining.into());
    }
    let resource = &listing.resource;
    if shape == Shape::Table {
        let mut whole = table_of(include, resource, &listing.items, listing.revision, now);
        if let Value::Object(map) = &mut whole {
            map.insert("metadata".into(), Value::Object(metadata));
        }
        return Bytes::from(whole.to_string());
    }
    let (kind, version) = match shape {
        Shape::MetadataOnly => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
        _ => (format!("{}List", resource.kind), resource.api_version()),
    };
    let mut out = BytesMut::new();
    let head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{},\"items\":[",
        Value::String(kind),
        Value::String(version),
        Value::Object(metadata)
    );
    out.extend_from_slice(head.as_bytes());
    for (at, item) in listing.items.iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(b",");
        }
        out.extend_from_slice(&one(shape, include, resource, item, now));
    }
    out.extend_from_slice(b"]}");
    out.freeze()
}

fn metadata_only(object: &Value) -> Value {
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object.get("metadata") })
}

fn table_of(
    include: RowObject,
    resource: &Resource,
    items: &[Arc<Stored>],
    revision: u64,
    now: DateTime<Utc>,
) -> Value {
    let row = |item: &Arc<Stored>| {
        let mut row = json!({ "cells": table::cells(resource, item.value(), now) });
        let object = match include {
            RowObject::Metadata => Some(metadata_only(item.value())),
            RowObject::Whole => Some(item.value().clone()),
            RowObject::Nothing => None,
        };
        if let (Some(map), Some(object)) = (row.as_object_mut(), object) {
            map.insert("object".into(), object);
        }
        row
    };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1",
        "metadata": { "resourceVersion": revision.to_string() },
        "columnDefinitions": table::definitions(resource),
        "rows": items.iter().map(row).collect::<Vec<Value>>(),
    })
}

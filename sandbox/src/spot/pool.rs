//! Pools as the API shows them: schema, defaults, pruning (rackspace-spot 3.5 and 3.6).

use super::answer::{Cause, Subject};
use super::bids;
use super::money::Price;
use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Which kind of pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PoolKind {
    /// A standing bid.
    Spot,
    /// A reservation.
    OnDemand,
}

impl PoolKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Spot, Self::OnDemand];

    /// Kind as in `kind:`.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Spot => "SpotNodePool",
            Self::OnDemand => "OnDemandNodePool",
        }
    }

    /// Plural as in paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Spot => "spotnodepools",
            Self::OnDemand => "ondemandnodepools",
        }
    }

    /// The kind of a path segment.
    pub fn of_plural(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == plural)
    }

    /// The word on servers and nodes (row 13; rackspace-spot 5.3).
    pub fn server_type(self) -> &'static str {
        match self {
            Self::Spot => "spot",
            Self::OnDemand => "ondemand",
        }
    }

    /// The validating webhook (rackspace-spot 4).
    pub fn webhook(self) -> &'static str {
        match self {
            Self::Spot => "vspotnodepool.ngpc.rxt.io",
            Self::OnDemand => "vondemandnodepool.ngpc.rxt.io",
        }
    }

    /// What an answer about a pool of this name is about.
    pub fn subject(self, name: &str) -> Subject<'_> {
        Subject {
            plural: self.plural(),
            kind: self.kind(),
            name,
        }
    }
}

/// Kind and name; there is one namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PoolKey {
    /// Kind.
    pub kind: PoolKind,
    /// Name, a lower-case UUID.
    pub name: String,
}

/// A taint to be put on nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomTaint {
    /// Key.
    pub key: String,
    /// Effect.
    pub effect: String,
    /// Value, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Kept as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<String>,
}

/// `spec.autoscaling`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Autoscaling {
    /// Whether the platform scales the pool.
    pub enabled: bool,
    /// Lower bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_nodes: Option<i64>,
    /// Upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_nodes: Option<i64>,
}

/// `spec` of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolSpec {
    /// Server class.
    pub server_class: String,
    /// How many servers.
    pub desired: i64,
    /// Cloudspace.
    pub cloud_space: String,
    /// Bid as it was sent; spot pools only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bid_price: Option<String>,
    /// Autoscaling; spot pools only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
    /// Labels for nodes.
    pub custom_labels: BTreeMap<String, String>,
    /// Annotations for nodes.
    pub custom_annotations: BTreeMap<String, String>,
    /// Taints for nodes.
    pub custom_taints: Vec<CustomTaint>,
}

impl PoolSpec {
    /// The bid as a price.
    pub fn bid(&self) -> Option<Price> {
        self.bid_price.as_deref().and_then(Price::parse)
    }

    /// Number of servers asked for.
    pub fn wanted(&self) -> u32 {
        u32::try_from(self.desired).unwrap_or_default()
    }

    /// Reads a spec under the schema of its kind; unknown fields are dropped.
    ///
    /// # Errors
    /// Every violation.
    pub fn read(kind: PoolKind, spec: Option<&Value>) -> Result<Self, Vec<Cause>> {
        let mut reader = Reader { causes: Vec::new() };
        let empty = Value::Null;
        let spec = spec.unwrap_or(&empty);
        let field = |name: &str| spec.get(name).filter(|value| !value.is_null());
        let read = Self {
            bid_price: (kind == PoolKind::Spot).then(|| reader.text("spec.bidPrice", field("bidPrice"))),
            cloud_space: reader.text("spec.cloudSpace", field("cloudSpace")),
            desired: reader.integer("spec.desired", field("desired")),
            server_class: reader.text("spec.serverClass", field("serverClass")),
            autoscaling: (kind == PoolKind::Spot)
                .then(|| reader.parsed::<Autoscaling>("spec.autoscaling", field("autoscaling"))),
            custom_labels: reader.parsed("spec.customLabels", field("customLabels")),
            custom_annotations: reader.parsed("spec.customAnnotations", field("customAnnotations")),
            custom_taints: reader.parsed("spec.customTaints", field("customTaints")),
        };
        if let Some(bid) = &read.bid_price
            && reader.causes.iter().all(|cause| cause.field != "spec.bidPrice")
            && !bids::has_crd_form(bid)
        {
            reader.causes.push(Cause {
                field: "spec.bidPrice".into(),
                reason: "FieldValueInvalid",
                message: "Invalid value: \"string\": bidPrice can only be a positive number up to three decimal places"
                    .into(),
            });
        }
        if reader.causes.is_empty() {
            Ok(read)
        } else {
            Err(reader.causes)
        }
    }
}

/// Collects what is wrong while it reads.
struct Reader {
    causes: Vec<Cause>,
}

impl Reader {
    fn required(&mut self, field: &str) {
        self.causes.push(Cause {
            field: field.into(),
            reason: "FieldValueRequired",
            message: "Required value".into(),
        });
    }

    fn wrong_type(&mut self, field: &str, value: &Value, wanted: &str) {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        self.causes.push(Cause {
            field: field.into(),
            reason: "FieldValueTypeInvalid",
            message: format!("Invalid value: \"{found}\": {field} in body must be of type {wanted}: \"{found}\""),
        });
    }

    fn text(&mut self, field: &str, value: Option<&Value>) -> String {
        match value {
            Some(Value::String(text)) => return text.clone(),
            Some(other) => self.wrong_type(field, other, "string"),
            None => self.required(field),
        }
        String::new()
    }

    fn integer(&mut self, field: &str, value: Option<&Value>) -> i64 {
        match value {
            Some(number) if number.is_i64() => return number.as_i64().unwrap_or_default(),
            Some(other) => self.wrong_type(field, other, "integer"),
            None => self.required(field),
        }
        0
    }

    fn parsed<T: for<'de> Deserialize<'de> + Default>(&mut self, field: &str, value: Option<&Value>) -> T {
        let Some(value) = value else { return T::default() };
        T::deserialize(value).unwrap_or_else(|problem| {
            self.causes.push(Cause {
                field: field.into(),
                reason: "FieldValueInvalid",
                message: format!("Invalid value: {problem}"),
            });
            T::default()
        })
    }
}

/// The metadata the API keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// UID.
    pub uid: String,
    /// resourceVersion.
    pub version: u64,
    /// generation.
    pub generation: i64,
    /// creationTimestamp.
    pub created: DateTime<Utc>,
    /// deletionTimestamp.
    pub deleting: Option<DateTime<Utc>>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

impl Meta {
    /// As JSON.
    pub fn json(&self) -> Value {
        let mut meta = Map::new();
        meta.insert("name".into(), json!(self.name));
        meta.insert("namespace".into(), json!(self.namespace));
        meta.insert("uid".into(), json!(self.uid));
        meta.insert("resourceVersion".into(), json!(self.version.to_string()));
        meta.insert("generation".into(), json!(self.generation));
        meta.insert("creationTimestamp".into(), json!(time(self.created)));
        if !self.labels.is_empty() {
            meta.insert("labels".into(), json!(self.labels));
        }
        if !self.annotations.is_empty() {
            meta.insert("annotations".into(), json!(self.annotations));
        }
        if let Some(deleting) = self.deleting {
            meta.insert("deletionTimestamp".into(), json!(time(deleting)));
            meta.insert("deletionGracePeriodSeconds".into(), json!(0));
        }
        meta.insert("finalizers".into(), json!(["ngpc.rxt.io/servers"]));
        Value::Object(meta)
    }
}

/// RFC 3339 with whole seconds.
pub(crate) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// A pool as the platform keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// Kind.
    pub kind: PoolKind,
    /// Metadata.
    pub meta: Meta,
    /// Spec.
    pub spec: PoolSpec,
    /// `bidStatus` or `reservedStatus`; absent at first (row 10).
    pub status: Option<&'static str>,
    /// `wonCount` or `reservedCount`; absent before the first auction.
    pub won: Option<u32>,
    /// Whether it has ever won anything: then losing is `Lost`, not `Pending`.
    pub has_won: bool,
    /// When the platform first looks at it.
    pub noticed: DateTime<Utc>,
    /// Keys that are on the nodes: labels, annotations, taints.
    pub applied: Option<[Vec<String>; 3]>,
    /// How many servers it ever had; numbers them.
    pub built: u32,
}

impl Pool {
    /// Kind and name.
    pub fn key(&self) -> PoolKey {
        PoolKey {
            kind: self.kind,
            name: self.meta.name.clone(),
        }
    }

    /// The object as the API shows it.
    pub fn json(&self) -> Value {
        let mut object = json!({
            "apiVersion": "ngpc.rxt.io/v1", "kind": self.kind.kind(), "metadata": self.meta.json(), "spec": self.spec,
        });
        if let (Some(status), Some(object)) = (self.status_json(), object.as_object_mut()) {
            object.insert("status".into(), status);
        }
        object
    }

    fn status_json(&self) -> Option<Value> {
        let (status_field, count_field) = match self.kind {
            PoolKind::Spot => ("bidStatus", "wonCount"),
            PoolKind::OnDemand => ("reservedStatus", "reservedCount"),
        };
        let mut status = Map::new();
        status.insert(status_field.into(), json!(self.status?));
        if let Some(won) = self.won {
            status.insert(count_field.into(), json!(won));
        }
        if let Some([labels, annotations, taints]) = &self.applied {
            status.insert(
                "customMetadataStatus".into(),
                json!({"annotations": annotations, "labels": labels, "taints": taints}),
            );
        }
        Some(Value::Object(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_dropped_and_the_rest_reads_back_with_defaults() {
        let sent = json!({"serverClass": "ch.vs1.large-ord", "bidPrice": "0.01", "cloudSpace": "a", "desired": 1, "cloudspace": "b"});
        let spec = PoolSpec::read(PoolKind::Spot, Some(&sent)).unwrap();
        assert_eq!(
            serde_json::to_value(&spec).unwrap(),
            json!({"serverClass": "ch.vs1.large-ord", "bidPrice": "0.01", "cloudSpace": "a", "desired": 1,
                   "autoscaling": {"enabled": false}, "customAnnotations": {}, "customLabels": {}, "customTaints": []})
        );
    }

    #[test]
    fn every_violation_of_the_schema_is_named() {
        let sent = json!({"serverClass": 5, "bidPrice": "$0.04", "customLabels": {"a": 1}});
        let causes = PoolSpec::read(PoolKind::Spot, Some(&sent)).unwrap_err();
        let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "spec.cloudSpace",
                "spec.desired",
                "spec.serverClass",
                "spec.customLabels",
                "spec.bidPrice"
            ]
        );
        assert!(
            causes[4]
                .message
                .contains("bidPrice can only be a positive number up to three decimal places")
        );
    }
}

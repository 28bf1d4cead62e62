//! The platform's objects as far as we use them (rackspace-spot §3).
//!
//! Reads leniently what is only shown, strictly what is decided on. Called by the client; everything else works on these values.

use crate::cloud::spot::reader::{FieldError, Reader};
use crate::pricing::Price;
use crate::scheduling::CapacityType;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Label that ties a pool to its cloudspace.
pub const CLOUDSPACE_LABEL: &str = "ngpc.rxt.io/cloudspace";

/// The two kinds of pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolKind {
    /// A standing bid.
    Spot,
    /// A reservation at the fixed price.
    OnDemand,
}

impl PoolKind {
    /// Both, in the order in which they are asked for.
    pub const ALL: [Self; 2] = [Self::Spot, Self::OnDemand];

    /// The resource in URLs.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Spot => "spotnodepools",
            Self::OnDemand => "ondemandnodepools",
        }
    }

    /// The kind in bodies.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Spot => "SpotNodePool",
            Self::OnDemand => "OnDemandNodePool",
        }
    }

    /// The word in provider IDs (surface §2.6).
    pub fn word(self) -> &'static str {
        match self {
            Self::Spot => "spot",
            Self::OnDemand => "ondemand",
        }
    }

    /// The kind that delivers a capacity type; reserved capacity is not sold here.
    pub fn of(capacity_type: CapacityType) -> Option<Self> {
        match capacity_type {
            CapacityType::Spot => Some(Self::Spot),
            CapacityType::OnDemand => Some(Self::OnDemand),
            CapacityType::Reserved => None,
        }
    }

    /// The capacity type that this kind delivers.
    pub fn capacity_type(self) -> CapacityType {
        match self {
            Self::Spot => CapacityType::Spot,
            Self::OnDemand => CapacityType::OnDemand,
        }
    }
}

/// The floor of a class as published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Floor {
    /// The field is missing: nothing is known.
    Unpublished,
    /// Published but empty or unreadable: the platform's own webhook stumbles over it, so no bid is ever accepted (rackspace-spot §4.2).
    Unusable,
    /// The lowest bid.
    At(Price),
}

impl Floor {
    /// The amount, if there is one.
    pub fn price(self) -> Option<Price> {
        match self {
            Self::At(price) => Some(price),
            Self::Unpublished | Self::Unusable => None,
        }
    }
}

/// A machine type of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerClass {
    /// E.g. `gp.vs1.medium-iad`.
    pub name: String,
    /// Its region.
    pub region: String,
    /// `available`, or a word that means it cannot be ordered.
    pub availability: String,
    /// As written: `2`.
    pub cpu: String,
    /// As written: `3.75GB`.
    pub memory: String,
    /// As written: `100GB`; missing for bare metal and small legacy classes.
    pub disk: Option<String>,
    /// Number of GPUs, where given as a number.
    pub gpu: Option<i64>,
    /// The lowest bid.
    pub floor: Floor,
    /// The market price, where given and not zero.
    pub market: Option<Price>,
    /// The fixed price for an hour.
    pub on_demand: Option<Price>,
    /// How many exist at all, where the platform says.
    pub capacity: Option<i64>,
    /// How many are free now, where the platform says. Zero does not mean that a higher bid wins nothing.
    pub available: Option<i64>,
}

impl ServerClass {
    /// Reads one.
    pub fn read(top: &Reader<'_>) -> Result<Self, FieldError> {
        let (spec, status) = (top.at("spec"), top.at("status"));
        let resources = spec.at("resources");
        let floor = spec.at("minBidPricePerHour");
        let price = |at: Reader<'_>| at.raw().and_then(|v| Price::from_json(v).ok()).filter(|p| !p.is_zero());
        Ok(Self {
            name: top.at("metadata").at("name").text()?.to_owned(),
            region: spec.at("region").text()?.to_owned(),
            availability: spec.at("availability").optional_text().unwrap_or_default().to_owned(),
            cpu: scalar_text(&resources.at("cpu"))?,
            memory: resources.at("memory").text()?.to_owned(),
            disk: resources
                .at("disk")
                .optional_text()
                .filter(|d| !d.is_empty())
                .map(str::to_owned),
            gpu: resources.at("gpu").optional_integer(),
            floor: match floor.raw() {
                None => Floor::Unpublished,
                Some(value) => Price::from_json(value).map_or(Floor::Unusable, Floor::At),
            },
            market: price(status.at("spotPricing").at("marketPricePerHour")),
            on_demand: price(spec.at("onDemandPricing").at("cost"))
                .and_then(|cost| per_hour(cost, spec.at("onDemandPricing").at("interval").optional_text())),
            capacity: status.at("capacity").optional_integer(),
            available: status.at("available").optional_integer(),
        })
    }

    /// Whether it can be ordered at all.
    pub fn is_offered(&self) -> bool {
        self.availability == "available"
    }
}

/// A number that is written as a string, or as a number by a platform that forgot.
fn scalar_text(at: &Reader<'_>) -> Result<String, FieldError> {
    match at.raw() {
        Some(Value::Number(number)) => Ok(number.to_string()),
        _ => at.text().map(str::to_owned),
    }
}

/// A cost per interval as a price per hour; an interval that is no positive duration makes it unknown.
fn per_hour(cost: Price, interval: Option<&str>) -> Option<Price> {
    let Some(text) = interval.filter(|text| !text.is_empty()) else {
        return Some(cost);
    };
    let seconds = crate::api::GoDuration::parse(text).ok()?.as_std().as_secs();
    if seconds == 0 {
        return None;
    }
    let factor = rust_decimal::Decimal::from(3600).checked_div(rust_decimal::Decimal::from(seconds))?;
    Price::new(cost.amount().checked_mul(factor)?)
        .ok()
        .filter(|price| !price.is_zero())
}

/// A managed cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cloudspace {
    /// Its name.
    pub name: String,
    /// Its region.
    pub region: String,
    /// `Ready`, or another word.
    pub phase: String,
    /// Keys of the assigned servers, each of which begins with its pool's UUID (architecture §7.13), with the servers' names; a name may be empty. None
    /// when the answer has no status at all.
    pub assigned_servers: Option<BTreeMap<String, String>>,
}

impl Cloudspace {
    /// Reads one.
    pub fn read(top: &Reader<'_>) -> Result<Self, FieldError> {
        let status = top.at("status");
        Ok(Self {
            name: top.at("metadata").at("name").text()?.to_owned(),
            region: top.at("spec").at("region").text()?.to_owned(),
            phase: status.at("phase").optional_text().unwrap_or_default().to_owned(),
            assigned_servers: if status.is_present() {
                let servers = status.at("assignedServers");
                let name = |key: &str| servers.at(key).at("serverName").optional_text().unwrap_or_default();
                let keys = servers.keys()?.into_iter();
                Some(keys.map(|key| (key.to_owned(), name(key).to_owned())).collect())
            } else {
                None
            },
        })
    }

    /// Keys and names of the servers of one pool, in the order of the keys.
    pub fn servers_of<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.assigned_servers
            .iter()
            .flatten()
            .map(|(key, name)| (key.as_str(), name.as_str()))
            .filter(move |(key, _)| key.starts_with(pool))
    }
}

/// A pool, as read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Its kind.
    pub kind: PoolKind,
    /// Its name, a UUID.
    pub name: String,
    /// The cloudspace that it belongs to, by spec or (where that is missing) by label.
    pub cloudspace: String,
    /// Its server class.
    pub server_class: String,
    /// What was bid.
    pub bid: Option<Price>,
    /// How many servers it wants.
    pub desired: i64,
    /// Labels that it gives its nodes.
    pub custom_labels: BTreeMap<String, String>,
    /// Its own labels.
    pub labels: BTreeMap<String, String>,
    /// When it was made.
    pub created: Option<DateTime<Utc>>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// `bidStatus` or `reservedStatus`, as written.
    pub status: String,
    /// How many servers it won or reserved.
    pub won: i64,
}

impl Pool {
    /// Reads one.
    pub fn read(kind: PoolKind, top: &Reader<'_>) -> Result<Self, FieldError> {
        let (metadata, spec, status) = (top.at("metadata"), top.at("spec"), top.at("status"));
        let labels = metadata.at("labels").text_map();
        let cloudspace = match spec.at("cloudSpace").text() {
            Ok(name) => name.to_owned(),
            Err(missing) => labels.get(CLOUDSPACE_LABEL).cloned().ok_or(missing)?,
        };
        let (word, count) = match kind {
            PoolKind::Spot => ("bidStatus", "wonCount"),
            PoolKind::OnDemand => ("reservedStatus", "reservedCount"),
        };
        Ok(Self {
            kind,
            name: metadata.at("name").text()?.to_owned(),
            cloudspace,
            server_class: spec.at("serverClass").text()?.to_owned(),
            bid: spec.at("bidPrice").raw().and_then(|v| Price::from_json(v).ok()),
            desired: spec.at("desired").optional_integer().unwrap_or_default(),
            custom_labels: spec.at("customLabels").text_map(),
            labels,
            created: metadata.at("creationTimestamp").optional_instant(),
            deleting: metadata.at("deletionTimestamp").is_present(),
            status: status.at(word).optional_text().unwrap_or_default().to_owned(),
            won: status.at(count).optional_integer().unwrap_or_default(),
        })
    }
}

/// A taint that the platform puts on a pool's nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolTaint {
    /// Key.
    pub key: String,
    /// Value, possibly empty.
    pub value: Option<String>,
    /// Effect.
    pub effect: String,
}

/// A pool to be made: always one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPool {
    /// Its kind.
    pub kind: PoolKind,
    /// Its name, a lowercase UUID (rackspace-spot §4.1).
    pub name: String,
    /// The cloudspace.
    pub cloudspace: String,
    /// The server class.
    pub server_class: String,
    /// What is bid; only for spot.
    pub bid: Option<Price>,
    /// Labels for the pool itself, beside the one that names the cloudspace.
    pub labels: BTreeMap<String, String>,
    /// Labels for its node.
    pub custom_labels: BTreeMap<String, String>,
    /// Annotations for its node.
    pub custom_annotations: BTreeMap<String, String>,
    /// Taints for its node.
    pub custom_taints: Vec<PoolTaint>,
}

impl NewPool {
    /// The body of the create (rackspace-spot §3.5, §3.6).
    pub fn body(&self, namespace: &str) -> Value {
        let mut labels = self.labels.clone();
        labels.insert(CLOUDSPACE_LABEL.to_owned(), self.cloudspace.clone());
        let taints: Vec<Value> = self.custom_taints.iter().map(taint_body).collect();
        let mut spec = json!({
            "serverClass": self.server_class,
            "desired": 1,
            "cloudSpace": self.cloudspace,
            "customLabels": self.custom_labels,
            "customAnnotations": self.custom_annotations,
            "customTaints": taints,
        });
        if let (PoolKind::Spot, Some(fields)) = (self.kind, spec.as_object_mut()) {
            fields.insert("autoscaling".into(), json!({"enabled": false}));
            if let Some(bid) = self.bid {
                // A string, bare decimal (rackspace-spot §4.2).
                fields.insert("bidPrice".into(), json!(bid.to_string()));
            }
        }
        json!({
            "apiVersion": "ngpc.rxt.io/v1",
            "kind": self.kind.kind(),
            "metadata": {"name": self.name, "namespace": namespace, "labels": labels},
            "spec": spec,
        })
    }
}

fn taint_body(taint: &PoolTaint) -> Value {
    match &taint.value {
        Some(value) => json!({"key": taint.key, "value": value, "effect": taint.effect}),
        None => json!({"key": taint.key, "effect": taint.effect}),
    }
}

/// An organization of the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Organization {
    /// E.g. `org_kNYILtp8ZZNvkZ5g`.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The API namespace, if given.
    pub namespace: Option<String>,
}

impl Organization {
    /// Reads one.
    pub fn read(top: &Reader<'_>) -> Result<Self, FieldError> {
        Ok(Self {
            id: top.at("id").text()?.to_owned(),
            name: top.at("name").optional_text().unwrap_or_default().to_owned(),
            namespace: top
                .at("metadata")
                .at("namespace")
                .optional_text()
                .filter(|n| !n.is_empty())
                .map(str::to_owned),
        })
    }
}

/// The API namespace of an organization id: lower case, `_` becomes `-` (rackspace-spot §1).
pub fn namespace_of(organization_id: &str) -> String {
    organization_id.to_lowercase().replace('_', "-")
}

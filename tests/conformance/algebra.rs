//! The small questions: quantities, resource lists, ports, selectors, labels, taints, hashes, durations.

use crate::folder;
use crate::report::{Outcome, Report};
use crate::{removal, requirements, scenario};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use karpenter::api::{GoDuration, NillableDuration, NodePool};
use karpenter::resources::{Quantity, ResourceList};
use karpenter::scheduling::ports::HostPort;
use karpenter::scheduling::taints::{explain_untolerated, merged, tolerates_all};
use karpenter::scheduling::{Selector, Taint, Toleration, WellKnownLabels, adjusted_price, labels, pod};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;
use std::path::Path;

/// What differs in a case.
#[derive(Default)]
pub struct Found(pub Vec<String>);

impl Found {
    /// Notes a difference.
    pub fn equal<T: PartialEq<U> + Debug, U: Debug>(&mut self, what: &str, expected: &T, ours: &U) {
        if expected != ours {
            self.0.push(format!("{what}: expected {expected:?}, ours {ours:?}"));
        }
    }
}

/// Runs every family of the folder.
pub fn run(folder: &Path, report: &mut Report) {
    for (family, cases) in folder::families(folder) {
        for case in &cases {
            let id = case["id"].as_str().unwrap();
            report.note(&format!("algebra/{family}"), id, one(&family, case));
        }
    }
}

fn one(family: &str, case: &Value) -> Outcome {
    let mut found = Found::default();
    match family {
        "quantity" => return quantity(case),
        "quantity-pair" => quantity_pair(case, &mut found),
        "resource-list" => resource_list(case, &mut found),
        "limits" => {
            let exceeded = parsed::<ResourceList>(&case["limits"])
                .exceeded_by(&parsed(&case["usage"]))
                .is_some();
            found.equal("exceeded", &case["exceeded"].as_bool().unwrap(), &exceeded);
        }
        "allocatable" => allocatable(case, &mut found),
        "adjusted-price" => {
            let ours = adjusted_price(case["price"].as_f64().unwrap(), case["adjustment"].as_str().unwrap());
            let expected = case["out"].as_f64().unwrap();
            found.equal("price", &format!("{expected:.9}"), &format!("{ours:.9}"));
        }
        "pod-requests" => pod_requests(case, &mut found),
        "host-ports" => host_ports(case, &mut found),
        "label-selector" => label_selector(case, &mut found),
        "labels" => label_keys(case, &mut found),
        "taints" => taints(case, &mut found),
        "nodepool-hash" => return nodepool_hash(case),
        "duration" => duration(case, &mut found),
        "requirement" => requirements::pair(case, &mut found),
        "requirement-chain" => requirements::chain(case, &mut found),
        "requirements" => requirements::sets(case, &mut found),
        "pod-requirements" => requirements::of_pods(case, &mut found),
        "validate-requirement" => requirements::validated(case, &mut found),
        "instance-order" => requirements::instance_order(case, &mut found),
        "budget" => removal::budget(case, &mut found),
        "budgets-by-reason" => removal::budgets(case, &mut found),
        "cron" => removal::cron(case, &mut found),
        "eviction-cost" => removal::eviction(case, &mut found),
        "lifetime-remaining" => removal::lifetime(case, &mut found),
        other => found.0.push(format!("no runner for family {other}")),
    }
    Outcome::of(found.0)
}

/// A value of the vectors as one of our types.
pub fn parsed<T: DeserializeOwned + Default>(value: &Value) -> T {
    if value.is_null() {
        T::default()
    } else {
        serde_json::from_value(value.clone()).unwrap()
    }
}

fn quantity(case: &Value) -> Outcome {
    let mut found = Found::default();
    let text = case["in"].as_str().unwrap();
    let ours = Quantity::parse(text);
    found.equal("ok", &case["ok"].as_bool().unwrap(), &ours.is_ok());
    let (Ok(ours), Some(canonical)) = (ours, case["canonical"].as_str()) else {
        return Outcome::of(found.0);
    };
    found.equal("canonical", &canonical, &ours.to_string());
    found.equal("text", &case["text"].as_str().unwrap(), &ours.text_as_read(text));
    found.equal("isZero", &case["isZero"].as_bool().unwrap(), &ours.is_zero());
    found.equal(
        "sign",
        &case["sign"].as_i64().unwrap(),
        &i64::try_from(ours.nanos().signum()).unwrap(),
    );
    let approximate = case["approxFloat"].as_f64().unwrap();
    if (ours.approximate() - approximate).abs() > approximate.abs() * 1e-12 {
        found.equal("approxFloat", &approximate, &ours.approximate());
    }
    let exact = |nanos: i128| {
        ours.nanos()
            .checked_div(nanos)
            .is_some_and(|v| i64::try_from(v).is_ok())
    };
    // A negative part of a unit behind a binary suffix loses its sign when upstream rounds it.
    let negative_part = |unit: i128| text.ends_with('i') && ours.is_negative() && ours.nanos() % unit != 0;
    let mut accident = None;
    for (field, unit, value) in [
        ("value", 1_000_000_000, ours.value()),
        ("milliValue", 1_000_000, ours.milli_value()),
    ] {
        if negative_part(unit) {
            accident = Some("rounding of a negative part");
        } else if exact(unit) {
            found.equal(field, &case[field].as_str().unwrap(), &value.to_string());
        } else {
            accident = Some("overflow");
        }
    }
    // Upstream's whole numbers beyond 64 bits are what is left after overflow; ours are cut at the range.
    match accident {
        Some(accident) if found.0.is_empty() => Outcome::DiffersBy(accident),
        _ => Outcome::of(found.0),
    }
}

fn quantity_pair(case: &Value, found: &mut Found) {
    let (a, b): (Quantity, Quantity) = (parsed(&case["a"]), parsed(&case["b"]));
    found.equal("cmp", &case["cmp"].as_i64().unwrap(), &(a.cmp(&b) as i64));
    found.equal("add", &case["add"].as_str().unwrap(), &(a + b).to_string());
    found.equal("sub", &case["sub"].as_str().unwrap(), &(a - b).to_string());
}

fn texts(list: &ResourceList) -> Value {
    serde_json::to_value(list).unwrap()
}

fn resource_list(case: &Value, found: &mut Found) {
    let (a, b): (ResourceList, ResourceList) = (parsed(&case["a"]), parsed(&case["b"]));
    found.equal("merge", &case["merge"], &texts(&a.sum(&b)));
    found.equal("subtract", &case["subtract"], &texts(&a.minus(&b)));
    found.equal("max", &case["max"], &texts(&a.maximum(&b)));
    found.equal("fits", &case["fits"].as_bool().unwrap(), &a.fits(&b));
}

fn allocatable(case: &Value, found: &mut Found) {
    let mut kind = case.clone();
    kind["name"] = "t".into();
    kind["offerings"] = Value::Array(Vec::new());
    let kind = scenario::instance_type(&kind);
    found.equal(
        "allocatable",
        &parsed::<ResourceList>(&case["allocatable"]),
        kind.allocatable(),
    );
}

fn pod_requests(case: &Value, found: &mut Found) {
    let spec: core::PodSpec = parsed(&case["spec"]);
    let requests = pod::pod_requests(&spec);
    let limits = pod::pod_limits(&spec);
    found.equal("requests", &case["ceilingRequests"], &texts(&requests));
    found.equal("limits", &case["ceilingLimits"], &texts(&limits));
    let one = |list: ResourceList| texts(&list.with("pods", Quantity::units(1)));
    found.equal("requests of the pod", &case["requestsForPods"], &one(requests));
    found.equal("limits of the pod", &case["limitsForPods"], &one(limits));
}

fn ports(value: &Value) -> Vec<HostPort> {
    let spec = serde_json::json!({"containers": [{"name": "c", "ports": [value]}]});
    let pod = pod::Pod::from_parts(
        &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta::default(),
        &serde_json::from_value(spec).unwrap(),
    );
    pod.constraints.ports.clone()
}

fn host_ports(case: &Value, found: &mut Found) {
    let (used, wanted) = (ports(&case["used"]), ports(&case["wanted"]));
    let conflict = used
        .iter()
        .any(|used| wanted.iter().any(|wanted| used.conflicts(wanted)));
    found.equal("conflict", &case["conflict"].as_bool().unwrap(), &conflict);
}

fn label_selector(case: &Value, found: &mut Found) {
    let selector: Option<LabelSelector> = parsed(&case["selector"]);
    let selector = selector.as_ref().map(Selector::from_api);
    found.equal(
        "valid",
        &case["valid"].as_bool().unwrap(),
        &selector.as_ref().is_none_or(Selector::is_valid),
    );
    if let Some(matches) = case["matches"].as_bool() {
        let labels = parsed(&case["labels"]);
        found.equal(
            "matches",
            &matches,
            &selector.is_some_and(|selector| selector.matches(&labels)),
        );
    }
}

fn label_keys(case: &Value, found: &mut Found) {
    let well_known = WellKnownLabels::default();
    let key = case["label"].as_str().unwrap();
    found.equal("domain", &case["domain"].as_str().unwrap(), &labels::domain(key));
    found.equal(
        "restricted",
        &case["restricted"].as_bool().unwrap(),
        &well_known.restricts(key),
    );
    found.equal(
        "well known",
        &case["wellKnown"].as_bool().unwrap(),
        &well_known.contains(key),
    );
    if let Some(normalised) = case["normalised"].as_str() {
        found.equal("normalised", &normalised, &labels::normalised(key));
    }
}

fn taints(case: &Value, found: &mut Found) {
    let list = |field: &str| {
        parsed::<Vec<core::Taint>>(&case[field])
            .iter()
            .map(Taint::from)
            .collect::<Vec<_>>()
    };
    let taints = list("taints");
    let tolerations: Vec<Toleration> = parsed::<Vec<core::Toleration>>(&case["tolerations"])
        .iter()
        .map(Toleration::from)
        .collect();
    found.equal(
        "tolerates",
        &case["tolerates"].as_bool().unwrap(),
        &tolerates_all(&taints, &tolerations),
    );
    let message = explain_untolerated(&taints, &tolerations).unwrap_or_default();
    found.equal("message", &case["message"].as_str().unwrap_or_default(), &message);
    if case.get("mergeWith").is_some() {
        let ours: Vec<String> = merged(&taints, &list("mergeWith"))
            .iter()
            .map(|taint| format!("{}={}:{}", taint.key, taint.value, taint.effect))
            .collect();
        found.equal("merged", &parsed::<Vec<String>>(&case["merged"]), &ours);
    }
}

fn nodepool_hash(case: &Value) -> Outcome {
    let pool = |field: &str| {
        let mut value = case[field].clone();
        if value.get("metadata").is_none() {
            value["metadata"] = serde_json::json!({});
        }
        NodePool::deserialize(value).unwrap()
    };
    let ours = pool("before").hash() != pool("after").hash();
    if ours == case["changes"].as_bool().unwrap() {
        return Outcome::Passed;
    }
    // The recorded accident: empty is not absent, and copies of one element count.
    let folded = |field: &str| {
        let mut value = case[field].clone();
        fold(&mut value["spec"]["template"]);
        value["spec"]["template"].clone()
    };
    if !ours && folded("before") == folded("after") {
        return Outcome::DiffersBy("11-3");
    }
    Outcome::Failed(format!("changes: expected {}, ours {ours}", case["changes"]))
}

/// Takes out what says nothing: empty lists, maps, texts and durations, and copies in lists.
fn fold(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(fold);
            let nothing = |v: &Value| match v {
                Value::Null => true,
                Value::Object(map) => map.is_empty(),
                Value::Array(list) => list.is_empty(),
                Value::String(text) => text.is_empty() || text == "0s",
                _ => false,
            };
            map.retain(|_, v| !nothing(v));
        }
        Value::Array(list) => {
            list.iter_mut().for_each(fold);
            list.sort_by_key(ToString::to_string);
            list.dedup();
        }
        _ => {}
    }
}

fn duration(case: &Value, found: &mut Found) {
    let text = case["in"].as_str().unwrap();
    let ours = GoDuration::parse(text);
    found.equal("ok", &case["ok"].as_bool().unwrap(), &ours.is_ok());
    if let (Ok(ours), Some(expected)) = (ours, case["nanoseconds"].as_str()) {
        found.equal("nanoseconds", &expected, &ours.nanos().to_string());
        found.equal("text", &case["text"].as_str().unwrap(), &ours.to_string());
    }
    let nillable = NillableDuration::parse(text).ok();
    let ours = nillable.as_ref().map(NillableDuration::as_str);
    found.equal("nillable", &case["nillable"].as_str(), &ours);
}

//! From a recorded scenario to the question of a pass.

use crate::machines;
use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1 as storage;
use karpenter::api::{Conditioned, NodeClaim, NodePool};
use karpenter::resources::ResourceList;
use karpenter::scheduling::pdb::{self, Budget};
use karpenter::scheduling::validation::{InvalidPod, validate_pod};
use karpenter::scheduling::{
    Availability, DeviceClaims, Fate, InstanceType, MinValuesPolicy, Offering, Operator, Options, Overhead, Pod, Pool,
    PreferencePolicy, Problem, Requirement, Requirements, Spec, Ties, Volumes, WellKnownLabels,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Catalogues of instance types, by name.
pub type Catalogs = BTreeMap<String, Value>;

/// A scenario made ready to be solved.
pub struct Scenario {
    pub problem: Problem,
    pub options: Options,
    pub rejected: BTreeMap<String, Vec<InvalidPod>>,
}

fn list<T: DeserializeOwned>(scenario: &Value, field: &str) -> Vec<T> {
    let entries = scenario.get(field).and_then(Value::as_array).into_iter().flatten();
    entries
        .map(|entry| serde_json::from_value(entry.clone()).unwrap_or_else(|e| panic!("{field}: {e}")))
        .collect()
}

fn strings(value: Option<&Value>) -> Vec<&str> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// The name by which answers call a pod.
pub fn pod_name(pod: &Pod) -> String {
    if &*pod.namespace == "default" {
        pod.name.to_string()
    } else {
        format!("{}/{}", pod.namespace, pod.name)
    }
}

impl Scenario {
    /// Reads a scenario, fills in what the README says was filled in, and selects the pods (scheduling 2-2).
    pub fn read(scenario: &Value, catalogs: &Catalogs, ties: Ties) -> Self {
        let now: DateTime<Utc> = scenario["now"].as_str().unwrap().parse().unwrap();
        let well_known = Arc::new(WellKnownLabels::with(strings(scenario.get("wellKnownLabels"))));
        let volumes = Arc::new(volumes(scenario));
        let claims: Vec<NodeClaim> = list(scenario, "nodeClaims");
        let pods: Vec<Arc<Pod>> = pods(scenario, now).into_iter().map(Arc::new).collect();
        let nodes = machines::machines(
            scenario,
            &claims,
            list(scenario, "nodes"),
            list(scenario, "csiNodes"),
            &pods,
        );
        let budgets: Vec<Budget> = list::<PodDisruptionBudget>(scenario, "podDisruptionBudgets")
            .iter()
            .map(Budget::from)
            .collect();
        let mut rejected = BTreeMap::new();
        let mut chosen = Vec::new();
        for pod in pods.iter().filter(|pod| pod.standing.is_provisionable()) {
            let findings = validate_pod(pod, &volumes, &well_known);
            if findings.is_empty() {
                chosen.push(Arc::clone(pod));
            } else {
                rejected.insert(pod_name(pod), findings);
            }
        }
        let leaving = nodes
            .iter()
            .filter(|node| node.fate == Fate::Leaves)
            .flat_map(|node| &node.pods);
        chosen.extend(
            leaving
                .filter(|pod| pdb::is_currently_reschedulable(pod, &budgets, now))
                .cloned(),
        );
        let problem = Problem {
            pools: pools(scenario, catalogs),
            nodes,
            pods: chosen,
            daemons: daemons(scenario, &pods),
            namespaces: namespaces(scenario),
            volumes,
            well_known,
        };
        Self {
            problem,
            options: options(scenario, ties),
            rejected,
        }
    }
}

fn options(scenario: &Value, ties: Ties) -> Options {
    let options = &scenario["options"];
    let is = |field: &str, text: &str| options[field].as_str() == Some(text);
    Options {
        preferences: if is("preferencePolicy", "Ignore") {
            PreferencePolicy::Ignore
        } else {
            PreferencePolicy::Respect
        },
        min_values: if is("minValuesPolicy", "BestEffort") {
            MinValuesPolicy::BestEffort
        } else {
            MinValuesPolicy::Strict
        },
        device_claims: match options["ignoreDRARequests"].as_bool() {
            Some(false) => DeviceClaims::Overlook,
            _ => DeviceClaims::Refuse,
        },
        ties,
        max_instance_types: usize::try_from(options["maxInstanceTypes"].as_u64().unwrap()).unwrap(),
    }
}

fn pods(scenario: &Value, now: DateTime<Utc>) -> Vec<Pod> {
    let mut result = Vec::new();
    for entry in scenario["pods"].as_array().unwrap() {
        let mut entry = entry.clone();
        let bound = entry.pointer("/spec/nodeName").is_some();
        if entry.pointer("/metadata/namespace").is_none() {
            entry["metadata"]["namespace"] = json!("default");
        }
        if !bound && entry.pointer("/status/conditions").is_none() {
            entry["status"]["phase"] = json!("Pending");
            entry["status"]["conditions"] =
                json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        } else if bound && entry.pointer("/status/phase").is_none() {
            entry["status"]["phase"] = json!("Running");
        }
        let pod: core::Pod = serde_json::from_value(entry.clone()).unwrap();
        let mut pod = Pod::from_api(&pod);
        if pod.uid.is_empty() {
            pod.uid = pod.key().into();
        }
        if entry.pointer("/metadata/creationTimestamp").is_none() {
            pod.created = now;
        }
        result.push(pod);
    }
    result
}

fn namespaces(scenario: &Value) -> BTreeMap<String, BTreeMap<String, String>> {
    if scenario.get("namespaces").is_none() {
        return BTreeMap::from([("default".to_owned(), BTreeMap::new())]);
    }
    let all = list::<core::Namespace>(scenario, "namespaces").into_iter();
    all.map(|n| (n.metadata.name.unwrap(), n.metadata.labels.unwrap_or_default()))
        .collect()
}

fn volumes(scenario: &Value) -> Volumes {
    let claims = list::<core::PersistentVolumeClaim>(scenario, "persistentVolumeClaims");
    let volumes = list::<core::PersistentVolume>(scenario, "persistentVolumes");
    let classes = list::<storage::StorageClass>(scenario, "storageClasses");
    let key = |m: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
        format!(
            "{}/{}",
            m.namespace.as_deref().unwrap_or("default"),
            m.name.as_deref().unwrap()
        )
    };
    Volumes {
        claims: claims
            .iter()
            .map(|claim| (key(&claim.metadata), claim.into()))
            .collect(),
        volumes: volumes
            .iter()
            .map(|v| (v.metadata.name.clone().unwrap(), v.into()))
            .collect(),
        classes: classes
            .iter()
            .map(|c| (c.metadata.name.clone().unwrap(), c.into()))
            .collect(),
    }
}

fn daemons(scenario: &Value, pods: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
    let mut result = Vec::new();
    for mut set in list::<DaemonSet>(scenario, "daemonSets") {
        let namespace = set
            .metadata
            .namespace
            .get_or_insert_with(|| "default".to_owned())
            .clone();
        let name = set.metadata.name.clone().unwrap();
        let owner = Some(("DaemonSet".into(), name.into()));
        let own = pods
            .iter()
            .filter(|pod| *pod.namespace == *namespace && pod.standing.controller == owner);
        let newest = own.max_by_key(|pod| pod.created);
        result.extend(Pod::for_daemon_set(&set, newest.map(AsRef::as_ref)).map(Arc::new));
    }
    result
}

fn pools(scenario: &Value, catalogs: &Catalogs) -> Vec<Pool> {
    let mut result = Vec::new();
    for pool in list::<NodePool>(scenario, "nodePools") {
        let class = &pool.spec.template.spec.node_class_ref;
        let supported = class.group == "karpenter.test.sh" && class.kind == "TestNodeClass";
        let ready = pool.status.as_ref().is_none_or(|s| s.conditions.is_empty()) || pool.is_true("Ready");
        if !supported || !ready || pool.is_static() || pool.is_deleting() {
            continue;
        }
        let name = pool.metadata.name.clone().unwrap();
        result.push(Pool::from_api(
            &pool,
            instance_types(&scenario["instanceTypes"][&name], catalogs),
        ));
    }
    result
}

fn instance_types(source: &Value, catalogs: &Catalogs) -> Arc<[Arc<InstanceType>]> {
    let empty = Vec::new();
    let inline = source.get("inline").and_then(Value::as_array);
    let named = source
        .get("catalog")
        .and_then(Value::as_str)
        .and_then(|name| catalogs[name].as_array());
    let all = inline.or(named).unwrap_or(&empty);
    let only = source.get("only").map(|_| strings(source.get("only")));
    let wanted = |name: &str| only.as_ref().is_none_or(|only| only.contains(&name));
    let mut result = Vec::new();
    for kind in all.iter().filter(|kind| wanted(kind["name"].as_str().unwrap())) {
        let mut kind = instance_type(kind);
        for rule in source
            .get("unavailable")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            close(&mut kind, rule);
        }
        result.push(Arc::new(kind));
    }
    result.into()
}

fn close(kind: &mut InstanceType, rule: &Value) {
    let fits =
        |field: &str, value: Option<&str>| matches!(rule[field].as_str(), Some("*")) || rule[field].as_str() == value;
    for offering in &mut kind.offerings {
        let capacity_type = offering
            .capacity_type()
            .map(karpenter::scheduling::CapacityType::as_str);
        if fits("type", Some(&kind.name)) && fits("zone", offering.zone()) && fits("capacityType", capacity_type) {
            offering.availability = Availability::Unavailable {
                reason: "as recorded".to_owned(),
            };
        }
    }
}

/// A recorded instance type.
pub fn instance_type(value: &Value) -> InstanceType {
    let amounts = |value: &Value| ResourceList::deserialize(value).unwrap_or_default();
    let overhead = &value["overhead"];
    let offerings = value["offerings"].as_array().unwrap().iter().map(|offering| {
        let mut result = Offering::with_requirements(
            requirements(&offering["requirements"]),
            offering["price"].as_f64().unwrap(),
        );
        if offering["available"].as_bool() != Some(true) {
            result.availability = Availability::Unavailable {
                reason: "as recorded".to_owned(),
            };
        }
        result
    });
    InstanceType::new(
        value["name"].as_str().unwrap(),
        requirements(&value["requirements"]),
        offerings.collect(),
        amounts(&value["capacity"]),
        Overhead {
            kube_reserved: amounts(&overhead["kubeReserved"]),
            system_reserved: amounts(&overhead["systemReserved"]),
            eviction_threshold: amounts(&overhead["evictionThreshold"]),
        },
    )
}

/// A recorded requirement.
pub fn requirement(value: &Value) -> Requirement {
    Requirement::from_spec(&Spec {
        key: value["key"].as_str().unwrap().to_owned(),
        operator: value["operator"].as_str().unwrap().parse::<Operator>().unwrap(),
        values: strings(value.get("values")).into_iter().map(str::to_owned).collect(),
        min_values: value
            .get("minValues")
            .and_then(Value::as_u64)
            .map(|least| u32::try_from(least).unwrap()),
    })
}

/// A recorded list of requirements.
pub fn requirements(value: &Value) -> Requirements {
    value.as_array().into_iter().flatten().map(requirement).collect()
}

//! Pods from fragments: each says one thing, and all together are the object.

use karpenter::scheduling::Pod;
use serde_json::{Map, Value, json};

/// Puts fragments together: objects by field, lists one after the other.
fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(more)) => into.extend(more),
        (into, more) => *into = more,
    }
}

/// The API object of a pod of these fragments.
pub fn object(name: &str, fragments: &[Value]) -> Value {
    let mut all = json!({"metadata": {"namespace": "default", "name": name, "uid": name}, "spec": {}});
    for fragment in fragments {
        merge(&mut all, fragment.clone());
    }
    let mut main = json!({"name": "main", "resources": {}});
    for side in ["requests", "limits"] {
        if let Some(amounts) = all.as_object_mut().unwrap().remove(side) {
            main["resources"][side] = amounts;
        }
    }
    if let Some(ports) = all.as_object_mut().unwrap().remove("ports") {
        main["ports"] = ports;
    }
    all["spec"]["containers"] = json!([main]);
    all
}

/// A pod of these fragments.
pub fn pod(name: &str, fragments: &[Value]) -> Pod {
    Pod::from_api(&serde_json::from_value(object(name, fragments)).unwrap())
}

/// So many pods of the same fragments.
pub fn pods(prefix: &str, many: usize, fragments: &[Value]) -> Vec<Pod> {
    (0..many)
        .map(|at| pod(&format!("{prefix}-{at:03}"), fragments))
        .collect()
}

fn amounts(list: &[(&str, &str)]) -> Map<String, Value> {
    list.iter()
        .map(|(name, amount)| ((*name).to_owned(), json!(amount)))
        .collect()
}

/// What it asks for.
pub fn ask(list: &[(&str, &str)]) -> Value {
    json!({"requests": amounts(list)})
}

/// What limits it, and what it therefore asks for (the API server fills requests in from limits).
pub fn limit(list: &[(&str, &str)]) -> Value {
    json!({"limits": amounts(list), "requests": amounts(list)})
}

/// Cores and memory.
pub fn size(cpu: &str, memory: &str) -> Value {
    ask(&[("cpu", cpu), ("memory", memory)])
}

/// A label of the pod.
pub fn label(key: &str, value: &str) -> Value {
    json!({"metadata": {"labels": {key: value}}})
}

/// The label that the spreads here count by.
pub fn test() -> Value {
    label("test", "test")
}

/// Another namespace.
pub fn in_namespace(name: &str) -> Value {
    json!({"metadata": {"namespace": name}})
}

/// A node selector.
pub fn sel(key: &str, value: &str) -> Value {
    json!({"spec": {"nodeSelector": {key: value}}})
}

fn expressions(all: &[(&str, &str, &[&str])]) -> Value {
    let one =
        |(key, operator, values): &(&str, &str, &[&str])| json!({"key": key, "operator": operator, "values": values});
    json!({"matchExpressions": all.iter().map(one).collect::<Vec<_>>()})
}

/// A required node affinity term; several fragments are alternatives.
pub fn must(key: &str, operator: &str, values: &[&str]) -> Value {
    must_all(&[(key, operator, values)])
}

/// A required node affinity term of several expressions.
pub fn must_all(all: &[(&str, &str, &[&str])]) -> Value {
    json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [expressions(all)]}}}}})
}

/// A preferred node affinity term.
pub fn prefer(weight: i32, key: &str, operator: &str, values: &[&str]) -> Value {
    prefer_all(weight, &[(key, operator, values)])
}

/// A preferred node affinity term of several expressions.
pub fn prefer_all(weight: i32, all: &[(&str, &str, &[&str])]) -> Value {
    let term = json!({"weight": weight, "preference": expressions(all)});
    json!({"spec": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}})
}

/// One pod term: the key, and the labels of the pods meant.
pub fn term(key: &str, of: &[(&str, &str)]) -> Value {
    let labels = amounts(of);
    json!({"topologyKey": key, "labelSelector": {"matchLabels": labels}})
}

fn pod_term(kind: &str, term: &Value) -> Value {
    json!({"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}})
}

fn preferred_pod_term(kind: &str, weight: i32, term: &Value) -> Value {
    let weighted = json!({"weight": weight, "podAffinityTerm": term});
    json!({"spec": {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}}})
}

/// Required pod affinity by a term.
pub fn near_by(term: &Value) -> Value {
    pod_term("podAffinity", term)
}

/// Required pod affinity.
pub fn near(key: &str, of: (&str, &str)) -> Value {
    near_by(&term(key, &[of]))
}

/// Required pod anti-affinity.
pub fn far(key: &str, of: (&str, &str)) -> Value {
    pod_term("podAntiAffinity", &term(key, &[of]))
}

/// Preferred pod affinity.
pub fn prefer_near(weight: i32, key: &str, of: (&str, &str)) -> Value {
    preferred_pod_term("podAffinity", weight, &term(key, &[of]))
}

/// Preferred pod anti-affinity.
pub fn prefer_far(weight: i32, key: &str, of: (&str, &str)) -> Value {
    preferred_pod_term("podAntiAffinity", weight, &term(key, &[of]))
}

/// A spread of the pods with `test=test` that binds, with what else it says.
pub fn spread_with(key: &str, skew: i32, more: Value) -> Value {
    let mut constraint = json!({
        "topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"test": "test"}},
    });
    merge(&mut constraint, more);
    json!({"spec": {"topologySpreadConstraints": [constraint]}})
}

/// A spread of the pods with `test=test` that binds.
pub fn spread(key: &str, skew: i32) -> Value {
    spread_with(key, skew, json!({}))
}

/// A spread of the pods with `test=test` that is a preference.
pub fn soft_spread(key: &str, skew: i32) -> Value {
    spread_with(key, skew, json!({"whenUnsatisfiable": "ScheduleAnyway"}))
}

/// A toleration.
pub fn tolerate(key: &str, operator: &str, value: &str, effect: &str) -> Value {
    json!({"spec": {"tolerations": [{"key": key, "operator": operator, "value": value, "effect": effect}]}})
}

/// A host port.
pub fn port(number: i32) -> Value {
    json!({"ports": [{"containerPort": number, "hostPort": number, "protocol": "TCP"}]})
}

/// A volume of a claim.
pub fn mount(claim: &str) -> Value {
    json!({"spec": {"volumes": [{"name": claim, "persistentVolumeClaim": {"claimName": claim}}]}})
}

/// A generic ephemeral volume; its claim is named after pod and volume.
pub fn ephemeral(volume: &str) -> Value {
    json!({"spec": {"volumes": [{"name": volume, "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}}]}})
}

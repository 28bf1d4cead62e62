//! What kubectl shows of built-in kinds.
//!
//! The columns a reader of a cluster's nodes and pods looks at, in upstream's order; kinds without an entry show their age. Called by
//! [`super::table`].

use super::object::{self, list, number, text};
use super::selectors::LabelSelector;
use super::table::{age, human, since};
use chrono::{DateTime, Utc};
use serde_json::Value;

/// One column: heading, type, priority, and how its cell is made.
pub(crate) struct Printer {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) priority: i64,
    pub(crate) print: fn(&Value, DateTime<Utc>) -> Value,
}

const fn shown(name: &'static str, print: fn(&Value, DateTime<Utc>) -> Value) -> Printer {
    Printer {
        name,
        kind: "string",
        priority: 0,
        print,
    }
}

const fn counted(name: &'static str, print: fn(&Value, DateTime<Utc>) -> Value) -> Printer {
    Printer {
        name,
        kind: "integer",
        priority: 0,
        print,
    }
}

const fn wide(name: &'static str, print: fn(&Value, DateTime<Utc>) -> Value) -> Printer {
    Printer {
        name,
        kind: "string",
        priority: 1,
        print,
    }
}

const AGE: Printer = shown("Age", age);

static PODS: &[Printer] = &[
    shown("Ready", |p, _| {
        let statuses = list(p, "/status/containerStatuses");
        let ready = statuses
            .iter()
            .filter(|c| c.get("ready") == Some(&Value::Bool(true)))
            .count();
        format!("{ready}/{}", list(p, "/spec/containers").len()).into()
    }),
    shown("Status", |p, _| pod_status(p).into()),
    shown("Restarts", |p, _| {
        let restarts = list(p, "/status/containerStatuses")
            .iter()
            .filter_map(|c| number(c, "/restartCount"));
        restarts.fold(0_i64, i64::saturating_add).to_string().into()
    }),
    AGE,
    wide("IP", |p, _| or_none(text(p, "/status/podIP"))),
    wide("Node", |p, _| or_none(text(p, "/spec/nodeName"))),
    wide("Nominated Node", |p, _| or_none(text(p, "/status/nominatedNodeName"))),
    wide("Readiness Gates", |_, _| "<none>".into()),
];

static NODES: &[Printer] = &[
    shown("Status", |n, _| {
        let ready = match object::condition(n, "Ready") {
            "True" => "Ready",
            "" => "Unknown",
            _ => "NotReady",
        };
        let cordoned = n.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
        if cordoned {
            format!("{ready},SchedulingDisabled").into()
        } else {
            ready.into()
        }
    }),
    shown("Roles", |n, _| {
        let labels = object::labels_at(n, "/metadata/labels");
        let roles: Vec<&str> = labels
            .keys()
            .filter_map(|k| k.strip_prefix("node-role.kubernetes.io/"))
            .collect();
        or_none(&roles.join(","))
    }),
    AGE,
    shown("Version", |n, _| text(n, "/status/nodeInfo/kubeletVersion").into()),
    wide("Internal-IP", |n, _| address(n, "InternalIP")),
    wide("External-IP", |n, _| address(n, "ExternalIP")),
    wide("OS-Image", |n, _| or_unknown(text(n, "/status/nodeInfo/osImage"))),
    wide("Kernel-Version", |n, _| {
        or_unknown(text(n, "/status/nodeInfo/kernelVersion"))
    }),
    wide("Container-Runtime", |n, _| {
        or_unknown(text(n, "/status/nodeInfo/containerRuntimeVersion"))
    }),
];

static NAMESPACES: &[Printer] = &[shown("Status", |n, _| text(n, "/status/phase").into()), AGE];

static DEPLOYMENTS: &[Printer] = &[
    shown("Ready", ready_of_wanted),
    shown("Up-to-date", |d, _| zero(d, "/status/updatedReplicas")),
    shown("Available", |d, _| zero(d, "/status/availableReplicas")),
    AGE,
    wide("Containers", |d, _| {
        joined(list(d, "/spec/template/spec/containers"), "/name")
    }),
    wide("Images", |d, _| {
        joined(list(d, "/spec/template/spec/containers"), "/image")
    }),
    wide("Selector", |d, _| selector(d)),
];

static REPLICA_SETS: &[Printer] = &[
    counted("Desired", |r, _| zero(r, "/spec/replicas")),
    counted("Current", |r, _| zero(r, "/status/replicas")),
    counted("Ready", |r, _| zero(r, "/status/readyReplicas")),
    AGE,
    wide("Containers", |d, _| {
        joined(list(d, "/spec/template/spec/containers"), "/name")
    }),
    wide("Images", |d, _| {
        joined(list(d, "/spec/template/spec/containers"), "/image")
    }),
    wide("Selector", |d, _| selector(d)),
];

static STATEFUL_SETS: &[Printer] = &[shown("Ready", ready_of_wanted), AGE];

static DAEMON_SETS: &[Printer] = &[
    counted("Desired", |d, _| zero(d, "/status/desiredNumberScheduled")),
    counted("Current", |d, _| zero(d, "/status/currentNumberScheduled")),
    counted("Ready", |d, _| zero(d, "/status/numberReady")),
    counted("Up-to-date", |d, _| zero(d, "/status/updatedNumberScheduled")),
    counted("Available", |d, _| zero(d, "/status/numberAvailable")),
    AGE,
];

static JOBS: &[Printer] = &[
    shown("Status", |j, _| {
        let is = |kind: &str| object::condition(j, kind) == "True";
        if is("Complete") {
            "Complete".into()
        } else if is("Failed") {
            "Failed".into()
        } else {
            "Running".into()
        }
    }),
    shown("Completions", |j, _| {
        let done = number(j, "/status/succeeded").unwrap_or(0);
        format!("{done}/{}", number(j, "/spec/completions").unwrap_or(1)).into()
    }),
    shown("Duration", |j, now| {
        let at = |p: &str| object::parse_time(text(j, p));
        let end = at("/status/completionTime").unwrap_or(now);
        at("/status/startTime").map_or_else(|| "".into(), |start| human(end.signed_duration_since(start)).into())
    }),
    AGE,
];

static BUDGETS: &[Printer] = &[
    shown("Min Available", |b, _| or_na(b.pointer("/spec/minAvailable"))),
    shown("Max Unavailable", |b, _| or_na(b.pointer("/spec/maxUnavailable"))),
    counted("Allowed Disruptions", |b, _| zero(b, "/status/disruptionsAllowed")),
    AGE,
];

static EVENTS: &[Printer] = &[
    shown("Last Seen", |e, now| {
        let last = [
            "/lastTimestamp",
            "/series/lastObservedTime",
            "/eventTime",
            "/metadata/creationTimestamp",
        ];
        let at = last
            .iter()
            .map(|p| text(e, p))
            .find(|t| !t.is_empty())
            .unwrap_or_default();
        since(at, now)
    }),
    shown("Type", |e, _| text(e, "/type").into()),
    shown("Reason", |e, _| text(e, "/reason").into()),
    shown("Object", |e, _| {
        format!(
            "{}/{}",
            text(e, "/involvedObject/kind").to_lowercase(),
            text(e, "/involvedObject/name")
        )
        .into()
    }),
    wide("Source", |e, _| text(e, "/source/component").into()),
    shown("Message", |e, _| text(e, "/message").trim().into()),
    wide("Count", |e, _| number(e, "/count").unwrap_or(1).into()),
    wide("Name", |e, _| object::name(e).into()),
];

static VOLUMES: &[Printer] = &[
    shown("Capacity", |v, _| text(v, "/spec/capacity/storage").into()),
    shown("Access Modes", |v, _| access_modes(list(v, "/spec/accessModes"))),
    shown("Reclaim Policy", |v, _| {
        text(v, "/spec/persistentVolumeReclaimPolicy").into()
    }),
    shown("Status", |v, _| volume_status(v)),
    shown("Claim", |v, _| match text(v, "/spec/claimRef/name") {
        "" => "".into(),
        name => format!("{}/{name}", text(v, "/spec/claimRef/namespace")).into(),
    }),
    shown("StorageClass", |v, _| text(v, "/spec/storageClassName").into()),
    AGE,
];

static CLAIMS: &[Printer] = &[
    shown("Status", |c, _| volume_status(c)),
    shown("Volume", |c, _| text(c, "/spec/volumeName").into()),
    shown("Capacity", |c, _| text(c, "/status/capacity/storage").into()),
    shown("Access Modes", |c, _| access_modes(list(c, "/status/accessModes"))),
    shown("StorageClass", |c, _| text(c, "/spec/storageClassName").into()),
    AGE,
];

static STORAGE_CLASSES: &[Printer] = &[
    shown("Provisioner", |s, _| text(s, "/provisioner").into()),
    shown("ReclaimPolicy", |s, _| text(s, "/reclaimPolicy").into()),
    shown("VolumeBindingMode", |s, _| text(s, "/volumeBindingMode").into()),
    shown("AllowVolumeExpansion", |s, _| {
        (s.get("allowVolumeExpansion") == Some(&Value::Bool(true))).into()
    }),
    AGE,
];

static ATTACHMENTS: &[Printer] = &[
    shown("Attacher", |a, _| text(a, "/spec/attacher").into()),
    shown("PV", |a, _| text(a, "/spec/source/persistentVolumeName").into()),
    shown("Node", |a, _| text(a, "/spec/nodeName").into()),
    shown("Attached", |a, _| {
        (a.pointer("/status/attached") == Some(&Value::Bool(true))).into()
    }),
    AGE,
];

static LEASES: &[Printer] = &[shown("Holder", |l, _| text(l, "/spec/holderIdentity").into()), AGE];

static CONFIG_MAPS: &[Printer] = &[counted("Data", |c, _| entries(c)), AGE];

static SECRETS: &[Printer] = &[
    shown("Type", |s, _| text(s, "/type").into()),
    counted("Data", |s, _| entries(s)),
    AGE,
];

static PRIORITIES: &[Printer] = &[
    counted("Value", |p, _| zero(p, "/value")),
    shown("Global-Default", |p, _| {
        (p.get("globalDefault") == Some(&Value::Bool(true))).into()
    }),
    AGE,
];

static DEFINITIONS: &[Printer] = &[shown("Created At", |d, _| {
    text(d, "/metadata/creationTimestamp").into()
})];

static OTHERS: &[Printer] = &[AGE];

/// The columns of a built-in kind after its name.
pub(crate) fn of(kind: &str) -> &'static [Printer] {
    match kind {
        "Pod" => PODS,
        "Node" => NODES,
        "Namespace" => NAMESPACES,
        "Deployment" => DEPLOYMENTS,
        "ReplicaSet" => REPLICA_SETS,
        "StatefulSet" => STATEFUL_SETS,
        "DaemonSet" => DAEMON_SETS,
        "Job" => JOBS,
        "PodDisruptionBudget" => BUDGETS,
        "Event" => EVENTS,
        "PersistentVolume" => VOLUMES,
        "PersistentVolumeClaim" => CLAIMS,
        "StorageClass" => STORAGE_CLASSES,
        "VolumeAttachment" => ATTACHMENTS,
        "Lease" => LEASES,
        "ConfigMap" => CONFIG_MAPS,
        "Secret" => SECRETS,
        "PriorityClass" => PRIORITIES,
        "CustomResourceDefinition" => DEFINITIONS,
        _ => OTHERS,
    }
}

fn or_none(text: &str) -> Value {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

fn or_unknown(text: &str) -> Value {
    if text.is_empty() {
        "<unknown>".into()
    } else {
        text.into()
    }
}

fn or_na(value: Option<&Value>) -> Value {
    value.map_or_else(
        || "N/A".into(),
        |v| v.as_str().map_or_else(|| v.to_string(), str::to_owned).into(),
    )
}

fn zero(object: &Value, pointer: &str) -> Value {
    number(object, pointer).unwrap_or(0).into()
}

fn ready_of_wanted(object: &Value, _: DateTime<Utc>) -> Value {
    let ready = number(object, "/status/readyReplicas").unwrap_or(0);
    format!("{ready}/{}", number(object, "/spec/replicas").unwrap_or(0)).into()
}

fn joined(items: &[Value], pointer: &str) -> Value {
    items
        .iter()
        .map(|i| text(i, pointer))
        .collect::<Vec<&str>>()
        .join(",")
        .into()
}

fn selector(object: &Value) -> Value {
    object
        .pointer("/spec/selector")
        .map_or_else(|| "".into(), |s| LabelSelector::text_of(s).into())
}

fn entries(object: &Value) -> Value {
    object
        .get("data")
        .and_then(Value::as_object)
        .map_or(0, serde_json::Map::len)
        .into()
}

fn access_modes(modes: &[Value]) -> Value {
    let short = |mode: &Value| match mode.as_str().unwrap_or_default() {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        _ => "",
    };
    modes.iter().map(short).collect::<Vec<&str>>().join(",").into()
}

fn volume_status(object: &Value) -> Value {
    if object::is_deleting(object) {
        "Terminating".into()
    } else {
        text(object, "/status/phase").into()
    }
}

fn address(node: &Value, kind: &str) -> Value {
    let found = list(node, "/status/addresses")
        .iter()
        .find(|a| text(a, "/type") == kind);
    or_none(found.map_or("", |a| text(a, "/address")))
}

fn pod_status(pod: &Value) -> String {
    if object::is_deleting(pod) {
        return "Terminating".into();
    }
    let gated = !list(pod, "/spec/schedulingGates").is_empty() && text(pod, "/spec/nodeName").is_empty();
    if gated {
        return "SchedulingGated".into();
    }
    let reason = text(pod, "/status/reason");
    if !reason.is_empty() {
        return reason.to_owned();
    }
    let waiting = list(pod, "/status/containerStatuses")
        .iter()
        .map(|c| text(c, "/state/waiting/reason"));
    if let Some(reason) = waiting.into_iter().find(|r| !r.is_empty()) {
        return reason.to_owned();
    }
    match text(pod, "/status/phase") {
        "Succeeded" => "Completed".into(),
        "Failed" => "Error".into(),
        phase => phase.to_owned(),
    }
}

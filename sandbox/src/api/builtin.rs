//! The built-in kinds: names, scope, subresources, and the typed form that decides which fields exist.
//!
//! Relies on k8s-openapi for the fields; [`super::kinds`] turns each line into a [`Resource`], [`super::defaults`] and [`super::validation`]
//! hold what the types do not say.

use super::kinds::{Origin, Resource, ScalePaths, Scope, StatusWrites};
use k8s_openapi::api::{apps::v1 as apps, batch::v1 as batch, coordination::v1 as coordination, core::v1 as core};
use k8s_openapi::api::{policy::v1 as policy, scheduling::v1 as scheduling, storage::v1 as storage};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::sync::Arc;

/// Whether a write of the spec moves `metadata.generation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// It does.
    Counted,
    /// The kind has none.
    Absent,
}

/// Whether an update may leave out the resourceVersion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlindUpdate {
    /// It may, and then overwrites whatever is there.
    Allowed,
    /// It may not.
    Refused,
}

/// One built-in kind.
#[derive(Debug)]
pub struct BuiltIn {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    scope: Scope,
    status: StatusWrites,
    scale: bool,
    selectable: &'static [&'static str],
    /// Whether the spec is counted.
    pub generation: Generation,
    /// Whether updates need a resourceVersion.
    pub blind_update: BlindUpdate,
    /// Reads the object as its type and writes it again: wrong types fail, unknown fields are gone.
    pub decode: fn(&Value) -> Result<Value, String>,
}

fn round_trip<T: DeserializeOwned + Serialize>(value: &Value) -> Result<Value, String> {
    let typed = T::deserialize(value).map_err(|e| e.to_string())?;
    serde_json::to_value(typed).map_err(|e| e.to_string())
}

impl BuiltIn {
    const fn new<T: DeserializeOwned + Serialize>(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
        scope: Scope,
    ) -> Self {
        Self {
            group,
            version,
            kind,
            plural,
            short_names: &[],
            categories: &[],
            scope,
            status: StatusWrites::Inline,
            scale: false,
            selectable: &[],
            generation: Generation::Absent,
            blind_update: BlindUpdate::Allowed,
            decode: round_trip::<T>,
        }
    }

    const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    const fn in_all(mut self) -> Self {
        self.categories = &["all"];
        self
    }

    const fn with_status(mut self) -> Self {
        self.status = StatusWrites::Subresource;
        self
    }

    const fn scaled(mut self) -> Self {
        self.scale = true;
        self
    }

    const fn select(mut self, paths: &'static [&'static str]) -> Self {
        self.selectable = paths;
        self
    }

    const fn counted(mut self) -> Self {
        self.generation = Generation::Counted;
        self
    }

    const fn locked(mut self) -> Self {
        self.blind_update = BlindUpdate::Refused;
        self
    }

    fn resource(&'static self) -> Resource {
        let owned = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        let scale = self.scale.then(|| ScalePaths {
            spec: "/spec/replicas".into(),
            status: "/status/replicas".into(),
            selector: Some("/spec/selector".into()),
        });
        Resource {
            group: self.group.into(),
            version: self.version.into(),
            kind: self.kind.into(),
            plural: self.plural.into(),
            singular: self.kind.to_lowercase(),
            short_names: owned(self.short_names),
            categories: owned(self.categories),
            scope: self.scope,
            status: self.status,
            scale,
            selectable: owned(self.selectable),
            columns: Vec::new(),
            origin: Origin::BuiltIn(self),
        }
    }
}

const POD_FIELDS: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
];

const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

use Scope::{Cluster, Namespaced};

static BUILT_INS: &[BuiltIn] = &[
    BuiltIn::new::<core::Pod>("", "v1", "Pod", "pods", Namespaced)
        .short(&["po"])
        .in_all()
        .with_status()
        .select(POD_FIELDS)
        .counted(),
    BuiltIn::new::<core::Node>("", "v1", "Node", "nodes", Cluster)
        .short(&["no"])
        .with_status()
        .select(&["spec.unschedulable"]),
    BuiltIn::new::<core::Namespace>("", "v1", "Namespace", "namespaces", Cluster)
        .short(&["ns"])
        .with_status()
        .select(&["status.phase"]),
    BuiltIn::new::<core::ServiceAccount>("", "v1", "ServiceAccount", "serviceaccounts", Namespaced).short(&["sa"]),
    BuiltIn::new::<core::Service>("", "v1", "Service", "services", Namespaced)
        .short(&["svc"])
        .in_all()
        .with_status(),
    BuiltIn::new::<core::ConfigMap>("", "v1", "ConfigMap", "configmaps", Namespaced).short(&["cm"]),
    BuiltIn::new::<core::Secret>("", "v1", "Secret", "secrets", Namespaced).select(&["type"]),
    BuiltIn::new::<core::Event>("", "v1", "Event", "events", Namespaced)
        .short(&["ev"])
        .select(EVENT_FIELDS),
    BuiltIn::new::<core::PersistentVolume>("", "v1", "PersistentVolume", "persistentvolumes", Cluster)
        .short(&["pv"])
        .with_status(),
    BuiltIn::new::<core::PersistentVolumeClaim>(
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        Namespaced,
    )
    .short(&["pvc"])
    .with_status(),
    BuiltIn::new::<apps::Deployment>("apps", "v1", "Deployment", "deployments", Namespaced)
        .short(&["deploy"])
        .in_all()
        .with_status()
        .scaled()
        .counted(),
    BuiltIn::new::<apps::ReplicaSet>("apps", "v1", "ReplicaSet", "replicasets", Namespaced)
        .short(&["rs"])
        .in_all()
        .with_status()
        .scaled()
        .select(&["status.replicas"])
        .counted(),
    BuiltIn::new::<apps::StatefulSet>("apps", "v1", "StatefulSet", "statefulsets", Namespaced)
        .short(&["sts"])
        .in_all()
        .with_status()
        .scaled()
        .counted(),
    BuiltIn::new::<apps::DaemonSet>("apps", "v1", "DaemonSet", "daemonsets", Namespaced)
        .short(&["ds"])
        .in_all()
        .with_status()
        .counted(),
    BuiltIn::new::<apps::ControllerRevision>("apps", "v1", "ControllerRevision", "controllerrevisions", Namespaced),
    BuiltIn::new::<batch::Job>("batch", "v1", "Job", "jobs", Namespaced)
        .in_all()
        .with_status()
        .counted(),
    BuiltIn::new::<policy::PodDisruptionBudget>(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        Namespaced,
    )
    .short(&["pdb"])
    .with_status()
    .counted()
    .locked(),
    BuiltIn::new::<storage::StorageClass>("storage.k8s.io", "v1", "StorageClass", "storageclasses", Cluster)
        .short(&["sc"]),
    BuiltIn::new::<storage::CSINode>("storage.k8s.io", "v1", "CSINode", "csinodes", Cluster),
    BuiltIn::new::<storage::CSIDriver>("storage.k8s.io", "v1", "CSIDriver", "csidrivers", Cluster),
    BuiltIn::new::<storage::VolumeAttachment>("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", Cluster)
        .with_status(),
    BuiltIn::new::<coordination::Lease>("coordination.k8s.io", "v1", "Lease", "leases", Namespaced).locked(),
    BuiltIn::new::<scheduling::PriorityClass>("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", Cluster)
        .short(&["pc"])
        .counted(),
    BuiltIn::new::<apiextensions::CustomResourceDefinition>(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        Cluster,
    )
    .short(&["crd", "crds"])
    .with_status()
    .counted()
    .locked(),
];

/// All built-in kinds.
pub(crate) fn resources() -> impl Iterator<Item = Arc<Resource>> {
    BUILT_INS.iter().map(|b| Arc::new(b.resource()))
}

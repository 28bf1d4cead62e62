//! What kinds are served: their names, scope, subresources, and where their rules come from.
//!
//! Built-in kinds come from [`super::builtin`], the others from CustomResourceDefinitions ([`super::crd`]). All other parts ask here.

use super::builtin::BuiltIn;
use super::validation::CustomSchema;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whether objects of a kind live in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// They do.
    Namespaced,
    /// They do not.
    Cluster,
}

/// Where a kind's `scale` subresource reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    /// JSON pointer of the wished number.
    pub spec: String,
    /// JSON pointer of the present number.
    pub status: String,
    /// JSON pointer of the selector, as text in the status or as a label selector in the spec.
    pub selector: Option<String>,
}

/// One printed column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// `string`, `integer`, `date`, …
    pub kind: String,
    /// 0 is always shown, anything else with `-o wide`.
    pub priority: i64,
    /// Simplified JSON path, as in a CRD.
    pub path: String,
}

/// Where the rules of a kind come from.
#[derive(Debug)]
pub enum Origin {
    /// Kubernetes' own.
    BuiltIn(&'static BuiltIn),
    /// A CustomResourceDefinition.
    Custom(Box<CustomSchema>),
}

/// Whether `status` is written through a subresource of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusWrites {
    /// Through `/status` only.
    Subresource,
    /// With the rest of the object.
    Inline,
}

/// One served kind.
#[derive(Debug)]
pub struct Resource {
    /// API group, empty for the core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Name in paths.
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// Short names.
    pub short_names: Vec<String>,
    /// Categories such as `all` or `karpenter`.
    pub categories: Vec<String>,
    /// Namespaced or not.
    pub scope: Scope,
    /// How status is written.
    pub status: StatusWrites,
    /// The scale subresource, if any.
    pub scale: Option<ScalePaths>,
    /// Field selectors beyond metadata.name and metadata.namespace.
    pub selectable: Vec<String>,
    /// Columns of a CRD; built-in kinds have their own printers.
    pub columns: Vec<Column>,
    /// Where the rules come from.
    pub origin: Origin,
}

impl Resource {
    /// `pods`, `nodepools.karpenter.sh`.
    pub fn qualified(&self) -> String {
        qualified(&self.plural, &self.group)
    }

    /// `Pod`, `NodePool.karpenter.sh`.
    pub fn qualified_kind(&self) -> String {
        qualified(&self.kind, &self.group)
    }

    /// `v1`, `karpenter.sh/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The built-in rules, if it is built in.
    pub fn built_in(&self) -> Option<&'static BuiltIn> {
        match &self.origin {
            Origin::BuiltIn(b) => Some(b),
            Origin::Custom(_) => None,
        }
    }

    /// Whether it is this core or grouped kind.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    /// Whether status has a subresource of its own.
    pub fn has_status(&self) -> bool {
        self.status == StatusWrites::Subresource
    }
}

/// `plural.group`, or `plural` for the core.
pub(crate) fn qualified(plural: &str, group: &str) -> String {
    if group.is_empty() {
        plural.to_owned()
    } else {
        format!("{plural}.{group}")
    }
}

/// All served kinds, by qualified name.
#[derive(Debug, Default, Clone)]
pub(crate) struct Registry {
    by_name: BTreeMap<String, Arc<Resource>>,
}

impl Registry {
    pub(crate) fn insert(&mut self, resource: Arc<Resource>) {
        self.by_name.insert(resource.qualified(), resource);
    }

    pub(crate) fn remove(&mut self, qualified: &str) {
        self.by_name.remove(qualified);
    }

    pub(crate) fn get(&self, qualified: &str) -> Option<&Arc<Resource>> {
        self.by_name.get(qualified)
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_name
            .get(&qualified(plural, group))
            .filter(|r| r.version == version)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.by_name.values()
    }
}

//! The pod itself.

use super::{Constraints, Standing};
use crate::resources::ResourceList;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A pod as placement sees it. What siblings have in common is behind an `Arc`, so that whoever reads thousands can share it.
#[derive(Debug, Clone, Default)]
pub struct Pod {
    /// Its UID.
    pub uid: Arc<str>,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its labels; selectors of other pods look at them.
    pub labels: Arc<BTreeMap<String, String>>,
    /// When it was created.
    pub created: DateTime<Utc>,
    /// Where it stands: phase, owner, binding, conditions.
    pub standing: Standing,
    /// What it asks for, `pods: 1` included (scheduling 8-1).
    pub requests: Arc<ResourceList>,
    /// What limits it, for metrics only (scheduling 8-2).
    pub limits: Arc<ResourceList>,
    /// Where it can go.
    pub constraints: Arc<Constraints>,
}

impl Pod {
    /// `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

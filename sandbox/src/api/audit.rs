//! Who asked for what, and what they were told: for tests that ask how many requests a run cost.
//!
//! Bounded; the counts go on when old entries are dropped. Written by [`super::server`].

use super::route::Verb;
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, VecDeque};

/// Who makes a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// User name.
    pub user: String,
    /// Groups.
    pub groups: Vec<String>,
}

impl Identity {
    /// A user in some groups.
    pub fn new(user: &str, groups: &[&str]) -> Self {
        Self {
            user: user.to_owned(),
            groups: groups.iter().map(|g| (*g).to_owned()).collect(),
        }
    }

    /// The administrator.
    pub fn admin() -> Self {
        Self::new("admin", &["system:masters"])
    }
}

/// One answered request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// When it was answered.
    pub at: DateTime<Utc>,
    /// By whom it was asked.
    pub user: String,
    /// What was asked.
    pub verb: Verb,
    /// Qualified kind, such as `nodepools.karpenter.sh`.
    pub resource: String,
    /// Subresource, or "".
    pub subresource: String,
    /// Namespace, or "".
    pub namespace: String,
    /// Name, or "".
    pub name: String,
    /// HTTP status of the answer.
    pub code: u16,
}

#[derive(Debug)]
pub(crate) struct Audit {
    entries: VecDeque<AuditEntry>,
    counts: BTreeMap<(Verb, String), u64>,
    capacity: usize,
    recorded: u64,
}

impl Audit {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            counts: BTreeMap::new(),
            capacity,
            recorded: 0,
        }
    }

    pub(crate) fn record(&mut self, entry: AuditEntry) {
        self.recorded = self.recorded.saturating_add(1);
        let count = self.counts.entry((entry.verb, entry.resource.clone())).or_default();
        *count = count.saturating_add(1);
        while self.entries.len() >= self.capacity.max(1) {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    pub(crate) fn entries(&self) -> Vec<AuditEntry> {
        self.entries.iter().cloned().collect()
    }

    /// Shows the kept entries from a running number on; returns the number of the next one.
    pub(crate) fn from(&self, number: u64, look: impl FnMut(&AuditEntry)) -> u64 {
        let fresh = usize::try_from(self.recorded.saturating_sub(number)).unwrap_or(usize::MAX);
        let old = self.entries.len().saturating_sub(fresh);
        self.entries.range(old..).for_each(look);
        self.recorded
    }

    pub(crate) fn counts(&self) -> BTreeMap<(Verb, String), u64> {
        self.counts.clone()
    }
}

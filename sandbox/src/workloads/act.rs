//! What a controller wants done: values, carried out by [`super::run`].

use crate::observe::Name;
use chrono::{DateTime, Utc};
use serde_json::Value;

/// A kind that controllers write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Pod,
    Node,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    Claim,
    Volume,
    Attachment,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Deed {
    /// Create this; the name says where.
    Create(Value),
    /// Merge-patch.
    Patch(Value),
    /// Merge-patch the status.
    Status(Value),
    /// Delete the object of this UID.
    Delete { uid: String, grace: Option<u32> },
}

/// One write to one object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Act {
    pub(crate) sort: Sort,
    pub(crate) name: Name,
    pub(crate) deed: Deed,
}

impl Act {
    pub(crate) fn create(sort: Sort, namespace: &str, body: Value) -> Self {
        Self {
            sort,
            name: Name::new(namespace, ""),
            deed: Deed::Create(body),
        }
    }

    pub(crate) fn patch(sort: Sort, name: &Name, body: Value) -> Self {
        Self {
            sort,
            name: name.clone(),
            deed: Deed::Patch(body),
        }
    }

    pub(crate) fn status(sort: Sort, name: &Name, body: Value) -> Self {
        Self {
            sort,
            name: name.clone(),
            deed: Deed::Status(body),
        }
    }

    pub(crate) fn delete(sort: Sort, name: &Name, uid: Option<&String>, grace: Option<u32>) -> Self {
        let uid = uid.cloned().unwrap_or_default();
        Self {
            sort,
            name: name.clone(),
            deed: Deed::Delete { uid, grace },
        }
    }
}

/// What to do now, and when to look again by itself.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub(crate) acts: Vec<Act>,
    pub(crate) next: Option<DateTime<Utc>>,
}

impl Plan {
    /// Looks again then.
    pub(crate) fn wake_at(&mut self, at: DateTime<Utc>) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// Whether an instant has come; if not, it is one to look again at.
    pub(crate) fn due(&mut self, at: DateTime<Utc>, now: DateTime<Utc>) -> bool {
        if at > now {
            self.wake_at(at);
        }
        at <= now
    }
}

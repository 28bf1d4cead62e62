//! What an Event says, and about which object.
//!
//! Relies on nothing; controllers make them, the [`Recorder`](super::Recorder) takes them.

use super::dedupe::{Limit, Window};
use crate::cluster::Meta;
use kube::Resource;
use std::borrow::Cow;

/// The component that all Events come from.
pub const COMPONENT: &str = "karpenter";

/// Whether an Event is about normal life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// It is.
    Normal,
    /// Somebody may want to look.
    Warning,
}

impl EventType {
    /// As Kubernetes writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The object that an Event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Involved {
    /// apiVersion.
    pub api_version: String,
    /// kind.
    pub kind: String,
    /// Its namespace, empty for a cluster-scoped one.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl Involved {
    /// The object of an entry of the cluster state, as kind `K`.
    pub fn entry<K: Resource<DynamicType = ()>>(meta: &Meta) -> Self {
        Self {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: meta.key.scope.to_string(),
            name: meta.key.name.to_string(),
            uid: meta.uid.to_string(),
        }
    }

    /// A typed object.
    pub fn object<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        }
    }
}

/// Something to tell.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Why, in one CamelCase word.
    pub reason: Cow<'static, str>,
    /// Normal or Warning.
    pub type_: EventType,
    /// In words.
    pub message: String,
    /// The object.
    pub involved: Involved,
    /// With the reason they make the key under which a repetition is dropped; the object is not part of it (surface §4.1).
    pub dedupe_values: Vec<String>,
    /// For how long repetitions are dropped.
    pub window: Window,
    /// The limit of its kind, if it has one.
    pub limit: Option<Limit>,
    /// Who tells it; `karpenter` but for the lease.
    pub component: Cow<'static, str>,
}

impl Event {
    /// An Event with the default window of two minutes and without limit.
    pub fn new(
        type_: EventType,
        reason: impl Into<Cow<'static, str>>,
        involved: Involved,
        message: impl Into<String>,
    ) -> Self {
        Self {
            reason: reason.into(),
            type_,
            message: message.into(),
            involved,
            dedupe_values: Vec::new(),
            window: Window::Default,
            limit: None,
            component: Cow::Borrowed(COMPONENT),
        }
    }

    /// The same, deduplicated by these values.
    pub fn deduped_by(mut self, values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.dedupe_values = values.into_iter().map(Into::into).collect();
        self
    }

    /// The same with another window.
    pub fn within(mut self, window: Window) -> Self {
        self.window = window;
        self
    }

    /// The same under a limit of its kind.
    pub fn limited(mut self, limit: Limit) -> Self {
        self.limit = Some(limit);
        self
    }
}

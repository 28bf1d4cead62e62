//! What is said when an object cannot be read: one bad object must not stop a watch, and its author must learn of it (architecture §8).
//!
//! Called by the hub, once per object and reason.

use crate::k8s::events::{Event, EventType, Involved, Recorder};
use crate::k8s::hub;
use crate::k8s::kinds::WatchedKinds;

/// Tells the author by an event on the object, and the operator's users by a line in the log.
pub(super) struct Unread {
    recorder: Recorder,
    kinds: WatchedKinds,
}

impl Unread {
    pub(super) fn new(recorder: Recorder, kinds: WatchedKinds) -> Self {
        Self { recorder, kinds }
    }

    pub(super) fn tell(&self, object: &hub::Unread) {
        let name = object.key.to_string();
        tracing::error!(
            kind = object.kind,
            name,
            error = object.message,
            "an object cannot be read and is left out"
        );
        let Some(kind) = self.kinds.of_source(&object.source) else {
            return;
        };
        let involved = Involved {
            api_version: kind.resource.api_version.clone(),
            kind: object.kind.clone(),
            // The scope of a class' key is its kind, not a namespace.
            namespace: if object.key.scope == object.source.class {
                String::new()
            } else {
                object.key.namespace().to_owned()
            },
            name: object.key.name.to_string(),
            uid: object.uid.clone(),
        };
        // Two objects with one fault are two events.
        let values = [object.kind.clone(), name, object.message.clone()];
        let message = format!("The object cannot be read and is left out: {}", object.message);
        self.recorder
            .publish(Event::new(EventType::Warning, "Unreadable", involved, message).deduped_by(values));
    }
}

//! The Events of conditions that changed and of finalizers that went (surface §4.2).

use crate::k8s::events::{Event, EventType, Involved, Window};

/// A condition that is not what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transition<'a> {
    /// Its type, which is the Event's reason.
    pub(super) condition: &'a str,
    /// The status that ended.
    pub(super) from: &'a str,
    /// The status that began.
    pub(super) to: &'a str,
    /// Its reason.
    pub(super) reason: &'a str,
    /// Its message, left out when empty.
    pub(super) message: &'a str,
}

/// Every transition that is seen is told, so nothing is taken for a repetition.
pub(super) fn transitioned(object: Involved, transition: Transition<'_>) -> Event {
    let Transition {
        condition,
        from,
        to,
        reason,
        message,
    } = transition;
    let mut text =
        format!("Status condition transitioned, Type: {condition}, Status: {from} -> {to}, Reason: {reason}");
    if !message.is_empty() {
        text.push_str(", Message: ");
        text.push_str(message);
    }
    Event::new(EventType::Normal, condition.to_owned(), object, text).within(Window::None)
}

/// A finalizer has done its work.
pub(super) fn finalized(object: Involved, finalizer: &str) -> Event {
    Event::new(EventType::Normal, "Finalized", object, format!("Finalized {finalizer}")).within(Window::None)
}

//! Stopping the world at the n-th write: how tests kill the operator at every step.
//!
//! A hook fires once, counted from its installation, for writes of one user or of all. Called by [`super::server`] around every write.

use super::audit::Identity;
use super::route::{Call, Verb};

/// On which side of a write a hook fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookPoint {
    /// Nothing was done yet.
    Before,
    /// It is done, the answer is not sent.
    After,
}

/// What happens to the request after the hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookVerdict {
    /// It goes on.
    Continue,
    /// It is never answered; before the write, nothing is done either.
    Vanish,
}

/// A write as a hook sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteSeen {
    /// Its number since the hook was installed, from 1.
    pub number: u64,
    /// Who writes.
    pub user: String,
    /// How.
    pub verb: Verb,
    /// Qualified kind.
    pub resource: String,
    /// Subresource, or "".
    pub subresource: String,
    /// Namespace, or "".
    pub namespace: String,
    /// Name, or "".
    pub name: String,
}

type Action = Box<dyn FnOnce(&WriteSeen) -> HookVerdict + Send>;

struct Hook {
    point: HookPoint,
    nth: u64,
    seen: u64,
    user: Option<String>,
    action: Action,
}

/// The installed hooks.
#[derive(Default)]
pub(crate) struct Hooks {
    hooks: Vec<Hook>,
}

impl Hooks {
    pub(crate) fn install(&mut self, point: HookPoint, nth: u64, user: Option<String>, action: Action) {
        self.hooks.push(Hook {
            point,
            nth,
            seen: 0,
            user,
            action,
        });
    }

    /// The hooks that fire now, each with what it is told.
    pub(crate) fn due(&mut self, point: HookPoint, call: &Call, identity: &Identity) -> Vec<(Action, WriteSeen)> {
        let mut due = Vec::new();
        let mut left = Vec::new();
        for mut hook in std::mem::take(&mut self.hooks) {
            let fits = hook.point == point && hook.user.as_ref().is_none_or(|u| *u == identity.user);
            hook.seen = hook.seen.saturating_add(u64::from(fits));
            if fits && hook.seen >= hook.nth {
                due.push((hook.action, seen(hook.seen, call, identity)));
            } else {
                left.push(hook);
            }
        }
        self.hooks = left;
        due
    }
}

fn seen(number: u64, call: &Call, identity: &Identity) -> WriteSeen {
    WriteSeen {
        number,
        user: identity.user.clone(),
        verb: call.verb,
        resource: call.resource.qualified(),
        subresource: call.subresource.clone(),
        namespace: call.namespace.clone(),
        name: call.name.clone(),
    }
}

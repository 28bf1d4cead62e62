//! The span around a reconcile: which controller, which object, which attempt (surface §8.1).
//!
//! The logger puts its fields on every line that is written inside. Called by the queue and by loops.

use std::sync::atomic::{AtomicU64, Ordering};
use tracing::Span;

/// What kind of object a controller's keys name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// API group, empty for the core.
    pub group: &'static str,
    /// Kind.
    pub kind: &'static str,
}

impl Subject {
    /// karpenter.sh NodeClaim.
    pub const NODE_CLAIM: Self = Self::karpenter("NodeClaim");
    /// karpenter.sh NodePool.
    pub const NODE_POOL: Self = Self::karpenter("NodePool");
    /// Node.
    pub const NODE: Self = Self {
        group: "",
        kind: "Node",
    };
    /// Pod.
    pub const POD: Self = Self { group: "", kind: "Pod" };

    const fn karpenter(kind: &'static str) -> Self {
        Self {
            group: "karpenter.sh",
            kind,
        }
    }
}

macro_rules! span_of {
    ($kind:ident, $controller:expr, $subject:expr, $object:expr, $namespace:expr, $name:expr, $id:expr) => {
        tracing::info_span!(
            "reconcile",
            controller = $controller,
            controllerGroup = $subject.group,
            controllerKind = $subject.kind,
            $kind = $object,
            namespace = $namespace,
            name = $name,
            reconcileID = $id
        )
    };
}

/// The span of one reconcile. `object` is `name` or `namespace/name`.
pub(super) fn reconcile(controller: &'static str, subject: Option<Subject>, object: &str) -> Span {
    let object = object.trim_matches('"');
    let (namespace, name) = object.split_once('/').unwrap_or(("", object));
    let id = next_id();
    let Some(subject) = subject else {
        return tracing::info_span!("reconcile", controller, namespace, name, reconcileID = id);
    };
    match subject.kind {
        "NodeClaim" => span_of!(NodeClaim, controller, subject, object, namespace, name, id),
        "NodePool" => span_of!(NodePool, controller, subject, object, namespace, name, id),
        "Node" => span_of!(Node, controller, subject, object, namespace, name, id),
        "Pod" => span_of!(Pod, controller, subject, object, namespace, name, id),
        _ => span_of!(object, controller, subject, object, namespace, name, id),
    }
}

/// The span of one run of a loop, which has no object (surface §8.1).
pub(super) fn run(controller: &'static str) -> Span {
    tracing::info_span!(
        "reconcile",
        controller,
        namespace = "",
        name = "",
        reconcileID = next_id()
    )
}

/// An identifier in the form of a UUID that no other reconcile of this process has.
fn next_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    let mixed = |salt: u64| {
        let mut z = count.wrapping_add(salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^ (z >> 31)
    };
    uuid::Builder::from_random_bytes((u128::from(mixed(0)) << 64 | u128::from(mixed(1 << 40))).to_be_bytes())
        .into_uuid()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reconcile_has_an_identifier_of_its_own() {
        let ids: std::collections::BTreeSet<String> = (0..1000).map(|_| next_id()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 36));
    }
}

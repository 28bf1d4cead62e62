//! `nodepool.readiness`: whether a pool's NodeClass is ready (lifecycle 12.3).

use super::health::save_status;
use crate::api::{Conditioned, NodePool, conditions};
use crate::cluster::entries::{ClassEntry, NodeCondition};
use crate::cluster::{Key, Snapshot};
use crate::controllers::Kit;
use crate::k8s::queue::{Next, ReconcileError, Reconciler};
use async_trait::async_trait;
use std::sync::Arc;

/// The controller.
#[derive(Debug)]
pub struct Readiness {
    kit: Kit,
}

/// What a NodeClass says of its readiness.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ClassVerdict {
    Ready,
    NotReady { reason: String, message: String },
}

impl Readiness {
    /// The controller.
    pub fn new(kit: Kit) -> Self {
        Self { kit }
    }
}

/// The NodeClass that a pool names, if it is there.
pub(super) fn class_of<'a>(snapshot: &'a Snapshot, pool: &NodePool) -> Option<&'a Arc<ClassEntry>> {
    let reference = &pool.spec.template.spec.node_class_ref;
    let key = Key::of_class(&reference.kind, &reference.group, &reference.name);
    snapshot.objects.classes.get(&key)
}

/// The class's own words. Differs: its roll-up names only the condition that is amiss; what that says is added, so that the pool tells what to do.
fn words(class: &ClassEntry, own: &str) -> String {
    let amiss = |condition: &&NodeCondition| condition.status == "False" && condition.type_ != conditions::READY;
    match class.conditions.iter().find(amiss) {
        Some(trouble) if !own.contains(&*trouble.message) => format!("{own}; {}: {}", trouble.reason, trouble.message),
        _ => own.to_owned(),
    }
}

/// A class without a word of its own is not ready; Unknown counts as False (lifecycle 12.3).
fn verdict(class: Option<&ClassEntry>) -> ClassVerdict {
    let not_ready = |reason: &str, message: &str| ClassVerdict::NotReady {
        reason: reason.into(),
        message: message.into(),
    };
    let Some(class) = class else {
        return not_ready("NodeClassNotFound", "NodeClass not found on cluster");
    };
    if class.is_deleting() {
        return not_ready("NodeClassTerminating", "NodeClass is Terminating");
    }
    match &class.ready {
        Some(ready) if ready.status == "True" => ClassVerdict::Ready,
        Some(ready) if ready.status == "False" => not_ready(&ready.reason, &words(class, &ready.message)),
        _ => not_ready("NodeClassReadinessUnknown", "Node Class Readiness Unknown"),
    }
}

#[async_trait]
impl Reconciler for Readiness {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next, ReconcileError> {
        let snapshot = self.kit.cluster.snapshot().await.map_err(ReconcileError::new)?;
        let Some(pool) = snapshot.pool(&key.name) else {
            return Ok(Next::Done);
        };
        if !pool.is_managed(self.kit.provider.node_class_kinds()) {
            return Ok(Next::Done);
        }
        let (mut wanted, now) = (pool.facts.clone(), self.kit.now());
        match verdict(class_of(&snapshot, &pool.facts).map(|class| &**class)) {
            ClassVerdict::Ready => wanted.set_true(conditions::NODE_CLASS_READY, now),
            ClassVerdict::NotReady { reason, message } => {
                wanted.set_false(conditions::NODE_CLASS_READY, &reason, &message, now)
            }
        };
        save_status(&self.kit, pool, &wanted).await?;
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn class(status: &serde_json::Value, deleting: bool) -> ClassEntry {
        let mut object = json!({ "metadata": { "name": "a", "uid": "u" }, "status": status });
        if deleting {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        ClassEntry::read("K.g", object).unwrap()
    }

    fn reason(class: Option<&ClassEntry>) -> String {
        match verdict(class) {
            ClassVerdict::Ready => "Ready".to_owned(),
            ClassVerdict::NotReady { reason, .. } => reason,
        }
    }

    #[test]
    fn a_class_is_ready_only_when_it_says_so() {
        let ready = |status: &str| json!({ "conditions": [{ "type": "Ready", "status": status, "reason": "NoToken", "message": "m" }] });
        assert_eq!(reason(None), "NodeClassNotFound");
        assert_eq!(reason(Some(&class(&ready("True"), true))), "NodeClassTerminating");
        assert_eq!(reason(Some(&class(&json!({}), false))), "NodeClassReadinessUnknown");
        assert_eq!(
            reason(Some(&class(&ready("Unknown"), false))),
            "NodeClassReadinessUnknown"
        );
        assert_eq!(reason(Some(&class(&ready("False"), false))), "NoToken");
        assert_eq!(reason(Some(&class(&ready("True"), false))), "Ready");
    }

    #[test]
    fn a_pool_says_what_its_class_lacks_in_the_words_of_the_condition_that_is_amiss() {
        let status = json!({ "conditions": [
            { "type": "Ready", "status": "False", "reason": "UnhealthyDependents", "message": "Classes=False" },
            { "type": "Classes", "status": "False", "reason": "InvalidBidPercentile", "message": "P95 is none" }] });
        let ClassVerdict::NotReady { message, .. } = verdict(Some(&class(&status, false))) else {
            panic!("not ready")
        };
        assert_eq!(message, "Classes=False; InvalidBidPercentile: P95 is none");
    }
}

//! The NodeClasses as last seen, for the provider: a create needs the class of its claim at once.
//!
//! Written by the NodeClass controller (through its watch), read by the provider. Decides only whether a class can be used.

use crate::api::{BidPercentile, Conditioned, NodeClaim, RackspaceSpotNodeClass, conditions, nodeclass};
use crate::cloud::error::CloudError;
use crate::pricing::Percentile;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// NodeClasses by name; those that are there and were not looked at yet have no value.
#[derive(Debug, Default)]
pub struct NodeClasses {
    classes: Mutex<BTreeMap<String, Option<Arc<RackspaceSpotNodeClass>>>>,
}

impl NodeClasses {
    /// A class of this name is there; what it says follows. Until then nothing may be concluded from its absence: after a start the claims of classes
    /// that the controller has not come to yet would all be given up.
    pub fn expect(&self, name: &str) {
        let mut classes = self.classes.lock().unwrap_or_else(PoisonError::into_inner);
        classes.entry(name.to_owned()).or_insert(None);
    }

    /// Takes in a class, new or changed.
    pub fn put(&self, class: Arc<RackspaceSpotNodeClass>) {
        let name = class.metadata.name.clone().unwrap_or_default();
        self.classes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name, Some(class));
    }

    /// Takes a class out.
    pub fn remove(&self, name: &str) {
        self.classes.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// One class.
    pub fn get(&self, name: &str) -> Option<Arc<RackspaceSpotNodeClass>> {
        self.classes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
            .flatten()
    }

    fn is_expected(&self, name: &str) -> bool {
        let classes = self.classes.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(classes.get(name), Some(None))
    }

    /// The class of a claim, if it can be used now.
    pub fn usable_for(&self, claim: &NodeClaim) -> Result<(Arc<RackspaceSpotNodeClass>, Percentile), CloudError> {
        self.usable(&claim.spec.node_class_ref)
    }

    /// A class by reference, if it can be used now.
    pub fn usable(
        &self,
        reference: &crate::api::NodeClassReference,
    ) -> Result<(Arc<RackspaceSpotNodeClass>, Percentile), CloudError> {
        let not_ready = |detail: String| CloudError::NodeClassNotReady {
            node_class: reference.name.clone(),
            detail,
        };
        if !reference.is_of(&nodeclass::KIND) {
            return Err(not_ready(format!(
                "its kind {}/{} is not served",
                reference.group, reference.kind
            )));
        }
        // no reason to give a claim up, whose machine may have been ordered before a restart or by the Go provider
        let not_judged = || CloudError::Unavailable {
            operation: "reading",
            detail: format!("node class {} was not looked at yet", reference.name),
            retry_after: None,
            source: None,
        };
        if self.is_expected(&reference.name) {
            return Err(not_judged());
        }
        let class = self
            .get(&reference.name)
            .ok_or_else(|| not_ready("it does not exist".into()))?;
        if class.is_deleting() {
            return Err(not_ready("it is being deleted".into()));
        }
        let percentile = percentile_of(&class.spec.bid_percentile).map_err(not_ready)?;
        if class.is_unknown(conditions::SERVER_CLASSES_DISCOVERED) {
            return Err(not_judged());
        }
        if !class.is_ready() {
            let dependent = class
                .condition(conditions::SERVER_CLASSES_DISCOVERED)
                .filter(|c| !c.is_true());
            let why = dependent.or_else(|| class.condition(conditions::READY));
            let words = why.map_or_else(
                || "it has no conditions yet".into(),
                |c| format!("{}: {}", c.reason, c.message),
            );
            return Err(not_ready(words));
        }
        Ok((class, percentile))
    }
}

/// The percentile that a class asks for.
pub fn percentile_of(written: &BidPercentile) -> Result<Percentile, String> {
    written
        .as_str()
        .parse::<Percentile>()
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::NodeClassReference;
    use chrono::DateTime;

    fn reference() -> NodeClassReference {
        NodeClassReference {
            group: nodeclass::GROUP.into(),
            kind: "RackspaceSpotNodeClass".into(),
            name: "default".into(),
        }
    }

    #[test]
    fn a_class_that_was_not_looked_at_yet_is_no_reason_to_give_a_claim_up() {
        let classes = NodeClasses::default();
        classes.expect("default");
        let error = classes.usable(&reference()).unwrap_err();
        assert!(matches!(error, CloudError::Unavailable { .. }), "{error}");
        let mut class = RackspaceSpotNodeClass::default();
        class.metadata.name = Some("default".into());
        class.set_true(conditions::SERVER_CLASSES_DISCOVERED, DateTime::UNIX_EPOCH);
        classes.put(Arc::new(class));
        classes.expect("default");
        assert!(classes.usable(&reference()).is_ok(), "what is known stays known");
        classes.remove("default");
        assert!(matches!(
            classes.usable(&reference()),
            Err(CloudError::NodeClassNotReady { .. })
        ));
    }

    #[test]
    fn a_class_is_used_only_when_it_exists_is_ready_and_makes_sense() {
        let classes = NodeClasses::default();
        let words = |classes: &NodeClasses| classes.usable(&reference()).unwrap_err().to_string();
        assert!(words(&classes).contains("does not exist"));
        let mut class = RackspaceSpotNodeClass::default();
        class.metadata.name = Some("default".into());
        classes.put(Arc::new(class.clone()));
        let error = classes.usable(&reference()).unwrap_err();
        assert!(
            matches!(error, CloudError::Unavailable { .. }),
            "nothing was said of it yet: {error}"
        );
        class.set_false(
            conditions::SERVER_CLASSES_DISCOVERED,
            "ListServerClassesFailed",
            "status 500",
            DateTime::UNIX_EPOCH,
        );
        classes.put(Arc::new(class.clone()));
        assert!(words(&classes).contains("ListServerClassesFailed: status 500"));
        class.set_true(conditions::SERVER_CLASSES_DISCOVERED, DateTime::UNIX_EPOCH);
        classes.put(Arc::new(class.clone()));
        assert_eq!(classes.usable(&reference()).unwrap().1, Percentile::P80);
        class.spec.bid_percentile = "P99".into();
        classes.put(Arc::new(class));
        assert!(words(&classes).contains("P99"));
    }
}

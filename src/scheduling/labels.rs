//! The labels that scheduling gives a meaning to (scheduling §6).
//!
//! Decides which keys are well known and which are restricted; the keys themselves, their grammar, and what an old key is called today are the
//! API's. Called by the requirement algebra, by validation and by whoever writes labels on a NodeClaim.

pub use crate::api::labels::{
    ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODEPOOL as NODE_POOL, OS, REGION, WINDOWS_BUILD, ZONE, domain,
    normalize as normalised,
};
use crate::api::labels::{WELL_KNOWN, is_reserved};
use crate::api::validation::{check_label_value, check_qualified_name};
use std::collections::BTreeSet;

/// The domain whose labels are restricted unless well known.
pub const KARPENTER_DOMAIN: &str = "karpenter.sh";

/// The labels that a pod may ask for although the NodePool does not define them: upstream's and those the provider registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WellKnownLabels(BTreeSet<String>);

impl Default for WellKnownLabels {
    fn default() -> Self {
        Self::with([])
    }
}

impl WellKnownLabels {
    /// Upstream's set (scheduling 6-1) and the provider's additions.
    pub fn with<'a>(additional: impl IntoIterator<Item = &'a str>) -> Self {
        Self(
            WELL_KNOWN
                .iter()
                .copied()
                .chain(additional)
                .map(str::to_owned)
                .collect(),
        )
    }

    /// Nothing is well known: every label must be defined ("strict", scheduling 5-13).
    pub const fn none() -> Self {
        Self(BTreeSet::new())
    }

    /// Whether the key is in the set.
    pub fn contains(&self, key: &str) -> bool {
        self.0.contains(key)
    }

    /// The keys, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether a key may be used neither in a pod's selectors nor in a NodePool (scheduling 6-4).
    pub fn restricts(&self, key: &str) -> bool {
        !self.contains(key) && is_reserved(key)
    }
}

/// Whether the text is what Kubernetes calls a qualified name: an optional DNS prefix and a name of at most 63 characters.
pub fn is_qualified_name(key: &str) -> bool {
    check_qualified_name(key).is_ok()
}

/// Whether the text may be the value of a label.
pub fn is_label_value(value: &str) -> bool {
    check_label_value(value).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_karpenters_own_domain_and_the_hostname_are_restricted() {
        let labels = WellKnownLabels::default();
        for key in ["karpenter.sh/registered", "a.karpenter.sh/x", HOSTNAME] {
            assert!(labels.restricts(key), "{key}");
        }
        for key in [
            NODE_POOL,
            "notkarpenter.sh/x",
            "kubernetes.io/x",
            "x",
            "node.kubernetes.io/y",
            "karpenter.sh",
        ] {
            assert!(!labels.restricts(key), "{key}");
        }
    }

    #[test]
    fn a_provider_can_make_a_label_well_known() {
        assert!(!WellKnownLabels::with(["a.karpenter.sh/x"]).restricts("a.karpenter.sh/x"));
    }

    #[test]
    fn qualified_names_are_told_from_others() {
        for good in ["a", "a.b/c-d", "example.com/A_b.c"] {
            assert!(is_qualified_name(good), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "A.b/c", "-a", "bad key"] {
            assert!(!is_qualified_name(bad), "{bad}");
        }
    }
}

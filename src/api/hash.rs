//! The hash of a NodePool's template, by which static drift is seen (lifecycle 12.1, architecture §7.1).
//!
//! Decides one number from what a pool says about its nodes. Relies on nothing: the algorithm is spelled out here and held by a golden test, so that no
//! update of a dependency can ever roll a fleet. Called by the pool's hash controller and wherever a claim is made.
//!
//! Differs: Karpenter hashes with a Go library under version `v3`. Another algorithm under the same version would mark every node Drifted at the first
//! start (surface T1), so ours has a version of its own, and on a differing version claims are stamped anew instead of drifting.

use super::{NodeClaimTemplate, NodeClassReference, NodePool, time};
use k8s_openapi::api::core::v1::Taint;
use serde::Serialize;
use std::collections::BTreeMap;

/// Which algorithm made a hash; changes whenever the number for the same template would.
pub const VERSION: &str = "fnv1a-v1";

/// What is hashed: the template without its requirements. Fields are in alphabetical order; empty ones are left out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Canonical<'t> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'t BTreeMap<String, String>,
    /// Nanoseconds, so that the spelling does not count; absent is `Never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_after: Option<i64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: &'t BTreeMap<String, String>,
    node_class_ref: CanonicalReference<'t>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    startup_taints: Vec<CanonicalTaint<'t>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taints: Vec<CanonicalTaint<'t>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    termination_grace_period: Option<i64>,
}

#[derive(Serialize)]
struct CanonicalReference<'t> {
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'t str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'t str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'t str,
}

#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
struct CanonicalTaint<'t> {
    #[serde(skip_serializing_if = "str::is_empty")]
    effect: &'t str,
    #[serde(skip_serializing_if = "str::is_empty")]
    key: &'t str,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_added: Option<i64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    value: &'t str,
}

impl NodePool {
    /// The hash of its template, as it is written into annotations.
    pub fn hash(&self) -> String {
        template_hash(&self.spec.template)
    }
}

/// The hash of a template: a decimal number of 64 bits.
pub fn template_hash(template: &NodeClaimTemplate) -> String {
    let spec = &template.spec;
    let canonical = Canonical {
        annotations: &template.metadata.annotations,
        expire_after: spec.expire_after.value().map(super::GoDuration::nanos),
        labels: &template.metadata.labels,
        node_class_ref: canonical_reference(&spec.node_class_ref),
        startup_taints: canonical_taints(&spec.startup_taints),
        taints: canonical_taints(&spec.taints),
        termination_grace_period: spec
            .termination_grace_period
            .as_ref()
            .map(|period| period.value().nanos()),
    };
    // Strings, numbers, lists and maps with string keys always become JSON.
    fnv1a(&serde_json::to_vec(&canonical).unwrap_or_default()).to_string()
}

fn canonical_reference(reference: &NodeClassReference) -> CanonicalReference<'_> {
    CanonicalReference {
        group: &reference.group,
        kind: &reference.kind,
        name: &reference.name,
    }
}

/// Taints in an order of our own: the user's order means nothing.
fn canonical_taints(taints: &[Taint]) -> Vec<CanonicalTaint<'_>> {
    let mut canonical: Vec<CanonicalTaint<'_>> = taints
        .iter()
        .map(|taint| CanonicalTaint {
            effect: &taint.effect,
            key: &taint.key,
            time_added: taint.time_added.as_ref().map(|added| time::from_k8s(added).timestamp()),
            value: taint.value.as_deref().unwrap_or_default(),
        })
        .collect();
    canonical.sort();
    canonical
}

/// FNV-1a with 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{NodePoolSpec, decode};
    use serde_json::{Value, json};

    #[test]
    fn the_algorithm_is_the_published_one() {
        // the published test values of FNV-1a
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    fn pool() -> Value {
        json!({ "metadata": { "name": "p" }, "spec": { "template": {
            "metadata": { "labels": { "b": "2", "a": "1" }, "annotations": { "n": "1" } },
            "spec": {
                "nodeClassRef": { "group": "karpenter.rackspace.com", "kind": "RackspaceSpotNodeClass", "name": "default" },
                "requirements": [{ "key": "a", "operator": "Exists" }],
                "taints": [{ "key": "t", "value": "v", "effect": "NoSchedule" }, { "key": "u", "effect": "NoExecute" }],
                "startupTaints": [{ "key": "s", "effect": "NoSchedule" }],
                "expireAfter": "720h", "terminationGracePeriod": "1h",
            },
        } } })
    }

    fn hash_of(pool: &Value) -> String {
        template_hash(&decode::<NodePoolSpec>(pool["spec"].clone()).unwrap().template)
    }

    #[test]
    fn the_number_never_changes_under_the_same_version() {
        // When this fails, do not correct the number: a changed number under the same VERSION drifts every node in the field.
        // Either undo what changed it, or give VERSION a new value, too.
        assert_eq!(
            (VERSION, hash_of(&pool()).as_str()),
            ("fnv1a-v1", "13106686018992621467")
        );
    }

    #[test]
    fn order_spelling_and_empty_lists_do_not_count() {
        // lifecycle 12.1
        let mut other = pool();
        let spec = &mut other["spec"]["template"]["spec"];
        spec["taints"].as_array_mut().unwrap().reverse();
        spec["expireAfter"] = json!("43200m");
        spec["terminationGracePeriod"] = json!("1h0m0s");
        assert_eq!(hash_of(&other), hash_of(&pool()));

        let mut absent = pool();
        absent["spec"]["template"]["spec"]
            .as_object_mut()
            .unwrap()
            .remove("startupTaints");
        let mut empty = pool();
        empty["spec"]["template"]["spec"]["startupTaints"] = json!([]);
        assert_eq!(hash_of(&absent), hash_of(&empty));
    }

    #[test]
    fn what_changes_the_hash_upstream_changes_ours_and_nothing_else_does() {
        // Differs: upstream tells an explicit empty list of taints from an absent one. No node differs by it, so no node drifts by it here.
        const DIFFERS: &[&str] = &["template.spec.taints absent vs empty"];
        let vectors: Vec<Value> = include_str!("../../tests/data/vectors/algebra/nodepool-hash.jsonl")
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert!(vectors.len() > 25, "the vectors are incomplete");
        for vector in vectors {
            let field = vector["field"].as_str().unwrap();
            let changes = hash_of(&vector["before"]) != hash_of(&vector["after"]);
            let expected = vector["changes"].as_bool().unwrap() && !DIFFERS.contains(&field);
            assert_eq!(changes, expected, "{}: {field}", vector["id"]);
        }
    }
}

//! Turns one JSON object into one of our types, or says what is wrong with it and where.
//!
//! Relies on nothing; called by the watch hub for each object on its own, so that an undecodable one costs itself and nothing else.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// An object that cannot be read: where the trouble is, and what it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {path}: {message}")]
pub struct DecodeError {
    /// The field, as in `spec.template.spec.expireAfter`; `.` for the object itself.
    pub path: String,
    /// What is wrong with it, in words for its author.
    pub message: String,
}

impl DecodeError {
    /// What to do about it: only the object's author can.
    pub fn remedy(&self) -> &'static str {
        "correct the object, it is left out until then"
    }
}

/// Reads one object.
pub fn decode<K: DeserializeOwned>(object: Value) -> Result<K, DecodeError> {
    serde_path_to_error::deserialize(object).map_err(|error| DecodeError {
        path: error.path().to_string(),
        message: error.inner().to_string(),
    })
}

/// Reads an explicit `null` as if the field were absent, as Go's decoder does.
pub(super) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{ConsolidationPolicy, NodePool, Operator};
    use proptest::prelude::*;
    use serde_json::json;

    fn pool() -> Value {
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "p" },
            "spec": { "template": { "spec": {
                "nodeClassRef": { "group": "g", "kind": "K", "name": "n" },
                "requirements": [{ "key": "a", "operator": "Near", "values": ["b"] }],
                "taints": [{ "key": "t", "effect": "Perhaps" }],
                "expireAfter": "720h",
            } }, "disruption": { "consolidateAfter": "30s", "consolidationPolicy": "WhenBored", "budgets": [
                { "nodes": "1", "reasons": ["Boredom"] }] }, "limits": { "cpu": 10, "memory": "1Gi" } },
        })
    }

    #[test]
    fn words_that_nobody_knows_are_kept_and_written_back() {
        let read: NodePool = decode(pool()).unwrap();
        let template = &read.spec.template.spec;
        assert_eq!(template.requirements[0].operator, Operator::Other("Near".into()));
        assert_eq!(template.taints[0].effect, "Perhaps");
        assert_eq!(
            read.spec.disruption.consolidation_policy,
            ConsolidationPolicy::Other("WhenBored".into())
        );
        let written = serde_json::to_value(&read).unwrap();
        assert_eq!(written["spec"]["template"], pool()["spec"]["template"]);
        assert_eq!(written["spec"]["disruption"], pool()["spec"]["disruption"]);
    }

    #[test]
    fn a_list_survives_an_object_with_words_that_nobody_knows() {
        let mut plain = pool();
        plain["spec"]["template"]["spec"]["requirements"] = json!([]);
        let list: kube::core::ObjectList<NodePool> = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePoolList", "metadata": {}, "items": [plain, pool()],
        }))
        .unwrap();
        assert_eq!(list.items.len(), 2);
    }

    #[test]
    fn an_error_names_the_field_and_says_what_is_wrong() {
        let mut object = pool();
        object["spec"]["template"]["spec"]["expireAfter"] = json!("1hr");
        let error = decode::<NodePool>(object).unwrap_err();
        assert_eq!(error.path, "spec.template.spec.expireAfter");
        assert!(error.message.contains("hr"), "{error}");

        let error = decode::<NodePool>(json!("a word")).unwrap_err();
        assert_eq!(error.path, ".");
    }

    /// Any JSON, a few levels deep.
    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".{0,8}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_in_any_field_is_read_or_named(value in any_json(), field in 0_usize..9) {
            let paths = [
                "/spec", "/spec/template", "/spec/template/spec", "/spec/template/spec/requirements/0/operator",
                "/spec/template/spec/taints", "/spec/template/spec/expireAfter", "/spec/disruption",
                "/spec/disruption/budgets", "/spec/limits",
            ];
            let mut object = pool();
            *object.pointer_mut(paths[field]).unwrap() = value;
            match decode::<NodePool>(object) {
                Ok(pool) => {
                    // what was read is judged without a panic, too
                    let _ = crate::api::validation::validate_nodepool(&pool).message();
                    let _ = pool.hash();
                }
                Err(error) => prop_assert!(error.path.starts_with("spec"), "{}", error),
            }
        }
    }

    #[test]
    fn an_object_of_any_shape_is_an_error_or_an_object_and_never_a_panic() {
        for shape in [
            json!(null),
            json!(1),
            json!([]),
            json!({}),
            json!({ "metadata": {}, "spec": null }),
        ] {
            assert!(decode::<NodePool>(shape).is_err());
        }
    }
}

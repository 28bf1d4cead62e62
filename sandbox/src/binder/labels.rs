//! Label selectors and node selectors.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use std::collections::BTreeMap;

/// Labels.
pub(crate) type Labels = BTreeMap<String, String>;

/// Whether labels satisfy a selector; an empty one takes everything.
pub(crate) fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    let exact = selector
        .match_labels
        .iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    exact
        && selector.match_expressions.iter().flatten().all(|e| {
            let values = e.values.as_deref().unwrap_or_default();
            holds(&e.operator, labels.get(&e.key).map(String::as_str), values)
        })
}

/// Whether a selector is there but demands nothing.
pub(crate) fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

/// Adds what `matchLabelKeys` and `mismatchLabelKeys` stand for, given the labels of the pod they are written on.
pub(crate) fn with_keys(
    selector: Option<&LabelSelector>,
    same: Option<&Vec<String>>,
    other: Option<&Vec<String>>,
    labels: &Labels,
) -> Option<LabelSelector> {
    let mut selector = selector?.clone();
    for (keys, operator) in [(same, "In"), (other, "NotIn")] {
        for key in keys.into_iter().flatten() {
            // Keys that the pod lacks are ignored.
            let Some(value) = labels.get(key) else { continue };
            selector
                .match_expressions
                .get_or_insert_default()
                .push(LabelSelectorRequirement {
                    key: key.clone(),
                    operator: operator.into(),
                    values: Some(vec![value.clone()]),
                });
        }
    }
    Some(selector)
}

fn holds(operator: &str, value: Option<&str>, values: &[String]) -> bool {
    let among = |value: &str| values.iter().any(|v| v == value);
    match operator {
        "In" => value.is_some_and(among),
        "NotIn" => !value.is_some_and(among),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" | "Lt" => {
            let own: Option<i64> = value.and_then(|v| v.parse().ok());
            let bound: Option<i64> = match values {
                [one] => one.parse().ok(),
                _ => None,
            };
            own.zip(bound)
                .is_some_and(|(own, bound)| if operator == "Gt" { own > bound } else { own < bound })
        }
        _ => false,
    }
}

/// Whether a node satisfies one term; an empty one takes nothing.
pub(crate) fn term_selects(term: &NodeSelectorTerm, name: &str, labels: &Labels) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let of = |e: &NodeSelectorRequirement, value: Option<&str>| {
        holds(&e.operator, value, e.values.as_deref().unwrap_or_default())
    };
    expressions
        .iter()
        .all(|e| of(e, labels.get(&e.key).map(String::as_str)))
        && fields
            .iter()
            .all(|e| of(e, Some(name).filter(|_| e.key == "metadata.name")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn labels() -> Labels {
        [("app".to_owned(), "web".to_owned()), ("n".to_owned(), "5".to_owned())].into()
    }

    #[test]
    fn every_operator_of_a_node_selector() {
        let cases = [
            (json!({"key": "app", "operator": "In", "values": ["web", "x"]}), true),
            (json!({"key": "app", "operator": "NotIn", "values": ["web"]}), false),
            (json!({"key": "none", "operator": "NotIn", "values": ["web"]}), true),
            (json!({"key": "none", "operator": "Exists"}), false),
            (json!({"key": "none", "operator": "DoesNotExist"}), true),
            (json!({"key": "n", "operator": "Gt", "values": ["4"]}), true),
            (json!({"key": "n", "operator": "Lt", "values": ["5"]}), false),
            (json!({"key": "app", "operator": "Gt", "values": ["4"]}), false),
            (json!({"key": "n", "operator": "Between", "values": ["4"]}), false),
        ];
        for (expression, expected) in cases {
            let term: NodeSelectorTerm = serde_json::from_value(json!({"matchExpressions": [expression]})).unwrap();
            assert_eq!(term_selects(&term, "node", &labels()), expected, "{expression}");
        }
        let term: NodeSelectorTerm = serde_json::from_value(
            json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}),
        )
        .unwrap();
        assert!(term_selects(&term, "a", &labels()) && !term_selects(&term, "b", &labels()));
        assert!(
            !term_selects(&NodeSelectorTerm::default(), "a", &labels()),
            "an empty term takes nothing"
        );
    }

    #[test]
    fn keys_become_expressions_with_the_pods_own_values() {
        let keys = |k: &str| vec![k.to_owned(), "absent".to_owned()];
        let same = with_keys(Some(&LabelSelector::default()), Some(&keys("app")), None, &labels()).unwrap();
        assert!(selects(&same, &labels()) && !selects(&same, &Labels::new()));
        let other = with_keys(Some(&LabelSelector::default()), None, Some(&keys("app")), &labels()).unwrap();
        assert!(!selects(&other, &labels()) && selects(&other, &Labels::new()));
        assert!(with_keys(None, Some(&keys("app")), None, &labels()).is_none());
    }
}

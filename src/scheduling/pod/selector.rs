//! Label selectors (scheduling 17-2).

use crate::scheduling::labels::{is_label_value, is_qualified_name};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Test {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Expression {
    key: String,
    test: Test,
    values: Vec<String>,
}

/// A label selector. An empty one selects everything, an invalid one nothing; "no selector" is the absence of this value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    expressions: Vec<Expression>,
    valid: bool,
}

impl Selector {
    /// Selects everything.
    pub const fn everything() -> Self {
        Self {
            expressions: Vec::new(),
            valid: true,
        }
    }

    /// From the API's form; parts are kept sorted and once, so that equal selectors compare equal.
    pub fn from_api(selector: &LabelSelector) -> Self {
        let mut result = Self::everything();
        for (key, value) in selector.match_labels.iter().flatten() {
            result.push(key, Test::In, vec![value.clone()]);
        }
        for expression in selector.match_expressions.iter().flatten() {
            let values = expression.values.clone().unwrap_or_default();
            match expression.operator.as_str() {
                "In" => result.push(&expression.key, Test::In, values),
                "NotIn" => result.push(&expression.key, Test::NotIn, values),
                "Exists" => result.push(&expression.key, Test::Exists, values),
                "DoesNotExist" => result.push(&expression.key, Test::DoesNotExist, values),
                _ => result.valid = false,
            }
        }
        result
    }

    fn push(&mut self, key: &str, test: Test, mut values: Vec<String>) {
        let wants_values = matches!(test, Test::In | Test::NotIn);
        self.valid &= is_qualified_name(key)
            && wants_values != values.is_empty()
            && values.iter().all(|value| is_label_value(value));
        values.sort();
        values.dedup();
        let expression = Expression {
            key: key.to_owned(),
            test,
            values,
        };
        if let Err(place) = self.expressions.binary_search(&expression) {
            self.expressions.insert(place, expression);
        }
    }

    /// The same selector that also wants one label to have one value.
    pub fn with_label(&self, key: &str, value: &str) -> Self {
        let mut result = self.clone();
        result.push(key, Test::In, vec![value.to_owned()]);
        result
    }

    /// Whether the API would accept it.
    pub const fn is_valid(&self) -> bool {
        self.valid
    }

    /// Whether it selects something with these labels.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.valid
            && self.expressions.iter().all(|expression| {
                let value = labels.get(&expression.key);
                let listed = value.is_some_and(|value| expression.values.binary_search(value).is_ok());
                match expression.test {
                    Test::In => listed,
                    Test::NotIn => !listed,
                    Test::Exists => value.is_some(),
                    Test::DoesNotExist => value.is_none(),
                }
            })
    }

    /// The labels it looks at.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.expressions.iter().map(|expression| expression.key.as_str())
    }
}

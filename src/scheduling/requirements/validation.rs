//! Whether a requirement that a user wrote makes sense (scheduling 4-5).

use super::operator::Operator;
use crate::scheduling::labels::{self, WellKnownLabels};
use thiserror::Error;

/// The values that a capacity type may have in a manifest; reserved is legal so that manifests stay portable (scheduling 25).
const CAPACITY_TYPES: [&str; 3] = ["on-demand", "spot", "reserved"];

/// What is wrong with a requirement.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidRequirement {
    /// The operator is none of the eight.
    #[error(
        "key {key} has an unsupported operator {operator} not in [In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte]"
    )]
    UnsupportedOperator {
        /// The label.
        key: String,
        /// What was written.
        operator: String,
    },
    /// The label is kept for internal use.
    #[error(
        "using label {key} is not allowed as it might interfere with the internal provisioning logic; specify a well known label: [{}], or a custom label that does not use a restricted domain: [{}]",
        .well_known.join(" "), labels::KARPENTER_DOMAIN
    )]
    RestrictedLabel {
        /// The label.
        key: String,
        /// The labels that may be used.
        well_known: Vec<String>,
    },
    /// None of the values is one that the label can have.
    #[error("no valid values found in [{}] for {key}, expected one of: [{}]", .values.join(" "), CAPACITY_TYPES.join(" "))]
    NoValidValue {
        /// The label.
        key: String,
        /// What was written.
        values: Vec<String>,
    },
    /// Fewer valid values than `minValues` wants.
    #[error("requirement with 'minValues' for {key} must have at least {min_values} valid values, got {valid}")]
    TooFewValidValues {
        /// The label.
        key: String,
        /// What is wanted.
        min_values: u32,
        /// What is valid.
        valid: usize,
    },
    /// The label is not a qualified name.
    #[error("key {key} is not a qualified name")]
    BadKey {
        /// The label.
        key: String,
    },
    /// A value is no label value.
    #[error("invalid value {value} for key {key}")]
    BadValue {
        /// The label.
        key: String,
        /// The value.
        value: String,
    },
    /// `In` without values.
    #[error("key {key} with operator In must have a value defined")]
    NoValues {
        /// The label.
        key: String,
    },
    /// `In` with fewer values than `minValues`.
    #[error("key {key} with operator In must have at least minValues {min_values} values, got {given}")]
    TooFewValues {
        /// The label.
        key: String,
        /// What is wanted.
        min_values: u32,
        /// What is given.
        given: usize,
    },
    /// A bound that is not one non-negative integer.
    #[error("key {key} with operator {operator} must have a single positive integer value")]
    BadBound {
        /// The label.
        key: String,
        /// The operator.
        operator: Operator,
    },
}

/// Everything that is wrong with a requirement; empty when it is fine.
pub fn validate(
    key: &str,
    operator: &str,
    values: &[String],
    min_values: Option<u32>,
    well_known: &WellKnownLabels,
) -> Vec<InvalidRequirement> {
    let key = labels::normalised(key).to_owned();
    let mut wrong = Vec::new();
    let parsed = operator.parse::<Operator>().ok();
    if parsed.is_none() {
        wrong.push(InvalidRequirement::UnsupportedOperator {
            key: key.clone(),
            operator: operator.to_owned(),
        });
    }
    if well_known.restricts(&key) {
        let well_known = well_known.iter().map(str::to_owned).collect();
        wrong.push(InvalidRequirement::RestrictedLabel {
            key: key.clone(),
            well_known,
        });
    }
    if key == labels::CAPACITY_TYPE && parsed == Some(Operator::In) {
        let valid = values
            .iter()
            .filter(|value| CAPACITY_TYPES.contains(&value.as_str()))
            .count();
        match min_values {
            _ if valid == 0 => {
                wrong.push(InvalidRequirement::NoValidValue {
                    key: key.clone(),
                    values: values.to_vec(),
                });
            }
            Some(min_values) if valid < min_values as usize => {
                wrong.push(InvalidRequirement::TooFewValidValues {
                    key: key.clone(),
                    min_values,
                    valid,
                });
            }
            _ => {}
        }
    }
    if !labels::is_qualified_name(&key) {
        wrong.push(InvalidRequirement::BadKey { key: key.clone() });
    }
    for value in values.iter().filter(|value| !labels::is_label_value(value)) {
        wrong.push(InvalidRequirement::BadValue {
            key: key.clone(),
            value: value.clone(),
        });
    }
    if let Some(operator) = parsed {
        wrong.extend(wrong_values(&key, operator, values, min_values));
    }
    wrong
}

fn wrong_values(key: &str, operator: Operator, values: &[String], min_values: Option<u32>) -> Vec<InvalidRequirement> {
    let key = key.to_owned();
    let given = values.len();
    match operator {
        Operator::In if given == 0 => vec![InvalidRequirement::NoValues { key }],
        Operator::In => min_values
            .filter(|min_values| given < *min_values as usize)
            .map(|min_values| InvalidRequirement::TooFewValues { key, min_values, given })
            .into_iter()
            .collect(),
        Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => {
            let fine = matches!(values, [value] if value.parse::<i64>().is_ok_and(|value| value >= 0));
            if fine {
                Vec::new()
            } else {
                vec![InvalidRequirement::BadBound { key, operator }]
            }
        }
        Operator::NotIn | Operator::Exists | Operator::DoesNotExist => Vec::new(),
    }
}

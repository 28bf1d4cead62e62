//! Whether a requirement that a user wrote makes sense (scheduling 4-5).

use super::operator::Operator;
use crate::api::labels::known_values;
use crate::api::validation::Judgement;
use crate::scheduling::labels::{self, WellKnownLabels};
use thiserror::Error;

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
    #[error("no valid values found in [{}] for {key}, expected one of: [{}]", .values.join(" "), known_values(.key).unwrap_or_default().join(" "))]
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

/// Everything that is wrong with a requirement of a pod; empty when it is fine. The API judges it, as it does those of NodePools; which labels a
/// pod may ask for, and the words, are ours.
pub fn validate(
    key: &str,
    operator: &str,
    values: &[String],
    min_values: Option<u32>,
    well_known: &WellKnownLabels,
) -> Vec<InvalidRequirement> {
    let judgement = Judgement::of(key, &operator.into(), values, min_values.map(i64::from));
    let key = || judgement.key.to_owned();
    let mut wrong = Vec::new();
    if !judgement.operator_is_known {
        wrong.push(InvalidRequirement::UnsupportedOperator {
            key: key(),
            operator: operator.to_owned(),
        });
    }
    if well_known.restricts(judgement.key) {
        let well_known = well_known.iter().map(str::to_owned).collect();
        wrong.push(InvalidRequirement::RestrictedLabel { key: key(), well_known });
    }
    let min_values = min_values.unwrap_or_default();
    match judgement.listed.as_ref().and_then(|listed| listed.known.as_ref()) {
        Some(known) if known.count == 0 => wrong.push(InvalidRequirement::NoValidValue {
            key: key(),
            values: values.to_vec(),
        }),
        Some(known) if known.is_too_short => wrong.push(InvalidRequirement::TooFewValidValues {
            key: key(),
            min_values,
            valid: known.count,
        }),
        _ => {}
    }
    if judgement.key_fault.is_some() {
        wrong.push(InvalidRequirement::BadKey { key: key() });
    }
    wrong.extend(
        judgement
            .value_faults
            .iter()
            .map(|(value, _)| InvalidRequirement::BadValue {
                key: key(),
                value: (*value).to_owned(),
            }),
    );
    match &judgement.listed {
        Some(listed) if listed.count == 0 => wrong.push(InvalidRequirement::NoValues { key: key() }),
        Some(listed) if listed.is_too_short => wrong.push(InvalidRequirement::TooFewValues {
            key: key(),
            min_values,
            given: listed.count,
        }),
        _ => {}
    }
    if let Some(operator) = operator.parse().ok().filter(|_| judgement.is_no_number) {
        wrong.push(InvalidRequirement::BadBound { key: key(), operator });
    }
    wrong
}

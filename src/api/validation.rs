//! What the schema cannot check of a NodePool or a NodeOverlay (surface §1.6, lifecycle 12.4).
//!
//! Decides which faults an object has and says each in words for its author. Relies on the label rules; called by the validation controllers, which put
//! the text into `ValidationSucceeded`, and by provisioning, which leaves invalid pools out.

use super::{NodeOverlay, NodePool, NodeSelectorRequirementWithMinValues, Operator, labels};
use k8s_openapi::api::core::v1::Taint;
use std::collections::BTreeSet;
use std::fmt;

mod grammar;

pub use grammar::{GrammarError, check_label_value, check_qualified_name};

/// The reason of a NodePool's `ValidationSucceeded=False`.
pub const NODEPOOL_REASON: &str = "NodePoolValidationFailed";
/// The reason of a NodeOverlay's `ValidationSucceeded=False`.
pub const NODEOVERLAY_REASON: &str = "RuntimeValidation";

/// One thing that is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A label key is not a qualified name.
    #[error("invalid key {key:?} in {place}: {fault}")]
    Key {
        /// Where it is.
        place: Place,
        /// The key.
        key: String,
        /// What is wrong with it.
        fault: GrammarError,
    },
    /// A value is not what its place takes.
    #[error("invalid value {value:?} for {key} in {place}: {fault}")]
    Value {
        /// Where it is.
        place: Place,
        /// The key that it belongs to.
        key: String,
        /// The value.
        value: String,
        /// What is wrong with it.
        fault: GrammarError,
    },
    /// The label belongs to Karpenter.
    #[error(
        "label {key} in {place} is restricted; use one of the well-known labels, or one outside the domain karpenter.sh"
    )]
    Restricted {
        /// Where it is.
        place: Place,
        /// The key.
        key: String,
    },
    /// A taint's effect is none of Kubernetes' three.
    #[error(
        "invalid effect {effect:?} of taint {key} in {place}: one of NoSchedule, PreferNoSchedule, NoExecute is expected"
    )]
    Effect {
        /// Where it is.
        place: Place,
        /// The taint's key.
        key: String,
        /// The effect.
        effect: String,
    },
    /// The same taint is there twice, perhaps once in each of the two lists.
    #[error("duplicate taint {key} with effect {effect:?} in taints and startupTaints")]
    DuplicateTaint {
        /// The taint's key.
        key: String,
        /// The taint's effect.
        effect: String,
    },
    /// The operator is none of the eight.
    #[error(
        "unknown operator {operator:?} for {key} in requirements: one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte is expected"
    )]
    Operator {
        /// The requirement's key.
        key: String,
        /// The operator.
        operator: String,
    },
    /// An operator that needs values has none.
    #[error("requirement {key} with operator {operator} must have a value defined")]
    NoValues {
        /// The requirement's key.
        key: String,
        /// The operator.
        operator: Operator,
    },
    /// A comparison needs one whole number that is not negative.
    #[error("requirement {key} with operator {operator} must have a single positive integer value, not {values:?}")]
    NotANumber {
        /// The requirement's key.
        key: String,
        /// The operator.
        operator: Operator,
        /// The values.
        values: Vec<String>,
    },
    /// Fewer values than `minValues` demands.
    #[error("requirement {key} lists {count} values, which is fewer than its minValues {min_values}")]
    TooFewValues {
        /// The requirement's key.
        key: String,
        /// How many there are.
        count: usize,
        /// How many there must be.
        min_values: i64,
    },
    /// None of the values is one that the label can have.
    #[error("none of the values {values:?} of requirement {key} is known: {known:?} are")]
    NoKnownValue {
        /// The requirement's key.
        key: String,
        /// The values.
        values: Vec<String>,
        /// What the label can have.
        known: &'static [&'static str],
    },
    /// Too few of the values are ones that the label can have.
    #[error(
        "only {count} of the values of requirement {key} are known ({known:?}), which is fewer than its minValues {min_values}"
    )]
    TooFewKnownValues {
        /// The requirement's key.
        key: String,
        /// How many of them are known.
        count: usize,
        /// How many there must be.
        min_values: i64,
        /// What the label can have.
        known: &'static [&'static str],
    },
    /// An overlay names a resource that every node has.
    #[error("invalid capacity: resource {resource} is restricted")]
    StandardResource {
        /// The resource.
        resource: String,
    },
}

/// A part of an object, as faults name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The template's labels.
    Labels,
    /// Taints.
    Taints,
    /// Startup taints.
    StartupTaints,
    /// Requirements.
    Requirements,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Labels => "labels",
            Self::Taints => "taints",
            Self::StartupTaints => "startupTaints",
            Self::Requirements => "requirements",
        })
    }
}

/// A value that a well-known label can never have, beside ones that it can: the object is valid, and its author should know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("values {values:?} of requirement {key} are not known and will never match; {known:?} are known")]
pub struct UnknownValues {
    /// The requirement's key.
    pub key: String,
    /// The values that are not known.
    pub values: Vec<String>,
    /// What the label can have.
    pub known: &'static [&'static str],
}

/// What validation found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// What makes the object invalid.
    pub faults: Vec<Fault>,
    /// What its author should be told all the same.
    pub warnings: Vec<UnknownValues>,
}

impl Findings {
    /// Whether nothing makes the object invalid.
    pub fn is_valid(&self) -> bool {
        self.faults.is_empty()
    }

    /// All faults in one text, as a condition's message shows them.
    pub fn message(&self) -> String {
        self.faults
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ")
    }
}

/// Validates a NodePool.
pub fn validate_nodepool(pool: &NodePool) -> Findings {
    let template = &pool.spec.template;
    let mut findings = Findings::default();
    for (key, value) in &template.metadata.labels {
        check_template_label(key, value, &mut findings.faults);
    }
    let mut seen = BTreeSet::new();
    for (place, taints) in [
        (Place::Taints, &template.spec.taints),
        (Place::StartupTaints, &template.spec.startup_taints),
    ] {
        for taint in taints {
            check_taint(place, taint, &mut seen, &mut findings.faults);
        }
    }
    for requirement in &template.spec.requirements {
        if requirement.key == labels::NODEPOOL {
            findings.faults.push(Fault::Restricted {
                place: Place::Requirements,
                key: requirement.key.clone(),
            });
        }
        check_requirement(requirement, &mut findings);
    }
    findings
}

/// Validates a NodeOverlay by itself; whether it conflicts with another one is not seen here.
pub fn validate_nodeoverlay(overlay: &NodeOverlay) -> Findings {
    let mut findings = Findings::default();
    for requirement in &overlay.spec.requirements {
        if requirement.operator == Operator::NotIn && requirement.values.is_empty() {
            findings.faults.push(Fault::NoValues {
                key: requirement.key.clone(),
                operator: Operator::NotIn,
            });
        }
        let requirement = NodeSelectorRequirementWithMinValues {
            key: requirement.key.clone(),
            operator: requirement.operator.clone(),
            values: requirement.values.clone(),
            min_values: None,
        };
        check_requirement(&requirement, &mut findings);
    }
    for resource in overlay
        .spec
        .capacity
        .keys()
        .filter(|name| labels::WELL_KNOWN_RESOURCES.contains(&name.as_str()))
    {
        findings.faults.push(Fault::StandardResource {
            resource: resource.clone(),
        });
    }
    findings
}

/// Validates one requirement by itself.
pub fn validate_requirement(requirement: &NodeSelectorRequirementWithMinValues) -> Findings {
    let mut findings = Findings::default();
    check_requirement(requirement, &mut findings);
    findings
}

fn check_template_label(key: &str, value: &str, faults: &mut Vec<Fault>) {
    let place = Place::Labels;
    if key == labels::NODEPOOL || labels::is_restricted(key) {
        faults.push(Fault::Restricted {
            place,
            key: key.to_owned(),
        });
    }
    if let Err(fault) = check_qualified_name(key) {
        faults.push(Fault::Key {
            place,
            key: key.to_owned(),
            fault,
        });
    }
    if let Err(fault) = check_label_value(value) {
        faults.push(Fault::Value {
            place,
            key: key.to_owned(),
            value: value.to_owned(),
            fault,
        });
    }
}

fn check_taint(place: Place, taint: &Taint, seen: &mut BTreeSet<(String, String)>, faults: &mut Vec<Fault>) {
    let (key, effect) = (taint.key.clone(), taint.effect.clone());
    if let Err(fault) = check_qualified_name(&key) {
        faults.push(Fault::Key {
            place,
            key: key.clone(),
            fault,
        });
    }
    if let Some(value) = taint.value.as_deref().filter(|value| !value.is_empty())
        && let Err(fault) = check_qualified_name(value)
    {
        faults.push(Fault::Value {
            place,
            key: key.clone(),
            value: value.to_owned(),
            fault,
        });
    }
    if !["", labels::NO_SCHEDULE, labels::PREFER_NO_SCHEDULE, labels::NO_EXECUTE].contains(&effect.as_str()) {
        faults.push(Fault::Effect {
            place,
            key: key.clone(),
            effect: effect.clone(),
        });
    }
    if !seen.insert((key.clone(), effect.clone())) {
        faults.push(Fault::DuplicateTaint { key, effect });
    }
}

fn check_requirement(requirement: &NodeSelectorRequirementWithMinValues, findings: &mut Findings) {
    let place = Place::Requirements;
    let key = labels::normalize(&requirement.key);
    let faults = &mut findings.faults;
    if !requirement.operator.is_known() {
        faults.push(Fault::Operator {
            key: key.to_owned(),
            operator: requirement.operator.to_string(),
        });
    }
    if labels::is_restricted(key) {
        faults.push(Fault::Restricted {
            place,
            key: key.to_owned(),
        });
    }
    if let Err(fault) = check_qualified_name(key) {
        faults.push(Fault::Key {
            place,
            key: key.to_owned(),
            fault,
        });
    }
    for value in &requirement.values {
        if let Err(fault) = check_label_value(value) {
            faults.push(Fault::Value {
                place,
                key: key.to_owned(),
                value: value.clone(),
                fault,
            });
        }
    }
    if requirement.operator.is_comparison() && !is_one_natural_number(&requirement.values) {
        faults.push(Fault::NotANumber {
            key: key.to_owned(),
            operator: requirement.operator.clone(),
            values: requirement.values.clone(),
        });
    }
    if requirement.operator == Operator::In {
        check_in(key, requirement, findings);
    }
}

fn is_one_natural_number(values: &[String]) -> bool {
    matches!(values, [value] if value.parse::<i64>().is_ok_and(|number| number >= 0))
}

/// What only `In` must satisfy: values, enough of them, and enough that the label can have.
fn check_in(key: &str, requirement: &NodeSelectorRequirementWithMinValues, findings: &mut Findings) {
    let owned = key.to_owned();
    let values = &requirement.values;
    if values.is_empty() {
        findings.faults.push(Fault::NoValues {
            key: owned,
            operator: Operator::In,
        });
        return;
    }
    let enough = |count: usize| {
        requirement
            .min_values
            .is_none_or(|min| i64::try_from(count).is_ok_and(|n| n >= min))
    };
    let min_values = requirement.min_values.unwrap_or_default();
    if !enough(values.len()) {
        findings.faults.push(Fault::TooFewValues {
            key: owned,
            count: values.len(),
            min_values,
        });
        return;
    }
    let Some(known) = labels::known_values(key) else { return };
    let (good, unknown): (Vec<&String>, Vec<&String>) =
        values.iter().partition(|value| known.contains(&value.as_str()));
    if good.is_empty() {
        findings.faults.push(Fault::NoKnownValue {
            key: owned,
            values: values.clone(),
            known,
        });
    } else if !enough(good.len()) {
        findings.faults.push(Fault::TooFewKnownValues {
            key: owned,
            count: good.len(),
            min_values,
            known,
        });
    } else if !unknown.is_empty() {
        let values = unknown.into_iter().cloned().collect();
        findings.warnings.push(UnknownValues {
            key: owned,
            values,
            known,
        });
    }
}

#[cfg(test)]
mod tests;

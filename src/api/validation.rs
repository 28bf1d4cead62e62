//! What the schema cannot check of a NodePool or a NodeOverlay (surface §1.6, lifecycle 12.4).
//!
//! Decides which faults an object has and says each in words for its author. Relies on the label rules; called by the validation controllers, which put
//! the text into `ValidationSucceeded`, and by provisioning, which leaves invalid pools out.

use super::{NodeOverlay, NodePool, NodeSelectorRequirementWithMinValues, Operator, labels};
use k8s_openapi::api::core::v1::Taint;
use std::collections::BTreeSet;

mod fault;
mod grammar;
mod requirement;

pub use fault::{Fault, Findings, Place, UnknownValues};
pub use grammar::{GrammarError, check_label_value, check_qualified_name};
pub use requirement::{Judgement, Known, Listed};

/// The reason of a NodePool's `ValidationSucceeded=False`.
pub const NODEPOOL_REASON: &str = "NodePoolValidationFailed";
/// The reason of a NodeOverlay's `ValidationSucceeded=False`.
pub const NODEOVERLAY_REASON: &str = "RuntimeValidation";

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
    // Differs: upstream leaves this to the schema; should one ever let it through, a pool without a limit is not what its author wanted.
    for (resource, quantity) in &pool.spec.limits {
        if crate::resources::Quantity::parse(&quantity.0).is_err() {
            findings.faults.push(Fault::Limit {
                resource: resource.clone(),
                value: quantity.0.clone(),
            });
        }
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
    let operator = &requirement.operator;
    let judgement = Judgement::of(&requirement.key, operator, &requirement.values, requirement.min_values);
    let key = || judgement.key.to_owned();
    let faults = &mut findings.faults;
    if !judgement.operator_is_known {
        faults.push(Fault::Operator {
            key: key(),
            operator: operator.to_string(),
        });
    }
    if labels::is_restricted(judgement.key) {
        faults.push(Fault::Restricted { place, key: key() });
    }
    faults.extend(judgement.key_fault.map(|fault| Fault::Key {
        place,
        key: key(),
        fault,
    }));
    faults.extend(judgement.value_faults.iter().map(|(value, fault)| Fault::Value {
        place,
        key: key(),
        value: (*value).to_owned(),
        fault: *fault,
    }));
    if judgement.is_no_number {
        faults.push(Fault::NotANumber {
            key: key(),
            operator: operator.clone(),
            values: requirement.values.clone(),
        });
    }
    if let Some(listed) = &judgement.listed {
        check_listed(judgement.key, requirement, listed, findings);
    }
}

/// What only `In` must satisfy: values, enough of them, and enough that the label can have. The first of these faults hides the others.
fn check_listed(
    key: &str,
    requirement: &NodeSelectorRequirementWithMinValues,
    listed: &Listed<'_>,
    findings: &mut Findings,
) {
    let key = key.to_owned();
    let min_values = requirement.min_values.unwrap_or_default();
    let faults = &mut findings.faults;
    if listed.count == 0 {
        let operator = Operator::In;
        faults.push(Fault::NoValues { key, operator });
        return;
    }
    if listed.is_too_short {
        let count = listed.count;
        faults.push(Fault::TooFewValues { key, count, min_values });
        return;
    }
    let Some(known) = &listed.known else { return };
    if known.count == 0 {
        faults.push(Fault::NoKnownValue {
            key,
            values: requirement.values.clone(),
            known: known.all,
        });
    } else if known.is_too_short {
        faults.push(Fault::TooFewKnownValues {
            key,
            count: known.count,
            min_values,
            known: known.all,
        });
    } else if !known.strange.is_empty() {
        let valid = requirement.values.iter();
        let valid = valid.filter(|value| !known.strange.contains(&value.as_str()));
        findings.warnings.push(UnknownValues {
            key,
            valid: valid.cloned().collect(),
            values: known.strange.iter().map(|&value| value.to_owned()).collect(),
            known: known.all,
        });
    }
}

#[cfg(test)]
mod tests;

//! Whether a pending pod can be tried at all (scheduling §4).

use super::labels::{self, WellKnownLabels};
use super::pod::{Pod, Preferences};
use super::requirements::{InvalidRequirement, Operator, validate};
use super::volumes::{VolumeError, Volumes};
use thiserror::Error;

/// What is wrong with a pending pod.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidPod {
    /// The pod does not want to run on a machine of ours; nobody needs to be told (scheduling 4-2).
    #[error(
        "configured to not run on a Karpenter provisioned node (requirement={} DoesNotExist)",
        labels::NODE_POOL
    )]
    OptedOut,
    /// It selects nodes by field (scheduling 4-4).
    #[error("node selector term with matchFields is not supported")]
    MatchFields,
    /// A requirement makes no sense (scheduling 4-5).
    #[error(transparent)]
    Requirement(#[from] InvalidRequirement),
    /// Its volume claims are not in order (scheduling 4-6).
    #[error(transparent)]
    Volumes(#[from] VolumeError),
}

/// Everything that is wrong with a pending pod; empty when it can be tried.
pub fn validate_pod(pod: &Pod, volumes: &Volumes, well_known: &WellKnownLabels) -> Vec<InvalidPod> {
    let constraints = &pod.constraints;
    let mut wrong = Vec::new();
    let wanted = constraints.node_requirements(Preferences::Respect);
    if wanted
        .get(labels::NODE_POOL)
        .is_some_and(|own| own.operator() == Operator::DoesNotExist)
    {
        wrong.push(InvalidPod::OptedOut);
    }
    for (key, value) in &constraints.node_selector {
        let findings = validate(
            key,
            Operator::In.as_str(),
            std::slice::from_ref(value),
            None,
            well_known,
        );
        wrong.extend(findings.into_iter().map(InvalidPod::Requirement));
    }
    for term in &constraints.required_terms {
        if term.match_fields {
            wrong.push(InvalidPod::MatchFields);
        }
        for expression in &term.expressions {
            let findings = validate(
                &expression.key,
                &expression.operator,
                &expression.values,
                None,
                well_known,
            );
            wrong.extend(findings.into_iter().map(InvalidPod::Requirement));
        }
    }
    wrong.extend(volumes.validate(pod).err().map(InvalidPod::Volumes));
    wrong
}

/// Whether the findings are to be told in an event; opting out silences all of them (scheduling 4-1, 4-2).
pub fn is_worth_an_event(findings: &[InvalidPod]) -> bool {
    !findings.is_empty() && !findings.contains(&InvalidPod::OptedOut)
}

/// The findings as one text.
pub fn joined(findings: &[InvalidPod]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

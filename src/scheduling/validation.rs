//! Whether a pending pod can be tried at all (scheduling §4).

use super::labels::{self, WellKnownLabels};
use super::pod::{NodeTerm, Pod, Preferences};
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
    /// Terms without any expression select no node (Differs: upstream takes them for no wish at all, and buys a node that the pod never gets to).
    #[error("node affinity has only empty terms, which match no node")]
    SelectsNothing,
    /// A node was made for it, and what the cloud wrote on it rules the pod out: the next one would be like it.
    ///
    /// Differs: upstream makes one after the other.
    #[error(
        "node {node} was created for this pod and its label {label} rules the pod out; no other node is created for it before {until}"
    )]
    RuledOut {
        /// The node.
        node: String,
        /// `key=value`, or that the node has no such label.
        label: String,
        /// RFC 3339.
        until: String,
    },
    /// A requirement makes no sense (scheduling 4-5).
    #[error(transparent)]
    Requirement(#[from] InvalidRequirement),
    /// It must have a label value that no machine bought for it would keep (surface T18).
    #[error(
        "the cloud overwrites label {key} on every node, so no node created for this pod would keep the value; put the requirement into a NodePool and select it by {}",
        labels::NODE_POOL
    )]
    Overwritten {
        /// The label, under its present name.
        key: String,
    },
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
    if constraints.selects_nothing {
        wrong.push(InvalidPod::SelectsNothing);
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

/// Whether a pod can only run where one of these labels has a value of its choice, though the cloud writes another one on each node (surface T18).
///
/// Differs: upstream buys for such a pod again and again, since it never fits the node that it was bought for. Whatever runs already under the cloud's
/// own value is kube-scheduler's matter.
pub fn asks_for_overwritten(pod: &Pod, overwritten: &[&str]) -> Option<InvalidPod> {
    let asks = |key: &str| {
        let key = labels::normalised(key);
        overwritten.iter().copied().find(|label| *label == key)
    };
    let selected = || pod.constraints.node_selector.keys().find_map(|key| asks(key));
    // terms are alternatives: one without such a label is a way out
    let terms = || {
        let in_term = |term: &NodeTerm| {
            let mut chosen = term
                .expressions
                .iter()
                .filter(|one| one.operator == Operator::In.as_str());
            chosen.find_map(|one| asks(&one.key))
        };
        let found: Option<Vec<&str>> = pod.constraints.required_terms.iter().map(in_term).collect();
        found?.first().copied()
    };
    let key = selected().or_else(terms)?.to_owned();
    Some(InvalidPod::Overwritten { key })
}

/// Whether the findings are to be told in an event; opting out silences all of them (scheduling 4-1, 4-2).
pub fn is_worth_an_event(findings: &[InvalidPod]) -> bool {
    !findings.is_empty() && !findings.contains(&InvalidPod::OptedOut)
}

/// The findings as one text.
pub fn joined(findings: &[InvalidPod]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::pod::{Constraints, Expression};
    use std::sync::Arc;

    fn term(expressions: &[(&str, &str)]) -> NodeTerm {
        let expressions = expressions.iter().map(|(key, operator)| Expression {
            key: (*key).to_owned(),
            operator: (*operator).to_owned(),
            values: vec!["a".to_owned()],
        });
        NodeTerm {
            expressions: expressions.collect(),
            match_fields: false,
        }
    }

    // surface T18
    #[test]
    fn a_pod_that_insists_on_a_label_that_the_cloud_overwrites_is_not_bought_for() {
        let finds = |selector: &[&str], terms: Vec<NodeTerm>| {
            let selector = selector.iter().map(|key| ((*key).to_owned(), "a".to_owned()));
            let constraints = Constraints {
                node_selector: selector.collect(),
                required_terms: terms,
                ..Constraints::default()
            };
            let pod = Pod {
                constraints: Arc::new(constraints),
                ..Pod::default()
            };
            asks_for_overwritten(&pod, &[labels::INSTANCE_TYPE])
        };
        let found = Some(InvalidPod::Overwritten {
            key: labels::INSTANCE_TYPE.to_owned(),
        });
        assert_eq!(finds(&[labels::INSTANCE_TYPE], Vec::new()), found);
        assert_eq!(finds(&["beta.kubernetes.io/instance-type"], Vec::new()), found);
        assert_eq!(
            finds(&[], vec![term(&[(labels::ZONE, "In"), (labels::INSTANCE_TYPE, "In")])]),
            found
        );
        assert_eq!(finds(&[labels::ZONE], Vec::new()), None);
        assert_eq!(finds(&[], vec![term(&[(labels::INSTANCE_TYPE, "NotIn")])]), None);
        let way_out = vec![term(&[(labels::INSTANCE_TYPE, "In")]), term(&[(labels::ZONE, "In")])];
        assert_eq!(finds(&[], way_out), None);
    }
}

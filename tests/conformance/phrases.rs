//! Why a pod was not placed, in upstream's words and in ours: the stable part of each phrase must be the same (surface §4.3).
//!
//! What follows the phrase (requirements, counts, names of placeholders) is for people and is not compared.

use crate::answer::Answer;
use std::collections::BTreeSet;

/// The stable parts; a longer one stands before those that it begins with.
const PHRASES: &[&str] = &[
    "no instance type met the scheduling requirements or had enough resources or had a required offering",
    "no instance type met the scheduling requirements or had enough resources",
    "no instance type met the scheduling requirements or had a required offering",
    "no instance type had enough resources or had a required offering",
    "no instance type met all requirements",
    "no instance type has enough resources",
    "no instance type has the required offering",
    "no instance type which met the scheduling requirements and had enough resources, had a required offering",
    "no instance type which had enough resources and the required offering met the scheduling requirements",
    "no instance type which met the scheduling requirements and the required offering had the required resources",
    "no instance type met the requirements/resources/offering tuple",
    "did not tolerate taint (taint=",
    "incompatible requirements, label",
    "incompatible requirements, key",
    "incompatible volume requirements",
    "unsatisfiable topology constraint for pod affinity",
    "unsatisfiable topology constraint for pod anti-affinity",
    "unsatisfiable topology constraint for topology spread",
    "node limits have been exhausted for nodepool (NodePool=",
    "all available instance types exceed limits for nodepool (NodePool=",
    "minValues requirement is not met for label(s) (label(s)=[",
    "checking host port usage, pod hostport conflicts with existing hostport configuration (existing-hostport-ip=",
    "nodepool requirements filtered out all available instance types",
    "pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter",
    "pod didn’t schedule because NodePool couldn’t meet minValues requirements",
];

fn phrases(text: &str) -> BTreeSet<&'static str> {
    let known = |part: &str| PHRASES.iter().copied().find(|phrase| part.starts_with(phrase));
    text.split("; ").filter_map(known).collect()
}

/// Whether upstream's words come from its shared host ports, which ours does not have (scheduling 9-5).
pub fn about_shared_ports(expected: &Answer) -> bool {
    expected
        .pod_errors
        .values()
        .any(|text| text.contains("checking host port usage"))
}

/// The pods for which ours says something else.
pub fn differences(expected: &Answer, ours: &Answer) -> Vec<String> {
    let told = expected.pod_errors.iter().filter(|(_, text)| !text.is_empty());
    told.filter_map(|(pod, text)| {
        let own = ours.pod_errors.get(pod)?;
        (phrases(text) != phrases(own)).then(|| format!("{pod}: expected {text:?}, ours {own:?}"))
    })
    .collect()
}

//! The sentence that a pod gets when no node takes it, as kube-scheduler writes it.

use super::reason::Reason;
use std::collections::BTreeMap;

/// From the verdict of each node.
pub(crate) fn no_node(verdicts: &[Reason]) -> String {
    let total = verdicts.len();
    if total == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for words in verdicts.iter().flat_map(Reason::words) {
        *counts.entry(words).or_default() += 1;
    }
    let victims = verdicts.iter().filter(|r| r.is_about_pods()).count();
    format!(
        "0/{total} nodes are available: {}. {}",
        listed(counts),
        preemption(total, victims)
    )
}

/// For a pod that no node can help.
pub(crate) fn no_node_can(reason: &Reason, total: usize) -> String {
    if total == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    format!("0/{total} nodes are available: {reason}. {}", preemption(total, 0))
}

fn preemption(total: usize, without_victims: usize) -> String {
    let hopeless = total.saturating_sub(without_victims);
    let counts = [
        ("No preemption victims found for incoming pod", without_victims),
        ("Preemption is not helpful for scheduling", hopeless),
    ];
    let counts = counts
        .into_iter()
        .filter(|(_, n)| *n > 0)
        .map(|(words, n)| (words.to_owned(), n))
        .collect();
    format!("preemption: 0/{total} nodes are available: {}.", listed(counts))
}

fn listed(counts: BTreeMap<String, usize>) -> String {
    let mut parts: Vec<String> = counts.into_iter().map(|(words, n)| format!("{n} {words}")).collect();
    parts.sort();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_counts_nodes_per_reason_in_order() {
        let verdicts = [
            Reason::NodeAffinity,
            Reason::Resources(vec!["cpu".into(), "pods".into()]),
            Reason::NodeAffinity,
            Reason::Taint {
                key: "a".into(),
                value: "b".into(),
            },
        ];
        assert_eq!(
            no_node(&verdicts),
            "0/4 nodes are available: 1 Insufficient cpu, 1 Too many pods, 1 node(s) had untolerated taint {a: b}, \
             2 node(s) didn't match Pod's node affinity/selector. preemption: 0/4 nodes are available: \
             1 No preemption victims found for incoming pod, 3 Preemption is not helpful for scheduling."
        );
        assert_eq!(no_node(&[]), "no nodes available to schedule pods");
    }
}

//! What a taint on a joining node means to the lifecycle: which are passing, how two lists are merged.
//!
//! Taints are compared by key and effect only (lifecycle 0.2). Called by registration and initialization.

use k8s_openapi::api::core::v1::Taint;

/// Key of the taint a node's bootstrap may carry until registration.
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";

const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// The taints that every joining node carries for a while (lifecycle 0.2): key and effect.
const EPHEMERAL: [(&str, &str); 5] = [
    ("node.kubernetes.io/not-ready", NO_SCHEDULE),
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_SCHEDULE),
    ("node.cloudprovider.kubernetes.io/uninitialized", NO_SCHEDULE),
    (UNREGISTERED, NO_EXECUTE),
];

/// Whether two taints are the same thing: key and effect agree, the value does not matter.
pub fn same(a: &Taint, b: &Taint) -> bool {
    a.key == b.key && a.effect == b.effect
}

/// Whether the taint is one that goes by itself while a node joins.
pub fn is_ephemeral(taint: &Taint) -> bool {
    EPHEMERAL
        .iter()
        .any(|(key, effect)| taint.key == *key && taint.effect == *effect)
}

/// Whether the taint is Karpenter's own mark of a node that is not registered.
pub fn is_unregistered(taint: &Taint) -> bool {
    taint.key == UNREGISTERED && taint.effect == NO_EXECUTE
}

/// Keeps all of `present` and adds those of `wanted` of which there is none with the same key and effect (lifecycle 0.3).
pub fn merge(present: &mut Vec<Taint>, wanted: &[Taint]) {
    for taint in wanted {
        if !present.iter().any(|there| same(there, taint)) {
            present.push(taint.clone());
        }
    }
}

/// A taint in words, `key[=value]:effect`.
pub fn in_words(taint: &Taint) -> String {
    match taint.value.as_deref() {
        Some(value) if !value.is_empty() => format!("{}={value}:{}", taint.key, taint.effect),
        _ => format!("{}:{}", taint.key, taint.effect),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: &str, effect: &str) -> Taint {
        let value = (!value.is_empty()).then(|| value.to_owned());
        Taint {
            key: key.into(),
            value,
            effect: effect.into(),
            time_added: None,
        }
    }

    #[test]
    fn a_taint_with_another_value_is_not_replaced() {
        let mut present = vec![taint("a", "1", NO_SCHEDULE)];
        merge(
            &mut present,
            &[taint("a", "2", NO_SCHEDULE), taint("a", "2", NO_EXECUTE)],
        );
        assert_eq!(present, [taint("a", "1", NO_SCHEDULE), taint("a", "2", NO_EXECUTE)]);
    }

    #[test]
    fn merging_a_list_into_itself_changes_nothing() {
        let mut present = vec![taint("a", "", NO_SCHEDULE), taint("b", "x", NO_EXECUTE)];
        let before = present.clone();
        merge(&mut present, &before.clone());
        assert_eq!(present, before);
    }

    #[test]
    fn unreachable_is_passing_only_as_no_schedule() {
        assert!(is_ephemeral(&taint("node.kubernetes.io/unreachable", "", NO_SCHEDULE)));
        assert!(!is_ephemeral(&taint("node.kubernetes.io/unreachable", "", NO_EXECUTE)));
        assert!(is_ephemeral(&taint(
            "node.cloudprovider.kubernetes.io/uninitialized",
            "true",
            NO_SCHEDULE
        )));
    }
}

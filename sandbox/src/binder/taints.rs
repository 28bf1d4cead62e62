//! Taints and tolerations.

use k8s_openapi::api::core::v1::{Taint, Toleration};

/// Which effects do not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ignored {
    /// `PreferNoSchedule`: what keeps a pod from being placed.
    Preferences,
    /// All but `NoExecute`: what drives a pod away.
    AllButEviction,
}

impl Ignored {
    fn ignores(self, effect: &str) -> bool {
        match self {
            Self::Preferences => effect == "PreferNoSchedule",
            Self::AllButEviction => effect != "NoExecute",
        }
    }
}

/// Whether a toleration covers a taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let set = |text: &Option<String>| text.clone().filter(|t| !t.is_empty());
    let effect = set(&toleration.effect).is_none_or(|e| e == taint.effect);
    let operator = set(&toleration.operator).unwrap_or_else(|| "Equal".into());
    let key = match set(&toleration.key) {
        Some(key) => key == taint.key,
        None => operator == "Exists",
    };
    let value = match operator.as_str() {
        "Exists" => true,
        "Equal" => toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default(),
        _ => false,
    };
    effect && key && value
}

/// The first taint that matters and that no toleration covers.
pub(crate) fn untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration], ignored: Ignored) -> Option<&'a Taint> {
    taints
        .iter()
        .filter(|t| !ignored.ignores(&t.effect))
        .find(|t| !tolerations.iter().any(|own| tolerates(own, t)))
}

/// How many preferences against a node a pod does not tolerate.
pub(crate) fn unwelcome(taints: &[Taint], tolerations: &[Toleration]) -> usize {
    let soft = taints.iter().filter(|t| t.effect == "PreferNoSchedule");
    soft.filter(|t| !tolerations.iter().any(|own| tolerates(own, t)))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tolerations_match_by_key_operator_value_and_effect() {
        let taint: Taint = serde_json::from_value(json!({"key": "k", "value": "v", "effect": "NoSchedule"})).unwrap();
        let cases = [
            (json!({"key": "k", "value": "v", "effect": "NoSchedule"}), true),
            (json!({"key": "k", "operator": "Equal", "value": "v"}), true),
            (json!({"key": "k", "operator": "Exists"}), true),
            (json!({"operator": "Exists"}), true),
            (json!({"operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "k", "value": "w"}), false),
            (json!({"value": "v"}), false),
            (json!({"key": "k", "operator": "Like", "value": "v"}), false),
        ];
        for (toleration, expected) in cases {
            let parsed: Toleration = serde_json::from_value(toleration.clone()).unwrap();
            assert_eq!(tolerates(&parsed, &taint), expected, "{toleration}");
        }
    }

    #[test]
    fn preferences_do_not_keep_a_pod_away_and_only_no_execute_drives_it_out() {
        let taints: Vec<Taint> = ["PreferNoSchedule", "NoSchedule", "NoExecute"]
            .map(|effect| serde_json::from_value(json!({"key": effect, "effect": effect})).unwrap())
            .into();
        assert_eq!(
            untolerated(&taints, &[], Ignored::Preferences).unwrap().key,
            "NoSchedule"
        );
        assert_eq!(
            untolerated(&taints, &[], Ignored::AllButEviction).unwrap().key,
            "NoExecute"
        );
        assert_eq!(unwelcome(&taints, &[]), 1);
    }
}

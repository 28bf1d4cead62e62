//! What several kinds' schemas share: requirements, taints, quantities, class references, conditions (surface §1.4, surface §1.5).
//!
//! Relies on `patterns`; called by `kinds`. The messages are what users grep for, so they are upstream's.

use super::patterns;
use serde_json::{Value, json};

/// A CEL rule with its message.
pub(super) fn rule(message: &str, expression: &str) -> Value {
    json!({ "message": message, "rule": expression })
}

/// A quantity: an integer or a string.
pub(super) fn quantity() -> Value {
    json!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": patterns::QUANTITY,
        "x-kubernetes-int-or-string": true,
    })
}

/// Which kind's requirements: they differ in a few rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequirementsOf {
    Pool,
    Claim,
    Overlay,
}

/// The keywords of a list of requirements.
pub(super) fn requirements(of: RequirementsOf) -> Value {
    // upstream's two wordings differ by one comma
    let comparison_message = match of {
        RequirementsOf::Overlay => {
            "requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value"
        }
        _ => "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
    };
    let mut rules = vec![
        rule(
            "requirements with operator 'In' must have a value defined",
            "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",
        ),
        rule(
            comparison_message,
            "self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator == 'Lte') ? \
             (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
        ),
    ];
    if of == RequirementsOf::Overlay {
        rules.insert(
            0,
            rule(
                "requirements with operator 'NotIn' must have a value defined",
                "self.all(x, x.operator == 'NotIn' ? x.values.size() != 0 : true)",
            ),
        );
    } else {
        rules.push(rule(
            "requirements with 'minValues' must have at least that many values specified in the 'values' field",
            "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
        ));
    }
    json!({ "maxItems": 100, "x-kubernetes-validations": rules })
}

/// The keywords of a requirement's key.
pub(super) fn requirement_key(of: RequirementsOf) -> Value {
    let mut rules = vec![
        rule(
            "label domain \"karpenter.sh\" is restricted",
            "self in [\"karpenter.sh/capacity-type\", \"karpenter.sh/nodepool\"] || \
             !self.find(\"^([^/]+)\").endsWith(\"karpenter.sh\")",
        ),
        rule(
            "label \"kubernetes.io/hostname\" is restricted",
            "self != \"kubernetes.io/hostname\"",
        ),
    ];
    if of == RequirementsOf::Pool {
        rules.insert(
            1,
            rule(
                "label \"karpenter.sh/nodepool\" is restricted",
                "self != \"karpenter.sh/nodepool\"",
            ),
        );
    }
    json!({ "maxLength": 316, "pattern": patterns::QUALIFIED_NAME, "x-kubernetes-validations": rules })
}

/// The keywords of a requirement's values. The two limits belong on the items; on the list they check nothing, and upstream has them there (surface T6).
pub(super) fn requirement_values() -> Value {
    json!({ "maxLength": 63, "pattern": patterns::LABEL_VALUE, "x-kubernetes-list-type": "atomic" })
}

/// A number of distinct values.
pub(super) fn min_values() -> Value {
    json!({ "maximum": 50, "minimum": 1, "type": "integer" })
}

/// A list of taints that is checked.
pub(super) fn taints() -> Value {
    let mut taints = unchecked_taints();
    let properties = &mut taints["items"]["properties"];
    properties["effect"]["enum"] = json!(["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    properties["key"]["minLength"] = json!(1);
    properties["key"]["pattern"] = json!(patterns::QUALIFIED_NAME);
    properties["value"]["pattern"] = json!(patterns::QUALIFIED_NAME);
    taints
}

/// A list of taints that somebody else will check.
pub(in crate::api) fn unchecked_taints() -> Value {
    json!({
        "items": {
            "description": "A taint on a node.",
            "properties": {
                "effect": { "description": "What happens to pods that do not tolerate the taint.", "type": "string" },
                "key": { "description": "The taint's key.", "type": "string" },
                "timeAdded": { "description": "When the taint was added.", "format": "date-time", "type": "string" },
                "value": { "description": "The taint's value.", "type": "string" },
            },
            "required": ["effect", "key"],
            "type": "object",
        },
        "type": "array",
    })
}

/// The keywords of a class reference's three fields, by their names.
pub(super) fn class_reference_fields() -> [(&'static str, Value); 3] {
    let not_empty = |field: &str| json!([rule(&format!("{field} may not be empty"), "self != ''")]);
    [
        (
            "group",
            json!({ "pattern": patterns::GROUP, "x-kubernetes-validations": not_empty("group") }),
        ),
        ("kind", json!({ "x-kubernetes-validations": not_empty("kind") })),
        ("name", json!({ "x-kubernetes-validations": not_empty("name") })),
    ]
}

/// How much a kind's schema demands of a condition (surface T22).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) enum ConditionSchema {
    /// Reason and message must be there.
    Strict,
    /// Reason and message may be absent or empty.
    Loose,
}

/// The items of a list of conditions.
pub(in crate::api) fn condition(schema: ConditionSchema) -> Value {
    let mut condition = json!({
        "description": "One thing that is known, or not, about the object.",
        "properties": {
            "lastTransitionTime": {
                "description": "When the status last changed.", "format": "date-time", "type": "string"
            },
            "message": { "description": "Why, in words for people.", "maxLength": 32768, "type": "string" },
            "observedGeneration": {
                "description": "The object's generation that this was said about.",
                "format": "int64", "minimum": 0, "type": "integer"
            },
            "reason": { "description": "Why, in one word.", "maxLength": 1024, "type": "string" },
            "status": { "description": "Whether it holds.", "enum": ["True", "False", "Unknown"], "type": "string" },
            "type": {
                "description": "What the condition is about.",
                "maxLength": 316, "pattern": patterns::CONDITION_TYPE, "type": "string"
            },
        },
        "required": ["lastTransitionTime", "status", "type"],
        "type": "object",
    });
    let reason = &mut condition["properties"]["reason"];
    match schema {
        ConditionSchema::Loose => reason["pattern"] = json!(patterns::CONDITION_REASON_OR_EMPTY),
        ConditionSchema::Strict => {
            reason["minLength"] = json!(1);
            reason["pattern"] = json!(patterns::CONDITION_REASON);
            condition["required"] = json!(["lastTransitionTime", "message", "reason", "status", "type"]);
        }
    }
    condition
}

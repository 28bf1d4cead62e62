//! The definitions: what each kind's schema has beyond its type (surface §1.5).
//!
//! Relies on `assemble` and `fragments`; called through [`all`].

use super::assemble::{Definition, Schema};
use super::fragments::{
    ConditionSchema, RequirementsOf, class_reference_fields, condition, min_values, quantity, requirement_key,
    requirement_values, requirements, rule, taints,
};
use super::patterns;
use crate::api::{
    NodeClaim, NodeClaimSpec, NodeClaimStatus, NodeOverlay, NodeOverlaySpec, NodeOverlayStatus, NodePool, NodePoolSpec,
    NodePoolStatus, nodeclass,
};
use kube::CustomResourceExt;
use serde_json::{Value, json};

/// All our definitions, in the order of their file names.
pub fn all() -> Vec<Definition> {
    vec![nodeclass::definition(), nodeclaim(), nodeoverlay(), nodepool()]
}

fn nodepool() -> Definition {
    let spec = Schema::of::<NodePoolSpec>()
        .merge(
            "",
            json!({ "required": ["template"], "x-kubernetes-validations": static_pool_rules() }),
        )
        .merge("template", json!({ "required": ["spec"] }))
        .merge("template.metadata.labels", template_label_rules())
        .replace(
            "template.metadata.labels{}",
            json!({ "maxLength": 63, "pattern": patterns::LABEL_VALUE, "type": "string" }),
        )
        .replace("limits{}", quantity())
        .merge("replicas", json!({ "minimum": 0 }))
        .merge("weight", json!({ "maximum": 100, "minimum": 1 }));
    let spec = with_machine_fields(with_disruption(spec), "template.spec", RequirementsOf::Pool).merge(
        "template.spec.nodeClassRef",
        json!({ "x-kubernetes-validations": [
            rule("nodeClassRef.group is immutable", "self.group == oldSelf.group"),
            rule("nodeClassRef.kind is immutable", "self.kind == oldSelf.kind"),
        ] }),
    );
    let status = Schema::of::<NodePoolStatus>()
        .replace("resources{}", quantity())
        .merge("nodes", json!({ "default": 0 }))
        .replace("conditions[]", condition(ConditionSchema::Strict));
    derived::<NodePool>(&Schema::object(
        "NodePool says which nodes may be created, how many, and when they may go again.",
        &["spec"],
        spec,
        status,
    ))
}

fn with_disruption(schema: Schema) -> Schema {
    schema
        .merge(
            "disruption",
            json!({ "default": { "consolidateAfter": "0s" }, "required": ["consolidateAfter"] }),
        )
        .merge(
            "disruption.consolidateAfter",
            json!({ "pattern": patterns::DURATION_OR_NEVER }),
        )
        .merge(
            "disruption.consolidationPolicy",
            json!({ "default": "WhenEmptyOrUnderutilized" }),
        )
        .merge(
            "disruption.budgets",
            json!({
                "default": [{ "nodes": "10%" }],
                "maxItems": 50,
                "x-kubernetes-validations": [
                    rule("'schedule' must be set with 'duration'", "self.all(x, has(x.schedule) == has(x.duration))")
                ],
            }),
        )
        .merge("disruption.budgets[]", json!({ "required": ["nodes"] }))
        .merge(
            "disruption.budgets[].nodes",
            json!({ "default": "10%", "pattern": patterns::BUDGET_NODES }),
        )
        .merge("disruption.budgets[].reasons", json!({ "maxItems": 50 }))
        .merge(
            "disruption.budgets[].schedule",
            json!({ "pattern": patterns::BUDGET_SCHEDULE }),
        )
        .merge(
            "disruption.budgets[].duration",
            json!({ "pattern": patterns::BUDGET_DURATION }),
        )
}

fn static_pool_rules() -> Value {
    json!([
        rule(
            "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
            "has(self.replicas) == has(oldSelf.replicas)",
        ),
        rule(
            "only 'limits.nodes' is supported on static NodePools",
            "!has(self.replicas) || (!has(self.limits) || size(self.limits) == 0 || \
             (size(self.limits) == 1 && 'nodes' in self.limits))",
        ),
        rule(
            "'weight' is not supported on static NodePools",
            "!has(self.replicas) || !has(self.weight)"
        ),
    ])
}

fn template_label_rules() -> Value {
    json!({ "maxProperties": 100, "x-kubernetes-validations": [
        rule(
            "label domain \"karpenter.sh\" is restricted",
            "self.all(x, x in [\"karpenter.sh/capacity-type\", \"karpenter.sh/nodepool\"] || \
             !x.find(\"^([^/]+)\").endsWith(\"karpenter.sh\"))",
        ),
        rule("label \"karpenter.sh/nodepool\" is restricted", "self.all(x, x != \"karpenter.sh/nodepool\")"),
        rule("label \"kubernetes.io/hostname\" is restricted", "self.all(x, x != \"kubernetes.io/hostname\")"),
    ] })
}

/// The fields that a pool's template and a claim have in common.
fn with_machine_fields(schema: Schema, at: &str, of: RequirementsOf) -> Schema {
    let below = |field: &str| {
        if at.is_empty() {
            field.to_owned()
        } else {
            format!("{at}.{field}")
        }
    };
    let schema = schema
        .merge(at, json!({ "required": ["nodeClassRef", "requirements"] }))
        .merge(&below("nodeClassRef"), json!({ "required": ["group", "kind", "name"] }))
        .merge(
            &below("expireAfter"),
            json!({ "default": "720h", "pattern": patterns::DURATION_OR_NEVER }),
        )
        .merge(
            &below("terminationGracePeriod"),
            json!({ "pattern": patterns::TERMINATION_GRACE_PERIOD }),
        )
        .replace(&below("taints"), taints())
        .replace(&below("startupTaints"), taints())
        .replace(&below("requirements[].minValues"), min_values());
    let schema = class_reference_fields()
        .into_iter()
        .fold(schema, |schema, (field, keywords)| {
            schema.merge(&below(&format!("nodeClassRef.{field}")), keywords)
        });
    with_requirements(schema, &below("requirements"), of)
}

fn with_requirements(schema: Schema, at: &str, of: RequirementsOf) -> Schema {
    schema
        .merge(at, requirements(of))
        .merge(&format!("{at}[]"), json!({ "required": ["key", "operator"] }))
        .merge(&format!("{at}[].key"), requirement_key(of))
        .merge(&format!("{at}[].values"), requirement_values())
}

fn nodeclaim() -> Definition {
    let spec = with_machine_fields(Schema::of::<NodeClaimSpec>(), "", RequirementsOf::Claim)
        .merge(
            "",
            json!({ "x-kubernetes-validations": [rule("spec is immutable", "self == oldSelf")] }),
        )
        .replace("resources.requests{}", quantity());
    let status = Schema::of::<NodeClaimStatus>()
        .replace("capacity{}", quantity())
        .replace("allocatable{}", quantity())
        .replace(
            "lastPodEventTime",
            json!({
                "description": "When a pod last came to the node or left it.", "format": "date-time", "type": "string"
            }),
        )
        .replace("conditions[]", condition(ConditionSchema::Loose));
    derived::<NodeClaim>(&Schema::object(
        "NodeClaim is one machine that was asked for, and what became of it.",
        &["spec"],
        spec,
        status,
    ))
}

fn nodeoverlay() -> Definition {
    let spec = with_requirements(Schema::of::<NodeOverlaySpec>(), "requirements", RequirementsOf::Overlay)
        .merge(
            "",
            json!({ "required": ["requirements"], "x-kubernetes-validations": [
                rule("cannot set both 'price' and 'priceAdjustment'", "!has(self.price) || !has(self.priceAdjustment)")
            ] }),
        )
        .merge(
            "capacity",
            json!({ "x-kubernetes-validations": [rule(
                "invalid resource restricted",
                "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
            )] }),
        )
        .replace("capacity{}", quantity())
        .merge("price", json!({ "pattern": patterns::PRICE }))
        .merge("priceAdjustment", json!({ "pattern": patterns::PRICE_ADJUSTMENT }))
        .merge("weight", json!({ "maximum": 10000, "minimum": 1 }));
    let status = Schema::of::<NodeOverlayStatus>().replace("conditions[]", condition(ConditionSchema::Strict));
    derived::<NodeOverlay>(&Schema::object(
        "NodeOverlay corrects the price or the capacity of the instance types it selects.",
        &["spec"],
        spec,
        status,
    ))
}

/// A definition whose names, columns and subresources the type's derive has.
fn derived<K: CustomResourceExt>(schema: &Schema) -> Definition {
    // A definition made of strings and lists always becomes JSON; were it not so, the golden test would show an empty one.
    let manifest = serde_json::to_value(K::crd()).unwrap_or_default();
    Definition::new(manifest, schema)
}

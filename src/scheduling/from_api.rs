//! From the API's NodePools, NodeClaims and DaemonSets to what a pass works with.

use super::instance_type::InstanceType;
use super::pod::Pod;
use super::problem::Pool;
use super::requirements::{Operator, Requirement, Requirements, Spec};
use super::taints::Taint;
use crate::api::{NodePool, NodeSelectorRequirementWithMinValues};
use crate::resources::ResourceList;
use std::sync::Arc;

const HASH: &str = "karpenter.sh/nodepool-hash";
const HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";

impl From<&NodeSelectorRequirementWithMinValues> for Requirement {
    /// An unknown operator allows nothing: validation reports it, and until then nothing may be launched by it.
    fn from(requirement: &NodeSelectorRequirementWithMinValues) -> Self {
        let Ok(operator) = requirement.operator.as_str().parse::<Operator>() else {
            return Self::does_not_exist(&requirement.key);
        };
        Self::from_spec(&Spec {
            key: requirement.key.clone(),
            operator,
            values: requirement.values.clone(),
            min_values: requirement.min_values.and_then(|least| u32::try_from(least).ok()),
        })
    }
}

impl Requirements {
    /// From the requirements of a NodePool or NodeClaim; entries of one label are intersected.
    pub fn from_api<'a>(requirements: impl IntoIterator<Item = &'a NodeSelectorRequirementWithMinValues>) -> Self {
        requirements.into_iter().map(Requirement::from).collect()
    }

    /// The requirements of a NodePool or NodeClaim that say the same, sorted (scheduling 5-10).
    pub fn to_api(&self) -> Vec<NodeSelectorRequirementWithMinValues> {
        let entries = self.to_specs().into_iter();
        entries
            .map(|spec| NodeSelectorRequirementWithMinValues {
                key: spec.key,
                operator: crate::api::Operator::from(spec.operator.as_str()),
                values: spec.values,
                min_values: spec.min_values.map(i64::from),
            })
            .collect()
    }
}

impl Pool {
    /// A NodePool with the instance types it can have; its hash is the one of the pool as given (scheduling 11-2).
    pub fn from_api(pool: &NodePool, instance_types: Arc<[Arc<InstanceType>]>) -> Self {
        let template = &pool.spec.template;
        let class = &template.spec.node_class_ref;
        let mut annotations = template.metadata.annotations.clone();
        annotations.insert(HASH.to_owned(), pool.hash());
        annotations.insert(HASH_VERSION.to_owned(), crate::api::hash::VERSION.to_owned());
        Self {
            name: pool.metadata.name.clone().unwrap_or_default(),
            weight: pool.weight(),
            limits: ResourceList::from_api(&pool.spec.limits),
            labels: template.metadata.labels.clone(),
            annotations,
            taints: template.spec.taints.iter().map(Taint::from).collect(),
            startup_taints: template.spec.startup_taints.iter().map(Taint::from).collect(),
            requirements: Requirements::from_api(&template.spec.requirements),
            node_class_label: Some((class.label_key(), class.name.clone())),
            instance_types,
        }
    }
}

impl Pod {
    /// The pod that stands for a DaemonSet: the newest real one if there is any, else one made from the template, with limits as requests.
    /// The template's required node affinity replaces that of a real pod, which pins it to its node (scheduling 12-1).
    pub fn for_daemon_set(set: &k8s_openapi::api::apps::v1::DaemonSet, newest: Option<&Self>) -> Option<Self> {
        let template = &set.spec.as_ref()?.template;
        let spec = super::pod::with_limits_as_requests(template.spec.as_ref()?);
        let mut metadata = template.metadata.clone().unwrap_or_default();
        metadata.namespace.clone_from(&set.metadata.namespace);
        let from_template = Self::from_parts(&metadata, &spec);
        let Some(newest) = newest else {
            return Some(from_template);
        };
        let mut result = newest.clone();
        if !from_template.constraints.required_terms.is_empty() {
            let constraints = std::sync::Arc::make_mut(&mut result.constraints);
            constraints
                .required_terms
                .clone_from(&from_template.constraints.required_terms);
        }
        Some(result)
    }
}

//! A set of requirements, one for each label.

use super::operator::Operator;
use super::requirement::{Requirement, Spec};
use crate::scheduling::labels::{self, WellKnownLabels};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What a set of labels may be. A label that is not mentioned is not constrained (scheduling 5-12).
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirements(BTreeMap<Arc<str>, Requirement>);

impl Requirements {
    /// No constraint.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Each label must have the value given (scheduling 5-17).
    pub fn from_labels<'a, K, V>(labels: impl IntoIterator<Item = (&'a K, &'a V)>) -> Self
    where
        K: AsRef<str> + 'a + ?Sized,
        V: AsRef<str> + 'a + ?Sized,
    {
        labels
            .into_iter()
            .map(|(key, value)| Requirement::is(key, value.as_ref()))
            .collect()
    }

    /// From the API's entries; entries of one label are intersected.
    pub fn from_specs<'a>(specs: impl IntoIterator<Item = &'a Spec>) -> Self {
        specs.into_iter().map(Requirement::from_spec).collect()
    }

    /// Adds one requirement, intersecting it with what is there.
    pub fn add(&mut self, requirement: Requirement) {
        match self.0.get_mut(requirement.key()) {
            // The newcomer leads, as upstream; it only matters for which spelling of a key survives.
            Some(own) => *own = requirement.intersection(own),
            None => {
                self.0.insert(Arc::clone(requirement.shared_key()), requirement);
            }
        }
    }

    /// Adds every requirement of another set.
    pub fn add_all(&mut self, other: &Self) {
        for requirement in other.0.values() {
            self.add(requirement.clone());
        }
    }

    /// What satisfies both sets.
    pub fn and(&self, other: &Self) -> Self {
        let mut result = self.clone();
        result.add_all(other);
        result
    }

    /// The requirement on a label, if there is one.
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.0.get(key)
    }

    /// The requirement on a label; an absent one constrains nothing.
    pub fn get_or_any(&self, key: &str) -> Requirement {
        self.get(key).cloned().unwrap_or_else(|| Requirement::exists(key))
    }

    /// Whether a label is mentioned.
    pub fn contains(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Replaces the requirement on its label.
    pub fn set(&mut self, requirement: Requirement) {
        self.0.insert(Arc::clone(requirement.shared_key()), requirement);
    }

    /// Takes the requirement on a label out.
    pub fn remove(&mut self, key: &str) -> Option<Requirement> {
        self.0.remove(key)
    }

    /// The labels mentioned, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(AsRef::as_ref)
    }

    /// The requirements, by label.
    pub fn iter(&self) -> impl Iterator<Item = &Requirement> {
        self.0.values()
    }

    /// How many labels are mentioned.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is required.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether some requirement wants a least number of values.
    pub fn has_min_values(&self) -> bool {
        self.0.values().any(|requirement| requirement.min_values().is_some())
    }

    /// The API's entries, sorted by label and operator.
    pub fn to_specs(&self) -> Vec<Spec> {
        let mut specs: Vec<Spec> = self.0.values().flat_map(Requirement::to_specs).collect();
        specs.sort_by(|a, b| (&a.key, a.operator.as_str()).cmp(&(&b.key, b.operator.as_str())));
        specs
    }

    /// The labels to write on a NodeClaim for what is neither well known nor restricted: one allowed value each (scheduling 21-6).
    pub fn resolved_labels(&self, well_known: &WellKnownLabels) -> BTreeMap<String, String> {
        self.0
            .values()
            .filter(|requirement| !well_known.contains(requirement.key()) && !well_known.restricts(requirement.key()))
            .map(|requirement| (requirement.key().to_owned(), requirement.any()))
            .filter(|(_, value)| !value.is_empty())
            .collect()
    }
}

impl FromIterator<Requirement> for Requirements {
    fn from_iter<I: IntoIterator<Item = Requirement>>(iter: I) -> Self {
        let mut result = Self::new();
        for requirement in iter {
            result.add(requirement);
        }
        result
    }
}

impl fmt::Display for Requirements {
    /// All texts sorted; the hostname is left out (scheduling 5-12).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts: Vec<String> = self
            .0
            .values()
            .filter(|r| r.key() != labels::HOSTNAME)
            .map(ToString::to_string)
            .collect();
        texts.sort();
        f.write_str(&texts.join(", "))
    }
}

impl From<&k8s_openapi::api::core::v1::NodeSelectorRequirement> for Requirement {
    /// An unknown operator allows nothing: the API server refuses it, so it can only come from a broken source.
    fn from(term: &k8s_openapi::api::core::v1::NodeSelectorRequirement) -> Self {
        let values = term.values.iter().flatten().map(String::as_str);
        match term.operator.parse::<Operator>() {
            Ok(operator) => Self::new(&term.key, operator, values),
            Err(_) => Self::does_not_exist(&term.key),
        }
    }
}

//! A list of quantities by resource name.
//!
//! Decides what "sum", "difference" and "fits" mean for several resources at once (scheduling 8-4, 8-5). Relies on [`Quantity`] being exact.
//! Called by pod requests, instance types, limits and cluster accounting.

use super::Quantity;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Quantities by resource name. A name that is absent counts as zero where amounts are compared.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceList(BTreeMap<String, Quantity>);

impl ResourceList {
    /// An empty list.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The amount of one resource, if named.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    /// The amount of one resource; zero when absent.
    pub fn amount(&self, name: &str) -> Quantity {
        self.get(name).unwrap_or_default()
    }

    /// Sets one amount.
    pub fn set(&mut self, name: impl Into<String>, quantity: Quantity) {
        self.0.insert(name.into(), quantity);
    }

    /// The same list with one amount set.
    pub fn with(mut self, name: impl Into<String>, quantity: Quantity) -> Self {
        self.set(name, quantity);
        self
    }

    /// Takes one resource out.
    pub fn remove(&mut self, name: &str) -> Option<Quantity> {
        self.0.remove(name)
    }

    /// Names and amounts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, quantity)| (name.as_str(), *quantity))
    }

    /// Whether no resource is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many resources are named.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds every amount of `other`.
    pub fn add(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            match self.0.get_mut(name) {
                Some(own) => *own = *own + *quantity,
                None => {
                    self.0.insert(name.clone(), *quantity);
                }
            }
        }
    }

    /// The sum of both.
    pub fn sum(&self, other: &Self) -> Self {
        let mut result = self.clone();
        result.add(other);
        result
    }

    /// Own amounts less those of `other`; names only in `other` are left out (scheduling 8-5).
    pub fn minus(&self, other: &Self) -> Self {
        Self(
            self.0
                .iter()
                .map(|(name, quantity)| (name.clone(), *quantity - other.amount(name)))
                .collect(),
        )
    }

    /// Takes every amount of `other` away; names only in `other` become negative (scheduling 8-5).
    pub fn take(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            let left = self.amount(name) - *quantity;
            self.0.insert(name.clone(), left);
        }
    }

    /// Per resource the larger amount.
    pub fn maximum(&self, other: &Self) -> Self {
        let mut result = self.clone();
        for (name, quantity) in &other.0 {
            let own = result.0.entry(name.clone()).or_insert(*quantity);
            if *quantity > *own {
                *own = *quantity;
            }
        }
        result
    }

    /// Whether these amounts go into `total`. Nothing fits where a total is already negative; an amount of zero of a resource that the total
    /// does not have fits (scheduling 8-4).
    pub fn fits(&self, total: &Self) -> bool {
        total.0.values().all(|quantity| !quantity.is_negative())
            && self.0.iter().all(|(name, quantity)| *quantity <= total.amount(name))
    }

    /// The first limit, by name, that `usage` is above: its name, the usage and the limit. Only resources named in both count
    /// (scheduling 2-6.2, 20-5).
    pub fn exceeded_by<'a>(&'a self, usage: &Self) -> Option<(&'a str, Quantity, Quantity)> {
        self.iter().find_map(|(name, limit)| {
            let used = usage.get(name)?;
            (used > limit).then_some((name, used, limit))
        })
    }

    /// Reads an API map. An amount that is no quantity is left out: the API server refuses such objects, so one can only come from a broken
    /// source, and the rest is still worth having.
    pub fn from_api<'a>(map: impl IntoIterator<Item = (&'a String, &'a ApiQuantity)>) -> Self {
        Self(
            map.into_iter()
                .filter_map(|(name, quantity)| Some((name.clone(), Quantity::try_from(quantity).ok()?)))
                .collect(),
        )
    }

    /// The same as an API map.
    pub fn to_api(&self) -> BTreeMap<String, ApiQuantity> {
        self.0
            .iter()
            .map(|(name, quantity)| (name.clone(), ApiQuantity::from(*quantity)))
            .collect()
    }

    /// The form used in messages: JSON with names sorted.
    pub fn to_json(&self) -> String {
        let entries: Vec<String> = self
            .0
            .iter()
            .map(|(name, quantity)| format!("{name:?}:\"{quantity}\""))
            .collect();
        format!("{{{}}}", entries.join(","))
    }

    /// The same as a value, as log lines show it (surface §8.2).
    pub fn to_value(&self) -> serde_json::Value {
        let entries = self.0.iter();
        entries
            .map(|(name, quantity)| (name.clone(), serde_json::Value::from(quantity.to_string())))
            .collect()
    }
}

impl fmt::Debug for ResourceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter()).finish()
    }
}

impl<S: Into<String>> FromIterator<(S, Quantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (S, Quantity)>>(iter: I) -> Self {
        Self(
            iter.into_iter()
                .map(|(name, quantity)| (name.into(), quantity))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(&str, i64)]) -> ResourceList {
        entries
            .iter()
            .map(|(name, value)| (*name, Quantity::units(*value)))
            .collect()
    }

    #[test]
    fn nothing_fits_into_a_total_that_is_already_negative() {
        assert!(!list(&[]).fits(&list(&[("cpu", -1)])));
        assert!(list(&[("gpu", 0)]).fits(&list(&[("cpu", 1)])));
        assert!(!list(&[("gpu", 1)]).fits(&list(&[("cpu", 1)])));
    }

    #[test]
    fn a_difference_keeps_only_own_names_while_taking_goes_below_zero() {
        let mut a = list(&[("cpu", 3)]);
        let b = list(&[("cpu", 1), ("pods", 2)]);
        assert_eq!(a.minus(&b), list(&[("cpu", 2)]));
        a.take(&b);
        assert_eq!(a, list(&[("cpu", 2), ("pods", -2)]));
    }

    #[test]
    fn usage_equal_to_a_limit_is_allowed() {
        let limits = list(&[("cpu", 10)]);
        assert_eq!(limits.exceeded_by(&list(&[("cpu", 10), ("memory", 99)])), None);
        assert!(limits.exceeded_by(&list(&[("cpu", 11)])).is_some());
    }
}

//! Order, `minValues` and truncation over a list of instance types (scheduling 10-5, 19-2, 21-2), on plain values.
//!
//! What disruption needs when it filters replacements by price; the solver does the same on columns.

use super::instance_type::InstanceType;
use super::labels::WellKnownLabels;
use super::requirements::Requirements;
use super::results::{MinValuesPolicy, Ties};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thiserror::Error;

/// Too few values are left for some keys.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("minValues requirement is not met for label(s) (label(s)=[{}])", .0.keys().cloned().collect::<Vec<_>>().join(" "))]
pub struct TooFewValues(pub BTreeMap<String, usize>);

/// How far a list of types satisfies `minValues`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MinValues {
    /// How many types, from the first, are needed; 0 when nothing is wanted.
    pub needed: usize,
    /// The keys that stay short, and how many values were found.
    pub short: BTreeMap<String, usize>,
}

/// How a list is cut.
#[derive(Debug, Clone, Copy)]
pub struct Truncation {
    /// Types kept at most.
    pub most: usize,
    /// Whether what is kept must satisfy `minValues`.
    pub policy: MinValuesPolicy,
    /// Who comes first among equal prices.
    pub ties: Ties,
}

/// The types by the least price of what can be had under the requirements; those that cannot be had come last.
pub fn by_price(
    kinds: &[Arc<InstanceType>],
    requirements: &Requirements,
    ties: Ties,
    well_known: &WellKnownLabels,
) -> Vec<Arc<InstanceType>> {
    let price = |kind: &InstanceType| kind.price(requirements, well_known).unwrap_or(f64::MAX);
    let mut priced: Vec<(f64, &Arc<InstanceType>)> = kinds.iter().map(|kind| (price(kind), kind)).collect();
    priced.sort_by(|(a, x), (b, y)| {
        let by_name = || {
            if ties == Ties::Product {
                x.name.cmp(&y.name)
            } else {
                std::cmp::Ordering::Equal
            }
        };
        a.total_cmp(b).then_with(by_name)
    });
    priced.into_iter().map(|(_, kind)| Arc::clone(kind)).collect()
}

/// Walks the types in order until every `minValues` is reached (scheduling 19-2).
pub fn min_values(kinds: &[Arc<InstanceType>], requirements: &Requirements) -> MinValues {
    let wanted: Vec<(&str, usize)> = requirements
        .iter()
        .filter_map(|r| Some((r.key(), r.min_values()? as usize)))
        .collect();
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = wanted.iter().map(|(key, _)| (*key, BTreeSet::new())).collect();
    if wanted.is_empty() || kinds.is_empty() {
        return MinValues::default();
    }
    let enough = |seen: &BTreeMap<&str, BTreeSet<&str>>| {
        wanted
            .iter()
            .all(|(key, least)| seen.get(key).is_some_and(|values| values.len() >= *least))
    };
    for (at, kind) in kinds.iter().enumerate() {
        for (key, values) in &mut seen {
            let own = kind.requirements.get(key).filter(|own| !own.is_complement());
            values.extend(own.into_iter().flat_map(super::Requirement::values));
        }
        if enough(&seen) {
            return MinValues {
                needed: at + 1,
                short: BTreeMap::new(),
            };
        }
    }
    let short = wanted.iter().filter_map(|(key, least)| {
        let found = seen.get(key).map_or(0, BTreeSet::len);
        (found < *least).then(|| ((*key).to_owned(), found))
    });
    MinValues {
        needed: kinds.len(),
        short: short.collect(),
    }
}

/// The cheapest types, as many as are kept (scheduling 21-2).
pub fn truncated(
    kinds: &[Arc<InstanceType>],
    requirements: &Requirements,
    truncation: Truncation,
    well_known: &WellKnownLabels,
) -> Result<Vec<Arc<InstanceType>>, TooFewValues> {
    let mut kept = by_price(kinds, requirements, truncation.ties, well_known);
    kept.truncate(truncation.most);
    let short = min_values(&kept, requirements).short;
    if truncation.policy == MinValuesPolicy::Strict && !short.is_empty() {
        return Err(TooFewValues(short));
    }
    Ok(kept)
}

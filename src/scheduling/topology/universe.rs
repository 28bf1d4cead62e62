//! The domains that machines could have, before any exists (scheduling 17-4, 17-5).

use crate::scheduling::columns::Columns;
use crate::scheduling::problem::Pool;
use crate::scheduling::symbols::{Key, Symbols, Value};
use crate::scheduling::taints::{self, Taint, Toleration};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The pools' taints under which a domain can be had.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Access {
    /// Some pool has it without taints.
    Open,
    /// Behind one of these lists of taints.
    Behind(Vec<Vec<Taint>>),
}

/// For each key its domains.
#[derive(Debug, Default)]
pub(in crate::scheduling) struct Universe(FxHashMap<Key, BTreeMap<Value, Access>>);

impl Universe {
    /// The domains of the pools given with their types.
    ///
    /// Differs: the values that a `NotIn` excludes are not domains (scheduling 17-4).
    pub(in crate::scheduling) fn of<'a>(
        pools: impl IntoIterator<Item = (&'a Pool, &'a Columns)>,
        symbols: &mut Symbols,
    ) -> Self {
        let mut result = Self::default();
        for (pool, columns) in pools {
            let own = pool
                .requirements
                .and(&crate::scheduling::Requirements::from_labels(&pool.labels));
            let own = symbols.wish(&own).set;
            let mut sets: Vec<_> = columns.type_sets().to_vec();
            sets.sort_unstable();
            sets.dedup();
            for set in sets {
                // A type that clashes with the pool has no common value on the keys that clash, but keeps its others.
                let mut all = Vec::new();
                for (key, req) in symbols.entries(set).to_vec() {
                    let joint = match symbols.get(own, key) {
                        Some(ours) => symbols.meet(ours, req),
                        None => Some(req),
                    };
                    all.extend(joint);
                }
                all.extend(symbols.entries(own).iter().map(|(_, req)| *req));
                for req in all {
                    result.add(symbols.terms(req).key, symbols.terms(req).concrete(), &pool.taints);
                }
            }
        }
        result
    }

    fn add(&mut self, key: Key, values: &[Value], taints: &[Taint]) {
        for value in values {
            let access = self
                .0
                .entry(key)
                .or_default()
                .entry(*value)
                .or_insert(Access::Behind(Vec::new()));
            match access {
                Access::Open => {}
                _ if taints.is_empty() => *access = Access::Open,
                Access::Behind(lists) if lists.iter().any(|list| list == taints) => {}
                Access::Behind(lists) => lists.push(taints.to_vec()),
            }
        }
    }

    /// Whether all domains of a key can be had whatever a pod tolerates.
    pub(in crate::scheduling) fn is_open(&self, key: Key) -> bool {
        let known = self.0.get(&key).into_iter().flatten();
        known.into_iter().all(|(_, access)| *access == Access::Open)
    }

    /// The domains of a key; only those that the tolerations give access to, where there are any to look at (scheduling 17-6).
    pub(in crate::scheduling) fn domains<'a>(
        &'a self,
        key: Key,
        tolerations: Option<&'a [Toleration]>,
    ) -> impl Iterator<Item = Value> + 'a {
        self.0
            .get(&key)
            .into_iter()
            .flatten()
            .filter_map(move |(value, access)| {
                let reachable = match (tolerations, access) {
                    (None, _) | (_, Access::Open) => true,
                    (Some(own), Access::Behind(lists)) => lists.iter().any(|list| taints::tolerates_all(list, own)),
                };
                reachable.then_some(*value)
            })
    }
}

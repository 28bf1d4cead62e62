//! The requirement algebra on interned symbols: what the solver calculates with.
//!
//! Keys, values, requirements and sets of requirements are numbers; what two of them make together is worked out once and remembered. The
//! rules are those of [`requirements`](super::requirements) (scheduling §5), and a property test holds both to the same answers. The hostname
//! is never part of a set: every machine and every planned claim has exactly one, so a wish for it is kept beside the set ([`Wish`]).

mod algebra;

#[cfg(test)]
pub(super) use algebra::agrees;

use super::labels::{self, WellKnownLabels};
use super::requirements::{Requirement, Requirements};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A label key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(u32);

/// A value of one label key; values of different keys share numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Value(u32);

/// A requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Req(u32);

/// A set of requirements without the hostname.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Set(u32);

/// Requirements of a pod or volume: a set, and what the hostname must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Wish {
    pub(super) set: Set,
    pub(super) host: Option<Req>,
}

/// Which undefined labels an incoming set may ask for (scheduling 5-13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Unknown {
    /// None.
    Refuse,
    /// The well-known ones.
    AllowWellKnown,
}

impl Value {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Set {
    /// No requirement.
    pub(super) const EMPTY: Self = Self(0);

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Wish {
    /// Anything will do.
    pub(super) const ANY: Self = Self {
        set: Set::EMPTY,
        host: None,
    };
}

/// What a requirement says, in symbols.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Terms {
    pub(super) key: Key,
    pub(super) complement: bool,
    pub(super) values: Box<[Value]>,
    pub(super) at_least: Option<i64>,
    pub(super) at_most: Option<i64>,
    pub(super) min_values: Option<u32>,
}

impl Terms {
    fn allows_absence(&self) -> bool {
        self.complement != self.values.is_empty()
    }

    /// The value, where only one is possible.
    pub(super) fn single(&self) -> Option<Value> {
        match (self.complement, &*self.values) {
            (false, [value]) => Some(*value),
            _ => None,
        }
    }

    /// The values, where they are listed one by one.
    pub(super) fn concrete(&self) -> &[Value] {
        if self.complement { &[] } else { &self.values }
    }
}

#[derive(Debug, Clone)]
struct KeyTable {
    name: Arc<str>,
    well_known: bool,
    names: Vec<Arc<str>>,
    numbers: Vec<Option<i64>>,
    index: FxHashMap<Arc<str>, Value>,
}

/// The interned algebra.
#[derive(Debug, Clone)]
pub(super) struct Symbols {
    well_known: Arc<WellKnownLabels>,
    keys: Vec<KeyTable>,
    key_index: FxHashMap<Arc<str>, Key>,
    reqs: Vec<Terms>,
    req_index: FxHashMap<Terms, Req>,
    sets: Vec<Box<[(Key, Req)]>>,
    set_index: FxHashMap<Box<[(Key, Req)]>, Set>,
    met: FxHashMap<(Req, Req), Option<Req>>,
    combined: FxHashMap<(Set, Set, Unknown), Option<Set>>,
    singles: FxHashMap<(Key, Value), Set>,
    hostname: Key,
}

impl Symbols {
    pub(super) fn new(well_known: Arc<WellKnownLabels>) -> Self {
        let mut result = Self {
            well_known,
            keys: Vec::new(),
            key_index: FxHashMap::default(),
            reqs: Vec::new(),
            req_index: FxHashMap::default(),
            sets: vec![Box::default()],
            set_index: FxHashMap::default(),
            met: FxHashMap::default(),
            combined: FxHashMap::default(),
            singles: FxHashMap::default(),
            hostname: Key(0),
        };
        result.set_index.insert(Box::default(), Set::EMPTY);
        result.hostname = result.key(labels::HOSTNAME);
        result
    }

    pub(super) const fn hostname(&self) -> Key {
        self.hostname
    }

    pub(super) fn key(&mut self, name: &str) -> Key {
        if let Some(key) = self.key_index.get(name) {
            return *key;
        }
        let key = Key(u32::try_from(self.keys.len()).unwrap_or(u32::MAX));
        let name: Arc<str> = Arc::from(name);
        self.key_index.insert(Arc::clone(&name), key);
        let well_known = self.well_known.contains(&name);
        self.keys.push(KeyTable {
            name,
            well_known,
            names: Vec::new(),
            numbers: Vec::new(),
            index: FxHashMap::default(),
        });
        key
    }

    #[allow(clippy::indexing_slicing)] // keys are only made by `key`, which pushes the table
    fn table(&self, key: Key) -> &KeyTable {
        &self.keys[key.0 as usize]
    }

    pub(super) fn key_name(&self, key: Key) -> &Arc<str> {
        &self.table(key).name
    }

    pub(super) fn value(&mut self, key: Key, name: &str) -> Value {
        #[allow(clippy::indexing_slicing)] // as in `table`
        let table = &mut self.keys[key.0 as usize];
        if let Some(value) = table.index.get(name) {
            return *value;
        }
        let value = Value(u32::try_from(table.names.len()).unwrap_or(u32::MAX));
        let name: Arc<str> = Arc::from(name);
        table.numbers.push(name.parse().ok());
        table.names.push(Arc::clone(&name));
        table.index.insert(name, value);
        value
    }

    #[allow(clippy::indexing_slicing)] // values are only made by `value`, which pushes the name
    pub(super) fn value_name(&self, key: Key, value: Value) -> &Arc<str> {
        &self.table(key).names[value.index()]
    }

    #[allow(clippy::indexing_slicing)] // requirements are only made by `intern`
    pub(super) fn terms(&self, req: Req) -> &Terms {
        &self.reqs[req.0 as usize]
    }

    #[allow(clippy::indexing_slicing)] // sets are only made by `intern_set`
    pub(super) fn entries(&self, set: Set) -> &[(Key, Req)] {
        &self.sets[set.index()]
    }

    /// The requirement of a set on a key.
    pub(super) fn get(&self, set: Set, key: Key) -> Option<Req> {
        let entries = self.entries(set);
        let place = entries.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        entries.get(place).map(|(_, req)| *req)
    }

    fn intern(&mut self, terms: Terms) -> Req {
        if let Some(req) = self.req_index.get(&terms) {
            return *req;
        }
        let req = Req(u32::try_from(self.reqs.len()).unwrap_or(u32::MAX));
        self.reqs.push(terms.clone());
        self.req_index.insert(terms, req);
        req
    }

    fn intern_set(&mut self, entries: Box<[(Key, Req)]>) -> Set {
        if let Some(set) = self.set_index.get(&entries) {
            return *set;
        }
        let set = Set(u32::try_from(self.sets.len()).unwrap_or(u32::MAX));
        self.sets.push(entries.clone());
        self.set_index.insert(entries, set);
        set
    }

    pub(super) fn requirement(&mut self, requirement: &Requirement) -> Req {
        let key = self.key(requirement.key());
        let mut values: Vec<Value> = requirement.values().map(|value| self.value(key, value)).collect();
        values.sort_unstable();
        self.intern(Terms {
            key,
            complement: requirement.is_complement(),
            values: values.into(),
            at_least: requirement.at_least(),
            at_most: requirement.at_most(),
            min_values: requirement.min_values(),
        })
    }

    /// "One of these values."
    pub(super) fn one_of(&mut self, key: Key, values: &[Value]) -> Set {
        if let [value] = values
            && let Some(known) = self.singles.get(&(key, *value))
        {
            return *known;
        }
        let set = self.one_of_anew(key, values);
        if let [value] = values {
            self.singles.insert((key, *value), set);
        }
        set
    }

    fn one_of_anew(&mut self, key: Key, values: &[Value]) -> Set {
        let mut values: Vec<Value> = values.to_vec();
        values.sort_unstable();
        values.dedup();
        let (at_least, at_most, min_values) = (None, None, None);
        let req = self.intern(Terms {
            key,
            complement: false,
            values: values.into(),
            at_least,
            at_most,
            min_values,
        });
        self.intern_set(Box::new([(key, req)]))
    }

    /// A set and the wish for a hostname.
    pub(super) fn wish(&mut self, requirements: &Requirements) -> Wish {
        let mut host = None;
        let mut entries = Vec::with_capacity(requirements.len());
        for requirement in requirements.iter() {
            let req = self.requirement(requirement);
            let key = self.terms(req).key;
            if key == self.hostname {
                host = Some(req);
            } else {
                entries.push((key, req));
            }
        }
        entries.sort_unstable();
        Wish {
            set: self.intern_set(entries.into()),
            host,
        }
    }

    /// The set with some requirements' `minValues` replaced.
    pub(super) fn with_min_values(&mut self, set: Set, lowered: &[(Key, u32)]) -> Set {
        let mut entries = self.entries(set).to_vec();
        for (key, req) in &mut entries {
            if let Some((_, found)) = lowered.iter().find(|(lowered, _)| lowered == key) {
                let terms = Terms {
                    min_values: Some(*found),
                    ..self.terms(*req).clone()
                };
                *req = self.intern(terms);
            }
        }
        self.intern_set(entries.into())
    }

    /// Back to text.
    pub(super) fn to_requirement(&self, req: Req) -> Requirement {
        let terms = self.terms(req);
        let values: BTreeSet<Arc<str>> = terms
            .values
            .iter()
            .map(|value| Arc::clone(self.value_name(terms.key, *value)))
            .collect();
        let bounds = (terms.at_least, terms.at_most);
        Requirement::from_parts(
            Arc::clone(self.key_name(terms.key)),
            terms.complement,
            values,
            bounds,
            terms.min_values,
        )
    }

    /// Back to text.
    pub(super) fn to_requirements(&self, set: Set) -> Requirements {
        self.entries(set)
            .iter()
            .map(|(_, req)| self.to_requirement(*req))
            .collect()
    }
}

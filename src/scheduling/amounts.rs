//! Resources as columns: each resource name of a pass has a place, and a list is the amounts at those places, in exact nanos.

use crate::resources::ResourceList;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Amounts by place. Short lists count as zero beyond their end.
pub(super) type Amounts = SmallVec<[i128; 6]>;

/// Stands for every resource that is asked for and that no machine has: however many such names pods come up with, they take one place.
pub(super) const NOBODYS: &str = "(no machine has it)";

/// The places of resource names.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    names: Vec<String>,
    index: FxHashMap<String, usize>,
}

impl Places {
    /// The place of a name, made when new.
    pub(super) fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.index.get(name) {
            return *place;
        }
        let place = self.names.len();
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), place);
        place
    }

    /// The place of a name that has one.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// How many places there are.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// A list as amounts; names without a place are left out.
    pub(super) fn known_amounts(&self, list: &ResourceList) -> Amounts {
        let mut result: Amounts = SmallVec::from_elem(0, self.len());
        for (name, quantity) in list.iter() {
            if let Some(amount) = self.find(name).and_then(|place| result.get_mut(place)) {
                *amount = quantity.nanos();
            }
        }
        result
    }
}

impl Places {
    /// What is asked for, as amounts; names that nobody has share one place.
    pub(super) fn asked_amounts(&self, list: &ResourceList) -> Amounts {
        let mut result = self.known_amounts(list);
        let missing = list
            .iter()
            .any(|(name, quantity)| self.find(name).is_none() && !quantity.is_zero() && !quantity.is_negative());
        if let Some(amount) = self.find(NOBODYS).and_then(|place| result.get_mut(place)) {
            *amount = i128::from(missing);
        }
        result
    }
}

/// Adds amounts.
pub(super) fn add(to: &mut Amounts, other: &[i128]) {
    if to.len() < other.len() {
        to.resize(other.len(), 0);
    }
    for (own, other) in to.iter_mut().zip(other) {
        *own = own.saturating_add(*other);
    }
}

/// Takes amounts away.
pub(super) fn take(from: &mut [i128], other: &[i128]) {
    for (own, other) in from.iter_mut().zip(other) {
        *own = own.saturating_sub(*other);
    }
}

/// Gives amounts back to what is left at some places.
pub(super) fn give(left: &mut [(usize, i128)], other: &[i128]) {
    for (place, own) in left {
        *own = own.saturating_add(other.get(*place).copied().unwrap_or(0));
    }
}

/// Whether amounts go into what remains, of which nothing may be negative (scheduling 8-4).
pub(super) fn fit(wanted: &[i128], remaining: &[i128]) -> bool {
    remaining.iter().all(|amount| *amount >= 0)
        && wanted
            .iter()
            .enumerate()
            .all(|(i, amount)| *amount <= remaining.get(i).copied().unwrap_or(0))
}

/// The sum of lists; each amount is written as its first part is.
pub(super) fn sum<'a>(lists: impl Iterator<Item = &'a ResourceList>) -> ResourceList {
    let mut result = ResourceList::new();
    lists.for_each(|list| result.add(list));
    result
}

//! What two requirements, or two sets of them, make together: worked out once and remembered.

use super::{Key, Req, Set, Symbols, Terms, Unknown, Value};
#[cfg(test)]
use crate::scheduling::requirements::{Requirement, Requirements};

/// Remembered combinations are forgotten when there are this many, so that odd input cannot take memory without bound.
const REMEMBERED: usize = 1 << 20;

impl Symbols {
    fn within(&self, terms: &Terms, key: Key, value: Value) -> bool {
        if terms.at_least.is_none() && terms.at_most.is_none() {
            return true;
        }
        let number = self.table(key).numbers.get(value.index()).copied().flatten();
        number.is_some_and(|n| {
            terms.at_least.is_none_or(|least| n >= least) && terms.at_most.is_none_or(|most| n <= most)
        })
    }

    /// Whether a requirement allows a value (scheduling 5-4).
    pub(in crate::scheduling) fn has(&self, req: Req, value: Value) -> bool {
        let terms = self.terms(req);
        terms.values.binary_search(&value).is_ok() != terms.complement && self.within(terms, terms.key, value)
    }

    /// What satisfies both requirements on one key; none when nothing does (scheduling 5-7, 5-8, 5-14).
    pub(in crate::scheduling) fn meet(&mut self, a: Req, b: Req) -> Option<Req> {
        if a == b {
            return Some(a);
        }
        let pair = if a < b { (a, b) } else { (b, a) };
        if let Some(known) = self.met.get(&pair) {
            return *known;
        }
        let (own, other) = (self.to_requirement(pair.0), self.to_requirement(pair.1));
        let result = own.meets(&other).then(|| own.intersection(&other));
        let result = result.map(|requirement| self.requirement(&requirement));
        if self.met.len() >= REMEMBERED {
            self.met.clear();
        }
        self.met.insert(pair, result);
        result
    }

    /// What satisfies `own` and `incoming`; none when they are incompatible (scheduling 5-13).
    pub(in crate::scheduling) fn combine(&mut self, own: Set, incoming: Set, unknown: Unknown) -> Option<Set> {
        if incoming == Set::EMPTY || (own == incoming && unknown == Unknown::AllowWellKnown) {
            return Some(own);
        }
        if let Some(known) = self.combined.get(&(own, incoming, unknown)) {
            return *known;
        }
        let result = self.combine_anew(own, incoming, unknown);
        if self.combined.len() >= REMEMBERED {
            self.combined.clear();
        }
        self.combined.insert((own, incoming, unknown), result);
        result
    }

    /// As [`combine`](Self::combine), without remembering: for machines, of which each has its own set.
    pub(in crate::scheduling) fn combine_anew(&mut self, own: Set, incoming: Set, unknown: Unknown) -> Option<Set> {
        let mut entries = self.entries(own).to_vec();
        for (key, req) in self.entries(incoming).to_vec() {
            match entries.binary_search_by_key(&key, |(key, _)| *key) {
                Ok(place) => {
                    let entry = entries.get_mut(place)?;
                    entry.1 = self.meet(entry.1, req)?;
                }
                Err(place) => {
                    let allowed = unknown == Unknown::AllowWellKnown && self.table(key).well_known;
                    if !allowed && !self.terms(req).allows_absence() {
                        return None;
                    }
                    entries.insert(place, (key, req));
                }
            }
        }
        Some(self.intern_set(entries.into()))
    }

    /// Whether `incoming` goes with `own` when nothing undefined may be asked for.
    pub(in crate::scheduling) fn compatible_strictly(&mut self, own: Set, incoming: Set) -> bool {
        for at in 0..self.entries(incoming).len() {
            let Some((key, req)) = self.entries(incoming).get(at).copied() else {
                break;
            };
            let fine = match self.get(own, key) {
                Some(ours) => self.meet(ours, req).is_some(),
                None => self.terms(req).allows_absence(),
            };
            if !fine {
                return false;
            }
        }
        true
    }
}

/// Holds the interned algebra to the plain one.
#[cfg(test)]
pub(crate) fn agrees(a: &Requirement, b: &Requirement) {
    let mut symbols = Symbols::new(std::sync::Arc::default());
    let (own, other) = (symbols.requirement(a), symbols.requirement(b));
    assert_eq!(symbols.to_requirement(own), *a);
    let met = symbols.meet(own, other).map(|req| symbols.to_requirement(req));
    let same_text = a == b;
    assert_eq!(met.is_some(), same_text || a.meets(b));
    if let Some(met) = met {
        assert_eq!(met, a.intersection(b));
    }
    let sets = [a, b].map(|requirement| symbols.wish(&[requirement.clone()].into_iter().collect()).set);
    let [set, incoming] = sets;
    let plain: [Requirements; 2] = [a, b].map(|requirement| [requirement.clone()].into_iter().collect());
    let strict = plain[0]
        .compatible(&plain[1], crate::scheduling::requirements::Undefined::Strict)
        .is_ok();
    assert_eq!(
        symbols.combine(set, incoming, Unknown::Refuse).is_some(),
        strict || same_text
    );
}

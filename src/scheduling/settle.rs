//! What volumes and topology make of a candidate's requirements when a pod comes (scheduling 15-2.6, 15-4.4, 17-11).

use super::bits;
use super::columns::Columns;
use super::results::Ties;
use super::shapes::{Shape, Variant};
use super::symbols::{Key, Set, Symbols, Unknown, Value, Wish};
use super::topology::choose::{Choice, Domains, Question};
use super::topology::group::Group;

/// What a candidate says to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It takes it; its requirements become these.
    Accept(Set),
    /// Not as things are, but others' placements may change that.
    NotNow,
    /// Never in this pass.
    Never,
}

/// A candidate's side of a topology question.
pub(super) struct Candidate<'c> {
    pub(super) host: Value,
    pub(super) unknown: Unknown,
    pub(super) ties: Ties,
    /// The types it may become, for the price of domains; none for machines that exist.
    pub(super) types: Option<(&'c mut Columns, &'c [u64])>,
}

impl<'c> Candidate<'c> {
    /// A claim that is planned, with the types it may become.
    pub(super) fn planned(host: Value, ties: Ties, columns: &'c mut Columns, types: &'c [u64]) -> Self {
        Self {
            host,
            unknown: Unknown::AllowWellKnown,
            ties,
            types: Some((columns, types)),
        }
    }
}

/// What becomes of a candidate's requirements when a pod with these volumes comes: volumes and topology narrow them (scheduling 15-2.6,
/// 15-4.4, 17-11).
pub(super) fn settle(
    combined: Set,
    alternative: &Wish,
    own: &Shape,
    variant: &Variant,
    mut candidate: Candidate<'_>,
    groups: &[Group],
    symbols: &mut Symbols,
) -> Verdict {
    if !alternative.host.is_none_or(|req| symbols.has(req, candidate.host)) {
        return Verdict::Never;
    }
    let Some(base) = symbols.combine(combined, alternative.set, candidate.unknown) else {
        return Verdict::Never;
    };
    let mut result = base;
    let inverse = own.kept_away_by.iter().map(|id| (*id, false));
    for (id, counts_itself) in variant.groups.iter().copied().chain(inverse) {
        let Some(group) = groups.get(id) else { continue };
        let question = question(group, counts_itself, base, variant, candidate.host, symbols);
        let domains = match group.choose(&question, symbols) {
            Choice::Here => continue,
            Choice::AnyOf(domains) => domains,
            Choice::OneOf(tied) => Domains::from_iter(pick(group.rule.key, tied, base, &mut candidate, symbols)),
            Choice::NotNow => return Verdict::NotNow,
            Choice::Never => return Verdict::Never,
        };
        let narrowed = symbols.one_of(group.rule.key, &domains);
        match symbols.combine(result, narrowed, candidate.unknown) {
            Some(set) => result = set,
            None => return Verdict::NotNow,
        }
    }
    Verdict::Accept(result)
}

/// The question to a group about a candidate with these requirements.
pub(super) fn question(
    group: &Group,
    counts_itself: bool,
    set: Set,
    variant: &Variant,
    host: Value,
    symbols: &Symbols,
) -> Question {
    let key = group.rule.key;
    if key == symbols.hostname() {
        return Question {
            counts_itself,
            pod: variant.strict.host,
            node: None,
            host: Some(host),
        };
    }
    Question {
        counts_itself,
        pod: symbols.get(variant.strict.set, key),
        node: symbols.get(set, key),
        host: None,
    }
}

/// One of equal domains: one in which the claim can be bought, of these the cheapest, then by name (architecture §7.15).
///
/// Differs: upstream takes any (scheduling 17-12).
fn pick(key: Key, tied: Domains, set: Set, candidate: &mut Candidate<'_>, symbols: &mut Symbols) -> Option<Value> {
    if tied.len() < 2 {
        return tied.first().copied();
    }
    let mut best: Option<(f64, Value)> = None;
    for domain in tied {
        let price = match (candidate.ties, &mut candidate.types) {
            (Ties::Product, Some((columns, types))) => price_in(key, domain, set, columns, types, symbols),
            _ => 0.0,
        };
        let better = best.is_none_or(|(least, value)| {
            let by_name = || symbols.value_name(key, domain).cmp(symbols.value_name(key, value));
            price.total_cmp(&least).then_with(by_name).is_lt()
        });
        if better {
            best = Some((price, domain));
        }
    }
    best.map(|(_, domain)| domain)
}

/// The least price of the types in a domain; infinite where none can be bought.
fn price_in(key: Key, domain: Value, set: Set, columns: &mut Columns, types: &[u64], symbols: &mut Symbols) -> f64 {
    let narrowed = symbols.one_of(key, &[domain]);
    let Some(set) = symbols.combine(set, narrowed, Unknown::AllowWellKnown) else {
        return f64::INFINITY;
    };
    let launchable = columns.launchable(set, symbols);
    let order = columns.order(set, Ties::Product, symbols);
    let there = |at: u32| bits::contains(types, at as usize) && bits::contains(&launchable, at as usize);
    order
        .iter()
        .find(|(at, _)| there(*at))
        .map_or(f64::INFINITY, |(_, price)| *price)
}

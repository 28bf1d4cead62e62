//! Whether a claim takes a pod (scheduling 15-4): the innermost question of a pass, asked without allocating.

use super::amounts::{self, Amounts};
use super::bits;
use super::planned::Planned;
use super::ports::HostPort;
use super::problem::Problem;
use super::results::{MinValuesPolicy, Ties};
use super::settle::{Candidate, Verdict, settle};
use super::shapes::{Shape, Variant};
use super::symbols::{Key, Set, Symbols, Unknown};
use super::taints;
use super::templates::{Template, min_values, short_of_values};
use super::topology::group::Group;
use smallvec::SmallVec;

/// Sets of types that are filled anew by each question.
#[derive(Debug, Clone, Default)]
pub(super) struct Buffers {
    /// The types that the claim would keep.
    pub(super) kept: Vec<u64>,
    /// The types that are large enough.
    large: Vec<u64>,
    /// Planned claims that may answer, where they are few.
    pub(super) few: Vec<usize>,
}

/// What asking needs besides claim and pod.
pub(super) struct Asker<'p> {
    pub(super) problem: &'p Problem,
    pub(super) templates: &'p mut [Template],
    pub(super) symbols: &'p mut Symbols,
    pub(super) groups: &'p [Group],
    pub(super) ties: Ties,
    pub(super) buffers: &'p mut Buffers,
}

impl Asker<'_> {
    /// Whether the claim takes the pod. The types it would keep are left in the buffers; told with it are the `minValues` that would have to
    /// be lowered.
    pub(super) fn ask(
        &mut self,
        claim: &Planned,
        own: &Shape,
        variant: &Variant,
        policy: MinValuesPolicy,
    ) -> (Verdict, Vec<(Key, u32)>) {
        let never = (Verdict::Never, Vec::new());
        let pools = &self.problem.pools;
        let template = self.templates.get_mut(claim.template);
        let Some((pool, template)) = template.and_then(|known| Some((pools.get(known.pool)?, known))) else {
            return never;
        };
        let constraints = &variant.constraints;
        let mut totals: Amounts = claim.totals.clone();
        amounts::add(&mut totals, &own.requests);
        let Buffers { kept, large, .. } = &mut *self.buffers;
        large.clone_from(&claim.types);
        let clashes = |port: &HostPort| claim.ports.iter().any(|taken| taken.conflicts(port));
        if !template.columns.keep_large_enough(large, &totals)
            || !variant.wish.host.is_none_or(|req| self.symbols.has(req, claim.host))
            || !taints::tolerates_all(&pool.taints, &constraints.tolerations)
            || constraints.ports.iter().any(clashes)
        {
            return never;
        }
        let combined = self
            .symbols
            .combine(claim.set, variant.wish.set, Unknown::AllowWellKnown);
        let Some(combined) = combined.filter(|set| bits::meet(large, &template.columns.launchable(*set, self.symbols)))
        else {
            return never;
        };
        let mut verdict = Verdict::Never;
        for alternative in &own.alternatives {
            let candidate = Candidate::planned(claim.host, self.ties, &mut template.columns, large);
            let settled = settle(
                combined,
                alternative,
                own,
                variant,
                candidate,
                self.groups,
                self.symbols,
            );
            let set = match settled {
                Verdict::Accept(set) => set,
                Verdict::NotNow => {
                    verdict = Verdict::NotNow;
                    continue;
                }
                Verdict::Never => continue,
            };
            kept.clone_from(large);
            let left = bits::keep(kept, &template.columns.launchable(set, self.symbols));
            let short = short_of_values(&min_values(set, self.symbols), kept, &template.columns, self.symbols);
            if left && (short.is_empty() || policy == MinValuesPolicy::BestEffort) {
                return (Verdict::Accept(set), short);
            }
            // With rules about topology another domain may come to be chosen, which has what this one lacks.
            if !variant.groups.is_empty() || !own.kept_away_by.is_empty() {
                verdict = Verdict::NotNow;
            }
        }
        (verdict, Vec::new())
    }
}

/// For each rule that is not about hostnames the domains that it leaves a pod as things are. A claim in another single domain need not be
/// asked.
pub(super) struct Reach(SmallVec<[(Key, Vec<u64>); 2]>);

impl Reach {
    /// The reach of a pod now.
    pub(super) fn of(own: &Shape, variant: &Variant, groups: &[Group], symbols: &Symbols) -> Self {
        let inverse = own.kept_away_by.iter().map(|id| (*id, false));
        let rules = variant.groups.iter().copied().chain(inverse);
        let with_group = rules.filter_map(|(id, counts_itself)| Some((groups.get(id)?, counts_itself)));
        let open = with_group
            .filter(|(group, _)| group.rule.key != symbols.hostname())
            .map(|(group, counts_itself)| {
                let key = group.rule.key;
                let pod = symbols.get(variant.strict.set, key);
                let mut domains = Vec::new();
                group
                    .reachable(pod, counts_itself, symbols)
                    .for_each(|domain| bits::insert(&mut domains, domain.index()));
                (key, domains)
            });
        Self(open.collect())
    }

    /// Whether a claim with these requirements may still be in reach.
    pub(super) fn includes(&self, set: Set, symbols: &Symbols) -> bool {
        self.0.iter().all(|(key, domains)| {
            let single = symbols.get(set, *key).and_then(|req| symbols.terms(req).single());
            single.is_none_or(|domain| bits::contains(domains, domain.index()))
        })
    }
}

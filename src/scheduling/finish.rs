//! From a finished pass to its answer: truncation, NodeClaims, reasons (scheduling §21).

use super::instance_type::InstanceType;
use super::labels;
use super::pass::Pass;
use super::planned::Planned;
use super::pod::Pod;
use super::problem::Pool;
use super::requirements::{Operator, Requirement, Requirements};
use super::results::{ExistingPlacement, MinValuesPolicy, NewClaim, PodError, Reason, Results};
use super::solve::Rounds;
use super::symbols::Key;
use super::templates::{min_values, short_of_values};
use super::{amounts, bits};
use std::sync::Arc;

const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
const PRICE_OVERLAY: &str = "karpenter.sh/price-overlay-applied";
const CAPACITY_OVERLAY: &str = "karpenter.sh/capacity-overlay-applied";

/// The types a claim keeps, in order of price, or the keys for which they have too few values.
struct Kept {
    types: Vec<u32>,
    short: Vec<Key>,
}

impl Pass<'_> {
    /// The answer of the pass.
    pub(super) fn finish(&mut self, rounds: &Rounds) -> Results {
        let mut results = Results {
            unusable_pools: self.unusable.clone(),
            ..Results::default()
        };
        self.finish_existing(&mut results);
        // In the order of the list at the end, which is by number of pods (scheduling 14-6).
        let order: Vec<usize> = std::iter::successors(self.line.first(), |at| self.line.next(*at)).collect();
        for at in order {
            let Some(claim) = self.planned.get(at).cloned() else {
                continue;
            };
            self.finish_claim(&claim, &mut results);
        }
        for pod in &rounds.failed {
            let reason = self.reason(*pod);
            results.errors.extend(self.pods.get(*pod).map(|pod| PodError {
                pod: Arc::clone(pod),
                reason,
            }));
        }
        results.undecided = rounds
            .undecided
            .iter()
            .filter_map(|pod| self.pods.get(*pod).cloned())
            .collect();
        results
    }

    fn pods_of(&self, pods: &[usize]) -> Vec<Arc<Pod>> {
        pods.iter().filter_map(|pod| self.pods.get(*pod).cloned()).collect()
    }

    fn finish_existing(&self, results: &mut Results) {
        let mut taken = self.taken.clone();
        taken.sort_unstable();
        for machine in taken.into_iter().filter_map(|at| self.existing.get(at)) {
            results
                .existing
                .extend(self.problem.nodes.get(machine.node).map(|node| ExistingPlacement {
                    node: machine.node,
                    name: node.name.clone(),
                    pods: self.pods_of(&machine.pods),
                }));
        }
    }

    fn finish_claim(&mut self, claim: &Planned, results: &mut Results) {
        let kept = self.truncated(claim);
        let pods = self.pods_of(&claim.pods);
        if !kept.short.is_empty() {
            let keys: Vec<&str> = kept
                .short
                .iter()
                .map(|key| self.symbols.key_name(*key).as_ref())
                .collect();
            let message = min_values_message(&keys);
            results.errors.extend(pods.into_iter().map(|pod| PodError {
                pod,
                reason: Reason::MinValues(message.clone()),
            }));
            return;
        }
        let Self {
            templates,
            symbols,
            problem,
            texts,
            ..
        } = self;
        let Some(template) = templates.get(claim.template) else {
            return;
        };
        let Some(pool) = problem.pools.get(template.pool) else {
            return;
        };
        let mut requirements = texts
            .entry(claim.set)
            .or_insert_with(|| symbols.to_requirements(claim.set))
            .clone();
        let mut types = vec![0; template.columns.words()];
        for at in &kept.types {
            bits::insert(&mut types, *at as usize);
        }
        let minimum = requirements
            .get(labels::INSTANCE_TYPE)
            .and_then(Requirement::min_values);
        let names = kept
            .types
            .iter()
            .filter_map(|at| template.columns.names.get(*at as usize).cloned());
        requirements.add(Requirement::new(labels::INSTANCE_TYPE, Operator::In, names).with_min_values(minimum));
        let capacity_types = template.columns.capacity_types(claim.set, &types, symbols);
        if !capacity_types.is_empty() {
            requirements.add(Requirement::new(labels::CAPACITY_TYPE, Operator::In, capacity_types));
        }
        let kinds = kept
            .types
            .iter()
            .filter_map(|at| template.columns.types.get(*at as usize).cloned())
            .collect();
        let mut requests = template.overhead_list.clone();
        requests.add(&amounts::sum(pods.iter().map(|pod| &*pod.requests)));
        results
            .new_claims
            .push(self.object(claim, pool, requirements, kinds, (pods, requests)));
    }

    /// The claim as it is to be created (scheduling 21-3).
    fn object(
        &self,
        claim: &Planned,
        pool: &Pool,
        requirements: Requirements,
        kinds: Vec<Arc<InstanceType>>,
        (pods, requests): (Vec<Arc<Pod>>, crate::resources::ResourceList),
    ) -> NewClaim {
        let overlaid = |found: bool, key: &str| found.then(|| (key.to_owned(), "true".to_owned()));
        let mut annotations = pool.annotations.clone();
        annotations.insert(MIN_VALUES_RELAXED.to_owned(), claim.min_values_relaxed.to_string());
        annotations.extend(overlaid(
            kinds.iter().any(|kind| kind.capacity_overlaid),
            CAPACITY_OVERLAY,
        ));
        annotations.extend(overlaid(
            kinds.iter().any(|kind| has_price_overlay(kind)),
            PRICE_OVERLAY,
        ));
        let mut all_labels = pool.claim_labels();
        all_labels.extend(requirements.resolved_labels(&self.problem.well_known));
        NewClaim {
            pool: pool.name.clone(),
            pods,
            requirements,
            requests,
            instance_types: kinds,
            labels: all_labels,
            annotations,
        }
    }

    /// The cheapest types, as many as are kept; in Strict mode they must still have enough values (scheduling 21-2).
    fn truncated(&mut self, claim: &Planned) -> Kept {
        let Self {
            templates,
            symbols,
            options,
            ..
        } = self;
        let Some(template) = templates.get_mut(claim.template) else {
            return Kept {
                types: Vec::new(),
                short: Vec::new(),
            };
        };
        let order = template.columns.order(claim.set, options.ties, symbols);
        let left = order
            .iter()
            .map(|(at, _)| *at)
            .filter(|at| bits::contains(&claim.types, *at as usize));
        let types: Vec<u32> = left.take(options.max_instance_types).collect();
        let wanted = min_values(claim.set, symbols);
        let mut short = Vec::new();
        if options.min_values == MinValuesPolicy::Strict && !wanted.is_empty() {
            let mut set = vec![0; template.columns.words()];
            for at in &types {
                bits::insert(&mut set, *at as usize);
            }
            let found = short_of_values(&wanted, &set, &template.columns, symbols);
            short = found.into_iter().map(|(key, _)| key).collect();
        }
        Kept { types, short }
    }
}

fn has_price_overlay(kind: &InstanceType) -> bool {
    kind.offerings.iter().any(|offering| offering.price_overlaid)
}

/// The sentence for keys with too few values (surface §4.3).
pub(super) fn min_values_message(keys: &[&str]) -> String {
    format!(
        "minValues requirement is not met for label(s) (label(s)=[{}])",
        keys.join(" ")
    )
}

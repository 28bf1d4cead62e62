//! From a finished pass to its answer: truncation, NodeClaims, reasons (scheduling §21).

use super::columns::Columns;
use super::instance_type::InstanceType;
use super::labels;
use super::pass::Pass;
use super::planned::Planned;
use super::pod::Pod;
use super::problem::Pool;
use super::requirements::{Operator, Requirement, Requirements};
use super::results::{ExistingPlacement, MinValuesPolicy, NewClaim, Options, PodError, Reason, Results};
use super::solve::Rounds;
use super::symbols::{Set, Symbols};
use super::templates::{Template, min_values, short_of_values};
use super::{amounts, bits};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
const PRICE_OVERLAY: &str = "karpenter.sh/price-overlay-applied";
const CAPACITY_OVERLAY: &str = "karpenter.sh/capacity-overlay-applied";

/// What claims of one pool with the same requirements and types have in common.
#[derive(Debug)]
pub(super) struct Kind {
    requirements: Requirements,
    types: Arc<[Arc<InstanceType>]>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

/// Template, requirements and types of a claim, and what becomes of it: a kind, or the sentence for keys with too few values.
pub(super) type Kinds = FxHashMap<(usize, Set, Vec<u64>), Result<Arc<Kind>, String>>;

/// Kinds are forgotten when there are this many, so that no number of what-ifs takes memory without bound.
const REMEMBERED: usize = 1 << 12;

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
            self.finish_claim(claim, &mut results);
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

    fn finish_claim(&mut self, claim: Planned, results: &mut Results) {
        let pods = self.pods_of(&claim.pods);
        let template = self.templates.get(claim.template);
        let pool = template.and_then(|template| self.problem.pools.get(template.pool));
        let (Some(template), Some(pool)) = (template, pool) else {
            return;
        };
        let mut requests = template.overhead_list.clone();
        requests.add(&amounts::sum(pods.iter().map(|pod| &*pod.requests)));
        let kind = match self.kind(claim.template, pool, claim.set, claim.types) {
            Ok(kind) => kind,
            Err(message) => {
                results.errors.extend(pods.into_iter().map(|pod| PodError {
                    pod,
                    reason: Reason::MinValues(message.clone()),
                }));
                return;
            }
        };
        let mut annotations = kind.annotations.clone();
        annotations.insert(MIN_VALUES_RELAXED.to_owned(), claim.min_values_relaxed.to_string());
        results.new_claims.push(NewClaim {
            pool: pool.name.clone(),
            pods,
            requirements: kind.requirements.clone(),
            requests,
            instance_types: Arc::clone(&kind.types),
            labels: kind.labels.clone(),
            annotations,
        });
    }

    /// The kind of a claim, made when new.
    fn kind(&mut self, template: usize, pool: &Pool, set: Set, types: Vec<u64>) -> Result<Arc<Kind>, String> {
        let key = (template, set, types);
        if let Some(known) = self.kinds.get(&key) {
            return known.clone();
        }
        let kind = self.kind_anew(template, pool, set, &key.2).map(Arc::new);
        if self.kinds.len() >= REMEMBERED {
            self.kinds.clear();
        }
        self.kinds.insert(key, kind.clone());
        kind
    }

    /// The claim as it is to be created, less what each has of its own (scheduling 21-3).
    fn kind_anew(&mut self, template: usize, pool: &Pool, set: Set, types: &[u64]) -> Result<Kind, String> {
        let Self {
            templates,
            symbols,
            options,
            problem,
            ..
        } = self;
        let Some(Template { columns, .. }) = templates.get_mut(template) else {
            return Err(String::new());
        };
        let kept = truncated(columns, set, types, options, symbols)?;
        let mut requirements = symbols.to_requirements(set);
        let minimum = requirements
            .get(labels::INSTANCE_TYPE)
            .and_then(Requirement::min_values);
        let kept_set = as_set(&kept, columns);
        let names = columns.sorted_names(&kept_set);
        requirements.add(Requirement::new(labels::INSTANCE_TYPE, Operator::In, names).with_min_values(minimum));
        let capacity_types = columns.capacity_types(set, &kept_set, symbols);
        if !capacity_types.is_empty() {
            requirements.add(Requirement::new(labels::CAPACITY_TYPE, Operator::In, capacity_types));
        }
        let types: Arc<[Arc<InstanceType>]> = kept
            .iter()
            .filter_map(|at| columns.types.get(*at as usize).cloned())
            .collect();
        let overlaid = |found: bool, key: &str| found.then(|| (key.to_owned(), "true".to_owned()));
        let mut annotations = pool.annotations.clone();
        annotations.extend(overlaid(
            types.iter().any(|kind| kind.capacity_overlaid),
            CAPACITY_OVERLAY,
        ));
        annotations.extend(overlaid(
            types.iter().any(|kind| has_price_overlay(kind)),
            PRICE_OVERLAY,
        ));
        let mut labels = pool.claim_labels();
        labels.extend(requirements.resolved_labels(&problem.well_known));
        Ok(Kind {
            requirements,
            types,
            labels,
            annotations,
        })
    }
}

/// The cheapest types, as many as are kept; in Strict mode they must still have enough values (scheduling 21-2).
fn truncated(
    columns: &mut Columns,
    set: Set,
    types: &[u64],
    options: &Options,
    symbols: &mut Symbols,
) -> Result<Vec<u32>, String> {
    let order = columns.order(set, options.ties, symbols);
    let left = order
        .iter()
        .map(|(at, _)| *at)
        .filter(|at| bits::contains(types, *at as usize));
    let kept: Vec<u32> = left.take(options.max_instance_types).collect();
    let wanted = min_values(set, symbols);
    if options.min_values == MinValuesPolicy::Strict && !wanted.is_empty() {
        let short = short_of_values(&wanted, &as_set(&kept, columns), columns, symbols);
        if !short.is_empty() {
            let keys: Vec<&str> = short.iter().map(|(key, _)| symbols.key_name(*key).as_ref()).collect();
            return Err(min_values_message(&keys));
        }
    }
    Ok(kept)
}

fn as_set(types: &[u32], columns: &Columns) -> Vec<u64> {
    let mut set = vec![0; columns.words()];
    for at in types {
        bits::add(&mut set, *at as usize);
    }
    set
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

//! Placing one pod: on a machine that exists, on a claim planned in this pass, or on a new claim (scheduling §15).

use super::amounts::{self, Amounts};
use super::bits;
use super::pass::Pass;
use super::planned::Planned;
use super::record::{Seat, Whose};
use super::results::MinValuesPolicy;
use super::settle::{Candidate, Verdict, settle};
use super::shapes::Variant;
use super::symbols::{Key, Set, Unknown};
use super::taints;
use super::templates::short_of_values;
use std::sync::Arc;

impl Pass<'_> {
    /// Tries existing machines, then planned claims, then new claims; says whether one took the pod (scheduling 15-1).
    pub(super) fn place(&mut self, pod: usize, shape: usize, steps: usize) -> bool {
        let Some(variant) = self.variant(shape, steps) else {
            return false;
        };
        self.note_groups(shape);
        self.place_on_existing(pod, shape, steps, &variant)
            || self.place_on_planned(pod, shape, steps, &variant)
            || self.place_on_new(pod, shape, steps, &variant)
    }

    fn place_on_existing(&mut self, pod: usize, shape: usize, steps: usize, variant: &Arc<Variant>) -> bool {
        let limit = self.existing.len();
        let mut from = 0;
        loop {
            let Some(memory) = self.shapes.get(shape).and_then(|own| own.memories.get(steps)) else {
                return false;
            };
            let Some(at) = bits::first_absent(&memory.nodes, from, limit) else {
                return false;
            };
            match self.ask_existing(at, shape, variant) {
                Verdict::Accept(set) => {
                    self.take_on_existing(at, pod, shape, variant, set);
                    return true;
                }
                Verdict::NotNow => {}
                Verdict::Never => {
                    if let Some(memory) = self.shapes.get_mut(shape).and_then(|own| own.memories.get_mut(steps)) {
                        bits::insert(&mut memory.nodes, at);
                    }
                }
            }
            from = at + 1;
        }
    }

    /// Whether a machine takes the pod (scheduling 15-2).
    fn ask_existing(&mut self, at: usize, shape: usize, variant: &Variant) -> Verdict {
        let Self {
            problem,
            existing,
            shapes,
            symbols,
            topology,
            options,
            ..
        } = self;
        let (Some(machine), Some(own)) = (existing.get(at), shapes.get(shape)) else {
            return Verdict::Never;
        };
        let Some(node) = problem.nodes.get(machine.node) else {
            return Verdict::Never;
        };
        let constraints = &variant.constraints;
        if !amounts::fit(&own.requests, &machine.remaining)
            || !variant.wish.host.is_none_or(|req| symbols.has(req, machine.host))
            || !symbols.compatible_strictly(machine.set, variant.wish.set)
            || !taints::tolerates_all(&node.taints, &constraints.tolerations)
            || constraints
                .ports
                .iter()
                .any(|port| machine.ports.iter().any(|taken| taken.conflicts(port)))
            || machine.overloaded(&node.volume_limits, &own.attachments).is_some()
        {
            return Verdict::Never;
        }
        let Some(combined) = symbols.combine(machine.set, variant.wish.set, Unknown::Refuse) else {
            return Verdict::Never;
        };
        let mut verdict = Verdict::Never;
        for alternative in &own.alternatives {
            let candidate = Candidate {
                host: machine.host,
                unknown: Unknown::Refuse,
                ties: options.ties,
                types: None,
            };
            match settle(
                combined,
                alternative,
                own,
                variant,
                candidate,
                &topology.groups,
                symbols,
            ) {
                Verdict::Never => {}
                Verdict::NotNow => verdict = Verdict::NotNow,
                accept @ Verdict::Accept(_) => return accept,
            }
        }
        verdict
    }

    fn take_on_existing(&mut self, at: usize, pod: usize, shape: usize, variant: &Variant, set: Set) {
        let Self {
            problem,
            existing,
            shapes,
            ..
        } = self;
        let (Some(machine), Some(own)) = (existing.get_mut(at), shapes.get(shape)) else {
            return;
        };
        amounts::take(&mut machine.remaining, &own.requests);
        machine.set = set;
        machine.pods.push(pod);
        machine.ports.extend(variant.constraints.ports.iter().cloned());
        let Some(node) = problem.nodes.get(machine.node) else {
            return;
        };
        for (driver, claims) in own
            .attachments
            .iter()
            .filter(|(driver, _)| node.volume_limits.contains_key(*driver))
        {
            machine
                .attached
                .entry(driver.clone())
                .or_default()
                .extend(claims.iter().cloned());
        }
        let host = machine.host;
        let seat = Seat {
            set,
            host,
            whose: Whose::Machine(machine.node),
        };
        self.record(shape, variant, seat);
    }

    fn place_on_planned(&mut self, pod: usize, shape: usize, steps: usize, variant: &Arc<Variant>) -> bool {
        let mut next = self.line.first();
        while let Some(at) = next {
            next = self.line.next(at);
            let Some(memory) = self.shapes.get_mut(shape).and_then(|own| own.memories.get_mut(steps)) else {
                return false;
            };
            if bits::contains(&memory.claims, at) {
                continue;
            }
            match self.ask_planned(at, shape, variant) {
                Verdict::Accept(set) => {
                    self.take_on_planned(at, pod, shape, variant, set);
                    self.line.grow(at);
                    return true;
                }
                Verdict::NotNow => {}
                Verdict::Never => {
                    if let Some(memory) = self.shapes.get_mut(shape).and_then(|own| own.memories.get_mut(steps)) {
                        bits::insert(&mut memory.claims, at);
                    }
                }
            }
        }
        false
    }

    fn ask_planned(&mut self, at: usize, shape: usize, variant: &Variant) -> Verdict {
        let Some(mut claim) = self.planned.get_mut(at).map(std::mem::take) else {
            return Verdict::Never;
        };
        let verdict = self.ask_claim(&mut claim, shape, variant, MinValuesPolicy::Strict).0;
        if let Some(place) = self.planned.get_mut(at) {
            *place = claim;
        }
        verdict
    }

    /// Whether a claim takes the pod (scheduling 15-4); the types it would keep are left in `scratch`, and with them the `minValues` that
    /// would have to be lowered.
    fn ask_claim(
        &mut self,
        claim: &mut Planned,
        shape: usize,
        variant: &Variant,
        min_values: MinValuesPolicy,
    ) -> (Verdict, Vec<(Key, u32)>) {
        let Self {
            problem,
            templates,
            shapes,
            symbols,
            topology,
            options,
            scratch,
            ..
        } = self;
        let never = (Verdict::Never, Vec::new());
        let (Some(template), Some(own)) = (templates.get_mut(claim.template), shapes.get(shape)) else {
            return never;
        };
        let Some(pool) = problem.pools.get(template.pool) else {
            return never;
        };
        let constraints = &variant.constraints;
        let mut totals: Amounts = claim.totals.clone();
        amounts::add(&mut totals, &own.requests);
        scratch.clear();
        scratch.extend_from_slice(&claim.types);
        if !template.columns.keep_large_enough(scratch, &totals)
            || !variant.wish.host.is_none_or(|req| symbols.has(req, claim.host))
            || !taints::tolerates_all(&pool.taints, &constraints.tolerations)
            || constraints
                .ports
                .iter()
                .any(|port| claim.ports.iter().any(|taken| taken.conflicts(port)))
        {
            return never;
        }
        let Some(combined) = symbols.combine(claim.set, variant.wish.set, Unknown::AllowWellKnown) else {
            return never;
        };
        let large = scratch.clone();
        if !bits::meet(&large, &template.columns.launchable(combined, symbols)) {
            return never;
        }
        let mut verdict = Verdict::Never;
        for alternative in &own.alternatives {
            let candidate = Candidate {
                host: claim.host,
                unknown: Unknown::AllowWellKnown,
                ties: options.ties,
                types: Some((&mut template.columns, &large)),
            };
            let set = match settle(
                combined,
                alternative,
                own,
                variant,
                candidate,
                &topology.groups,
                symbols,
            ) {
                Verdict::Accept(set) => set,
                Verdict::NotNow => {
                    verdict = Verdict::NotNow;
                    continue;
                }
                Verdict::Never => continue,
            };
            scratch.copy_from_slice(&large);
            let left = bits::keep(scratch, &template.columns.launchable(set, symbols));
            let wanted = super::templates::min_values(set, symbols);
            let short = short_of_values(&wanted, scratch, &template.columns, symbols);
            if left && (short.is_empty() || min_values == MinValuesPolicy::BestEffort) {
                return (Verdict::Accept(set), short);
            }
            // With rules about topology another domain may come to be chosen, which has what this one lacks.
            if !variant.groups.is_empty() || !own.kept_away_by.is_empty() {
                verdict = Verdict::NotNow;
            }
        }
        (verdict, Vec::new())
    }

    fn take_on_planned(&mut self, at: usize, pod: usize, shape: usize, variant: &Variant, set: Set) {
        let Self {
            templates,
            planned,
            shapes,
            scratch,
            ..
        } = self;
        let (Some(claim), Some(own)) = (planned.get_mut(at), shapes.get(shape)) else {
            return;
        };
        claim.types.copy_from_slice(scratch);
        claim.set = set;
        claim.pods.push(pod);
        claim.ports.extend(variant.constraints.ports.iter().cloned());
        amounts::add(&mut claim.totals, &own.requests);
        let Some(template) = templates.get(claim.template) else {
            return;
        };
        let seat = Seat {
            set,
            host: claim.host,
            whose: Whose::Pool(template.pool),
        };
        self.register_host(seat.host);
        self.record(shape, variant, seat);
    }

    /// Opens a claim from the first pool that can take the pod (scheduling 15-3).
    fn place_on_new(&mut self, pod: usize, shape: usize, steps: usize, variant: &Arc<Variant>) -> bool {
        for at in 0..self.templates.len() {
            let memory = self.shapes.get(shape).and_then(|own| own.memories.get(steps));
            if memory.is_some_and(|memory| bits::contains(&memory.templates, at)) {
                continue;
            }
            let Some(mut claim) = self.fresh_claim(at) else {
                continue;
            };
            let policy = self.options.min_values;
            let (verdict, short) = self.ask_claim(&mut claim, shape, variant, policy);
            match verdict {
                Verdict::Accept(set) => {
                    claim.min_values_relaxed = !short.is_empty();
                    let set = self.symbols.with_min_values(set, &short);
                    self.open(claim, pod, shape, variant, set);
                    return true;
                }
                Verdict::NotNow => {}
                Verdict::Never => {
                    if let Some(memory) = self.shapes.get_mut(shape).and_then(|own| own.memories.get_mut(steps)) {
                        bits::insert(&mut memory.templates, at);
                    }
                }
            }
        }
        false
    }

    /// A claim without pods from a pool within its limits; none when the limits leave nothing.
    pub(super) fn fresh_claim(&mut self, at: usize) -> Option<Planned> {
        let number = self.planned.len() + 1;
        let hostname = self.symbols.hostname();
        let host = self
            .symbols
            .value(hostname, &format!("hostname-placeholder-{number:04}"));
        let template = self.templates.get(at)?;
        let mut types = template.types.clone();
        template.limits.keep_affordable(&mut types, &template.columns);
        if template.limits.is_exhausted() || bits::is_empty(&types) {
            return None;
        }
        Some(Planned {
            template: at,
            set: template.set,
            host,
            types,
            totals: template.overhead.clone(),
            ports: template.daemon_ports.clone(),
            pods: Vec::new(),
            min_values_relaxed: false,
        })
    }

    fn open(&mut self, claim: Planned, pod: usize, shape: usize, variant: &Variant, set: Set) {
        let (at, template) = (self.planned.len(), claim.template);
        self.planned.push(claim);
        self.line.open();
        if let Some(template) = self.templates.get_mut(template) {
            template.limits.take(&self.scratch, &template.columns);
        }
        self.take_on_planned(at, pod, shape, variant, set);
    }
}

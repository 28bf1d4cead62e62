//! Placing one pod: on a machine that exists, on a claim planned in this pass, or on a new claim (scheduling §15).

use super::amounts;
use super::ask::{Asker, Reach};
use super::bits;
use super::pass::Pass;
use super::planned::Planned;
use super::record::{Seat, Whose};
use super::results::{MinValuesPolicy, Ties};
use super::settle::{Candidate, Verdict, settle};
use super::shapes::{Memory, Shape, Variant};
use super::symbols::{Set, Unknown};
use std::sync::Arc;

impl Pass<'_> {
    /// Tries existing machines, then planned claims, then new claims; says whether one took the pod (scheduling 15-1).
    pub(super) fn place(&mut self, pod: usize, shape: usize, steps: usize) -> bool {
        let Some(variant) = self.variant(shape, steps) else {
            return false;
        };
        self.note_groups(shape);
        self.recall(shape, steps, &variant);
        self.place_on_promised(pod, shape, steps, &variant)
            || self.place_on_existing(pod, shape, steps, &variant)
            || self.place_on_planned(pod, shape, steps, &variant)
            || self.place_on_new(pod, shape, steps, &variant)
    }

    /// Makes the shape's memory one of this pass: of machines it first knows those that the roster rules out.
    fn recall(&mut self, shape: usize, steps: usize, variant: &Variant) {
        let Self {
            problem,
            symbols,
            existing,
            roster,
            gone,
            shapes,
            epoch,
            ..
        } = self;
        let Some(Shape { requests, memories, .. }) = shapes.get_mut(shape) else {
            return;
        };
        let Some(memory) = memories.get_mut(steps).filter(|memory| memory.epoch != *epoch) else {
            return;
        };
        memory.epoch = *epoch;
        memory.claims.clear();
        memory.templates.clear();
        if existing.is_empty() {
            return;
        }
        let pod = (&*variant.constraints, &variant.wish);
        roster.refusing(&mut memory.nodes, requests, pod, existing, &problem.nodes, symbols);
        bits::join(&mut memory.nodes, gone);
    }

    fn place_on_promised(&mut self, pod: usize, shape: usize, steps: usize, variant: &Arc<Variant>) -> bool {
        let Some(at) = self.promised.get(&pod).copied() else {
            return false;
        };
        let memory = self.shapes.get(shape).and_then(|own| own.memories.get(steps));
        if memory.is_none_or(|memory| bits::contains(&memory.nodes, at)) {
            return false;
        }
        let Verdict::Accept(set) = self.ask_existing(at, shape, variant) else {
            return false;
        };
        self.take_on_existing(at, pod, shape, variant, set);
        true
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

    /// Whether a machine takes the pod (scheduling 15-2); taints and labels were looked at by the roster.
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
        // Differs: volumes and topology must suit the labels that the machine has; upstream holds them against these and what the pod itself wants,
        // so that with a `NotIn` of its own a pod finds a label that is not there (scheduling 15-2).
        let combined = match options.ties {
            Ties::Product => machine.set,
            Ties::ByName => combined,
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
            taken,
            shapes,
            options,
            ..
        } = self;
        let (Some(machine), Some(own)) = (existing.get_mut(at), shapes.get(shape)) else {
            return;
        };
        amounts::take(&mut machine.remaining, &own.requests);
        // Differs: a machine has the labels it has; upstream adds what a pod wants, so that after a `NotIn` the label counts as defined for the
        // next pod (scheduling 15-2).
        if options.ties == Ties::ByName {
            machine.set = set;
        }
        let set = machine.set;
        if machine.pods.is_empty() {
            taken.push(at);
        }
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
        // Taken out while the claims are asked, so that asking borrows the shape as a whole.
        let mut never = self
            .memory(shape, steps)
            .map(|memory| std::mem::take(&mut memory.claims))
            .unwrap_or_default();
        let mut few = std::mem::take(&mut self.buffers.few);
        let accepted = self.first_planned(shape, variant, &mut never, &mut few);
        self.buffers.few = few;
        if let Some(memory) = self.memory(shape, steps) {
            memory.claims = never;
        }
        let Some((at, set)) = accepted else { return false };
        self.take_on_planned(at, pod, shape, variant, set);
        self.line.grow(at);
        true
    }

    fn memory(&mut self, shape: usize, steps: usize) -> Option<&mut Memory> {
        self.shapes.get_mut(shape)?.memories.get_mut(steps)
    }

    fn first_planned(
        &mut self,
        shape: usize,
        variant: &Variant,
        never: &mut Vec<u64>,
        few: &mut Vec<usize>,
    ) -> Option<(usize, Set)> {
        let own = self.shapes.get(shape)?;
        let reach = Reach::of(own, variant, &self.topology.groups, &self.symbols);
        let mut asker = Asker {
            problem: self.problem,
            templates: &mut self.templates,
            symbols: &mut self.symbols,
            groups: &self.topology.groups,
            ties: self.options.ties,
            buffers: &mut self.buffers,
        };
        for at in self.line.walk(never, few) {
            if bits::contains(never, at) {
                continue;
            }
            let claim = self.planned.get(at)?;
            if !reach.includes(claim.set, asker.symbols) {
                continue;
            }
            match asker.ask(claim, own, variant, MinValuesPolicy::Strict).0 {
                Verdict::Accept(set) => return Some((at, set)),
                Verdict::NotNow => {}
                Verdict::Never => bits::insert(never, at),
            }
        }
        None
    }

    fn take_on_planned(&mut self, at: usize, pod: usize, shape: usize, variant: &Variant, set: Set) {
        let Self {
            templates,
            planned,
            shapes,
            buffers,
            ..
        } = self;
        let (Some(claim), Some(own)) = (planned.get_mut(at), shapes.get(shape)) else {
            return;
        };
        claim.types.copy_from_slice(&buffers.kept);
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
            let Some(own) = self.shapes.get(shape) else {
                return false;
            };
            let mut asker = Asker {
                problem: self.problem,
                templates: &mut self.templates,
                symbols: &mut self.symbols,
                groups: &self.topology.groups,
                ties: self.options.ties,
                buffers: &mut self.buffers,
            };
            let (verdict, short) = asker.ask(&claim, own, variant, self.options.min_values);
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
            template.limits.take(&self.buffers.kept, &template.columns);
        }
        self.take_on_planned(at, pod, shape, variant, set);
    }
}

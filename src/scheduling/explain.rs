//! Why a pod was not placed: for each pool the first thing that stood in the way, in upstream's phrases (surface §4.3), and how many instance
//! types each constraint excluded.
//!
//! Asked once per failed shape when the loop has ended, so that the loop itself carries no texts (scheduling 15-8).

use super::amounts::{self, Amounts};
use super::bits;
use super::finish::min_values_message;
use super::pass::Pass;
use super::planned::Planned;
use super::requirements::{Requirements, Undefined};
use super::results::{PoolVerdict, Reason, Ties};
use super::settle::question;
use super::shapes::Variant;
use super::symbols::{Key, Set, Unknown, Value, Wish};
use super::taints;
use super::templates::{min_values, short_of_values};
use super::topology::choose::Choice;
use super::topology::group::Group;
use crate::resources::{Quantity, names};

/// The sentence when requirements and offering could be met.
const TOO_SMALL: &str = "no instance type has enough resources";
/// A pod that asks for so many cores probably means thousandths.
const ABSURD_CORES: i64 = 1_000_000;

impl Pass<'_> {
    /// The reason for one of the pods that failed.
    pub(super) fn reason(&mut self, pod: usize) -> Reason {
        if self.templates.is_empty() {
            return Reason::NoPools;
        }
        let Some(shape) = self.shape_of.get(pod).copied() else {
            return Reason::NoPools;
        };
        self.note_groups(shape);
        let variant = self.shapes.get(shape).and_then(|own| own.variants.last().cloned());
        let Some(variant) = variant else { return Reason::NoPools };
        Reason::Refused(
            (0..self.templates.len())
                .map(|at| self.verdict(at, shape, &variant))
                .collect(),
        )
    }

    fn verdict(&mut self, at: usize, shape: usize, variant: &Variant) -> PoolVerdict {
        let template = self.templates.get(at);
        let pool = template.and_then(|template| self.problem.pools.get(template.pool));
        let mut verdict = PoolVerdict {
            pool: pool.map(|pool| pool.name.clone()).unwrap_or_default(),
            message: String::new(),
            considered: template.map_or(0, |template| bits::count(&template.types)),
            unmet_requirements: 0,
            too_small: 0,
            without_offering: 0,
            closest: None,
        };
        let exhausted = template.is_some_and(|template| template.limits.is_exhausted());
        verdict.message = match self.fresh_claim(at) {
            None if exhausted => format!(
                "node limits have been exhausted for nodepool (NodePool={})",
                verdict.pool
            ),
            None => format!(
                "all available instance types exceed limits for nodepool (NodePool={})",
                verdict.pool
            ),
            Some(claim) => self.refusal(&claim, shape, variant, &mut verdict),
        };
        verdict
    }

    /// The first thing that keeps a fresh claim from taking the pod (scheduling 15-4).
    fn refusal(&mut self, claim: &Planned, shape: usize, variant: &Variant, verdict: &mut PoolVerdict) -> String {
        let pool = self
            .templates
            .get(claim.template)
            .and_then(|template| self.problem.pools.get(template.pool));
        let constraints = &variant.constraints;
        if let Some(text) = pool.and_then(|pool| taints::explain_untolerated(&pool.taints, &constraints.tolerations)) {
            return text;
        }
        for port in &constraints.ports {
            if let Some(taken) = claim.ports.iter().find(|taken| taken.conflicts(port)) {
                return format!(
                    "checking host port usage, pod hostport conflicts with existing hostport configuration ({}, {})",
                    port_words("existing", taken),
                    port_words("pod", port)
                );
            }
        }
        let contradictions = constraints.contradictions(self.options.preferences);
        if let Some(label) = contradictions.first().filter(|_| self.options.ties == Ties::Product) {
            return format!("incompatible requirements, those of the pod for label {label:?} exclude each other");
        }
        let well_known = &self.problem.well_known;
        let own = self.symbols.to_requirements(claim.set);
        let wanted = constraints.node_requirements(self.options.preferences);
        let mut own_and_host = own;
        own_and_host.add(self.symbols_host(claim));
        if let Err(clash) = own_and_host.compatible(&wanted, Undefined::Allow(well_known)) {
            return format!("incompatible requirements, {clash}");
        }
        let Some(combined) = self
            .symbols
            .combine(claim.set, variant.wish.set, Unknown::AllowWellKnown)
        else {
            return "incompatible requirements".to_owned();
        };
        let alternatives = self
            .shapes
            .get(shape)
            .map(|own| own.alternatives.clone())
            .unwrap_or_default();
        let mut last = String::new();
        for alternative in alternatives {
            last = self.refusal_with_volume(claim, combined, &alternative, shape, variant, verdict);
        }
        last
    }

    fn symbols_host(&self, claim: &Planned) -> super::Requirement {
        let hostname = self.symbols.hostname();
        super::Requirement::is(
            self.symbols.key_name(hostname),
            self.symbols.value_name(hostname, claim.host).as_ref(),
        )
    }

    fn refusal_with_volume(
        &mut self,
        claim: &Planned,
        combined: Set,
        alternative: &Wish,
        shape: usize,
        variant: &Variant,
        verdict: &mut PoolVerdict,
    ) -> String {
        let well_known = &self.problem.well_known;
        let wanted = self.wish_text(alternative);
        let mut own = self.symbols.to_requirements(combined);
        own.add(self.symbols_host(claim));
        if let Err(clash) = own.compatible(&wanted, Undefined::Allow(well_known)) {
            return format!("incompatible volume requirements, {clash}");
        }
        let Some(base) = self.symbols.combine(combined, alternative.set, Unknown::AllowWellKnown) else {
            return "incompatible volume requirements".to_owned();
        };
        let inverse: Vec<usize> = self
            .shapes
            .get(shape)
            .map(|own| own.kept_away_by.clone())
            .unwrap_or_default();
        let rules: Vec<(usize, bool)> = variant
            .groups
            .iter()
            .copied()
            .chain(inverse.into_iter().map(|id| (id, false)))
            .collect();
        let mut narrowed = base;
        for (id, counts_itself) in rules {
            let Some(group) = self.topology.groups.get(id) else {
                continue;
            };
            let question = question(group, counts_itself, base, variant, claim.host, &self.symbols);
            let domains = match group.choose(&question, &self.symbols) {
                Choice::Here => continue,
                Choice::AnyOf(domains) => domains,
                // Any of them will do to explain, as long as it is always the same.
                Choice::OneOf(domains) => {
                    let name = |domain: &_| self.symbols.value_name(group.rule.key, *domain);
                    domains
                        .into_iter()
                        .min_by(|a, b| name(a).cmp(name(b)))
                        .into_iter()
                        .collect()
                }
                Choice::NotNow | Choice::Never => return self.unsatisfiable(id, base, variant, claim),
            };
            let key = group.rule.key;
            let one = self.symbols.one_of(key, &domains);
            match self.symbols.combine(narrowed, one, Unknown::AllowWellKnown) {
                Some(set) => narrowed = set,
                None => return self.clash(narrowed, claim, key, &domains),
            }
        }
        self.no_type(claim, narrowed, shape, verdict)
    }

    /// What keeps a claim from the domains that a rule chose: a rule before it, or a label that the pool does not define.
    fn clash(&self, narrowed: Set, claim: &Planned, key: Key, domains: &[Value]) -> String {
        let names = domains
            .iter()
            .map(|domain| self.symbols.value_name(key, *domain).as_ref());
        let wanted: Requirements = [super::Requirement::new(
            self.symbols.key_name(key),
            super::Operator::In,
            names.map(str::to_owned),
        )]
        .into_iter()
        .collect();
        let mut own = self.symbols.to_requirements(narrowed);
        own.add(self.symbols_host(claim));
        match own.compatible(&wanted, Undefined::Allow(&self.problem.well_known)) {
            Err(clash) => clash.to_string(),
            Ok(()) => "incompatible requirements".to_owned(),
        }
    }

    fn wish_text(&self, wish: &Wish) -> Requirements {
        let mut result = self.symbols.to_requirements(wish.set);
        if let Some(host) = wish.host {
            result.add(self.symbols.to_requirement(host));
        }
        result
    }

    fn unsatisfiable(&self, id: usize, base: Set, variant: &Variant, claim: &Planned) -> String {
        let Some(group) = self.topology.groups.get(id) else {
            return String::new();
        };
        let key = group.rule.key;
        let name = self.symbols.key_name(key);
        let is_host = key == self.symbols.hostname();
        let any = || super::Requirement::exists(name);
        let pod_req = if is_host {
            variant.strict.host
        } else {
            self.symbols.get(variant.strict.set, key)
        };
        let pod = pod_req.map_or_else(any, |req| self.symbols.to_requirement(req));
        let node = if is_host {
            self.symbols_host(claim)
        } else {
            self.symbols
                .get(base, key)
                .map_or_else(any, |req| self.symbols.to_requirement(req))
        };
        format!(
            "unsatisfiable topology constraint for {}, key={name} (counts = {}, podDomains = {pod}, nodeDomains = {node}",
            group.rule.kind.as_str(),
            self.counts(group),
        )
    }

    fn counts(&self, group: &Group) -> String {
        let name = |domain| self.symbols.value_name(group.rule.key, domain);
        let known = self.known_domains(group).into_iter();
        let mut counts: Vec<(&str, i32)> = known.map(|(domain, pods)| (name(domain).as_ref(), pods)).collect();
        counts.sort_unstable();
        let others = counts.len().saturating_sub(25);
        let mut texts: Vec<String> = counts
            .iter()
            .take(25)
            .map(|(name, pods)| format!("{name}: {pods}"))
            .collect();
        if others > 0 {
            texts.push(format!("and {others} other(s)"));
        }
        texts.join(", ")
    }

    /// No instance type is left: which of requirements, size and offering stood in the way (scheduling 15-8).
    fn no_type(&mut self, claim: &Planned, set: Set, shape: usize, verdict: &mut PoolVerdict) -> String {
        let Self {
            templates,
            shapes,
            symbols,
            options,
            ..
        } = self;
        let (Some(template), Some(own)) = (templates.get_mut(claim.template), shapes.get(shape)) else {
            return String::new();
        };
        let mut totals: Amounts = claim.totals.clone();
        amounts::add(&mut totals, &own.requests);
        let within = |mut types: Vec<u64>| {
            bits::keep(&mut types, &claim.types);
            types
        };
        let matching = within(template.columns.matching(set, symbols));
        let buyable = within(template.columns.buyable(set, symbols));
        let mut large = claim.types.clone();
        template.columns.keep_large_enough(&mut large, &totals);
        verdict.considered = bits::count(&claim.types);
        verdict.unmet_requirements = verdict.considered - bits::count(&matching);
        verdict.too_small = verdict.considered - bits::count(&large);
        verdict.without_offering = verdict.considered - bits::count(&buyable);
        verdict.closest = closest(&claim.types, &[&matching, &buyable, &large], template);
        let requests = template.overhead_list.sum(&own.pod.requests);
        let wanted = min_values(set, symbols);
        let mut survivors = matching.clone();
        let left = bits::keep(&mut survivors, &buyable) && bits::keep(&mut survivors, &large);
        let short = short_of_values(&wanted, &survivors, &template.columns, symbols);
        let text = if left && !short.is_empty() && options.min_values == super::MinValuesPolicy::Strict {
            let keys: Vec<&str> = short.iter().map(|(key, _)| symbols.key_name(*key).as_ref()).collect();
            min_values_message(&keys)
        } else {
            phrase(&matching, &large, &buyable).to_owned()
        };
        let cores = requests.amount(names::CPU) >= Quantity::units(ABSURD_CORES);
        let hint = if cores && text == TOO_SMALL {
            " (CPU request >= 1 Million, m vs M typo?)"
        } else {
            ""
        };
        format!(
            "{text}, requirements={}, resources={}{hint}",
            symbols.to_requirements(set),
            requests.to_json()
        )
    }
}

/// A port as structured errors print it.
fn port_words(whose: &str, port: &super::ports::HostPort) -> String {
    let ip = if port.ip.is_empty() { "0.0.0.0" } else { &port.ip };
    format!(
        "{whose}-hostport-ip={ip}, {whose}-hostport-port={}, {whose}-hostport-protocol={}",
        port.port, port.protocol
    )
}

/// The cheapest in trouble: the type that fails the fewest of the criteria, the first listed among equals.
fn closest(types: &[u64], criteria: &[&Vec<u64>], template: &super::templates::Template) -> Option<String> {
    let failures = |at: usize| criteria.iter().filter(|set| !bits::contains(set, at)).count();
    let best = bits::iter(types).min_by_key(|at| failures(*at))?;
    template.columns.types.get(best).map(|kind| kind.name.clone())
}

/// Upstream's sentence for what the types met (scheduling 15-8).
fn phrase(matching: &[u64], large: &[u64], buyable: &[u64]) -> &'static str {
    let (requirements, fits, offering) = (
        !bits::is_empty(matching),
        !bits::is_empty(large),
        !bits::is_empty(buyable),
    );
    match (requirements, fits, offering) {
        (false, false, false) => {
            "no instance type met the scheduling requirements or had enough resources or had a required offering"
        }
        (false, false, true) => "no instance type met the scheduling requirements or had enough resources",
        (false, true, false) => "no instance type met the scheduling requirements or had a required offering",
        (true, false, false) => "no instance type had enough resources or had a required offering",
        (false, true, true) => "no instance type met all requirements",
        (true, false, true) => TOO_SMALL,
        (true, true, false) => "no instance type has the required offering",
        (true, true, true) if bits::meet(matching, large) => {
            "no instance type which met the scheduling requirements and had enough resources, had a required offering"
        }
        (true, true, true) if bits::meet(large, buyable) => {
            "no instance type which had enough resources and the required offering met the scheduling requirements"
        }
        (true, true, true) if bits::meet(matching, buyable) => {
            "no instance type which met the scheduling requirements and the required offering had the required resources"
        }
        (true, true, true) => "no instance type met the requirements/resources/offering tuple",
    }
}

//! The groups of a pass: one for each rule, and where new ones come from (scheduling 17-3).
//!
//! Keeps what was changed since a mark, so that a what-if leaves no trace.

use super::group::{Group, Kind, Rule};
use super::population::Population;
use super::universe::Universe;
use crate::scheduling::shapes::GroupId;
use crate::scheduling::symbols::{Symbols, Value};
use crate::scheduling::taints::Toleration;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Whether changes are written down to be taken back.
#[derive(Debug, Clone)]
enum Journal {
    Closed,
    /// Group, domain and what it counted before; none: it was not known.
    Open(Vec<(GroupId, Value, Option<i32>)>),
}

/// The topology groups of a pass.
#[derive(Debug, Clone)]
pub(in crate::scheduling) struct Registry {
    pub(in crate::scheduling) groups: Vec<Group>,
    index: FxHashMap<Arc<Rule>, GroupId>,
    universe: Arc<Universe>,
    population: Arc<Population>,
    /// The tolerations that came with the groups whose domains depend on them.
    brought: FxHashMap<GroupId, Vec<Toleration>>,
    /// Some group's domains depend on which of its pods is asked first (scheduling 17-6).
    pub(in crate::scheduling) first_matters: bool,
    journal: Journal,
}

impl Registry {
    pub(in crate::scheduling) fn new(universe: Universe, population: Population) -> Self {
        Self {
            groups: Vec::new(),
            index: FxHashMap::default(),
            universe: Arc::new(universe),
            population: Arc::new(population),
            brought: FxHashMap::default(),
            first_matters: false,
            journal: Journal::Closed,
        }
    }

    /// The group of a rule, and whether it is new.
    pub(in crate::scheduling) fn group(
        &mut self,
        rule: Rule,
        tolerations: &[Toleration],
        symbols: &mut Symbols,
    ) -> (GroupId, bool) {
        if let Some(id) = self.index.get(&rule) {
            self.first_matters |= self.brought.get(id).is_some_and(|first| first != tolerations);
            return (*id, false);
        }
        let id = self.groups.len();
        let rule = Arc::new(rule);
        if rule.looks_at_taints() && !self.universe.is_open(rule.key) {
            self.brought.insert(id, tolerations.to_vec());
        }
        let group = self.population.group(&rule, tolerations, &self.universe, symbols);
        self.groups.push(group);
        self.index.insert(rule, id);
        (id, true)
    }

    /// A pod that carries an inverse group's anti-affinity is bound to the node at this place (scheduling 17-10).
    pub(in crate::scheduling) fn record_bound(&mut self, id: GroupId, node: usize, symbols: &Symbols) {
        let Some(group) = self.groups.get_mut(id) else { return };
        if let Some(domain) = self.population.label(node, group.rule.key, symbols) {
            group.record(domain, 1);
        }
    }

    /// Counts a pod in a domain.
    pub(in crate::scheduling) fn record(&mut self, id: GroupId, domain: Value) {
        self.note(id, domain);
        if let Some(group) = self.groups.get_mut(id) {
            group.record(domain, 1);
        }
    }

    fn note(&mut self, id: GroupId, domain: Value) {
        if let (Journal::Open(changes), Some(group)) = (&mut self.journal, self.groups.get(id)) {
            changes.push((id, domain, group.count(domain)));
        }
    }

    /// From here on changes can be taken back.
    pub(in crate::scheduling) fn mark(&mut self) {
        self.journal = Journal::Open(Vec::new());
    }

    /// Takes back everything since the mark.
    pub(in crate::scheduling) fn take_back(&mut self) {
        let Journal::Open(changes) = &mut self.journal else {
            return;
        };
        for (id, domain, before) in changes.drain(..).rev() {
            if let Some(group) = self.groups.get_mut(id) {
                group.restore(domain, before);
            }
        }
    }

    /// A bound pod is to be placed anew: the rules that count it no longer count it where it is (scheduling 17-9).
    pub(in crate::scheduling) fn lift(&mut self, id: GroupId, node: usize, gone: &[usize], symbols: &mut Symbols) {
        let Some(rule) = self.groups.get(id).map(|group| Arc::clone(&group.rule)) else {
            return;
        };
        let domain = if rule.kind == Kind::InverseAntiAffinity {
            self.population.label(node, rule.key, symbols)
        } else {
            self.population.counted_in(node, &rule, symbols)
        };
        let Some(domain) = domain else { return };
        self.note(id, domain);
        let emptied = self.groups.get_mut(id).is_some_and(|group| group.take(domain));
        if emptied {
            self.forget_if_unseen(id, domain, &rule, gone, symbols);
        }
    }

    /// Nodes are not there: domains that only they had are not known (scheduling 17-7).
    pub(in crate::scheduling) fn leave(&mut self, node: usize, gone: &[usize], symbols: &mut Symbols) {
        for id in 0..self.groups.len() {
            let Some(group) = self.groups.get(id).filter(|group| group.has_more_than_possible()) else {
                continue;
            };
            let rule = Arc::clone(&group.rule);
            if rule.kind == Kind::InverseAntiAffinity || rule.key == symbols.hostname() {
                continue;
            }
            let domain = self.population.label(node, rule.key, symbols);
            if let Some(domain) = domain.filter(|domain| group.count(*domain) == Some(0)) {
                self.forget_if_unseen(id, domain, &rule, gone, symbols);
            }
        }
    }

    fn forget_if_unseen(&mut self, id: GroupId, domain: Value, rule: &Rule, gone: &[usize], symbols: &mut Symbols) {
        let seen = rule.kind != Kind::InverseAntiAffinity
            && rule.key != symbols.hostname()
            && self.population.still_shown(domain, rule, gone, symbols);
        if !seen {
            self.note(id, domain);
            if let Some(group) = self.groups.get_mut(id) {
                group.forget(domain);
            }
        }
    }
}

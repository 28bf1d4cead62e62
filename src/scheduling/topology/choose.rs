//! Which domains a rule lets a pod go to (scheduling 17-12 to 17-14).

use super::group::{Group, Kind};
use crate::scheduling::symbols::{Req, Symbols, Value};
use smallvec::SmallVec;

/// Domains, few as a rule.
pub(in crate::scheduling) type Domains = SmallVec<[Value; 4]>;

/// What a rule says about a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::scheduling) enum Choice {
    /// The candidate's own hostname will do.
    Here,
    /// All of these will do; the candidate keeps them open.
    AnyOf(Domains),
    /// One of these must be picked; they are equal as far as the rule goes.
    OneOf(Domains),
    /// None will do now, but others' placements may change that.
    NotNow,
    /// None will ever do in this pass.
    Never,
}

/// Who asks, and where it would go.
pub(in crate::scheduling) struct Question {
    /// The rule counts the pod itself.
    pub(in crate::scheduling) counts_itself: bool,
    /// What the pod strictly requires of the key.
    pub(in crate::scheduling) pod: Option<Req>,
    /// What is known of the candidate's key; none means open.
    pub(in crate::scheduling) node: Option<Req>,
    /// The candidate's hostname, when that is the key.
    pub(in crate::scheduling) host: Option<Value>,
}

impl Question {
    fn pod_allows(&self, domain: Value, symbols: &Symbols) -> bool {
        self.pod.is_none_or(|req| symbols.has(req, domain))
    }

    fn node_allows(&self, domain: Value, symbols: &Symbols) -> bool {
        self.node.is_none_or(|req| symbols.has(req, domain))
    }
}

impl Group {
    /// The domains for the candidate.
    pub(in crate::scheduling) fn choose(&self, question: &Question, symbols: &Symbols) -> Choice {
        match self.rule.kind {
            Kind::Spread => self.choose_spread(question, symbols),
            Kind::Affinity => self.choose_affinity(question, symbols),
            Kind::AntiAffinity | Kind::InverseAntiAffinity => self.choose_apart(question, symbols),
        }
    }

    fn choose_spread(&self, question: &Question, symbols: &Symbols) -> Choice {
        let own = i32::from(question.counts_itself);
        let skew = i64::from(self.rule.max_skew);
        if let Some(host) = question.host {
            let pods = i64::from(self.count(host).unwrap_or(0)) + i64::from(own);
            return if pods <= skew { Choice::Here } else { Choice::Never };
        }
        let least = i64::from(self.least(question, symbols));
        let mut best = Domains::new();
        let mut lowest = i32::MAX;
        for (domain, pods) in self.known() {
            let within = i64::from(pods) + i64::from(own) - least <= skew;
            if !within || pods > lowest || !question.node_allows(domain, symbols) {
                continue;
            }
            if pods < lowest {
                lowest = pods;
                best.clear();
            }
            best.push(domain);
        }
        if best.is_empty() {
            Choice::NotNow
        } else {
            Choice::OneOf(best)
        }
    }

    /// The count of the emptiest domain that the pod allows; 0 when there are fewer such domains than wanted.
    fn least(&self, question: &Question, symbols: &Symbols) -> i32 {
        let mut least = i32::MAX;
        let mut domains = 0;
        for (_, pods) in self.known().filter(|(domain, _)| question.pod_allows(*domain, symbols)) {
            least = least.min(pods);
            domains += 1;
        }
        if self.rule.min_domains.is_some_and(|wanted| domains < wanted) {
            0
        } else {
            least
        }
    }

    /// The known domains that the rule leaves a pod, wherever it would go.
    pub(in crate::scheduling) fn reachable<'a>(
        &'a self,
        pod: Option<Req>,
        counts_itself: bool,
        symbols: &'a Symbols,
    ) -> impl Iterator<Item = Value> + 'a {
        let question = Question {
            counts_itself,
            pod,
            node: None,
            host: None,
        };
        let least = i64::from(self.least(&question, symbols));
        let own = i64::from(counts_itself);
        let first = self.is_first(&question, symbols);
        self.known()
            .filter(move |(domain, pods)| match self.rule.kind {
                Kind::Spread => i64::from(*pods) + own - least <= i64::from(self.rule.max_skew),
                Kind::Affinity => (first || *pods > 0) && question.pod_allows(*domain, symbols),
                Kind::AntiAffinity | Kind::InverseAntiAffinity => *pods == 0 && question.pod_allows(*domain, symbols),
            })
            .map(|(domain, _)| domain)
    }

    /// Whether the pod may be the first of its kind: the rule counts it, and nobody it counts is where the pod can go (scheduling 17-13).
    fn is_first(&self, question: &Question, symbols: &Symbols) -> bool {
        question.counts_itself
            && (self.populated == 0
                || (question.pod.is_some()
                    && !self
                        .known()
                        .any(|(domain, pods)| pods > 0 && question.pod_allows(domain, symbols))))
    }

    fn choose_affinity(&self, question: &Question, symbols: &Symbols) -> Choice {
        let bootstrap = || self.is_first(question, symbols);
        if let Some(host) = question.host {
            return if !question.pod_allows(host, symbols) {
                Choice::Never
            } else if self.count(host).unwrap_or(0) > 0 || bootstrap() {
                Choice::Here
            } else {
                Choice::NotNow
            };
        }
        let fits = |domain: Value| question.pod_allows(domain, symbols) && question.node_allows(domain, symbols);
        let near: Domains = self
            .known()
            .filter(|(domain, pods)| *pods > 0 && fits(*domain))
            .map(|(d, _)| d)
            .collect();
        if !near.is_empty() {
            return Choice::AnyOf(near);
        }
        if !bootstrap() {
            return Choice::NotNow;
        }
        // Differs: upstream picks twice and may leave a claim with two domains (scheduling 17-13).
        let first: Domains = self
            .known()
            .map(|(domain, _)| domain)
            .filter(|domain| fits(*domain))
            .collect();
        if !first.is_empty() {
            return Choice::OneOf(first);
        }
        let allowed: Domains = self
            .known()
            .map(|(domain, _)| domain)
            .filter(|domain| question.pod_allows(*domain, symbols))
            .collect();
        if allowed.is_empty() {
            Choice::NotNow
        } else {
            Choice::OneOf(allowed)
        }
    }

    fn choose_apart(&self, question: &Question, symbols: &Symbols) -> Choice {
        if let Some(host) = question.host {
            return if self.count(host).unwrap_or(0) == 0 {
                Choice::Here
            } else {
                Choice::Never
            };
        }
        let fits = |domain: Value| question.pod_allows(domain, symbols) && question.node_allows(domain, symbols);
        let empty: Domains = self
            .known()
            .filter(|(domain, pods)| *pods == 0 && fits(*domain))
            .map(|(d, _)| d)
            .collect();
        if empty.is_empty() {
            Choice::Never
        } else {
            Choice::AnyOf(empty)
        }
    }
}

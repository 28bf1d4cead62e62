//! What limits where a pod can go, as users write it.

use super::Selector;
use crate::scheduling::ports::HostPort;
use crate::scheduling::requirements::{Operator, Requirement, Requirements};
use crate::scheduling::taints::Toleration;
use std::collections::BTreeMap;

/// Everything that limits where a pod can go. Two pods with equal constraints, requests, labels and namespace are interchangeable.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Constraints {
    /// Labels the node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Required node affinity: one of these terms must hold. None when there is no such affinity.
    pub required_terms: Vec<NodeTerm>,
    /// Its required node affinity has terms, and all of them are empty: they select no node at all.
    pub selects_nothing: bool,
    /// Preferred node affinity.
    pub preferred_terms: Vec<Weighted<NodeTerm>>,
    /// Pods it must be near.
    pub affinity: Vec<PodTerm>,
    /// Pods it would like to be near.
    pub preferred_affinity: Vec<Weighted<PodTerm>>,
    /// Pods it must be far from.
    pub anti_affinity: Vec<PodTerm>,
    /// Pods it would like to be far from.
    pub preferred_anti_affinity: Vec<Weighted<PodTerm>>,
    /// How it wants to be spread.
    pub spread: Vec<Spread>,
    /// The taints it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Ports it takes on the node.
    pub ports: Vec<HostPort>,
    /// Names of the claims (in its namespace) whose volumes it mounts, in order.
    pub volume_claims: Vec<String>,
    /// It asks for devices by resource claim (scheduling 4-7).
    pub resource_claims: bool,
}

/// A preference and how much it weighs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weighted<T> {
    /// Its weight.
    pub weight: i32,
    /// What is preferred.
    pub term: T,
}

/// One term of node affinity.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTerm {
    /// What labels must be, as written.
    pub expressions: Vec<Expression>,
    /// It also selects by field, which is not supported (scheduling 4-4).
    pub match_fields: bool,
}

/// One expression of a node affinity term, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expression {
    /// The label.
    pub key: String,
    /// The operator as written.
    pub operator: String,
    /// The values.
    pub values: Vec<String>,
}

/// One term of pod affinity or anti-affinity.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodTerm {
    /// The label that makes nodes near to each other.
    pub topology_key: String,
    /// The pods meant; none selects nothing.
    pub selector: Option<Selector>,
    /// Namespaces by name.
    pub namespaces: Vec<String>,
    /// Namespaces by their labels.
    pub namespace_selector: Option<Selector>,
}

/// Whether a spread constraint binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WhenUnsatisfiable {
    /// It does.
    DoNotSchedule,
    /// It is a preference.
    ScheduleAnyway,
}

/// Whether spreading looks at what a pod says about nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodePolicy {
    /// Only nodes that the pod could use count.
    Honor,
    /// All nodes count.
    Ignore,
}

/// One topology spread constraint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spread {
    /// The label whose values are the domains.
    pub topology_key: String,
    /// How much fuller than the emptiest a domain may be.
    pub max_skew: i32,
    /// Fewer domains than this count as an empty one.
    pub min_domains: Option<i32>,
    /// Whether it binds.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// The pods counted; none selects nothing.
    pub selector: Option<Selector>,
    /// Whether node affinity decides which nodes count; Honor unless said.
    pub node_affinity: NodePolicy,
    /// Whether taints decide which nodes count; Ignore unless said.
    pub node_taints: NodePolicy,
    /// Labels whose value on the pod is added to the selector.
    pub match_label_keys: Vec<String>,
}

/// Whether the heaviest preference is taken as if it were required (scheduling 5-16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preferences {
    /// It is.
    Respect,
    /// Preferences are left out ("strict").
    Ignore,
}

impl Expression {
    /// Whether a node with these labels is selected.
    fn admits(&self, labels: &BTreeMap<String, String>) -> bool {
        let requirement = self.requirement();
        match labels.get(&self.key) {
            Some(value) => requirement.has(value),
            None => matches!(requirement.operator(), Operator::NotIn | Operator::DoesNotExist),
        }
    }

    /// The requirement it means. An unknown operator allows nothing; the API server refuses it.
    pub fn requirement(&self) -> Requirement {
        match self.operator.parse::<Operator>() {
            Ok(operator) => Requirement::new(&self.key, operator, self.values.iter().map(String::as_str)),
            Err(_) => Requirement::does_not_exist(&self.key),
        }
    }
}

impl NodeTerm {
    /// Whether it says nothing: such a term selects no node, whatever other terms do.
    pub fn is_empty(&self) -> bool {
        self.expressions.is_empty() && !self.match_fields
    }

    /// What labels must be; fields are not looked at (scheduling 5-16).
    pub fn requirements(&self) -> Requirements {
        self.expressions.iter().map(Expression::requirement).collect()
    }
}

impl Constraints {
    /// The requirements on a node's labels: selector, first required term and, if respected, the heaviest preferred one (scheduling 5-16).
    pub fn node_requirements(&self, preferences: Preferences) -> Requirements {
        let mut result = Requirements::from_labels(&self.node_selector);
        if preferences == Preferences::Respect
            && let Some(heaviest) = heaviest(&self.preferred_terms)
        {
            result.add_all(&heaviest.term.requirements());
        }
        if let Some(first) = self.required_terms.first() {
            result.add_all(&first.requirements());
        }
        result
    }
}

impl Constraints {
    /// What keeps it off a node with these labels, as kube-scheduler reads them: a label that it selects, or one of the last term that was left. None
    /// if it may go there.
    pub fn ruled_out_by(&self, labels: &BTreeMap<String, String>) -> Option<&str> {
        let mut selected = self.node_selector.iter();
        if let Some((key, _)) = selected.find(|(key, value)| labels.get(*key) != Some(*value)) {
            return Some(key);
        }
        let mut last = None;
        for term in &self.required_terms {
            let mut expressions = term.expressions.iter();
            match expressions.find(|expression| !expression.admits(labels)) {
                None => return None,
                Some(expression) => last = Some(expression.key.as_str()),
            }
        }
        last
    }

    /// The labels on which its own requirements exclude each other, sorted: no value of the label satisfies all of them, nor does its absence.
    pub fn contradictions(&self, preferences: Preferences) -> Vec<String> {
        let preferred = heaviest(&self.preferred_terms).filter(|_| preferences == Preferences::Respect);
        let terms = self.required_terms.first().into_iter();
        let terms = terms.chain(preferred.map(|preferred| &preferred.term));
        let selected = self
            .node_selector
            .iter()
            .map(|(key, value)| Requirement::is(key, value.as_str()));
        let all: Vec<Requirement> = selected
            .chain(terms.flat_map(|term| term.expressions.iter().map(Expression::requirement)))
            .collect();
        let joint = self.node_requirements(preferences);
        let lost = joint.iter().filter(|joint| {
            let present = |own: &Requirement| own.key() == joint.key() && !own.allows_absence();
            joint.operator() == Operator::DoesNotExist && all.iter().any(present)
        });
        lost.map(|joint| joint.key().to_owned()).collect()
    }
}

/// The first of the heaviest preferences.
fn heaviest<T>(preferences: &[Weighted<T>]) -> Option<&Weighted<T>> {
    preferences
        .iter()
        .reduce(|best, next| if next.weight > best.weight { next } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(key: &str, operator: &str, values: &[&str]) -> Expression {
        Expression {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        }
    }

    fn term(expressions: &[Expression]) -> NodeTerm {
        NodeTerm {
            expressions: expressions.to_vec(),
            match_fields: false,
        }
    }

    #[test]
    fn requirements_that_exclude_each_other_are_told_from_a_label_that_shall_not_be_there() {
        let of = |expressions: &[Expression]| Constraints {
            required_terms: vec![term(expressions)],
            ..Constraints::default()
        };
        let lost = |constraints: &Constraints| constraints.contradictions(Preferences::Respect);
        let absent = expression("team", "DoesNotExist", &[]);
        assert!(lost(&of(std::slice::from_ref(&absent))).is_empty());
        assert!(lost(&of(&[absent.clone(), expression("team", "NotIn", &["red"])])).is_empty());
        assert_eq!(lost(&of(&[absent, expression("team", "Exists", &[])])), ["team"]);
        assert_eq!(
            lost(&of(&[expression("n", "Gt", &["5"]), expression("n", "Lt", &["3"])])),
            ["n"]
        );
        let mut preferring = of(&[expression("team", "In", &["red", "blue"])]);
        preferring.node_selector.insert("team".to_owned(), "blue".to_owned());
        preferring.preferred_terms = vec![Weighted {
            weight: 1,
            term: term(&[expression("team", "In", &["red"])]),
        }];
        assert_eq!(lost(&preferring), ["team"]);
        assert!(preferring.contradictions(Preferences::Ignore).is_empty());
    }

    #[test]
    fn a_node_is_ruled_out_by_what_is_selected_or_by_every_term() {
        let labels: BTreeMap<String, String> = [("a", "1"), ("n", "5")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let term = |key: &str, operator: &str, values: &[&str]| NodeTerm {
            expressions: vec![Expression {
                key: key.into(),
                operator: operator.into(),
                values: values.iter().map(|value| (*value).to_owned()).collect(),
            }],
            match_fields: false,
        };
        let ruled_out_by = |terms: &[NodeTerm]| {
            let constraints = Constraints {
                required_terms: terms.to_vec(),
                ..Constraints::default()
            };
            constraints.ruled_out_by(&labels).map(str::to_owned)
        };
        assert_eq!(ruled_out_by(&[]), None);
        for (key, operator, values, admitted) in [
            ("a", "In", &["1"][..], true),
            ("a", "In", &["2"], false),
            ("b", "In", &["1"], false),
            ("a", "NotIn", &["1"], false),
            ("b", "NotIn", &["1"], true),
            ("b", "Exists", &[], false),
            ("a", "Exists", &[], true),
            ("a", "DoesNotExist", &[], false),
            ("b", "DoesNotExist", &[], true),
            ("n", "Gt", &["4"], true),
            ("n", "Lt", &["4"], false),
            ("a", "Nearly", &["1"], false),
        ] {
            let found = ruled_out_by(&[term(key, operator, values)]);
            assert_eq!(found.is_none(), admitted, "{key} {operator} {values:?}: {found:?}");
        }
        let way_out = [term("b", "Exists", &[]), term("a", "Exists", &[])];
        assert_eq!(ruled_out_by(&way_out), None);
        let selecting = Constraints {
            node_selector: [("b".to_owned(), "1".to_owned())].into(),
            ..Constraints::default()
        };
        assert_eq!(selecting.ruled_out_by(&labels), Some("b"));
    }
}

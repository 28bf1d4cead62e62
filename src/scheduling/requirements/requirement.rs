//! One requirement: the values one label may have.

use super::operator::Operator;
use crate::scheduling::labels;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// A requirement in the form the Kubernetes API carries it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spec {
    /// The label.
    pub key: String,
    /// The operator.
    pub operator: Operator,
    /// The values, sorted.
    pub values: Vec<String>,
    /// Least number of distinct values among the instance types kept.
    pub min_values: Option<u32>,
}

/// The values one label may have (scheduling 5-1): one of `values`, or, for a complement, anything but `values` and within the bounds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    key: Arc<str>,
    complement: bool,
    /// Shared: claims of one kind have hundreds of instance types in common.
    values: Arc<BTreeSet<Arc<str>>>,
    at_least: Option<i64>,
    at_most: Option<i64>,
    min_values: Option<u32>,
}

/// An integer as Go reads it where a bound is expected: cut at the range of an `i64`, nonsense is zero (validation refuses it before).
fn bound(text: Option<&str>) -> i64 {
    let text = text.unwrap_or_default();
    text.parse()
        .unwrap_or_else(|error: std::num::ParseIntError| match error.kind() {
            std::num::IntErrorKind::PosOverflow => i64::MAX,
            std::num::IntErrorKind::NegOverflow => i64::MIN,
            _ => 0,
        })
}

impl Requirement {
    /// A requirement from an operator and its values; the key is normalised first (scheduling 5-2, 6-3).
    pub fn new<K, V>(key: K, operator: Operator, values: impl IntoIterator<Item = V>) -> Self
    where
        K: AsRef<str>,
        V: Into<Arc<str>>,
    {
        let mut values = values.into_iter().map(Into::into);
        let mut result = Self {
            key: Arc::from(labels::normalised(key.as_ref())),
            complement: !matches!(operator, Operator::In | Operator::DoesNotExist),
            values: Arc::default(),
            at_least: None,
            at_most: None,
            min_values: None,
        };
        match operator {
            Operator::In | Operator::NotIn => result.values = Arc::new(values.collect()),
            Operator::Exists | Operator::DoesNotExist => {}
            Operator::Gt => match bound(values.next().as_deref()).checked_add(1) {
                Some(least) => result.at_least = Some(least),
                None => result.complement = false,
            },
            Operator::Gte => result.at_least = Some(bound(values.next().as_deref())),
            Operator::Lt => result.at_most = Some(bound(values.next().as_deref()).saturating_sub(1)),
            Operator::Lte => result.at_most = Some(bound(values.next().as_deref())),
        }
        result
    }

    /// The label must have exactly this value.
    pub fn is(key: impl AsRef<str>, value: impl Into<Arc<str>>) -> Self {
        Self::new(key, Operator::In, [value.into()])
    }

    /// The label must exist, with any value: no constraint where it is known to exist (scheduling 5-12).
    pub fn exists(key: impl AsRef<str>) -> Self {
        Self::new(key, Operator::Exists, std::iter::empty::<Arc<str>>())
    }

    /// The label must not exist.
    pub fn does_not_exist(key: impl AsRef<str>) -> Self {
        Self::new(key, Operator::DoesNotExist, std::iter::empty::<Arc<str>>())
    }

    /// Assembles a requirement from its parts, as the solver keeps them.
    pub(crate) fn from_parts(
        key: Arc<str>,
        complement: bool,
        values: BTreeSet<Arc<str>>,
        bounds: (Option<i64>, Option<i64>),
        min_values: Option<u32>,
    ) -> Self {
        Self {
            key,
            complement,
            values: Arc::new(values),
            at_least: bounds.0,
            at_most: bounds.1,
            min_values,
        }
    }

    /// From the API's form. A bound beyond all integers leaves nothing and forgets `minValues` (scheduling 5-2).
    pub fn from_spec(spec: &Spec) -> Self {
        let mut result = Self::new(&spec.key, spec.operator, spec.values.iter().map(String::as_str));
        if spec.operator != Operator::Gt || result.complement {
            result.min_values = spec.min_values;
        }
        result
    }

    /// The same with `minValues` set.
    pub fn with_min_values(mut self, min_values: Option<u32>) -> Self {
        self.min_values = min_values;
        self
    }

    /// The label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The label, shared.
    pub(crate) fn shared_key(&self) -> &Arc<str> {
        &self.key
    }

    /// The listed values: those allowed, or those excluded when [`is_complement`](Self::is_complement).
    pub fn values(&self) -> impl ExactSizeIterator<Item = &str> {
        self.values.iter().map(AsRef::as_ref)
    }

    /// Whether the listed values are those excluded.
    pub const fn is_complement(&self) -> bool {
        self.complement
    }

    /// Least value, inclusive.
    pub const fn at_least(&self) -> Option<i64> {
        self.at_least
    }

    /// Greatest value, inclusive.
    pub const fn at_most(&self) -> Option<i64> {
        self.at_most
    }

    /// Least number of distinct values among the instance types kept.
    pub const fn min_values(&self) -> Option<u32> {
        self.min_values
    }

    /// The value, when exactly one is possible.
    pub fn single_value(&self) -> Option<&str> {
        if self.complement || self.values.len() != 1 {
            None
        } else {
            self.values.first().map(AsRef::as_ref)
        }
    }

    fn within_bounds(&self, value: &str) -> bool {
        within(self.at_least, self.at_most, value)
    }

    /// Whether the label may have this value (scheduling 5-4).
    pub fn has(&self, value: &str) -> bool {
        self.values.contains(value) != self.complement && self.within_bounds(value)
    }

    /// How many values are possible: those listed, or "all integers" less those excluded (scheduling 5-5).
    pub fn len(&self) -> u64 {
        let listed = self.values.len() as u64;
        if self.complement {
            (i64::MAX as u64).saturating_sub(listed)
        } else {
            listed
        }
    }

    /// Whether the label must be absent.
    pub fn is_empty(&self) -> bool {
        !self.complement && self.values.is_empty()
    }

    /// The operator that says the same; bounds report Exists (scheduling 5-6).
    pub fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (false, false) => Operator::In,
            (false, true) => Operator::DoesNotExist,
            (true, false) => Operator::NotIn,
            (true, true) => Operator::Exists,
        }
    }

    /// Whether an absent label satisfies it (scheduling 5-14).
    pub(crate) fn allows_absence(&self) -> bool {
        matches!(self.operator(), Operator::NotIn | Operator::DoesNotExist)
    }

    /// What satisfies both (scheduling 5-7).
    pub fn intersection(&self, other: &Self) -> Self {
        let (at_least, at_most) = self.joint_bounds(other);
        let min_values = self.min_values.max(other.min_values);
        let mut result = Self {
            key: Arc::clone(&self.key),
            complement: self.complement && other.complement,
            values: Arc::default(),
            at_least,
            at_most,
            min_values,
        };
        if crossed(at_least, at_most) {
            return Self {
                complement: false,
                at_least: None,
                at_most: None,
                ..result
            };
        }
        let mut values: BTreeSet<Arc<str>> = match (self.complement, other.complement) {
            (true, true) => self.values.union(&other.values).cloned().collect(),
            (true, false) => other.values.difference(&self.values).cloned().collect(),
            (false, true) => self.values.difference(&other.values).cloned().collect(),
            (false, false) => self.values.intersection(&other.values).cloned().collect(),
        };
        values.retain(|value| within(at_least, at_most, value));
        result.values = Arc::new(values);
        if !result.complement {
            (result.at_least, result.at_most) = (None, None);
        }
        result
    }

    fn joint_bounds(&self, other: &Self) -> (Option<i64>, Option<i64>) {
        let at_most = match (self.at_most, other.at_most) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        (self.at_least.max(other.at_least), at_most)
    }

    /// Whether something satisfies both, without building it (scheduling 5-8). Two complements with a gap between their bounds are taken to
    /// meet even where no integer is left.
    pub fn has_intersection(&self, other: &Self) -> bool {
        let (at_least, at_most) = self.joint_bounds(other);
        if crossed(at_least, at_most) {
            return false;
        }
        let (concrete, against) = match (self.complement, other.complement) {
            (true, true) => return true,
            (false, _) => (self, other),
            (true, false) => (other, self),
        };
        concrete
            .values
            .iter()
            .any(|value| against.values.contains(value) != against.complement && within(at_least, at_most, value))
    }

    /// Some value it allows, always the same for the same requirement: the least listed, else the least integer that is not excluded; ""
    /// when there is none (scheduling 5-9).
    ///
    /// Differs: upstream draws open values at random and panics on an empty range; a fixed choice lets a pass be repeated.
    pub fn any(&self) -> String {
        if !self.complement {
            return self.values.first().map(ToString::to_string).unwrap_or_default();
        }
        let least = self.at_least.unwrap_or(0).max(0);
        let most = self.at_most.unwrap_or(i64::MAX);
        // More candidates than excluded values: one of them is free.
        let tries = i64::try_from(self.values.len()).unwrap_or(i64::MAX);
        (least..=most.min(least.saturating_add(tries)))
            .map(|value| value.to_string())
            .find(|value| !self.values.contains(value.as_str()))
            .unwrap_or_default()
    }

    /// The entries of the API that say it; two for a requirement with both bounds (scheduling 5-10). The excluded values of a bounded
    /// requirement cannot be expressed and are lost, as upstream.
    pub fn to_specs(&self) -> impl Iterator<Item = Spec> {
        let spec = |operator, values| Spec {
            key: self.key.to_string(),
            operator,
            values,
            min_values: self.min_values,
        };
        let least = self.at_least.map(|value| spec(Operator::Gte, vec![value.to_string()]));
        let most = self.at_most.map(|value| spec(Operator::Lte, vec![value.to_string()]));
        let unbounded = (least.is_none() && most.is_none())
            .then(|| spec(self.operator(), self.values.iter().map(ToString::to_string).collect()));
        least.into_iter().chain(most).chain(unbounded)
    }
}

fn crossed(at_least: Option<i64>, at_most: Option<i64>) -> bool {
    matches!((at_least, at_most), (Some(least), Some(most)) if least > most)
}

/// Whether a value lies within bounds; with any bound, what is no integer does not (scheduling 5-3).
pub(super) fn within(at_least: Option<i64>, at_most: Option<i64>, value: &str) -> bool {
    if at_least.is_none() && at_most.is_none() {
        return true;
    }
    value
        .parse::<i64>()
        .is_ok_and(|v| at_least.is_none_or(|least| v >= least) && at_most.is_none_or(|most| v <= most))
}

impl fmt::Display for Requirement {
    /// The form used in messages (scheduling 5-11).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = self.operator();
        write!(f, "{} {operator}", self.key)?;
        if matches!(operator, Operator::In | Operator::NotIn) {
            let mut listed: Vec<&str> = self.values.iter().take(5).map(AsRef::as_ref).collect();
            let others = self.values.len().saturating_sub(5);
            let tail = format!("and {others} others");
            if others > 0 {
                listed.push(&tail);
            }
            write!(f, " [{}]", listed.join(" "))?;
        }
        if let Some(least) = self.at_least {
            write!(f, " >={least}")?;
        }
        if let Some(most) = self.at_most {
            write!(f, " <={most}")?;
        }
        if let Some(min_values) = self.min_values {
            write!(f, " minValues {min_values}")?;
        }
        Ok(())
    }
}

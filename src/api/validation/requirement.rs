//! Whether a requirement on one label makes sense, whoever wrote it: in a NodePool, a NodeOverlay or a pod (surface §1.6, scheduling 4-5).
//!
//! The only place that decides it. The words belong to those who tell: [`Fault`](super::Fault) for objects, the scheduling core's for pods, since users
//! search for upstream's words and those differ. Which labels are restricted is left to them too: a pod may ask for what its provider registers.

use super::{GrammarError, check_label_value, check_qualified_name};
use crate::api::{Operator, labels};

/// What was found out about a requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement<'a> {
    /// The label under its present name.
    pub key: &'a str,
    /// The operator is one of the eight.
    pub operator_is_known: bool,
    /// Why the label is no qualified name.
    pub key_fault: Option<GrammarError>,
    /// The values that are no label values, and why.
    pub value_faults: Vec<(&'a str, GrammarError)>,
    /// A comparison whose values are not one whole number that is not negative.
    pub is_no_number: bool,
    /// What there is to say about the values of `In`.
    pub listed: Option<Listed<'a>>,
}

/// The values of an `In`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<'a> {
    /// How many there are.
    pub count: usize,
    /// They are fewer than `minValues`.
    pub is_too_short: bool,
    /// Those that the label can have, when these are fixed.
    pub known: Option<Known<'a>>,
}

/// Values that are held against those that a label can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known<'a> {
    /// What the label can have.
    pub all: &'static [&'static str],
    /// How many of the values are among them.
    pub count: usize,
    /// These are fewer than `minValues`.
    pub is_too_short: bool,
    /// The values that are not.
    pub strange: Vec<&'a str>,
}

impl<'a> Judgement<'a> {
    /// Looks at a requirement; `min_values` is the least number of values that must stay possible.
    pub fn of(key: &'a str, operator: &Operator, values: &'a [String], min_values: Option<i64>) -> Self {
        let key = labels::normalize(key);
        let faulty = |value: &'a String| check_label_value(value).err().map(|fault| (value.as_str(), fault));
        Self {
            key,
            operator_is_known: operator.is_known(),
            key_fault: check_qualified_name(key).err(),
            value_faults: values.iter().filter_map(faulty).collect(),
            is_no_number: operator.is_comparison() && !is_one_natural_number(values),
            listed: (*operator == Operator::In).then(|| Listed::of(key, values, min_values)),
        }
    }
}

impl<'a> Listed<'a> {
    fn of(key: &str, values: &'a [String], min_values: Option<i64>) -> Self {
        let is_too_short =
            |count: usize| min_values.is_some_and(|min| i64::try_from(count).is_ok_and(|count| count < min));
        let known = labels::known_values(key).map(|all| {
            let (good, strange): (Vec<&str>, Vec<&str>) =
                values.iter().map(String::as_str).partition(|value| all.contains(value));
            Known {
                all,
                count: good.len(),
                is_too_short: is_too_short(good.len()),
                strange,
            }
        });
        Self {
            count: values.len(),
            is_too_short: is_too_short(values.len()),
            known,
        }
    }
}

fn is_one_natural_number(values: &[String]) -> bool {
    matches!(values, [value] if value.parse::<i64>().is_ok_and(|number| number >= 0))
}
